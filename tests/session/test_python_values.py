"""What C's results are in Python: text where pointers lead, members by name; arguments by name."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError, WrongArgument

pytest.importorskip("ziglang")

CELL = r"""
#include <stdlib.h>
#include <string.h>
struct pt { int x; double y; const char *name; };
const char *hello(void) { return "h\303\251llo"; }
char *fresh(int n) { char *p = malloc(n + 1); memset(p, 'a', n); p[n] = 0; return p; }
unsigned char *bytes(void) { return (unsigned char *)"\377u"; }
char *nothing(void) { return 0; }
char *nowhere(void) { return (char *)8; }
struct pt make(int n, double y) { return (struct pt){n, y, "abc"}; }
struct pt home = {1, 2.5, "home"};
struct odd { int class, _hidden, count; } odd(void) { return (struct odd){1, 2, 3}; }
int sub(int a, int b) { return a - b; }
"""


@pytest.fixture(scope="module", params=["process", "inline"])
def s(request: pytest.FixtureRequest) -> Any:
    with Session(executor=request.param) as s:
        s.run(CELL, "c")
        yield s


def test_a_pointer_has_the_text_that_it_leads_to(s: Session) -> None:
    for _ in range(3):  # the ordinary way, then the short one
        assert s["hello"]().text() == "h\u00e9llo"
        assert s["fresh"](10_000).text() == "a" * 10_000
        assert s["bytes"]().text() == "\udcffu"
        for name in ("nothing", "nowhere"):
            with pytest.raises(UsageError, match="there is no NUL in memory that can be read"):
                s[name]().text()
    with pytest.raises(UsageError, match="no NUL within 20 bytes"):
        s["fresh"](100).text(most=20)


def test_elsewhere_a_pointer_is_a_number(s: Session) -> None:
    pointer = s["hello"]()
    for other in (pickle.loads(pickle.dumps(pointer)), copy.copy(pointer), pointer + 0):
        assert other == pointer
    with pytest.raises(UsageError, match="of no program"):
        pickle.loads(pickle.dumps(pointer)).text()


def test_a_struct_is_a_tuple_with_its_members_names(s: Session) -> None:
    for _ in range(2):
        made = s["make"](3, 2.0)
        assert made == (3, 2.0, made.name) and (made.x, made.y) == (3, 2.0)
        assert made.name.text() == "abc"
        assert repr(made).startswith("struct(x=3, y=2.0, name=Pointer(0x")
    assert pickle.loads(pickle.dumps(made))._asdict() == made._asdict()
    home: Any = s["home"].value
    assert (home.y, home.name.text()) == (2.5, "home")
    s["home"].value = home._replace(x=7)
    assert s["home"].value == (7, 2.5, home.name)
    assert s["odd"]()._fields == ("_0", "_1", "count")


def test_arguments_are_given_by_name(s: Session) -> None:
    assert s["sub"](b=1, a=5) == 4 == s["sub"](5, b=1) == s["sub"](5, 1)
    assert s["make"](y=1.5, n=2).x == 2
    for wrong, words in (
        ({"a": 1}, "missing a required argument: 'b'"),
        ({"a": 1, "b": 2, "c": 3}, "unexpected keyword argument 'c'"),
    ):
        with pytest.raises(WrongArgument, match=words):
            s["sub"](**wrong)
    with pytest.raises(WrongArgument, match="multiple values"):
        s["sub"](1, a=1)


def test_names_are_those_of_the_present_definition() -> None:
    with Session() as s:
        s.run("int f(int a, int b) { return a - b; }", "c")
        f = s["f"]
        assert f(b=1, a=3) == 2
        s.run("int f(int b, int a) { return a - b; }", "c")
        assert f(b=1, a=3) == 2
        s.run("define i32 @g(i32 %from, i32) { ret i32 %from }")
        with pytest.raises(WrongArgument):
            s["g"](from_=1)
        s.evict("f", cascade=True)
        with pytest.raises(UsageError, match="not defined any more"):
            f(a=1, b=2)
