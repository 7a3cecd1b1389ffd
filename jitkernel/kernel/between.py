"""What happens while no cell runs: threads of the program are served, and what was put off is done.

Start from `Between`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

from jitkernel.kernel.frontend import Frontend

IDLE_AFTER = 0.5  # seconds


class Between:
    """The time between two cells of one kernel; `lock` is held while a cell runs.

    Does nothing on the threads of subshells, which have loops of their own.
    """

    def __init__(self, frontend: Frontend, lock: threading.Lock, log: logging.Logger):
        self._frontend, self._lock, self._log = frontend, lock, log
        self._watched: list[int] = []

    def begin(self) -> None:
        """While no cell runs, what threads of the program print is published, and they get code."""
        if threading.current_thread() is not threading.main_thread():
            return
        with contextlib.suppress(Exception):
            loop = asyncio.get_running_loop()
            for fd in self._frontend.session.frontend.output_fds():
                loop.add_reader(fd, self._drain)
                self._watched.append(fd)
            loop.call_later(IDLE_AFTER, self._idle, self._frontend.runs)

    def end(self) -> None:
        """A cell is about to run, and serves them itself."""
        if threading.current_thread() is not threading.main_thread():
            return
        with contextlib.suppress(Exception):
            loop = asyncio.get_running_loop()
            for fd in self._watched:
                loop.remove_reader(fd)
        self._watched.clear()

    def _idle(self, run: int) -> None:
        """Nothing has run since: what the session put off is done now."""
        if self._frontend.runs == run and self._lock.acquire(blocking=False):
            try:
                self._frontend.session.frontend.idle()
            except Exception:
                self._log.debug("idle", exc_info=True)
            finally:
                self._lock.release()

    def _drain(self) -> None:
        """A thread of the program has printed something, or calls code that is not in memory."""
        try:
            self._frontend.session.frontend.drain(self._frontend)
            open_still = self._frontend.session.frontend.output_fds()
        except Exception:
            self._log.debug("between cells", exc_info=True)
            open_still = []
        loop = asyncio.get_running_loop()
        for fd in set(self._watched).difference(open_still):
            loop.remove_reader(fd)
            self._watched.remove(fd)
