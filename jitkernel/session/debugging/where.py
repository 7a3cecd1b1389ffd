"""Places to stop at, as people write them: `f`, `@f`, `3`, `2:3`, `*0x3f100000`, each with
`if CONDITION`.  Start from `wanted`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from jitkernel.errors import UsageError
from jitkernel.regex import regex
from jitkernel.session.debugging.records import Breakpoint
from jitkernel.wording import counted

__all__ = ["ROWS", "rows", "shown", "texts", "wanted"]

_LINE = regex(r"(?:(\d+)\s*:\s*)?(\d+)\Z")
_ADDRESS = regex(r"\*\s*(0[xX][0-9a-fA-F]+|\d+)\Z")
_NAME = regex(r'@?(?:[\w.$]+|"[^"]+")\Z')
_IF = regex(r"(?:^|\s+)if(?![\w.$])\s*")
_FORMS = "`f`, `3` (a line), `2:3` (line 3 of cell 2) or `*0x3f100000`, and then `if CONDITION`"
#: The columns of `rows`.
ROWS = ("#number", "where", "text", "stops", "#hits", "code")


def wanted(
    text: str, source_of: Callable[[int], str], more: Breakpoint | None = None
) -> Breakpoint:
    """The breakpoint that a text means; what else there is to say of it comes from `more`.

    `source_of` gives the whole text of a cell by its number, that of the present one for 0; it may
    raise UsageError.  Raises UsageError with what there is.
    """
    place, *condition = _IF.split(text.strip(), maxsplit=1)
    made = more or Breakpoint()
    if condition:
        if not condition[0].strip():
            raise UsageError(f"behind `if` a condition is missing: {place} if i == 10")
        made = replace(made, condition=condition[0].strip())
    if match := _LINE.match(place):
        cell, line = int(match[1] or 0), int(match[2])
        source = source_of(cell)
        last = len(source.rstrip("\n").split("\n"))
        if not 0 < line <= last:
            first = source.strip().split("\n")[0]
            which = f"cell {cell}" if cell else f"the cell that begins with `{first[:40]}`"
            raise UsageError(f"{which} has {counted(last, 'line')}: there is no line {line} in it")
        return replace(made, source=source, line=line)
    if match := _ADDRESS.match(place):
        return replace(made, address=int(match[1], 0))
    if not _NAME.match(place):
        raise UsageError(f"`{place}` is no place to stop at: write {_FORMS}")
    return replace(made, function=place.replace('"', ""))


def shown(point: Breakpoint, cell_of: Callable[[str], int]) -> str:
    """The place where a breakpoint is: `sq`, `cell 2, line 3`, `*0x3f100000`."""
    if point.watch:
        return f"watch {point.watch}"
    if point.function:
        return point.function
    if point.address:
        return f"*{point.address:#x}"
    cell = cell_of(point.source)
    return f"cell {cell}, line {point.line}" if cell else f"line {point.line} of a cell to run"


def rows(
    points: Iterable[Breakpoint], cell_of: Callable[[str], int]
) -> list[tuple[str | int, ...]]:
    """The facts of breakpoints, a row each: see `ROWS`."""
    found: list[tuple[str | int, ...]] = []
    for point in points:
        lines = point.source.split("\n")
        text = lines[point.line - 1].strip() if 0 < point.line <= len(lines) else ""
        code = "yes" if point.verified else point.message or "looked for when code runs"
        row = (point.number, shown(point, cell_of), text, _stops(point), point.hits, code)
        found.append(row)
    return found


def texts(names: Sequence[str], table: Sequence[Sequence[str | int]]) -> list[str]:
    """Rows as lines of text, below the names of their columns."""
    plain = [[str(value) for value in row] for row in ([n.lstrip("#") for n in names], *table)]
    widths = [max(map(len, column)) for column in zip(*plain, strict=True)]
    right = [name.startswith("#") for name in names]
    return [
        "  ".join(
            f"{v:>{w}}" if r else f"{v:<{w}}" for v, w, r in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in plain
    ]


def _stops(point: Breakpoint) -> str:
    words = ["once"] if point.temporary else []
    words += [f"if {point.condition}"] if point.condition else []
    words += [f"hits {point.hit_condition}"] if point.hit_condition else []
    words += [f'logs "{point.log}"'] if point.log else []
    return ", ".join(words) or "always"
