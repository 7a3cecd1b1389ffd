"""TAB and Shift-TAB in the Python of `%%pass` and `%%analysis`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from jitkernel.ir import model
from jitkernel.kernel.python_cells import completed, explained, is_python
from tests.kernel.conftest import Kernel

HEAD = "%%pass p --on f\ndef p(function):\n"


def names(code: str) -> list[str]:
    start, found = completed(code, len(code))
    assert all(code[start:] == match.text[: len(code) - start] for match in found)
    return [match.text for match in found]


@pytest.mark.parametrize(
    ("code", "some", "none"),
    [
        (f"{HEAD}  function.do", ["dominators"], ["erase"]),
        (f"{HEAD}  for b in function.blocks:\n    b.", ["successors", "phis", "name"], ["opcode"]),
        (f"{HEAD}  for i in function.instructions:\n    i.re", ["replace_with", "remove"], []),
        (
            f"{HEAD}  for q in function.entry.instructions: q.operands[0].",
            ["users", "value"],
            ["blocks"],
        ),
        (
            f"{HEAD}  for q in function.loops():\n    q.",
            ["header", "preheader", "blocks"],
            ["opcode"],
        ),
        (f"{HEAD}  x = function.args[0]\n  for u in x.uses: u.", ["user", "number"], ["count"]),
        (f"{HEAD}  new = binary('add', 1, 2)\n  new.ins", ["insert_before", "insert_after"], []),
        (f"{HEAD}  function.liveness().live", ["live_in", "live_out"], []),
        ("%%analysis a\ndef a(m: Module):\n  m.functions['f'].", ["entry"], ["functions"]),
        ("%%analysis a\ndef a(q: 'Block'):\n  q.term", ["terminator"], []),
        ("%%analysis a\ndef a(q):\n  q.", ["terminator", "opcode", "functions"], ["_items"]),
        ("%%pass p\nbin", ["binary"], ["icmp"]),
        ("%%pass p\ncounter = 1\ncou", ["counter"], []),
        ("%%pass p\n", [], ["binary"]),
    ],
)
def test_completion(code: str, some: list[str], none: list[str]) -> None:
    found = names(code)
    assert set(some) <= set(found) and not set(none) & set(found)


def test_every_name_and_member_is_explained() -> None:
    for name in model.__all__:
        found: Any = getattr(model, name)
        said = explained(f"%%pass p\n{name}", 9 + len(name))
        assert said.startswith(name) and (inspect.getdoc(found) or "") in said, name
        if not isinstance(found, type):
            continue
        for member in names(f"%%pass p\ndef p(x: {name}):\n  x."):
            code = f"%%pass p\ndef p(x: {name}):\n  x.{member}"
            assert f".{member}" in explained(code, len(code)), (name, member)


def test_explanations() -> None:
    code = "%%pass p\nbinary(left"
    assert "flags: Iterable[str] | str = ()" in explained(code, code.index("(") + 1)
    code = f"{HEAD}  function.blocks[0].split_before"
    said = explained(code, len(code) - 4)
    assert said.startswith(
        "Block.split_before(instruction: Instruction, name: str = '') -> Block\n"
    )
    assert explained("%%pass p\nnothing_known", 15) == ""
    assert explained(HEAD + "  function.nothing", len(HEAD) + 12) == ""


@pytest.mark.parametrize(
    ("code", "position", "expected"),
    [
        ("%%pass p\nx", 10, True), ("%%pass p\nx", 3, False), ("%%pass p", 8, False),
        ("\n%%analysis p\nx", 14, True), ("%%llvm\nx", 8, False), ("x", 1, False), ("", 0, False),
    ],
)  # fmt: skip
def test_where_python_is(code: str, position: int, expected: bool) -> None:
    assert is_python(code, position) is expected


def test_through_a_kernel(kernel: Kernel) -> None:
    code = f"{HEAD}  function.post"
    reply = kernel.client.complete(code, len(code), reply=True, timeout=60)["content"]
    assert reply["matches"] == ["post_dominators"] and reply["cursor_end"] == len(code)
    reply = kernel.client.inspect(code + "_dominators", len(code), reply=True, timeout=60)[
        "content"
    ]
    assert "Function.post_dominators() -> Dominators" in reply["data"]["text/plain"]
    reply = kernel.client.complete("%%pass p --exa", 14, reply=True, timeout=60)["content"]
    assert reply["matches"] == ["--example"]
    reply = kernel.client.complete("%%pass --example mem", 20, reply=True, timeout=60)["content"]
    assert reply["matches"] == ["mem2reg"]
    reply = kernel.client.inspect("%%pass p", 5, reply=True, timeout=60)["content"]
    assert "jitkernel.ir.model" in reply["data"]["text/plain"]
