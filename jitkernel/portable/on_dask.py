"""Functions on Dask distributed: the code goes to each process once, and not with each task.

A client sends its tasks' function to the scheduler once, with its code.  The scheduler sends it on
with every task; there the name of the content is enough, for the scheduler has it, and a worker
asks for it when it first needs it.  All else has the code with it: nobody waits for a client's own
function, which may be gone by then.  Start from `is_sent_by_scheduler` and `fetch`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from jitkernel.errors import JitError
from jitkernel.ir.names import written
from jitkernel.portable.content import Content, contents

__all__ = ["fetch", "is_message", "is_sent_by_scheduler", "keep"]

_PICKLE, _MESSAGE = "distributed.protocol.pickle", "distributed.protocol.core"
_KEPT = 64 << 20  # bytes of contents that a scheduler keeps, whoever else still has them
_lock = threading.Lock()
_kept: WeakKeyDictionary[Any, OrderedDict[str, Content]] = WeakKeyDictionary()


def _schedulers() -> list[Any]:
    """The schedulers of this process."""
    scheduler = sys.modules.get("distributed.scheduler")
    return list(getattr(getattr(scheduler, "Scheduler", None), "_instances", ()))


def _pickler(caller: FrameType | None) -> FrameType | None:
    """Dask's function that pickles, where that is who asks for a pickle."""
    while caller is not None and caller.f_globals.get("__name__", "").startswith("cloudpickle"):
        caller = caller.f_back
    return caller if caller is not None and caller.f_globals.get("__name__") == _PICKLE else None


def is_message(caller: FrameType | None) -> bool:
    """Whether a pickle is part of a message of Dask's.  One that cannot be written ends the
    connection, and so the workers, one after the other."""
    return _pickler(caller) is not None


def is_sent_by_scheduler(caller: FrameType | None, digest: str) -> bool:
    """Whether a pickle is a task that a scheduler of this process sends to a worker.

    The task is the scheduler's while the worker has it, and with it the content.  What a client in
    the same process sends is not: the graph, data and results are pickled before they are messages.
    """
    if digest not in contents or not _schedulers():
        return False
    pickler = _pickler(caller)
    sender = pickler.f_back if pickler is not None else None
    return sender is not None and sender.f_globals.get("__name__") == _MESSAGE


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
        import distributed
    except ImportError:
        raise JitError(f"{written(name)} has come without its code") from None
    try:
        if _in_event_loop():  # where a result is sent whose code nobody has needed
            with ThreadPoolExecutor(1) as aside:
                data = aside.submit(_ask_aside, digest).result()
        else:
            with _lock:  # whoever holds it may wait for this process's event loop
                client: Any = distributed.get_client()
                data = client.run_on_scheduler(content_here, digest)
    except (ValueError, OSError, RuntimeError) as error:
        raise JitError(f"the code of {written(name)} could not be had: {error}") from None
    if not isinstance(data, bytes) or not data:
        raise JitError(f"the scheduler has not got the code of {written(name)} any more")
    return data


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _ask_aside(digest: str) -> Any:
    """Ask with a client that has an event loop of its own, while this process's waits."""
    import distributed

    worker = next(iter(distributed.Worker._instances), None)
    if worker is None:
        raise ValueError("this process has no worker")
    make: Any = distributed.Client
    with make(worker.scheduler.address, security=worker.security, set_as_default=False) as client:
        return client.run_on_scheduler(content_here, digest)
