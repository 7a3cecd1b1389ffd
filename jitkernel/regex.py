"""Regular expressions that are compiled when they are first used.

A session's first cell needs one in seven of those that its modules name, and compiling the others
took a fifth of the time to its first value (`python -m benchmarks --only library`).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["regex"]

_METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")
_FACTS = ("groupindex", "groups")


def regex(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern that `re.compile` makes of an expression, made at its first use: an error in it
    (re.error) is raised there."""
    return cast("re.Pattern[AnyStr]", Pattern(expression, flags))


class Pattern:
    """A pattern that is compiled when one of its methods is first asked for."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self.pattern, self.flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS and name not in _FACTS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        vars(self).update({method: getattr(compiled, method) for method in _METHODS + _FACTS})
        return getattr(compiled, name)
