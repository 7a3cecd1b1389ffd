"""Named structs in a context that has seen their names before.  Start from `renamed_types`.

In a shared context LLVM calls the second `%pt` of two modules `%pt.0`.  What a cell offers is told
in the names that it wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jitkernel.compiler import binding
from jitkernel.ir.module import type_definitions
from jitkernel.ir.names import NAME, decode_name, quote_name

__all__ = ["StructNames", "ambiguous", "renamed_types"]

_NAMED = re.compile("%(" + NAME + ")")
_NUMBERED = re.compile(r"(.+)\.\d+")


def _defined(text: str) -> list[str]:
    return [name for name, _ in type_definitions(text)] if "type" in text else []


def ambiguous(source: str) -> bool:
    """Whether the source itself has `%pt` and `%pt.0`, so that one might be taken for the other."""
    names = set(_defined(source))
    return any((m := _NUMBERED.fullmatch(name)) and m[1] in names for name in names)


def renamed_types(module: int, source: str) -> dict[str, str]:
    """The structs of `source` that LLVM gave another name: as written, as LLVM has it."""
    written = set(_defined(source))
    if not written:
        return {}
    found = {}
    for name in _defined(binding.print_module(module)):
        match = _NUMBERED.fullmatch(name)
        if match and match[1] in written and name not in written:
            found[match[1]] = name
    return found


class StructNames:
    """Both ways between names as they were written and as LLVM has them."""

    def __init__(self, renamed: Mapping[str, str]):
        self._actual = renamed
        self._written = {actual: written for written, actual in renamed.items()}

    def actual(self, name: str) -> str:
        """LLVM's name of a struct."""
        return self._actual.get(name, name)

    def written(self, text: str) -> str:
        """LLVM's text with the names of the source."""
        if not self._written:
            return text
        return _NAMED.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        name = self._written.get(decode_name(match[1]))
        return match[0] if name is None else "%" + quote_name(name)
