"""The session gets ready while Jupyter does.

The compiler worker is started before any Jupyter library is imported.  The session's own modules
are imported, and the executor is started, by a thread that begins when the kernel's sockets are
open: from then on the client is busy connecting, and this process would wait for it.  Whoever needs
the session waits for that thread.  Start from `EarlySession`.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.compiler.worker_process import WorkerProcess
    from jitkernel.languages import Language
    from jitkernel.session import Session

# Two threads that import modules of one package in different orders wait for each other, and Python
# then gives one of them a module that is not whole: an ImportError, for good.
_importing = threading.Lock()

# With one of these the application prints something and ends: nothing is to be started.
_ENDS = ("--help", "--help-all", "-h", "--version", "--generate-config", "--show-config")


class EarlySession:
    """A session on its way; `argv` are the kernel's arguments.

    First the worker alone; `begin` the rest, in a thread; `get` waits for it.
    """

    def __init__(self, argv: Sequence[str] = ()) -> None:
        self._worker: WorkerProcess | None = None
        self._thread: threading.Thread | None = None
        self._session: Session | None = None
        self._error: BaseException | None = None
        if not any(argument.startswith(_ENDS) for argument in argv):
            from jitkernel.compiler.worker_process import first_worker

            # What it runs into is met again, and told, by the first cell.
            with contextlib.suppress(Exception):
                self._worker = first_worker()

    def begin(self, settings: dict[str, Any]) -> None:
        """Start what is left to start; returns at once."""
        self._thread = threading.Thread(
            target=self._make, args=(settings,), name="jitkernel-start", daemon=True
        )
        self._thread.start()

    def get(self) -> Session:
        """The session; waits for it.  Raises what its start ran into."""
        if self._thread is not None:
            self._thread.join()
        if self._session is None:
            raise self._error or RuntimeError("the session was not begun")
        return self._session

    def adopt(self, session: Session) -> None:
        """It is another session now, which took the place of the one that was begun."""
        self._session = session

    def close(self) -> None:
        """End every process of it."""
        if self._thread is not None:
            self._thread.join()
        if self._session is not None:
            self._session.close()
        elif self._worker is not None:
            from jitkernel.compiler.worker_process import close_first

            close_first(self._worker)

    def _make(self, settings: dict[str, Any]) -> None:
        try:
            with _importing:  # the answer to kernel_info waits for no more than this
                importlib.import_module("jitkernel.languages")
            from jitkernel.session import Session

            self._session = Session(worker=self._worker, **with_file(settings))
        except BaseException as error:
            self._error = error
            return
        with contextlib.suppress(Exception):  # met again, and told, by the first cell
            self._session.frontend.core.engine.executor.start()


def with_file(settings: dict[str, Any]) -> dict[str, Any]:
    """A session's settings, with the notebook's own file where it is saved to none other."""
    if settings["autosave"] and not settings["store_path"]:
        from jitkernel.kernel.last_session import prepare

        settings["store_path"] = prepare()
    return settings


def find_language(name: str) -> Language:
    """A language, whether or not the session's thread is importing them.  Raises UsageError."""
    with _importing:
        from jitkernel.languages import find

        return find(name)
