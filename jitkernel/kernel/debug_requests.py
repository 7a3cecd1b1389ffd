"""What an answer to a debugger's request is made of, and how it gets at the session.

Start from `Request`, of which each part of the adapter has a table, and `Link`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jitkernel.errors import UsageError
from jitkernel.kernel.debug_arguments import Arguments

if TYPE_CHECKING:
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.session import Session

__all__ = ["LAB", "Body", "Link", "Request", "Table"]

T = TypeVar("T")
Body: TypeAlias = dict[str, Any]
LAB = "jupyterlab"  # what JupyterLab and Notebook 7 call themselves


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is answered: what does it, the capabilities that a client is told because of
    it, and the body for one that does not look whether its request failed."""

    do: Callable[[Arguments], Body | Awaitable[Body]]
    able: tuple[str, ...] = ()
    nothing: Body = field(default_factory=dict)


Table: TypeAlias = Mapping[str, Request]


class Link:
    """The session's debugger, for the control thread.  `debugger` is None while it is off, `client`
    what the front end calls itself."""

    def __init__(self, session: Callable[[], Session]):
        self.session = session
        self.debugger: Debugger | None = None
        self.client = ""
        self._turn = asyncio.Lock()  # the session is asked in the order in which requests came

    @property
    def live(self) -> Debugger:
        """The debugger that is on.  Raises UsageError."""
        if self.debugger is None:
            raise UsageError("the debugger is not on: initialize comes first")
        return self.debugger

    async def ask(self, job: Callable[[Debugger], T]) -> T:
        """The result of a job that needs the session.  Raises UsageError where the debugger is
        off."""
        return await self._told_by(self.live, job)

    async def ask_any(self, job: Callable[[Debugger], T]) -> T:
        """The same; the debugger need not be on."""
        return await self._told_by(await self.any(), job)

    async def _told_by(self, debugger: Debugger, job: Callable[[Debugger], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(debugger.ask, lambda: job(debugger))

    async def any(self) -> Debugger:
        """The session's debugger, which need not be on."""
        if self.debugger is not None:
            return self.debugger
        return await asyncio.to_thread(lambda: self.session().debugger)
