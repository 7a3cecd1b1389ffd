"""Arrays whose initialisers are short, as LLVM has them.  Start from `array_type`.

clang gives `int a[40] = {1};` the type `<{ i32, [39 x i32] }>`, so that the zeros take no space in
the module's text.  To whoever reads or writes the variable it is the array that C declares.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jitkernel.ir.text import split_at_commas

__all__ = ["array_type"]

_ARRAY = re.compile(r"\[(\d+) x (.*)\]", re.DOTALL)


def array_type(text: str, counts: Sequence[int]) -> str:
    """The IR type of an array with such sides whose initialiser has the type `text`; "" where its
    elements have different ones, as those of unions."""
    if not counts:
        return "" if text.startswith("[") else text
    count, *inner = counts
    found: list[tuple[int, str]] = []
    if text.startswith("<{") and text.endswith("}>"):
        for part in split_at_commas(text[2:-2]):
            found += _elements(part.strip(), inner)
    else:
        found = _elements(text, inner)
    every = {element for _, element in found}
    if len(every) != 1 or sum(number for number, _ in found) != count:
        return ""
    return f"[{count} x {every.pop()}]"


def _elements(part: str, inner: Sequence[int]) -> list[tuple[int, str]]:
    """The number of elements that a part is, and their type: one, or an array of them."""
    if one := array_type(part, inner):
        return [(1, one)]
    match = _ARRAY.fullmatch(part)
    one = array_type(match[2], inner) if match is not None else ""
    return [(int(match[1]), one)] if match is not None and one else [(0, "")]
