"""Regular expressions are such as every Python that is supported matches alike."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import jitkernel
from jitkernel.regex import Pattern

#: Before Python 3.11.5 they give up where they have to try another branch of what they repeat.
UNSOUND = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}


def parts(tree: Any) -> Iterator[str]:
    """The names of what a pattern is made of, at any depth."""
    if isinstance(tree, list | tuple | _parser.SubPattern):
        for part in tree:
            yield from parts(part)
    else:
        yield str(tree)


def patterns() -> Iterator[tuple[str, Any]]:
    for info in pkgutil.walk_packages(jitkernel.__path__, "jitkernel."):
        # What runs when it is imported, and what papermill imports itself.
        if not info.name.endswith(("__main__", "for_papermill")):
            for name, value in vars(importlib.import_module(info.name)).items():
                if isinstance(value, re.Pattern | Pattern):
                    yield f"{info.name}.{name}", value


def unsound(pattern: str | bytes, flags: int = 0) -> bool:
    return not UNSOUND.isdisjoint(parts(_parser.parse(pattern, flags & ~re.DEBUG)))


def test_no_pattern_is_possessive_or_atomic() -> None:
    assert unsound("(?:a|b)*+c") and unsound("a(?>b|c)") and not unsound("(?:a|b)*c[+*]+")
    found = dict(patterns())
    assert len(found) > 200
    assert [name for name, p in found.items() if unsound(p.pattern, p.flags)] == []
