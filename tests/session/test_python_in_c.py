"""Functions of Python's with C's types, and as pointers to functions; C's words in messages."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.languages.c.clang import Clang
from jitkernel.session.run import python_functions
from jitkernel.views import asm, tables

pytest.importorskip("ziglang")

CELL = r"""
struct pt { int x; double y; };
struct none {};
struct __attribute__((aligned(64))) wide { int x; };
typedef float v8 __attribute__((vector_size(32)));
typedef unsigned char byte;
typedef struct pt frame;
typedef int a0;
int apply(int (*f)(int), int x) { return f(f(x)); }
typedef unsigned (*told)(const char *, struct pt);
unsigned go(told f) { return f("hey", (struct pt){3, 2.5}); }
void (*kept)(long);
void keep(void (*f)(long)) { kept = f; }
"""


@pytest.fixture
def s(s: Session) -> Session:
    s.run(CELL, "c")
    return s


@pytest.fixture
def own(either: Callable[..., Session]) -> Session:
    """One whose cells are numbered from 1 on, and to which no function was given."""
    s = either()
    s.run(CELL, "c")
    return s


@pytest.mark.parametrize(
    ("type", "call", "given", "result"),
    [
        ("unsigned (void)", "f()", (), 4000000000), ("long (byte)", "f(200)", (200,), -5),
        ("struct pt (struct pt)", "f((struct pt){1, 2.5}).y", ((1, 2.5),), (7, 0.5)),
        ("double (float, short, _Bool)", "f(1.5f, -3, 1)", (1.5, -3, True), 2.25),
        ("signed char (unsigned long long)", "f(-1)", (2**64 - 1,), -7),
        ("double _Complex (double _Complex)", "__real__ f(1 + 2i)", (1 + 2j,), 3 + 1j),
        ("void (int, int)", "f(1, 2); 0", (1, 2), None), ("i32 (i32)", "f(3)", (3,), 9),
        ("v8 (char, v8)", "(int)f(1, (v8){2.5f})[7]", (1, (2.5, *[0.0] * 7)), (0.0,) * 7 + (4.0,)),
        ("struct wide (struct wide, int)", "f((struct wide){3}, 4).x", ((3,), 4), (5,)),
        ("frame (frame, a0)", "f((frame){1, 2.5}, 3).y", ((1, 2.5), 3), (7, 0.5)),
        ("struct none (struct none, int)", "f((struct none){}, 4), 0", ((), 4), ()),
    ],
)  # fmt: skip
def test_a_function_of_pythons_has_a_type_of_cs(
    s: Session, type: str, call: str, given: Any, result: Any
) -> None:
    seen: list[Any] = []

    def f(*arguments: Any) -> Any:
        seen.append(arguments)
        return result

    s.export_python("f", f, type)
    value: Any = s.run(call, "c").value
    part = {
        "f((struct pt){1, 2.5}).y": 0.5,
        "__real__ f(1 + 2i)": 3.0,
        "f((struct wide){3}, 4).x": 5,
        "f((frame){1, 2.5}, 3).y": 0.5,
    }
    wanted = part.get(call, 4 if "v8" in call else result or 0)
    assert seen == [given] and value == wanted
    assert repr(s["f"])
    s.check()


def test_a_function_of_pythons_follows_its_types(s: Session) -> None:
    """It hands over what they are now: larger, of the same size in another order, and undone."""
    s.run("typedef struct { int x; double y; } in; typedef struct { int x; } out;", "c")
    s.export_python("swap", lambda pair: (int(pair.y), int(pair.x)), "in (in)")
    s.export_python("sum", lambda given: (sum(given.y), 5), "out (in)")
    call = "swap((in){.x = 3, .y = 4}).x"
    assert s.run(call, "c").value == 4
    s.run("typedef struct { double x; int y; } in;", "c")
    assert s.run(call, "c").value == 4.0
    s.run("typedef struct { int x; long y[20]; } in; typedef struct { int x, y; } out;", "c")
    assert s.run("sum((in){1, {2, 3, [19] = 4}}).x", "c").value == 9
    s.undo()
    assert s.run(call, "c").value == 4.0
    s.check()


def test_what_is_no_type_is_refused_in_words(s: Session) -> None:
    for bad in ("nonsense (", "int", "foo (int)", "int (int"):
        with pytest.raises(UsageError, match=r"or of C's, such as 'int \(double, const char \*\)'"):
            s.export_python("f", print, bad)
    with pytest.raises(UsageError, match=r"takes no `\.\.\.`"):
        s.export_python("f", print, "int (int, ...)")
    s.export_python("f", lambda x: "text", "int (int)")
    with pytest.raises(UsageError, match="what f returned: a Python str cannot be an integer from"):
        s.run("f(1);", "c")


def test_a_python_function_is_given_for_a_pointer_to_a_function(s: Session) -> None:
    def more(x: int) -> int:
        return x + 1

    assert s["apply"](more, 5) == 7 == s["apply"](more, x=5)
    cells = len(s.cells)
    assert [s["apply"](more, n) for n in range(5)] == [2, 3, 4, 5, 6]
    assert len(s.cells) == cells
    assert s["apply"](lambda x: x * 2, 5) == 20
    seen: list[Any] = []
    assert s["go"](lambda text, at: seen.append((text.text(), at)) or 4000000000) == 4000000000
    assert seen == [("hey", (3, 2.5))]
    s["keep"](seen.append)
    s.run("kept(-4);", "c")
    assert seen[1:] == [-4]
    with pytest.raises(ZeroDivisionError):
        s["apply"](lambda x: x // 0, 5)
    assert s["apply"](more, 1) == 3
    s.check()


def test_python_functions_that_are_given_are_bounded(
    own: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = own
    monkeypatch.setattr(python_functions, "_MOST", 3)
    kept = [lambda x, n=n: x + n for n in range(3)]
    assert [s["apply"](f, 0) for f in kept] == [0, 2, 4]
    with pytest.raises(UsageError, match=r"name them with session\.export_python"):
        s["apply"](lambda x: x, 0)
    assert s["apply"](kept[2], 1) == 5
    s.reset()
    s.run(CELL, "c")
    assert s["apply"](lambda x: x + 5, 0) == 10  # nobody has the others' addresses any more


SPELLED = """// the first
int first(void) { return 1; }
/* Adds
   two numbers. */
