"""Two pieces of machine code side by side, counted and timed.  Start from `compare`.

A `Side` is the code of a function as it is (`placed`), as it would be with other options
(`compiled`), or on another machine (`elsewhere`).
"""

from __future__ import annotations

import struct
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.records import Request, own_line
from jitkernel.elf import ElfObject, read_object
from jitkernel.elf.constants import STT_FUNC
from jitkernel.errors import LinkError, UsageError
from jitkernel.ir.names import bare, written
from jitkernel.ir.printed import matching
from jitkernel.linker.disassembly import Instruction, named
from jitkernel.linker.packed import is_packed
from jitkernel.session.report.sources import Place
from jitkernel.views.asm import code_of, namer, source_lines
from jitkernel.views.foreign import ForeignCode
from jitkernel.views.lines import Line
from jitkernel.views.panes import RUN, Keys, Pane, linked_html
from jitkernel.views.relocatable import NamedCode, Stretch
from jitkernel.views.room import Room, size_of
from jitkernel.views.view import View, inner, join, prose, table, time_text, titled

if TYPE_CHECKING:
    from jitkernel.session import Session

WIDTH = 44  # columns of one side in plain text
_ALIKE = 0.4  # below this share of equal lines, two codes stand side by side as they are


def compare(
    session: Session,
    *what: int | str,
    levels: Sequence[int] = (),
    machines: Sequence[str] = (),
    cpu: str = "",
    arguments: str | None = None,
    syntax: str = "intel",
    room: Room | None = None,
) -> View:
    """Two versions of a function side by side: instructions, bytes, and the time of a call.

    `what` is one function or two; with one, two cells that defined it (or one, against the present
    one), or two `levels` or `machines` (or one, against how it is).  `arguments` are those of the
    calls to be timed, as in a call line: `7, 3`.  Lines are shown as far as there is `room`.
    Raises UsageError, CompileError, and what stops a call that is timed.
    """
    names = [w for w in what if isinstance(w, str)]
    cells = [w for w in what if isinstance(w, int)]
    if cells and not names:
        names = [_only_function(session, cell) for cell in cells]
        if len(names) == 2 and names[0] == names[1]:
            names = names[:1]
        else:
            cells = []
    sides = _sides(session, names, cells, levels, machines, cpu, syntax)
    times: list[list[float]] = []
    if arguments is not None:
        running = [side for side in sides if side.runs]
        calls = [(f"{written(side.name)}({arguments})", side.code) for side in running]
        measured = iter(session.frontend.time_beside(calls, repeat=5))
        times = [next(measured) if side.runs else [] for side in sides]
    return _view(session, sides[0], sides[1], times, arguments, room or Room())


def _only_function(session: Session, number: int) -> str:
    cell, names = session.inspect.cell_of(number)
    functions = [n for n in names if session.symbols[n].kind == "function"]
    if len(functions) != 1:
        raise UsageError(f"cell {cell.number} has {len(functions)} functions: name the one meant")
    return functions[0]


def _sides(
    session: Session,
    names: list[str],
    cells: list[int],
    levels: Sequence[int],
    machines: Sequence[str],
    cpu: str,
    syntax: str,
) -> list[Side]:
    """The two sides that are meant."""
    kinds = sum(map(bool, (len(names) > 1, cells, levels, machines)))
    if not names or kinds != 1 or max(len(names), len(cells), len(levels), len(machines)) > 2:
        raise UsageError(
            "compare what? Two functions (f g), or one at two levels (f -O0 -O2), on two "
            "machines (f --target aarch64 --target riscv64), of two cells (f 2 5)"
        )
    if len(names) == 2:
        return [placed(session, bare(name), syntax) for name in names]
    name = bare(names[0])
    shown = session.inspect.program.called(name)
    if cells:
        asked = [(session.inspect.request(n), n, f"{shown} of cell {n}") for n in cells]
    else:
        cell = session.inspect.cell_of(name)[0].number
        request = session.inspect.request(cell)
        asked = [(_at(request, n), cell, f"{shown} at -O{n}") for n in levels]
    found = [compiled(session, each, name, n, title, syntax) for each, n, title in asked]
    found += [elsewhere(session, request, name, cell, m, cpu, syntax) for m in machines]
    if len(found) == 1:
        found.insert(1 if cells else 0, placed(session, name, syntax))
    return found


