"""A function's own lines of source, its IR and its machine code side by side.  Start from `linked`.

The lines are those of the function and of what was inlined into it, wherever that stands; of a
whole cell, the cell's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import bare
from jitkernel.linker.disassembly import Instruction, named
from jitkernel.session.report.sources import Place
from jitkernel.views.asm import code_of, namer
from jitkernel.views.highlight import highlighted
from jitkernel.views.lines import Block, Line, Located
from jitkernel.views.panes import Keys, Pane, beside, fitting
from jitkernel.views.room import Room
from jitkernel.views.view import View
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.compiler.machine_ir import Stage
    from jitkernel.session import Session
    from jitkernel.views.watched import Watched

_WHOLE = 400  # lines of a cell's source that are shown where no function was named
_MOST = 2_000  # lines of a pane
_COLOURED = 60_000  # bytes of HTML; what would be more has words in colours in the source only
_BLOCK = 1_000  # bytes; and what would be more than so much a block, too, has none
_LARGEST = 300_000  # nor has what would be more than this
_CODE = "Machine code"
_NOTE = (
    "What has one number comes from one line of source; a letter before it means another text. "
    "Each bar is a loop."
)
_ALIGNED = " A block of IR stands beside the machine code that was made of it, in that one's order."


def linked(
    session: Session,
    target: int | str | None = None,
    syntax: str = "intel",
    ir: bool = True,
    made: Watched | None = None,
    room: Room | None = None,
) -> View:
    """Source, IR (`ir`) as it was compiled, and machine code of a function or a cell, what belongs
    together in one colour and with one number; where it was `made` again, watched, blocks of IR
    stand beside their code.  Lines are shown as far as each pane has room; all of them where
    `room` has no end.

    Raises UsageError where there is neither IR nor code.
    """
    cell, names = session.inspect.cell_of(target)
    located = made.located if made is not None else Located(session, cell.number)
    machine = made.machine if made is not None else {}
    one, room = isinstance(target, str), room or Room()
    most = sys.maxsize if room.endless else _MOST
    bodies = _ir(located, names, one, most) if ir else {}
    codes = _machine(session, located, target, syntax, machine, most)
    if not bodies and not codes:
        raise UsageError(
            f"cell {cell.number} has neither IR nor machine code to stand side by side"
        )
    rows = _rows(session, bodies, codes)
    shown = [fitting([row[side] for row in rows], _room(room)) for side in (0, 1)]
    used = [line for cells in shown for lines in cells for line in lines]
    whole = sys.maxsize if room.endless else _WHOLE
    source, keys = _source(session, located, cell.number, names if one else [], used, whole)
    what = session.inspect.program.called(bare(target)) if isinstance(target, str) else ""
    title = f"{what}, cell {cell.number}" if what else f"cell {cell.number}"
    note = _NOTE + _ALIGNED * (bool(ir) and any(len(code) > 1 for code in codes.values()))
    (own,) = fitting([source], _room(room))
    left = len(source) - len(own) + sum(len(lines) for row in rows for lines in row) - len(used)
    if left:
        shows = f"{room.more} shows all" if room.more else "%ir --opt and %asm show those of code"
        note += f" {counted(left, 'more line', ',')} are not shown: {shows}."
    panes = [Pane("IR, as it was compiled", shown[0], 3), Pane(_CODE, shown[1], 2)]
    groups = [[Pane("Source", [own])], [pane for pane in panes if pane.lines]]
    large = max(_BLOCK * sum(map(len, bodies.values())), _COLOURED)
    return _in_colours(title, groups, keys, note, ("llvm", syntax), large)


def _in_colours(
    title: str,
    groups: list[list[Pane]],
    keys: Keys,
    note: str,
    languages: Sequence[str],
    large: int,
) -> View:
    """The panes with words in colours, as many as there is room for; where there is not even room
    for none, those of the source, which are few."""
    source, codes = groups
    view = beside(title, groups, keys, note)
    lines = sum(len(pane.lines) for pane in codes)
    for flow, more in ((False, 30), (True, 0)):
        if len(view.html) + more * lines <= _COLOURED:  # it adds at least so much
            inked = [_inked(pane, languages, flow) for pane in codes]
            richer = beside(title, [source, inked], keys, note)
            if len(richer.html) <= _COLOURED:
                return richer
    if len(view.html) <= min(large, _LARGEST):
        return view
    bare = [replace(source[0], cells=[[line._replace(html="") for line in source[0].lines]])]
    plain = beside(title, [bare, codes], keys, note)
    return plain if len(plain.html) <= large or len(view.html) > _LARGEST else view


def _inked(pane: Pane, languages: Sequence[str], flow: bool) -> Pane:
    """A pane of IR or of machine code with words in colours."""
    language = languages[pane.title == _CODE]
    html = iter(highlighted([line.text for line in pane.lines], language, flow))
    return replace(pane, cells=[[n._replace(html=next(html)) for n in cell] for cell in pane.cells])


def _ir(located: Located, names: Sequence[str], one: bool, most: int) -> dict[str, list[Block]]:
    """The blocks of the functions, so many as are shown."""
    found: dict[str, list[Block]] = {}
    lines = 0
    for name in names if one else located.functions:
        if name in located.functions and lines <= most:
            found[name] = list(located.body(name).blocks())
            lines += sum(len(block) for _, block in found[name])
    return found


def _machine(
    session: Session,
    located: Located,
    target: int | str | None,
    syntax: str,
    machine: Mapping[str, Sequence[Stage]],
    most: int,
) -> dict[str, list[Block]]:
    """The machine code of the functions, so many as are shown."""
    try:
        cell, codes = code_of(session, target)
    except UsageError:
        return {}
    found: dict[str, list[Block]] = {}
    lines, named_code = 0, namer(session, cell)
    for code in codes:
        if lines <= most:
            decoded = named_code(code, syntax, located.rows)
            stages = machine.get(code.name, ())
            found[code.name] = located.machine(decoded, _instruction, stages)
            lines += len(decoded)
    return found


def _rows(
    session: Session, bodies: Mapping[str, list[Block]], codes: Mapping[str, list[Block]]
) -> list[tuple[list[Line], list[Line]]]:
    """IR and machine code of each function, block beside block."""
    names = dict.fromkeys((*bodies, *codes))
    rows: list[tuple[list[Line], list[Line]]] = []
    for name in names:
        if len(names) > 1:
            head = Line(f"{session.inspect.program.called(name)}:")
            rows.append(([head] * (name in bodies), [head] * (name in codes)))
        rows += _beside(bodies.get(name, []), codes.get(name, []))
    return rows


def _beside(ir: Sequence[Block], code: Sequence[Block]) -> list[tuple[list[Line], list[Line]]]:
    """Blocks of IR beside the machine code that was made of them, in its order; one that no code
    tells of stays behind the one that it follows."""
    told = {label for label, _ in code}
    parts: dict[str, list[Line]] = {}
    at = ""  # code begins with what is told of none, and is then that of the first block
    for label, lines in ir:
        at = label if label in told else at
        parts.setdefault(at, []).extend(lines)
    rows: list[tuple[list[Line], list[Line]]] = []
    for label, lines in code:
        if label in parts or not rows:
            rows.append((parts.pop(label, []), list(lines)))
        else:
            rows[-1][1].extend(lines)
    return rows + [(lines, []) for lines in parts.values()]


def _room(of: Room) -> Room:
    """That of a pane."""
    return Room(of.more, of.endless, _LARGEST // 3, _MOST)


def _instruction(i: Instruction) -> str:
    return f" {named(i)}"


def _source(
    session: Session,
    located: Located,
    number: int,
    names: Sequence[str],
    code: Iterable[Line],
    most: int,
) -> tuple[list[Line], Keys]:
    """The function's lines, then those of others that have become part of it."""
    sources = located.sources
    used = sorted({line.place for line in code if line.place is not None})
    file, extent = sources.extent(names[0]) if names else ("", range(0))
    if not extent:
        whole = min(sources.own.source.count("\n") + 1, most)
        extent = range(1, whole + 1) if not names else extent
    keys = Keys(number, file)
    own = {p.line: p for p in reversed(used) if (p.cell, p.file) == (number, file)}
    lines = _text(session, located, [Place(number, file, n, "") for n in extent], own)
    others: dict[tuple[str, int, str, str], list[Place]] = {}
    for place in used:
        if (place.cell, place.file) != (number, file) or place.line not in extent:
            key = (keys.tag(place), place.cell, place.file, place.function)
            others.setdefault(key, []).append(place)
    for (tag, cell, where, function), places in sorted(others.items()):
        called = session.inspect.program.called(function, cell)
        inlined = "" if function in names else "inlined: "
        lines.append(
            Line(f"{f'{tag}: ' if tag else ''}{inlined}{called}, {where or f'cell {cell}'}")
        )
        of = {p.line: p for p in reversed(places)}
        shown = [Place(cell, where, n, function) for n in sorted(of)]
        lines += [line._replace(number=keys.name(p)) for line, p in
                  zip(_text(session, located, shown, of), shown, strict=True)]  # fmt: skip
    return lines, keys


def _text(
    session: Session, located: Located, places: Sequence[Place], own: dict[int, Place]
) -> list[Line]:
    """Lines of one text, as they are written; those of which there is code have a place."""
    texts = [located.sources.text(place) for place in places]
    language = session.inspect.program.state.notes.language_of(places[0].cell) if places else ""
    html = highlighted(texts, language)
    return [
        Line(text, own.get(place.line), 0, markup, str(place.line))
        for text, place, markup in zip(texts, places, html, strict=True)
    ]
