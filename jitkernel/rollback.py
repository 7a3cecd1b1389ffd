"""Operations that are whole: an undo log of what they write, played back where they fail.

Records whose class is `Recorded`, and dictionaries and lists that are `RecordedDict` and
`RecordedList`, note what they held before each write while an `Atomic` block of the thread is
open.  Where an exception leaves the block, at whatever line and of whatever kind, everything is as
it was when the block began; this is a database's rollback journal, in memory.  What is not such a
record says itself how a step is taken back (`log_undo`), or is done only when the block has ended
(`later`).  Start from `Rollback.atomic`.

Outside such a block a write costs a look at one thread-local variable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, SupportsIndex, TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: How a step is taken back: a function and what it is called with.
Entry = tuple[Any, ...]
#: Such steps one behind the other, each followed by its length: a tuple for each would have the
#: garbage collector go through all that lives, again and again, in a long operation.
Log = list[Any]


class _Thread(threading.local):
    """The log of the block that is open on a thread, None where there is none."""

    log: Log | None = None
    owner: Rollback | None = None


_thread = _Thread()
_open: set[Rollback] = set()  # those with an open block, on whichever thread: mostly none
_GONE = object()  # what an attribute or a key held that was not there
_put = object.__setattr__
#: Gives a new record an attribute without a note: nobody knows the record yet.
set_first = object.__setattr__


def log_undo(back: Callable[..., object], *arguments: Any) -> None:
    """Log a call that takes back what is done next.  It may be made twice, and before the step."""
    if _open and (log := _thread.log) is not None:
        log += (back, *arguments, 1 + len(arguments))


def recording() -> bool:
    """True if a block is open on this thread: what a step destroys may be wanted again."""
    return _thread.log is not None


def later(do: Callable[..., object], *arguments: Any) -> None:
    """Do this once the open block has ended well; at once where none is open.

    It may be done twice where it is interrupted.
    """
    owner, log = _thread.owner, _thread.log
    if owner is None or log is None:
        do(*arguments)
    else:
        log += (_shorten, owner._later, len(owner._later), 3)
        owner._later.append((do, *arguments))


class Recorded:
    """An object whose attributes return to what they were; for classes with `__slots__`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if _open and (log := _thread.log) is not None:
            log += (_attribute_back, self, name, getattr(self, name, _GONE), 4)
        _put(self, name, value)


def _noted_whole(method: Callable[..., Any]) -> Any:
    """A method of a dictionary or a list, before which all of its content is noted."""

    @wraps(method)
    def run(self: Any, *arguments: Any) -> Any:
        if (log := _thread.log) is not None:
            log += (_content_back, self, self.copy(), 3)
        return method(self, *arguments)

    return run


class RecordedDict(dict[K, V]):
    """A dictionary whose items return to what they were; their order may change."""

    __slots__ = ()

    def __setitem__(self, key: K, value: V) -> None:
        if (log := _thread.log) is not None:
            log += (_item_back, self, key, self.get(key, _GONE), 4)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: K) -> None:
        if (log := _thread.log) is not None:
            log += (_item_back, self, key, self.get(key, _GONE), 4)
        dict.__delitem__(self, key)

    def pop(self, key: K, *default: Any) -> Any:
        if (log := _thread.log) is not None:
            log += (_item_back, self, key, self.get(key, _GONE), 4)
        return dict.pop(self, key, *default)

    popitem = _noted_whole(dict.popitem)
    clear = _noted_whole(dict.clear)

    def setdefault(self, key: K, default: Any = None) -> Any:
        if key not in self:
            if (log := _thread.log) is not None:
                log += (_item_back, self, key, _GONE, 4)
            dict.__setitem__(self, key, default)
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> RecordedDict[K, V]:  # type: ignore[override,misc]
        self.update(other)
        return self


class RecordedList(list[V]):
    """A list that returns to what it was; what is done elsewhere than at its end costs a copy."""

    __slots__ = ()

    insert = _noted_whole(list.insert)
    remove = _noted_whole(list.remove)
    clear = _noted_whole(list.clear)
    reverse = _noted_whole(list.reverse)
    __setitem__ = _noted_whole(list.__setitem__)
    __delitem__ = _noted_whole(list.__delitem__)

    def append(self, value: V) -> None:
        if (log := _thread.log) is not None:
            log += (_shorten, self, len(self), 3)
        list.append(self, value)

    def extend(self, values: Iterable[V]) -> None:
        if (log := _thread.log) is not None:
            log += (_shorten, self, len(self), 3)
        list.extend(self, values)

    def pop(self, at: SupportsIndex = -1) -> V:
        if (log := _thread.log) is not None:
            if at == -1 and self:
                log += (_end_back, self, len(self), self[-1], 4)
            else:
                log += (_content_back, self, self.copy(), 3)
        return list.pop(self, at)

    def __iadd__(self, values: Iterable[V]) -> RecordedList[V]:  # type: ignore[override,misc]
        self.extend(values)
        return self