def _at(request: Request, level: int) -> Request:
    return request._replace(options=request.options._replace(opt_level=level, passes=""))


def _view(
    session: Session,
    left: Side,
    right: Side,
    times: list[list[float]],
    arguments: str | None,
    room: Room,
) -> View:
    def row(
        what: str, values: Sequence[float], show: Callable[[Any], str] = str
    ) -> tuple[str, ...]:
        return (what, *map(show, values), _ratio(*values) if all(values) else "")

    sides = (left, right)
    rows = [
        row("instructions", [side.count() for side in sides]),
        row("bytes", [side.size for side in sides], lambda size: str(size or "not known")),
        row("calls", [side.count(_is_call) for side in sides]),
        row("jumps and branches", [side.count(_is_jump) for side in sides]),
    ]
    if any(packed := [side.packed for side in sides]):
        rows.append(row("packed instructions", packed))
    note = ""
    if times:
        for what, one in (("median", median), ("best", min)):
            found = [one(t) if t else 0.0 for t in times]
            shown = row(f"time of a call, {what}", found,
                        lambda t: time_text(t) if t else "does not run here")  # fmt: skip
            rows.append(shown)
        note = f"Timed with the arguments ({arguments}), in turns, 5 times each, in a native loop."
    elif left.runs or right.runs:
        note = "--time '7, 3' times a call with these arguments."
    summary = table(
        f"{left.title} | {right.title}",
        ("what", f"#{left.title}", f"#{right.title}", "#ratio"),
        rows,
        note,
    )
    return join([summary, _beside(session, left, right, room)], room)


def _ratio(one: float, other: float) -> str:
    """The second beside the first: two digits that say something, however small it is."""
    ratio = other / one
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _is_call(mnemonic: str) -> bool:
    return mnemonic.startswith("call") or mnemonic in ("bl", "blr", "jal", "jalr", "brasl", "basr")


def _is_jump(mnemonic: str) -> bool:
    if _is_call(mnemonic):
        return False
    return mnemonic.startswith(("j", "b.", "cb", "tb", "bn", "be", "bg", "bl")) or mnemonic == "b"


def _beside(session: Session, left: Side, right: Side, room: Room) -> View:
    """The instructions of both, what is equal on one height; marks say which are not."""
    numbers = max((len(str(r[0])) for side in (left, right) for r in side.rows), default=1)
    stretches = _stretches(left.rows, right.rows)
    left_out, cost = 0, _costs(left, right, session)
    for pairs in stretches:
        count = room.take(map(cost, pairs))
        left_out += len(pairs) - count
        del pairs[count:]
    (cut,) = room.said(left_out) or [""]
    title = "Side by side: = equal, | different, < and > only on one side"
    width = WIDTH - numbers - 2
    plain = "\n".join(
        t for pairs in stretches for pair in pairs for t in _lines(pair, width, numbers)
    )
    groups, keys = list[list[Pane]](), Keys(left.cell)
    for cell in dict.fromkeys((left.cell, right.cell)):
        used = {
            row[0] for pairs in stretches for x, _, y in pairs
            for side, row in ((left, x), (right, y)) if row is not None and side.cell == cell
        } - {0}  # fmt: skip
        if used:
            every = Room(everything=True)  # of the lines that there was room for
            view = source_lines(session.source(cell), used, f"Lines of cell {cell}", every)
            plain += f"\n\n{view.text}"
            groups.append([Pane(f"Lines of cell {cell}", [_written(view, cell)])])
    marks = [[mark for _, mark, _ in pairs] for pairs in stretches]
    columns = ([[x for x, _, _ in pairs] for pairs in stretches],
               [[y for _, _, y in pairs] for pairs in stretches])  # fmt: skip
    groups.append(
        [
            Pane(side.title, [_column(*cell, side.cell) for cell in zip(rows, marks, strict=True)])
            for side, rows in zip((left, right), columns, strict=True)
        ]
    )
    html = linked_html(groups, keys) + (f"<p>{prose(cut)}</p>" if cut else "")
    return titled(title, View(f"{plain}\n{cut}" if cut else plain, html))