int add(char a, const double *p) {
  return a + (int)p[0];
}
int table[4]; struct pt home = {1, 2.5};
"""


def test_what_c_defines_is_told_as_c_writes_it(own: Session) -> None:
    s = own
    s.run(SPELLED, "c")
    s.run("define i32 @ir(i32 %n) { ret i32 %n }")
    add: Any = s["add"]
    assert [repr(s[name]) for name in ("add", "table", "home", "ir")] == [
        "<int add(char a, const double *p)>", "<int table[4] = (0, 0, 0, 0)>",
        "<struct pt home = struct(x=1, y=2.5)>", "<@ir i32 (i32)>",
    ]  # fmt: skip
    assert inspect.getdoc(add) == (
        "int add(char a, const double *p), of cell 2.\n\n/* Adds\n   two numbers. */\n"
        "int add(char a, const double *p) {\n  return a + (int)p[0];\n}"
    )
    shown = tables.symbols(s).text
    assert "int add(char a, const double *p)" in shown and "@ir" in shown and "@add" not in shown
    assert "table" in tables.symbol_names(s) and "@ir" in tables.symbol_names(s)
    assert " add " in tables.cells(s).text and "@add" not in tables.cells(s).text
    assert asm(s, "add").text.startswith("int add(char a, const double *p), ")


def test_values_are_refused_in_words_of_c(s: Session) -> None:
    s.run(SPELLED, "c")
    table: Any = s["table"]
    for bad, words in (
        ("xyz", r"int table\[4\]: a Python str cannot be int \[4\]"),
        ([1, 2], r"int table\[4\]: int \[4\] has 4 elements, and 2 are given"),
        ([1, 2, 3, 1 << 40], "element 3: 1099511627776 does not fit an integer of 32 bits"),
    ):
        with pytest.raises(UsageError, match=words):
            table.value = bad
    with pytest.raises(UsageError, match="struct pt home, x: a Python float cannot be an integer"):
        s["home"].value = (1.5, 2)


# -- what headers of the system declare ------------------------------------------------------------

HEADERS = "#include <stdlib.h>\n#include <string.h>\n#include <ctype.h>\n#include <wchar.h>\n"


@pytest.fixture(params=["process", "inline"], scope="module")
def included(request: pytest.FixtureRequest) -> Any:
    with Session(executor=request.param) as s:
        s.run(HEADERS, "c")
        yield s


def test_a_function_of_pythons_for_one_of_a_header(included: Session) -> None:
    s = included
    array = s.array(5, "i4")
    array[:] = [5, 3, 1, 4, 2]
    start = array.ctypes.data if s.settings.executor == "inline" else None
    seen: list[int] = []

    def compare(a: Any, b: Any) -> int:
        seen.extend((int(a), int(b)))
        return 0

    assert s["qsort"](array, 5, 4, compare) is None
    assert len(seen) >= 8 and max(seen) - min(seen) == 16
    base = min(seen) if start is None else start
    held = array.tolist()
    place = {base + 4 * at: number for at, number in enumerate(held)}
    assert held == [5, 3, 1, 4, 2], "all were said to be equal"
    found = s["bsearch"](array, array, 5, 4, lambda key, it: place[int(it)] != 1)
    assert place[int(found)] == 1, "it begins in the middle"
    s.call("qsort", array, 5, 4, lambda a, b: -1 if int(a) > int(b) else 1)
    s.check()


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda s: s["div"](7, 2), (3, 1)),
        (lambda s: s["ldiv"](-7, 2), (-3, -1)),
        (lambda s: s["strlen"](b"hello"), 5),
        (lambda s: s["atoi"](b"12"), 12),
        (lambda s: s["toupper"](97), 65),
        (lambda s: s["strtoul"](b"-1", None, 10), 2**64 - 1),
        (lambda s: s["labs"](-(2**40)), 2**40),
    ],
)
def test_functions_of_headers_have_their_types(included: Session, call: Any, result: Any) -> None:
    """Some that no cell has used, and some of which the header has a body, too."""
    made = call(included)
    assert (tuple(made) if isinstance(result, tuple) else made) == result


def test_names_and_types_of_a_header_s_function(included: Session) -> None:
    s = included
    assert list(inspect.signature(s["qsort"]).parameters) == ["base", "nmemb", "size", "compar"]
    assert (
        repr(s["qsort"])
        == "<void qsort(void *base, size_t nmemb, size_t size, __compar_fn_t compar)>"
    )
    with pytest.raises(UsageError, match="qsort"):
        s["qsort"](1)
    with pytest.raises(UsageError, match=r"argument 1: .*a Python function cannot be"):
        s["strlen"](lambda: 0)


def test_clang_is_asked_for_headers_once(
    included: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = included
    array = s.array(3, "i4")
    s["qsort"](array, 3, 4, equal)
    s.run("int other;", "c")  # the notes are others now
    asked: list[str] = []
    run = Clang._run

    def counted(self: Clang, *arguments: Any, **named: Any) -> Any:
        asked.append(arguments[1])
        return run(self, *arguments, **named)

    monkeypatch.setattr(Clang, "_run", counted)
    for _ in range(3):
        s["qsort"](array, 3, 4, equal)
        s.call("qsort", array, 3, 4, equal)
    assert not asked


def equal(a: Any, b: Any) -> int:
    return 0


def test_one_of_the_session_s_own_is_no_header_s(included: Session) -> None:
    s = included
    s.run("define i64 @labs(i64 %x) { ret i64 7 }")
    assert s["labs"](-1) == 7 and repr(s["labs"]) == "<@labs i64 (i64)>"


@pytest.mark.parametrize("kind", ["process", "inline"])
def test_memory_is_not_resized_while_a_call_has_its_address(kind: str) -> None:
    """And it can be as soon as the call has ended, whatever ended it."""
    with Session(spare=False, executor=kind) as s:
        s.run("double each(double *p, double (*f)(double)) { return f(p[0]) + p[1]; }", "c")
        given = bytearray(16)

        def resize(x: float) -> float:
            given.extend(bytes(1 << 20))
            return x

        def fail(x: float) -> float:
            raise ValueError("mine")

        gc.disable()
        try:
            for _ in range(2):  # a call of before has taught the way to go
                with pytest.raises(BufferError):
                    s["each"](given, resize)
                with pytest.raises(ValueError, match="mine"):
                    s["each"](given, fail)
                given.append(0)
                del given[16:]
            if kind == "inline":
                argument = s["each"].ctypes.argtypes[0].from_param(given)  # as ctypes does
                with pytest.raises(BufferError):
                    given.append(0)
                del argument
                given.append(0)
        finally:
            gc.enable()
