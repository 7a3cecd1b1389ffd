"""Variables that are watched: what each is, what it was, and where its frame ends.

Start from `Watching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jitkernel.errors import JitError, UsageError
from jitkernel.executor.watches import MOST, Access, Watch, Watches, check
from jitkernel.session.debugging import values
from jitkernel.session.debugging.records import Breakpoint
from jitkernel.session.debugging.values import Value
from jitkernel.values.datatype import number

if TYPE_CHECKING:
    from jitkernel.executor.stops import Stop
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.view import View

__all__ = ["OVER", "Watching", "Watchpoint"]

_REPLACED = "the program's process was replaced: what was watched is gone"
OVER = "its function has returned"
_RED_ZONE = 128  # psABI 3.2.2


@dataclass(slots=True)
class Watchpoint(Breakpoint):
    """A `Breakpoint` that watches: its value with its type, and the bytes that it had last.

    A variable of a frame ends with it: where the stack pointer of its `thread` is at least `stack`,
    as where the frame goes back `into` its caller.  What is not
    of the session's variables (`fixed`) stays where it was, in the process of that `generation`.
    """

    value: Value | None = field(default=None, repr=False)
    before: bytes = field(default=b"", repr=False)
    stack: int = 0
    into: int = 0
    thread: int = 0
    fixed: bool = False
    generation: int = 0

    @property
    def watched(self) -> Watch:
        """The places that the processor watches for it."""
        access: Access = "readWrite" if self.access == "readWrite" else "write"
        return Watch(self.address, self.size, access)


class Watching:
    """The watchpoints of a session's debugger: `points` gives those that are wanted, `read` memory.

    The processor watches while a call runs: from `begin` to `end`.
    """

    def __init__(
        self,
        core: Core,
        points: Callable[[], Iterable[Breakpoint]],
        read: Callable[[int, int], bytes],
    ):
        self._core, self._points, self._read = core, points, read
        self._watches = Watches()
        self._now: dict[int, Watch] = {}  # what is watched, by number

    def __iter__(self) -> Iterator[Watchpoint]:
        return (point for point in self._points() if isinstance(point, Watchpoint))

    # -- what is watched -------------------------------------------------------------------------

    def point(
        self, view: View, what: str | int, size: int, access: str, frame: int, thread: int
    ) -> Watchpoint:
        """A watchpoint for an expression in a frame of the `thread` that stands, or for an address.

        Raises UsageError where that cannot be watched.
        """
        if isinstance(what, str):
            value, name = view.value(what, frame), what.strip()
        else:
            value, name = Value(number("u8"), what), f"*{what:#x}"
            size = size or 8
        if (address := value.address) is None:
            why = value.missing.strip("<>") or "it is in a register, or computed"
            raise UsageError(f"{name} is in no memory that could be watched: {why}")
        if size and size != value.size:
            type = number(f"u{8 * size}") if size in (1, 2, 4, 8) else value.type
            value = Value(type, address)
        size = size or value.size
        executor = self._core.engine.executor
        access_known: Access = "write" if access == "write" else access  # type: ignore[assignment]
        check(Watch(address, size, access_known), executor.process)
        before = self._read(address, size)
        if len(before) != size:
            raise UsageError(f"{name} is at {address:#x}, where no memory is")
        made = Watchpoint(
            watch=name, address=address, size=size, access=access, value=value,
            before=before, verified=True, generation=executor.generation,
        )  # fmt: skip
        made.fixed = isinstance(what, int) or not self._is_global(view, what, address)
        if view.registers:
            _bind(made, view, thread, self._read)
        return made

    def _is_global(self, view: View, what: str, address: int) -> bool:
        """True if an expression means the same where no frame is."""
        try:
            return view.without_frames().value(what).address == address
        except JitError:
            return False

    def room(self, made: Watchpoint) -> None:
        """Raises UsageError where the processor has no room for one more."""
        known = {point.watched: f"{point.number} ({point.watch})" for point in self}
        if made.watched not in known and len(known) >= MOST:
            raise UsageError(
                f"the processor can watch {MOST} places at once: remove one of the watchpoints "
                + ", ".join(known.values())
            )

    # -- calls -----------------------------------------------------------------------------------

    def begin(self, view: View) -> Iterator[tuple[Watchpoint, str]]:
        """A call begins: find the session's variables where they are now, and watch.  Gives those
        that are not, and why."""
        for point in [*self]:
            why = self._renewed(point, view)
            if why:
                yield point, why
            else:
                point.verified, point.message = True, ""
        yield from self.open()

    def _renewed(self, point: Watchpoint, view: View) -> str:
        """The reason why a watchpoint has nothing to watch any more."""
        generation = self._core.engine.executor.generation
        if point.fixed:
            return "" if point.generation == generation else _REPLACED
        try:
            value = view.value(point.watch)
        except JitError as error:
            return str(error)
        if (address := value.address) is None:
            return "it is in no memory"
        if value.size != point.size:  # the size was asked for, or it has another type now
            value = Value(number(f"u{8 * point.size}"), address)
        point.value, point.address = value, address
        point.before = self._read(point.address, point.size)
        return ""

    def open(self) -> list[tuple[Watchpoint, str]]:
        """Watch what is wanted now; those that cannot be, and why."""
        wanted = {point.number: point.watched for point in self if point.verified}
        if wanted == self._now:
            return []
        self.end()
        executor = self._core.engine.executor
        stops = executor.stops
        if stops is None or not wanted:
            return []
        if stops.child is None or not stops.child.ready:
            executor.services.locate([0])  # then it is
        if (child := stops.child) is None:
            return []
        try:
            self._watches.open(sorted({*wanted.values()}), child.pid, child.program_threads)
        except UsageError as error:
            return [(point, str(error)) for point in self if point.number in wanted]
        self._now = wanted
        return []

    def end(self) -> None:
        """Nothing is watched."""
        self._watches.close()
        self._now = {}

    def drop(self, point: Watchpoint) -> None:
        """One is no longer wanted: the program may run."""
        watch = self._now.pop(point.number, None)
        if watch is not None and watch not in self._now.values():
            self._watches.drop(watch)

    # -- stops -----------------------------------------------------------------------------------

    def returns(self) -> list[int]:
        """The addresses at which frames may end whose variables are watched."""
        return [point.into for point in self if point.into]

    def ended(self, stop: Stop, view: View) -> list[Watchpoint]:
        """Those whose frames have ended, of the thread that has stopped: where something was
        written, frames are looked at one by one."""
        found = []
        for point in self:
            if point.stack and point.thread == stop.tid:
                gone = stop.registers["rsp"] >= point.stack
                if gone or (stop.why == "watch" and not _lives(point, view)):
                    found.append(point)
        return found

    def again(self, point: Watchpoint, view: View) -> Watchpoint:
        """A watchpoint of a frame, once more.  Raises UsageError where that has ended."""
        if not _lives(point, view):
            raise UsageError(f"{point.watch} is gone: {OVER}")
        return replace(point, before=self._read(point.address, point.size))

    def met(self, stop: Stop) -> list[tuple[Watchpoint, str]]:
        """Those that a stop is because of, each with what happened to it.  Of two signals for one
        instruction the system sends one: where a step has ended, what has changed counts."""
        found = []
        for point in self:
            if point.number not in self._now:
                continue
            now = self._read(point.address, point.size)
            here = stop.why == "watch" and stop.address == point.address
            if here or now != point.before:
                found.append((point, self._words(point, now)))
                point.before = now
        return found

    def unseen(self) -> list[tuple[Watchpoint, str]]:
        """Those that have changed since, and nobody was stopped for it."""
        found = []
        for point in self:
            known = point.number in self._now and not point.stack
            now = self._read(point.address, point.size) if known else b""
            if now and now != point.before:
                found.append((point, self._words(point, now)))
                point.before = now
        return found

    def written(self) -> None:
        """Whoever debugs has set something."""
        for point in self:
            point.before = self._read(point.address, point.size)

    def _words(self, point: Watchpoint, now: bytes) -> str:
        """The change of a variable: `g: 5 -> 6`."""
        old, new = self._shown(point, point.before), self._shown(point, now)
        if now != point.before:
            return f"{point.watch}: {old} -> {new}"
        how = "written again" if point.access == "write" else "read, or written again"
        return f"{point.watch}: {new}, {how}"

    def _shown(self, point: Watchpoint, data: bytes) -> str:
        value = point.value
        if value is None or len(data) < point.size:
            return values.UNREADABLE
        whole = Value(
            value.type, data=data, bits=value.bits, shift=value.shift, ir=value.ir
        )  # fmt: skip
        return values.shown(whole, self._read, self._core.places.describe)


def _bind(made: Watchpoint, view: View, thread: int, read: Callable[[int, int], bytes]) -> None:
    """Have a watchpoint end with the frame that its place is of, if it is of one."""
    live = view.live
    if not live or not view.registers["rsp"] - _RED_ZONE <= made.address:
        return
    index = next((i for i, f in enumerate(live) if made.address < f.frame.stop), None)
    if index is None:
        return
    made.thread, made.stack, made.fixed = thread, live[index].frame.stop, True
    word = read(made.stack - 8, 8)  # the return address, psABI 3.2.2
    made.into = int.from_bytes(word, "little")


def _lives(point: Watchpoint, view: View) -> bool:
    """True if a frame is there yet, as far as frames are known."""
    stops = [live.frame.stop for live in view.live]
    return point.stack in stops or max(stops, default=0) < point.stack