def _costs(left: Side, right: Side, session: Session) -> Callable[[Pair], int]:
    """About what a pair takes: its lines, and those of a cell that it is the first to come from."""
    sources = {side.cell: session.source(side.cell).split("\n") for side in (left, right)}
    seen, last = set[tuple[int, int]](), dict[str, tuple[int, int]]()

    def cost(pair: Pair) -> int:
        one, _, other = pair
        size = 0
        for side, row in ((left, one), (right, other)):
            if row is None:
                continue
            key = side.cell, row[0]
            size += size_of(inner(row[1])) + RUN * (last.get(side.title) != key)
            last[side.title] = key
            if 0 < row[0] <= len(sources[side.cell]) and key not in seen:
                seen.add(key)
                size += size_of(inner(sources[side.cell][row[0] - 1])) + RUN
        return size

    return cost


def _stretches(left: Sequence[Row], right: Sequence[Row]) -> list[list[Pair]]:
    """Stretches of lines that are equal, and of those between them."""
    mine, theirs = [text for _, text, _ in left], [text for _, text, _ in right]
    equal = matching(mine, theirs)
    if 2 * sum(n for _, _, n in equal) < _ALIKE * (len(mine) + len(theirs)):
        equal = []  # what happens to be equal would only tear both apart
    found: list[list[Pair]] = []
    at = to = 0
    for a, b, n in [*equal, (len(mine), len(theirs), 0)]:
        found.append([
            (x, "=" if x and y and x[1] == y[1] else "|" if x and y else "<" if x else ">", y)
            for x, y in zip_longest(left[at:a], right[to:b])
        ])  # fmt: skip
        found.append([(x, "=", y) for x, y in zip(left[a : a + n], right[b : b + n], strict=True)])
        at, to = a + n, b + n
    return [pairs for pairs in found if pairs]


def _column(rows: Sequence[Row | None], marks: Sequence[str], cell: int) -> list[Line]:
    """The lines of one side, each behind its mark."""
    return [
        Line(f"{mark} {'  ' * row[2]}{row[1]}", Place(cell, "", row[0], "") if row[0] else None)
        for row, mark in zip(rows, marks, strict=True)
        if row is not None
    ]


def _written(view: View, cell: int) -> list[Line]:
    """Lines of a cell, each behind its number."""
    found = []
    for text in view.text.split("\n")[1:]:
        number, _, line = text.strip().partition("  ")
        found.append(Line(line, Place(cell, "", int(number), "")))
    return found


def _lines(pair: Pair, width: int, numbers: int) -> list[str]:
    """One pair as lines; what is too long for its column goes on in the next."""
    one, mark, other = pair
    cells = [_wrapped(one, width), _wrapped(other, width)]
    lines = []
    for i in range(max(map(len, cells), default=1)):
        texts = [cell[i] if i < len(cell) else "" for cell in cells]
        heads = [f"{row[0] if row and row[0] and not i else '':>{numbers}}" for row in (one, other)]
        line = f"{heads[0]} {texts[0]:<{width}} {mark if not i else ' '} {heads[1]} {texts[1]}"
        lines.append(line.rstrip())
    return lines


def _wrapped(row: Row | None, width: int) -> list[str]:
    if row is None:
        return [""]
    text = ("  " if row[2] else "") + row[1]
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent="      ")


#: A line of code: the cell's line (0: none), text, and whether it is an instruction (or a label).
Row = tuple[int, str, bool]
#: What stands side by side, with the mark between.
Pair = tuple[Row | None, str, Row | None]


@dataclass(frozen=True, slots=True)
class Side:
    """A function's code, from a cell: `size` in bytes, 0 where it is not known.

    `runs`: here it can be called; `code` is then an object that defines it, None where it is the
    one in memory.
    """

    title: str
    name: str
    cell: int
    rows: tuple[Row, ...]
    size: int
    runs: bool
    code: bytes | None = None

    def count(self, test: Callable[[str], bool] = bool) -> int:
        """The number of instructions, or of those whose mnemonic `test` accepts."""
        return sum(test(text.split()[0]) for _, text, is_code in self.rows if is_code)

    @property
    def packed(self) -> int:
        """The number of instructions that work on several elements of a vector at once."""
        parts = (text.partition(" ") for _, text, is_code in self.rows if is_code)
        return sum(is_packed(mnemonic, operands) for mnemonic, _, operands in parts)


