"""Types are compared as what they are, without being written out."""

from __future__ import annotations

import pytest

from jitkernel.ir.expansion import LIMIT, Expansion, is_digest
from jitkernel.ir.text import squeeze


def doubling(n: int, name: str = "t", first: str = "{ i8 }") -> dict[str, str]:
    """Types of which each has the one before twice: the last has 2^(n-1) parts."""
    types = {f"{name}0": first}
    return types | {f"{name}{i}": f"{{ %{name}{i - 1}, %{name}{i - 1} }}" for i in range(1, n)}


@pytest.mark.parametrize(
    ("text", "types", "expanded"),
    [
        ("i32 (ptr)", {}, "i32 (ptr)"),
        (
            "%a (%b, i1)",
            {"a": "{ i32, %b }", "b": "<{ ptr }>"},
            "{ i32, <{ ptr }> } (<{ ptr }>, i1)",
        ),
        ('[2 x %"x y"]', {"x y": "{ i8 }"}, "[2 x { i8 }]"),
        ("%unknown", {}, "%unknown"),
        ("%o", {"o": "opaque"}, "opaque"),
        ("{ %l, %l }", {"l": "{ i1, %l }"}, "{ { i1, %l }, { i1, %l } }"),
        ("%t2", doubling(3), "{ { { i8 }, { i8 } }, { { i8 }, { i8 } } }"),
    ],
)
def test_short_ones_are_written(text: str, types: dict[str, str], expanded: str) -> None:
    assert Expansion(types.get)(text) == expanded
    assert Expansion(types.get, squeeze)(text) == squeeze(expanded)


def test_names_do_not_count_and_structure_does() -> None:
    one, same, other = doubling(30), doubling(30, "other"), doubling(30, first="{ i16 }")
    digest = Expansion(one.get)("%t29")
    assert is_digest(digest) and len(digest) < 100
    assert digest == Expansion(same.get)("%other29")
    assert digest == Expansion(one.get)("{ %t28, %t28 }")
    assert digest == Expansion(one.get)("{ { %t27, %t27 }, %t28 }")
    assert digest != Expansion(other.get)("%t29")
    assert digest != Expansion(one.get)("{ %t28, i8 }") != Expansion(one.get)("{ i8, %t28 }")
    assert digest != Expansion(one.get)("%t28")


def test_it_is_written_up_to_the_limit() -> None:
    short = {"a": "{ " + "i8, " * 9_000 + "i8 }"}
    text = short["a"]
    assert len(text) < LIMIT < 2 * len(text)
    assert Expansion(short.get)("%a") == text
    assert is_digest(Expansion(short.get)("{ %a, %a }"))
    assert Expansion({**short, "b": text}.get)("{ %a, %b }") == Expansion(short.get)("{ %a, %a }")
    assert Expansion(short.get)("{ %a, %a }") != Expansion(short.get)("{ %a, i8 }")


def test_a_long_chain_needs_no_deep_stack() -> None:
    n = 12_000
    types = {"t0": "i8"} | {f"t{i}": f"{{ %t{i - 1} }}" for i in range(1, n)}
    assert Expansion(types.get)(f"%t{n - 1}") == "{ " * (n - 1) + "i8" + " }" * (n - 1)