def _attribute_back(owner: Any, name: str, value: Any) -> Any:
    if value is not _GONE:  # else the record is new, and nobody will know it
        _put(owner, name, value)
    return owner


def _item_back(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is _GONE:
        dict.pop(table, key, None)
    else:
        dict.__setitem__(table, key, value)


def _content_back(table: Any, content: Any) -> None:
    if isinstance(table, dict):
        dict.clear(table)
        dict.update(table, content)
    else:
        list.__setitem__(table, slice(None), content)


def _shorten(values: list[Any], length: int) -> None:
    list.__delitem__(values, slice(length, None))


def _end_back(values: list[Any], length: int, value: Any) -> None:
    if len(values) < length:
        list.append(values, value)


def written(log: Log) -> Iterator[tuple[Any, Any, Any]]:
    """Writes of a block, the latest first: a record and an attribute, or a table and a key, with
    what was there; a key without a value, where all of the table was noted."""
    end = len(log)
    while end:
        end -= 1 + log[end - 1]
        back, owner, *rest = log[end : end + 4]
        if back is _attribute_back or back is _item_back:
            yield owner, *rest
        elif back is _content_back and isinstance(owner, dict):
            yield from ((owner, key, _GONE) for key in rest[0])


class Rollback:
    """The atomic blocks of one session; one thread at a time has one open.

    `repair` is called with the objects that were put back, so that what is derived from them is
    made anew.  Both it and what `log_undo` was given may be interrupted and are called again then.
    """

    def __init__(self) -> None:
        self._log: Log = []
        self._blocks: list[Atomic] = []  # that are open, the innermost last
        self._later: list[Entry] = []
        self._restored: dict[int, Any] = {}  # by identity: put back and perhaps not repaired yet
        self._before: tuple[Log | None, Rollback | None] = (None, None)
        self.repairs: list[Callable[[list[Any]], object]] = []
        #: called before anything is taken back, and after
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None
        #: called with the log of a block that has ended well: see `written`
        self.kept: Callable[[Log], object] | None = None

    def atomic(self) -> Atomic:
        """A block (`with`) whose writes all stand, or none where an exception leaves it."""
        block = Atomic()
        block.owner = self
        return block

    @property
    def open(self) -> bool:
        """True if a block is open or something of one is still to be done."""
        return bool(self._blocks or self._log or self._later or self._restored)

    def recover(self) -> None:
        """Take back what a block has left that could not end, and do what one has put off.

        Nothing where everything is in order.  It may be interrupted and called again; never within
        a block.
        """
        if self._blocks or self._log or self._restored or _thread.owner is self:
            self._take_back(0)
            self._leave()
        if self._later:
            self._do_later()

    def _leave(self) -> None:
        """No block is open any more; what was noted is of no use from here on."""
        # One step, and the first: whatever comes after it, the block has ended.  What is written
        # until a thread's log is set back is noted in a list that nobody will read.
        self.__dict__.update(_log=[], _blocks=[])
        if _thread.owner is self:
            _thread.log, _thread.owner = self._before
        _open.discard(self)

    def _take_back(self, mark: int) -> None:
        log = self._log
        if len(log) <= mark and not self._restored:
            return
        _thread.log = None
        try:
            self.before()
            while len(log) > mark:
                start = len(log) - 1 - log[-1]
                back, *arguments = log[start:-1]
                found = back(*arguments)
                if found is not None:
                    self._restored[id(found)] = found
                del log[start:]
            if self._restored:
                restored = list(self._restored.values())
                for repair in self.repairs:
                    repair(restored)
                self._restored.clear()
            self.after()
        finally:
            if _thread.owner is self:
                _thread.log = log

    def _do_later(self) -> None:
        while self._later:
            do, *arguments = self._later[0]
            do(*arguments)
            del self._later[0]


class Atomic:
    """See `Rollback.atomic`."""

    __slots__ = ("mark", "owner")

    owner: Rollback
    mark: int  # how long the log was when it began

    def __enter__(self) -> None:
        owner = self.owner
        if _thread.owner is not owner or not owner._blocks:
            if owner._blocks or owner._log or owner._later or owner._restored:
                owner.recover()  # an earlier block was torn out of its end
            elif _thread.owner is owner:
                owner.recover()
            _open.add(owner)
            owner._before = (_thread.log, _thread.owner)
            _thread.owner, _thread.log = owner, owner._log
        self.mark = len(owner._log)
        owner._blocks.append(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        owner = self.owner
        blocks = owner._blocks
        if self is not (blocks[-1] if blocks else None):
            if self not in blocks:
                return  # it was taken back, and ends only now, perhaps within another one
            while blocks[-1] is not self:  # these were torn out of their end
                owner._take_back(blocks[-1].mark)
                blocks.pop()
        if kind is not None:
            owner._take_back(self.mark)
        if len(blocks) > 1:
            blocks.pop()
            return
        if owner.kept is not None:
            owner.kept(owner._log)
        owner._leave()
        if owner._later:
            owner._do_later()
