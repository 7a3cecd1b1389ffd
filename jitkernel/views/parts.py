"""A module's text in parts: each function, and the rest.  Start from `parts`.

For text that LLVM printed, and for what a cell was written as.
"""

from __future__ import annotations

import re

from jitkernel.ir.module import functions
from jitkernel.ir.names import written
from jitkernel.views.diff import diff

__all__ = ["REST", "difference", "optnone", "parts", "shown_unit"]

#: The key of everything that is in no function.
REST = ""

_ATTRIBUTES = re.compile(r"^attributes #(\d+) = \{[^}\n]*\boptnone\b", re.M)
_LOOP = re.compile(r"loop (%.+?) in function (.+)")


def parts(text: str) -> dict[str, str]:
    """The functions' texts by name as written (`@sq`), in order, and the `REST` without them."""
    found: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    for function in functions(text, "define"):
        before = text[at : function.start]
        # LLVM's comment on the attributes goes with it.
        above, newline, comment = before.rstrip(" \t\n").rpartition("\n")
        if comment.startswith("; Function Attrs:"):
            before = above + newline
        rest.append(before)
        found[written(function.name)] = text[at + len(before) : function.end]
        at = function.end
    rest.append(text[at:])
    kept = [line for line in "".join(rest).splitlines() if line.strip()]
    found[REST] = "\n".join(line for line in kept if not line.startswith("; ModuleID"))
    return found


def difference(before: dict[str, str], after: dict[str, str], only: str = "") -> list[str]:
    """The diff of what changed, a line with its name above each part where there are several.

    `only` is the name of one function, as written.
    """
    names = [only] if only else [*before, *(name for name in after if name not in before)]
    changed = [n for n in names if before.get(n, "") != after.get(n, "")]
    lines: list[str] = []
    for name in changed:
        if len(names) > 2 and name != only:
            lines.append(f"@@ {name}" if name else "@@ outside functions")
        lines += diff(before.get(name, ""), after.get(name, ""))
    return lines


def optnone(module: str) -> list[str]:
    """The functions of a printed module that no pass may touch, as written."""
    groups = set(_ATTRIBUTES.findall(module))
    found = []
    for function in functions(module, "define"):
        head = module[function.parameters : function.body()[0]]
        if groups.intersection(re.findall(r"#(\d+)", head)) or re.search(r"\boptnone\b", head):
            found.append(written(function.name))
    return found


def shown_unit(unit: str) -> str:
    """What a pass ran on, as IR writes names: `@sum`, `loop %body of @sum`, `module`."""
    if unit == "[module]":
        return "module"
    if match := _LOOP.fullmatch(unit):
        label = "" if match[1] == "%<unnamed loop>" else f" {match[1]}"  # %4: only its number
        return f"loop{label} of {written(match[2])}"
    if unit.startswith("(") and unit.endswith(")"):
        return ", ".join(written(name) for name in unit[1:-1].split(", "))
    return written(unit)
