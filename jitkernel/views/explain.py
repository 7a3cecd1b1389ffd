"""One panel from source to machine code, `explain`; how long each step of a cell took, `timeline`.

The panel is made of the single views, each of which has its own function and magic; what is long is
cut, and says which magic shows it whole.  Times were measured while the cell was made, not again;
those of an object that comes from the object cache, while that was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from jitkernel.compiler.machine_ir import LEFT_OUT, STAGES
from jitkernel.errors import UsageError
from jitkernel.ir.names import bare, written
from jitkernel.ir.printed import counts_of, parts
from jitkernel.linker.records import holds, sites
from jitkernel.views.asm import asm, code_of
from jitkernel.views.ir import entity
from jitkernel.views.linked import linked
from jitkernel.views.mir import marked, spill_note
from jitkernel.views.object import object as object_view
from jitkernel.views.room import Room
from jitkernel.views.sides import sides
from jitkernel.views.svg import INK, Fill, image, label, rectangle
from jitkernel.views.view import (
    View,
    fold,
    folding,
    join,
    listing,
    paragraph,
    table,
    time_text,
)
from jitkernel.views.watched import Watched, changed_steps, watched
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Cell, Session

_LINES = 300  # of a listing
_DIFF = 60  # of one step's diff
_STEPS = 40
_LARGEST = 110_000  # bytes of HTML; what would make it longer is left to its own magic
_SHORT = 2_000  # what is shorter is there anyway
_TRACED = 80_000  # what the passes did to a function whose panes leave less is longer than that
_PANES = 900  # bytes of code whose panes leave less than that
_FUNCTIONS = 8  # whose machine IR is shown

_OPEN = ("Source, IR and machine code", "Timeline")  # of its parts
#: The steps in order, each with what happens in it.
STEPS = {
    "read": "the cell is taken apart; what is not IR becomes IR",
    "parse": "LLVM reads the text",
    "verify": "LLVM checks the module",
    "optimise": "the passes run",
    "emit": "instructions are selected and become an object",
    "link": "the object is placed, its symbols are resolved, and what it replaces leaves",
    "run": "the cell's statements",
}
_BARS = (Fill("made", "#0072b2"), Fill("run", "#d55e00", "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"))

Progress = Callable[[str], None]


def explain(
    session: Session,
    target: int | str | None = None,
    syntax: str = "intel",
    picture: bool = True,
    progress: Progress = lambda what: None,
) -> View:
    """Everything that became of a function or a cell: its source, its IR as written and after each
    pass, its machine IR with the spills, its assembly, its object and what the linker made of it,
    its place, its symbols and users, and how long each step took.

    `progress` is told what is going on, before each part and twice a second.  Raises UsageError
    where there is no such cell or no code; what a part alone cannot show is said in its place.
    """
    cell, names = session.inspect.cell_of(target)
    only = bare(target) if isinstance(target, str) else ""
    first = "compiling it again, watched"
    progress(first)
    number = cell.number
    made = watched(session, target, lambda what: progress(f"{first}: {what}"))
    made = replace(made, counted=_code_size(session, target) < _PANES)
    called = session.inspect.program.called(only) if only else str(number)
    # With the room that it is not even tried without.
    parts_: list[tuple[str, str, int, Callable[[], View]]] = [
        ("Source, IR and machine code", "", 0, lambda: linked(session, target, syntax, made=made)),
        ("IR as it was given to the compiler", f"%ir {called}", 0,
         lambda: _written(session, number, only)),
        ("What each pass changed", f"%passes {called}", _TRACED, lambda: _passes(made)),
        ("Machine IR", f"%mir {called}", 0, lambda: _machine(made)),
        ("Assembly", f"%asm {called}", 0, lambda: _assembly(session, target, syntax)),
        ("Object and what the linker made of it", f"%object {number}", 0,
         lambda: object_view(session, number)),
        ("Place in the arena", "", 0, lambda: _place(cell)),
        ("Symbols and their users", "%symbols", 0, lambda: _symbols(session, names)),
        ("Timeline", "", 0, lambda: timeline(session, number, picture)),
    ]  # fmt: skip
    views = [_glance(session, target, made)]
    left = _LARGEST - len(views[0].html)
    for head, magic, room, make in parts_:
        progress(head.lower())
        view = View("")
        try:
            if left >= room:
                view = make()
        except UsageError as error:
            view = paragraph(str(error))
        if magic and (left < room or len(view.html) > max(left, _SHORT)):
            view = paragraph(f"{magic} shows this: it would make what is shown here too long.")
        left -= len(view.html)
        html = folding(head, view, is_open=head in _OPEN).html
        views.append(View(f"== {head} ==\n{view.text}", html))
    return join(views)


def _glance(session: Session, target: int | str | None, made: Watched) -> View:
    """The way down in numbers."""
    cell, _ = session.inspect.cell_of(target)
    only = bare(target) if isinstance(target, str) else ""
    called = session.inspect.program.called
    title = f"{called(only)}, cell {cell.number}" if only else f"cell {cell.number}"
    rows: list[tuple[object, ...]] = [*_steps(made, only)]
    if size := _code_size(session, target):
        rows.append(("machine code", size, "bytes"))
    rows.append(("object", len(session.inspect.object(cell.number)), "bytes"))
    note = f"{made.untouched} {made.note}".strip()
    return table(f"From source to machine code: {title}", ("what", "#size", "of"), rows, note)


def _code_size(session: Session, target: int | str | None) -> int:
    try:
        return sum(code.size for code in code_of(session, target)[1])
    except UsageError:
        return 0


def _steps(made: Watched, only: str) -> list[tuple[object, ...]]:
    own = written(only) if only else ""

    def count(module: str) -> int:
        found = [text for name, text in parts(module).items() if name and own in ("", name)]
        return sum(counts_of(text).instructions for text in found)

    def of(stage: str, what: str) -> int:
        found = (s for each in made.machine.values() for s in each if s.name == stage)
        return sum(getattr(s, what) for s in found)

    return [
        ("IR, before the first pass", count(made.emitted.before), "instructions"),
        ("IR, after the last pass", count(made.emitted.after), "instructions"),
        ("machine IR, selected", of("isel", "instructions"), "instructions"),
        ("machine IR, registers allocated", of("regalloc", "instructions"),
         f"instructions, {of('regalloc', 'spills')} spills, {of('regalloc', 'reloads')} reloads"),
    ]  # fmt: skip


def _cut(title: str, body: str, more: str) -> View:
    lines = Room(more, lines=_LINES).lines(body.splitlines())
    view = listing(title, "\n".join(lines))
    return View(fold([*title.splitlines(), *lines]), view.html)


def _written(session: Session, number: int, only: str) -> View:
    module = session.inspect.module(number)
    if module.strip() == session.source(number).strip():
        words = "Just what is above: nothing was added to it."
        return paragraph(words)
    body = (entity(module, only) if only else "") or module
    return _cut(
        f"the module of cell {number}: its definitions, and what the session declared for them",
        body,
        f"%ir {number}",
    )


def _passes(made: Watched) -> View:
    steps = list(changed_steps(made.trace))
    head = f"{counted(len(steps), 'step')} changed it, of {made.trace.ran} passes; {made.spent}."
    views = [paragraph(head)]
    what = f"%passes {made.called.removeprefix('cell ')}"
    for step in steps[:_STEPS]:
        room = Room(f"{what} --step {step.number}", lines=_DIFF)
        views.append(folding(step.title, sides(step.pieces, room)))
    if len(steps) > _STEPS:
        views.append(paragraph(f"… {len(steps) - _STEPS} more steps; {what} shows them"))
    return join(views)


def _machine(made: Watched) -> View:
    machine = made.machine
    if not machine:
        raise UsageError("no function reached code generation")
    views, called = [], made.session.inspect.program.called
    for name, found in list(machine.items())[:_FUNCTIONS]:
        views.append(paragraph(f"{called(name)}: {spill_note(found)}"))
        for stage in found:
            if stage.name != "final":
                room = Room(f"%mir {called(name)} --{stage.name}", lines=_LINES)
                what = f"{STAGES[stage.name]}, {counted(stage.instructions, 'instruction')}"
                views.append(folding(f"{called(name)}, {what}", marked(stage, room)))
    views.append(paragraph(LEFT_OUT))
    if len(machine) > _FUNCTIONS:
        more = f"… {len(machine) - _FUNCTIONS} more functions; %mir shows them"
        views.append(paragraph(more))
    return join(views)


def _assembly(session: Session, target: int | str | None, syntax: str) -> View:
    view = asm(session, target, syntax)
    lines = view.text.splitlines()
    if len(lines) <= _LINES:
        return view
    what = session.inspect.program.called(bare(target)) if isinstance(target, str) else target or ""
    return _cut("", view.text, f"%asm {what}")


def _place(cell: Cell) -> View:
    image = cell.image
    if image is None:
        raise UsageError(f"cell {cell.number} has nothing in the arena")
    extents = [
        ("text", image.text),
        *(("text, stubs", e) for e in image.extra),
        ("rodata", image.rodata.extent if image.rodata else None),
        ("data", image.data.extent if image.data else None),
        ("unwind", image.unwind),
        *(("data, from an earlier cell", b.extent) for b in image.adopted),
    ]
    rows = [
        (zone, f"{e.start:#x}", f"{e.start + e.size:#x}", e.size)
        for zone, e in extents
        if e is not None
    ]
    rows += [
        ("data, made by statements", f"{at:#x}", f"{at + n:#x}", n) for _, at, n, _ in cell.extras
    ]
    return table(
        f"Cell {cell.number} in the arena", ("zone", "from", "to", "#bytes"), rows,
        "%arena draws all cells.",
    )  # fmt: skip


def _symbols(session: Session, names: list[str]) -> View:
    rows = []
    for name in names:
        symbol, own = session.symbols[name], session.inspect.program.linker.symbols[name]
        users = [
            f"cell {image.cell} {_how(packed)}"
            for image, packed in (own.users or {}).items() if image.cell
        ]  # fmt: skip
        entry = f"{own.stub:#x}" if own.stub else "none yet"
        used = ", ".join(users) or "nobody"
        address = f"{symbol.address:#x}"
        type = session.inspect.type_of(symbol)
        rows.append((session.inspect.program.called(name), type, address, symbol.size, entry, used))
    return table(
        "Symbols", ("name", "type", "address", "#bytes", "canonical entry", "used by"), rows,
        "A canonical entry is the address that everything but a call uses; it never moves.",
    )  # fmt: skip


def _how(packed: bytes) -> str:
    """`at 2 places`, `inlined`, or both: how an image uses a symbol."""
    places = len(sites(packed))
    at = [f"at {counted(places, 'place')}"] if places or not holds(packed) else []
    return " and ".join([*at, *(["inlined"] if holds(packed) else [])])


def timeline(session: Session, target: int | str | None = None, picture: bool = True) -> View:
    """The time of each step of a cell, as a table and as a picture in which they follow each
    other.  Raises UsageError where nothing was measured.

    `picture` false leaves the picture out, where displays must not depend on times.
    """
    cell, _ = session.inspect.cell_of(target)
    times = [*cell.times, cell.ran] if cell.times else []
    if not any(times):
        raise UsageError(f"no times are known of cell {cell.number}: it was not compiled here")
    begins = list(accumulate(times, initial=0))
    total = begins.pop()
    bars = list(zip(STEPS, begins, times, strict=True))
    rows = [(step, time_text(at), time_text(spent), STEPS[step]) for step, at, spent in bars]
    rows.append(("total", "", time_text(total), ""))
    notes = []
    if cell.cached:
        notes.append(
            "Parse, verify, optimise and emit took place earlier, and so long; this time the "
            "object came from the object cache. %%llvm --fresh compiles it anew."
        )
    elif not any(times[1:5]):
        notes.append("Its object was brought along (%link): it was not compiled here.")
    if cell.paused:
        notes.append(
            f"While code was written, the program's threads waited {time_text(cell.paused)}."
        )
    if not cell.ran:
        notes.append("It has no statements: nothing ran.")
    title = f"Timeline of cell {cell.number}"
    view = table(title, ("step", "#begins at", "#takes", "what"), rows, " ".join(notes))
    if not picture:
        return view
    longest = max(range(len(times)), key=times.__getitem__)
    alt = (
        f"{title}: {time_text(total)} in all, the longest step is {list(STEPS)[longest]} "
        f"with {time_text(times[longest])}."
    )
    return View(
        f"{view.text}\n\n{_strip(bars, total)}",
        _picture(bars, total, alt) + view.html,
    )


def _strip(bars: Sequence[tuple[str, int, int]], total: int) -> str:
    """The bars in letters, one line a step."""
    width = 60
    lines = []
    for step, begin, spent in bars:
        left = " " * min(begin * width // total, width - 1)
        bar = "#" * max(round(spent * width / total), spent > 0)
        lines.append(f"{step:<8} |{left}{bar}".ljust(width + 10) + "|")
    return "\n".join(lines)


def _picture(bars: Sequence[tuple[str, int, int]], total: int, alt: str) -> str:
    """Bars that follow each other."""
    left, wide, room, high = 70, 440, 80, 24
    out = []
    for line, (step, begin, spent) in enumerate(bars):
        x, y = left + begin * wide / total, line * high
        width = max(spent * wide / total, 1.5 if spent else 0)
        out.append(label(4, y + 13, step))
        out.append(rectangle(x, y, width, 16, _BARS[step == "run"], line=INK))
        out.append(label(x + width + 6, y + 13, time_text(spent)))
    return image(out, left + wide + room, high * len(bars) - 8, alt, _BARS)
