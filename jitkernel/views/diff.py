"""What changed between two texts, line by line: `+`, `-`, and a little around; and how it looks.

`+` and `-` say it all; colours only repeat it, in pairs that are readable on any page.  A module is
compared in parts (`ir.printed.parts`): each function, and the rest.  Start from `diff`.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from jitkernel.ir.module import entities, functions
from jitkernel.ir.names import mentions, written
from jitkernel.views.view import View, fold, inner, preformatted

#: A tint of the page itself, whose ink stays: over 9:1 on a white page and on a black one.
TINTS = {"+": "rgba(46,160,67,0.25)", "-": "rgba(218,54,51,0.25)"}


def diff(old: str, new: str, around: int = 2) -> list[str]:
    """Lines marked `+`, `-` or blank; `@@ line 12` heads each part of the new text."""
    a, b = old.splitlines(), new.splitlines()
    lines: list[str] = []
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(around):
        lines.append(f"@@ line {group[0][3] + 1}")
        for tag, start, stop, new_start, new_stop in group:
            lines += [f"{' ' if tag == 'equal' else '-'} {text}" for text in a[start:stop]]
            lines += [f"+ {text}" for text in b[new_start:new_stop] if tag != "equal"]
    return [line.rstrip() for line in lines]


def counts(lines: Sequence[str]) -> tuple[int, int]:
    """The number of lines that a diff takes away, and of those that it adds."""
    return (
        sum(line.startswith("-") for line in lines),
        sum(line.startswith("+") for line in lines),
    )


def clip(lines: Sequence[str], limit: int, more: str) -> list[str]:
    """At most `limit` lines, and how many are left out; `more` says how to see them."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"… {len(lines) - limit} more lines{more}"]


def difference_view(lines: Sequence[str], limit: int = 1 << 30, more: str = "") -> View:
    """At most `limit` lines of a diff; `more` says how to see the others."""
    lines, out = clip(lines, limit, more), []
    for mark, group in groupby(lines, lambda line: line[:1]):
        text = "".join(f"{inner(line)}\n" for line in group)
        if mark in TINTS:
            # Whole lines as a block: the background of a line within a line covers what hangs below
            # the line above it, such as underscores.
            style = f"display:block;color:inherit;background:{TINTS[mark]}"
            text = f'<span style="{style}">{text}</span>'
        out.append(text)
    return View(fold(lines), preformatted("".join(out).removesuffix("\n")))


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
    groups = {e.spelled for e in entities(module, "attributes") if "optnone" in e.rest.split()}
    heads = {f.name: module[f.value : f.body()[0]] for f in functions(module, "define")}
    return [
        written(name)
        for name, head in heads.items()
        if groups & mentions(head, "#") or "optnone" in head.split()
    ]


def shown_unit(unit: str) -> str:
    """The unit that a pass ran on, as IR writes names: `@sum`, `loop %body of @sum`, `module`."""
    if unit == "[module]":
        return "module"
    loop, _, function = unit.partition(" in function ")
    if function and loop.startswith("loop %"):
        loop = loop.removesuffix(" %<unnamed loop>")  # %4: only its number
        return f"{loop} of {written(function)}"
    if unit.startswith("(") and unit.endswith(")"):
        return ", ".join(written(name) for name in unit[1:-1].split(", "))
    return written(unit)
