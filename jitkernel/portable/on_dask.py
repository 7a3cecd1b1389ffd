"""Functions on Dask distributed: the code goes to each process once, and not with each task.

A client sends its tasks' function to the scheduler once, with its code.  The scheduler sends it on
with every task; there the name of the content is enough, for the scheduler has it, and a worker
asks for it when it first needs it.  All else has the code with it: nobody waits for a client's own
function, which may be gone by then.

Which functions are a scheduler's tasks' a plugin tells it (`SchedulerPlugin.update_graph`, called
with each graph before any of it is sent): it looks for those that have just arrived.  One that it
does not find goes with its code, as everywhere.  Start from `arrived` and `fetch`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from jitkernel.errors import JitError
from jitkernel.ir.names import written
from jitkernel.portable.content import Content, contents

if TYPE_CHECKING:
    from jitkernel.portable.travelling import PortableFunction

_PLUGIN = "jitkernel"
_GRAPHS = 4  # in which a function that has arrived is looked for
_KEPT = 64 << 20  # bytes of contents that a scheduler keeps, whoever else still has them
_kept: WeakKeyDictionary[Any, OrderedDict[str, Content]] = WeakKeyDictionary()
_new: deque[tuple[ref[PortableFunction], int]] = deque(maxlen=4096)  # and the graphs to look in
_new_lock = threading.Lock()


def _schedulers() -> list[Any]:
    """The schedulers of this process."""
    scheduler = sys.modules.get("distributed.scheduler")
    return list(getattr(getattr(scheduler, "Scheduler", None), "_instances", ()))


def arrived(function: PortableFunction, content: Content) -> None:
    """A function has come with its code to this process, where schedulers may be: perhaps it is
    their tasks', perhaps a client's that is here too."""
    schedulers = _schedulers()
    if not schedulers:
        return
    keep(content)
    with _new_lock:
        _new.append((ref(function), _GRAPHS))
    for scheduler in schedulers:
        scheduler.add_plugin(_plugin(), idempotent=True, name=_PLUGIN)


@cache
def _plugin() -> Any:
    from distributed import SchedulerPlugin

    class Marking(SchedulerPlugin):
        """Says to the functions in tasks that they are."""

        def update_graph(self, scheduler: Any, *, tasks: Iterable[Any] = (), **more: Any) -> None:
            # Workers in the scheduler's own process get the very functions of the tasks.
            if _new and not str(scheduler.address).startswith("inproc"):
                mark(scheduler.tasks[key].run_spec for key in tasks if key in scheduler.tasks)

    return Marking()


def mark(tasks: Iterable[object]) -> None:
    """Let functions that have just arrived and that are parts of tasks pickle as their names."""
    with _new_lock:
        new = list(_new)
        _new.clear()
    waiting = {id(f): f for f in (found() for found, _ in new) if f is not None}
    for task in tasks if waiting else ():
        for function in _functions_in(task, set(map(type, waiting.values()))):
            if waiting.pop(id(function), None) is not None:
                function.is_named = True
        if not waiting:
            break
    with _new_lock:
        _new.extend((f, left - 1) for f, left in new if id(f()) in waiting and left > 1)


def _functions_in(thing: object, kinds: set[type]) -> list[PortableFunction]:
    """Those that a pickle of a thing would have: objects of these classes."""
    finder = _finder_class()(_Nowhere(), protocol=5, buffer_callback=lambda buffer: None)
    finder.kinds = kinds
    try:
        finder.dump(thing)
    except Exception:  # what cannot be pickled is not sent
        return []
    found: list[PortableFunction] = finder.found
    return found


@cache
def _finder_class() -> Any:
    import cloudpickle

    class Finder(cloudpickle.Pickler):  # type: ignore[misc]
        """Pickles to nowhere, and knows then which functions there were."""

        def __init__(self, *arguments: Any, **named: Any):
            super().__init__(*arguments, **named)
            self.kinds: set[type] = set()
            self.found: list[Any] = []

        def persistent_id(self, part: object) -> object:
            if type(part) in self.kinds:
                self.found.append(part)
                return len(self.found)
            return None

    return Finder


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)


def may_be_message() -> bool:
    """True if what this thread pickles may be a message of a worker's or a scheduler's: one that
    cannot be written ends the connection, and so the workers, one after the other.  A task's own
    pickles are none."""
    import distributed

    try:
        distributed.get_worker()
    except ValueError:
        return bool(_schedulers() or distributed.Worker._instances)
    return False


def keep(content: Content) -> None:
    """Let the schedulers of this process keep a content that has arrived: a worker that has got a
    function's name alone may hand it on after the task is gone."""
    for scheduler in _schedulers():
        kept = _kept.setdefault(scheduler, OrderedDict())
        kept[content.digest] = content
        kept.move_to_end(content.digest)
        size = sum(len(c.encoded) for c in kept.values())
        while size > _KEPT and len(kept) > 1:
            size -= len(kept.popitem(last=False)[1].encoded)


def content_here(digest: str) -> bytes:
    """The content that this process, a scheduler's, has; empty where it has none."""
    found = contents.get(digest)
    return found.encoded if found is not None else b""


def fetch(digest: str, name: str) -> bytes:
    """The content of a function that has come to a worker by name.  Raises JitError."""
    try:
        import distributed  # noqa: F401 (it may have come by another way)
    except ImportError:
        raise JitError(f"{written(name)} has come without its code") from None
    try:
        # Asked with a client that has an event loop of its own: where a result is sent whose code
        # nobody has needed, this process's waits meanwhile.
        here = _here()
        with ThreadPoolExecutor(1) as aside:
            data = aside.submit(_ask, here.scheduler.address, here.security, digest).result()
    except (ValueError, OSError, RuntimeError) as error:
        raise JitError(f"the code of {written(name)} could not be had: {error}") from None
    if not isinstance(data, bytes) or not data:
        raise JitError(f"the scheduler has not got the code of {written(name)} any more")
    return data


def _here() -> Any:
    """The worker of the task that asks; outside of tasks one of this process's, or its client."""
    import distributed

    with contextlib.suppress(ValueError):
        return distributed.get_worker()
    return next(iter(distributed.Worker._instances), None) or distributed.get_client()


def _ask(scheduler: str, security: Any, digest: str) -> Any:
    from distributed import Client

    make: Any = Client
    with make(scheduler, security=security, set_as_default=False) as client:
        return client.run_on_scheduler(content_here, digest)
