"""Types of expressions and of names of types, whole, as the debugger and views of data use them."""

from __future__ import annotations

import pytest

from jitkernel.errors import UsageError
from jitkernel.languages.c.expression_types import types

pytest.importorskip("ziglang")

SOURCE = """
struct node { int v; struct node *next; struct other *o; };
struct other { double d; struct node *back; };
struct node one = {1}, *head = &one;
typedef struct { char c; long l; } record;
record r;
int (*f)(struct other *);
"""


def test_pointers_lead_to_whole_structs(s):
    s.run(SOURCE, language="c")
    state = s.inspect.state
    head, record, nothing, f = types(["head", "record", "nothing", "f"], state)
    assert nothing is None
    node = head.bare.element.bare
    assert [m.name for m in node.members] == ["v", "next", "o"]
    other = node.members[2].type.bare.element.bare
    assert [m.name for m in other.members] == ["d", "back"]
    assert [m.name for m in record.bare.members] == ["c", "l"]
    assert [m.name for m in f.bare.element.bare.parameters[0].bare.element.bare.members] == [
        "d", "back",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "(", ")", "a b c", "{", "1)*, (int", "#", "'", "return 3"])
def test_what_is_no_expression_has_no_type(s, text):
    s.run(SOURCE, language="c")
    assert types([text], s.inspect.state) == [None]


def test_a_struct_that_only_a_pointer_names_stays_without_members(s):
    s.run("struct unknown *u;", language="c")
    (found,) = types(["u"], s.inspect.state)
    assert not found.bare.element.bare.complete


def test_the_debugger_follows_pointers_of_variables(s):
    s.run(SOURCE, language="c")
    assert s.debugger.evaluate("head->v").value == "1"
    assert s.debugger.evaluate("(*head).next").value == "NULL"
    assert s.debugger.evaluate("((struct node *)head)->v").value == "1"
    assert s.debugger.evaluate("sizeof(record)").value == "16"
    with pytest.raises(UsageError, match="struct nope"):
        s.debugger.evaluate("(struct nope *)head")
    (shown,) = [v for v in s.debugger.globals() if v.name == "head"]
    assert shown.type == "struct node *"
    assert shown.named == 3


def test_another_definition_of_a_struct_is_seen(s):
    s.run(SOURCE, language="c")
    assert s.debugger.evaluate("head->v").value == "1"
    s.run('struct node { char text[4]; int v; } one = {"ab", 7}, *head = &one;', language="c")
    assert s.debugger.evaluate("head->v").value == "7"