def placed(session: Session, name: str, syntax: str) -> Side:
    """A function as it stands in memory."""
    cell, (code,) = code_of(session, name)
    lines = session.inspect.places.lines.of_cell(cell.number)
    found = namer(session, cell, _Constants(session))(code, syntax, lines)
    title = f"{session.inspect.program.called(name)}, cell {cell.number}"
    return Side(title, name, cell.number, _rows(found), code.size, True)


def compiled(
    session: Session, request: Request, name: str, cell: int, title: str, syntax: str
) -> Side:
    """A function as the request has it; its object is not placed.  Raises CompileError."""
    called = session.inspect.program.called
    # What the cell was made of has been compiled.
    is_own = request == session.inspect.request(cell)
    own = session.inspect.object(cell) if is_own else b""
    data = own or session.inspect.engine.pool.compile(request).object
    obj = read_object(data)
    known = _functions(obj)
    if name not in known:
        raise UsageError(f"{called(name, cell)} is not defined there")
    section, value, size = known[name]
    line_of = session.inspect.cell_lines(cell, request)
    lines = [(at, line_of(own_line(of)))
             for where, at, of in session.inspect.engine.pool.lines(request, data)
             if where == obj.section_name(section)]  # fmt: skip
    found = _Constants(session).own(obj, cell).decode(section, value, size, syntax, lines)
    return Side(title, name, cell, _rows(found), size, True, data)


class _Constants:
    """The meaning of names to code that is compared: what an object of a cell has, else what the
    session has now."""

    def __init__(self, session: Session):
        self._session, self._codes = session, dict[int, NamedCode | None]()
        self._own: Mapping[str, Stretch] = {}

    def __call__(self, name: str) -> Stretch | None:
        look = self._session.inspect
        if name in self._own or not (owner := look.program.owner(name)):
            return self._own.get(name)
        if owner not in self._codes:
            data = look.object(owner)
            self._codes[owner] = self._code(read_object(data), owner) if data else None
        code = self._codes[owner]
        return code.defined.get(name) if code is not None else None

    def own(self, obj: ElfObject, cell: int) -> NamedCode:
        """The code of an object, whose names come first."""
        code = self._code(obj, cell)
        self._own = code.defined
        return code

    def _code(self, obj: ElfObject, cell: int) -> NamedCode:
        return NamedCode(obj, partial(self._session.inspect.program.called, cell=cell), self)


def elsewhere(
    session: Session, request: Request, name: str, cell: int, machine: str, cpu: str, syntax: str
) -> Side:
    """A function as it would be on another machine."""
    called = session.inspect.program.called(name)
    lines = session.inspect.cell_lines(cell, request)
    code = ForeignCode(session, request, machine, cpu, syntax, lines)
    if name not in code.functions:
        raise UsageError(f"{called} has no machine code on {machine}")
    data = session.inspect.engine.pool.foreign_object(request, code.triple, code.cpu)
    try:
        size = _functions(read_object(data))[name][2]
    except (LinkError, KeyError, struct.error):
        size = 0  # an object of another kind than the reader knows: it is not known

    def refers(name: str) -> str:
        known = name in code.functions or name in session.inspect.program.linker.symbols
        return session.inspect.program.called(name) if known else ""

    rows = tuple((line, _named(text.split(), refers), c) for line, text, c in code.functions[name])
    return Side(f"{called} on {machine}", name, cell, rows, size, False)


def _named(words: Sequence[str], refers: Callable[[str], str]) -> str:
    """An instruction elsewhere, with the name that a call leads to as it is written here."""
    name = words[-1].removesuffix("@PLT")
    if len(words) == 2 and words[0].startswith(("call", "j", "b", "tail")):
        words = [words[0], refers(name) or words[1]]
    return " ".join(words)


def _functions(obj: ElfObject) -> dict[str, tuple[int, int, int]]:
    """The functions that an object defines: section, offset and size in bytes by name."""
    return {
        obj.symbol_name(number): symbol[3:6]
        for number, symbol in enumerate(obj.symbols)
        if symbol[1] & 15 == STT_FUNC
    }


def _rows(code: Iterable[Instruction]) -> tuple[Row, ...]:
    """Instructions as they are compared, where they lead by name, not by number."""
    rows: list[Row] = []
    for i in code:
        if i.label:
            rows.append((0, f"{i.label}:", False))
        for words in ("the entry of ", "the stub of "):
            i = i._replace(refers=i.refers.removeprefix(words))
        rows.append((i.line, named(i), True))
    return tuple(rows)
