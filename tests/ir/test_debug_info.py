"""Debug information in a module's text."""

from __future__ import annotations

from jitkernel.ir.debug_info import fields, nodes, split_at_locations

BODY = """
entry:
  %1 = load i32, ptr %p, align 4, !dbg !7, !tbaa !3
    #dbg_value(i32 %1, !9, !DIExpression(), !8)
  ret i32 %1, !dbg !12
}"""


def test_a_body_is_split_at_the_locations_of_its_instructions() -> None:
    load = "\nentry:\n  %1 = load i32, ptr %p, align 4"
    parts = [load, "7", ", !tbaa !3\n  ret i32 %1", "12", "\n}"]
    assert split_at_locations(BODY) == parts
    assert split_at_locations("\n  ret void\n}") == ["\n  ret void\n}"]


def test_nodes_have_fields() -> None:
    found = nodes(
        '!1 = !DILocation(line: 7, scope: !2)\n!2 = distinct !DIFile(filename: "a, b: (c)")'
    )
    assert {number: fields(node) for number, node in found.items()} == {
        "1": {"line": "7", "scope": "2"}, "2": {"filename": "a, b: (c)"},
    }  # fmt: skip
    assert fields("!DIArray(elements: !{!4, null}, size: 32)") == {
        "elements": "{!4, null}", "size": "32",
    }  # fmt: skip
    assert fields("distinct !DINothing()") == {}
