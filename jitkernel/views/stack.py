"""The stack where a cell was stopped last, or is: frames and what lies in them: `stack`.

Words are named by what the session has now; a copy of the stack up to 32 KiB is looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from jitkernel.elf.registers import KEPT, SHOWN
from jitkernel.elf.stack_maps import RSP, LocationKind
from jitkernel.errors import UsageError
from jitkernel.procfs import regions
from jitkernel.session.report.faults import in_file
from jitkernel.views.asm import describer
from jitkernel.views.view import View, join, paragraph, table
from jitkernel.wording import counted, size_text

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.report.faults import NamedFrame, StoppedCell

FRAMES, WORDS = 24, 40  # shown; of a frame with more words the ends are
#: What a call of a missing function leaves to see.
_LEFT = ("rip", "rsp", *KEPT)


def stack(session: Session) -> View:
    """Registers, frames and words of the stack where a cell was last stopped, by a fault, by an
    interrupt, by a call of what is not there, or looked at while it ran
    (`session.frontend.look_after`); where the program stands, `=>` marks the frame that is looked
    at.  Words that hold live references of a garbage collector's, by the stack map of the call that
    their frame waits in, say so: a pointer into an object with what it is derived from.

    Raises UsageError where none was.
    """
    debugger, stopped = session.inspect.debugger, session.inspect.observers.stopped
    if debugger is not None:
        stopped = debugger.stopped() or stopped
    if stopped is None:
        raise UsageError(
            "no cell has been stopped yet: a fault or an interrupt leaves its stack to look at, "
            "and %stack --after 2 looks at one that runs"
        )
    frames = stopped.frames
    name, live = _namer(session, stopped), _references(session, stopped)
    parts = [_frames(session, stopped, len(live)), _registers(stopped, name)]
    # The first frame of each run of frames of one function: endless recursion is shown once.
    distinct = [next(run) for _, run in groupby(frames, key=lambda f: f.where)]
    shown = [f for f in distinct if f.frame.stop > f.frame.start][:FRAMES]
    parts += [_words(stopped, frame, name, live) for frame in shown]
    known = len(stopped.record.stack)
    above = stopped.record.stack_top - stopped.record.sp - known
    if above > 0:
        parts.append(paragraph(f"{size_text(above)} of older frames were not copied."))
    return join(parts)


def _references(session: Session, stopped: StoppedCell) -> dict[int, str]:
    """The words that hold a reference at the call in which its frame waits, by address: what the
    stack map of that call says, which a collector goes by."""
    points = {record.address: record for record in session.stack_maps.records}
    found: dict[int, str] = {}
    for frame in (named.frame for named in stopped.frames[1:]):
        record = points.get(frame.pc)
        if record is None or not record.is_statepoint:
            continue
        for base, derived in record.statepoint.pointers:
            if derived.kind is LocationKind.INDIRECT and derived.register == RSP:
                whose = f", derived from +{base.offset:#x}" if derived != base else ""
                found[frame.start + derived.offset] = f"reference{whose}"
    return found


def _frames(session: Session, stopped: StoppedCell, references: int) -> View:
    places = session.inspect.places
    rows: list[tuple[object, ...]] = []
    number, live = 0, stopped.kind in ("running", "standing")
    debugger = session.inspect.debugger if stopped.kind == "standing" else None
    marks = debugger.marks() if debugger is not None else {}
    for _, run in groupby(stopped.frames, key=lambda f: f.where):
        same = list(run)
        first = same[0]
        frame = first.frame
        line = text = ""
        pc = frame.pc - (1 if number else 0)
        now = places.owner(pc) if first.cell else None
        if now is not None and now[0] == first.cell:  # no other code has taken its place
            found, source, _ = places.line(pc)
            line, text = (str(found), source.strip()) if found else ("", "")
        span = f"#{number}" + (f"-#{number + len(same) - 1}" if len(same) > 1 else "")
        size = frame.stop - frame.start
        how = "table" if frame.certain else "searched" if size else "end"
        if any(marks.get(one.frame.pc) == "=>" for one in same):
            span = f"=> {span}"
        rows.append((span, first.words, line, text, size or "", f"{frame.start:#x}", how))
        number += len(same)
    columns = ("frame", "where", "#line", "instruction", "#bytes", "starts at", "found by")
    title = f"Stack where a cell {'is' if live else 'was stopped'}: {stopped.message}"
    note = f"{counted(number, 'frame')}, innermost first; the stack grows downwards."
    if number >= 255:
        note += " There are more."
    if references:
        note += f" By their stack maps they hold {counted(references, 'live reference')}."
    return table(title, columns, rows, note)


def _registers(stopped: StoppedCell, name: Callable[[int], str]) -> View:
    values = {"rip": stopped.record.pc, "rsp": stopped.record.sp, **stopped.record.registers}
    rows = [
        (each, f"{values[each]:#018x}", "" if each == "eflags" else name(values[each]))
        for each in SHOWN if each in values and (stopped.kind != "stub" or each in _LEFT)
    ]  # fmt: skip
    return table("Registers", ("register", "value", "which is"), rows)


def _words(
    stopped: StoppedCell, named: NamedFrame, name: Callable[[int], str], live: Mapping[int, str]
) -> View:
    """The words of one frame, by ascending address: from the top of the stack down."""
    frame = named.frame
    saved = {address: register for register, address in frame.saved.items()}
    rows = []
    count = (frame.stop - frame.start) // 8
    for number in range(count):
        address = frame.start + 8 * number
        if count > WORDS and WORDS // 2 <= number < count - WORDS // 2:
            if number == WORDS // 2:
                rows.append(("", "", "", f"({count - WORDS} more words)"))
            continue
        data = stopped.read(address, 8)
        if data is None:
            rows.append(("", "", "", "(not copied)"))
            break
        value = int.from_bytes(data, "little")
        if address == frame.returns:
            what = f"return address: {name(value) or 'unknown code'}"
        elif address in saved or address in live:
            kind = name(value)
            holds = live.get(address) or f"saved {saved[address]}"
            what = f"{holds}: {kind}" if kind else holds
        else:
            what = name(value)
        rows.append((f"{address:#x}", f"+{address - frame.start:#x}", f"{value:#018x}", what))
    title = f"Frame of {named.words}: {frame.stop - frame.start} bytes"
    return table(title, ("address", "#offset", "word", "which is"), rows)


def _namer(session: Session, stopped: StoppedCell) -> Callable[[int], str]:
    """A function to name a word: code, variable, stack, heap, library or a small number."""
    record = stopped.record
    pid, generation = session.inspect.executor
    maps = regions(pid) if record.generation == generation else []
    lows = [region.start for region in maps]
    describe = describer(session)
    starts = [named.frame.start for named in stopped.frames]
    codes = {named.frame.pc: named.where for named in stopped.frames if named.cell}
    entries = {s.stub: s.name for s in session.inspect.program.linker.symbols.values() if s.stub}

    def name(value: int) -> str:
        if value in entries:
            return f"{session.inspect.program.called(entries[value])}, its entry"
        if value in codes:
            return codes[value]
        if value in session.inspect.engine.arena:
            return describe(value)
        if record.sp <= value < record.stack_top:
            at = bisect_right(starts, value) - 1
            return f"stack: #{at}+{value - starts[at]:#x}" if at >= 0 else "stack"
        if value < 1 << 16 or value >= (1 << 64) - (1 << 16):
            return str(value if value < 1 << 63 else value - (1 << 64))
        region = maps[max(bisect_right(lows, value) - 1, 0)] if maps else None
        if region is None or not region.start <= value < region.stop:
            return ""
        if region.name.startswith("/"):
            if stopped.kind in ("running", "standing"):  # the process has no time for questions
                return in_file(maps, value)
            return session.inspect.locate(value, record.generation) or region.name
        if region.name == "[stack]":
            return "the process's own stack"
        if "w" in region.access and (not region.name or region.name == "[heap]"):
            return "heap"
        return region.name.strip("[]")

    return name
