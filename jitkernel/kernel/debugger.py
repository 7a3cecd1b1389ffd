"""Jupyter's debugger protocol: the Debug Adapter Protocol on the control channel, with cells for
files (jupyter-client's "Messaging", *debug_request*; ipykernel adds `debugInfo`, `dumpCell`,
`inspectVariables`, `richInspectVariables`, `copyToGlobals`).

What requests mean is `Session.debugger`'s business.  Which there are is told by three tables: of
what begins, ends and goes on, here; of breakpoints (`debug_points.py`); of what is looked at
(`debug_looks.py`).  Start from `Adapter.answer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from jitkernel.errors import JitError, UsageError
from jitkernel.kernel.cell_files import PREFIX, SEED, CellFiles
from jitkernel.kernel.debug_arguments import Arguments
from jitkernel.kernel.debug_events import DebugEvents
from jitkernel.kernel.debug_looks import Looks
from jitkernel.kernel.debug_points import FILTERS, Points
from jitkernel.kernel.debug_requests import LAB, Body, Link, Request, Table

if TYPE_CHECKING:
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.debugging.records import Event, Motion, Stopped
    from jitkernel.session.debugging.wholes import Wholes
    from jitkernel.session.session import Session

__all__ = ["Adapter"]

_GOES: dict[str, Motion] = {
    "continue": "continue", "next": "next", "stepIn": "step_in", "stepOut": "step_out",
}  # fmt: skip
_CAUSES = {*_GOES, "pause"}  # what events tell the effects of


class Adapter:
    """The debugger of a kernel's session, as a front end sees it.

    `suffix` is what the names of cells' files end with, `send` publishes an event, `interrupt` ends
    the cell that runs.  For `command` see `Looks`.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        suffix: Callable[[], str],
        send: Callable[[Body], object],
        interrupt: Callable[[], object] = lambda: None,
        command: Callable[[str, int], str | None] = lambda text, frame: None,
    ):
        self._interrupt = interrupt
        self._link, self._cells, self._events = Link(session), CellFiles(suffix), DebugEvents(send)
        self._before: Callable[[Event], object] | None = None  # who listened before
        self._thread = 0  # the one that stands, as far as the client knows
        self._asked = False  # the client has let the program go on
        self._looks = Looks(self._link, self._cells, command)
        self._points = Points(self._link, self._cells, self._looks.frame_of)
        life: Table = {
            "debugInfo": Request(self._info),
            "initialize": Request(self._initialize),
            "attach": Request(self._attach),
            "launch": Request(self._attach),
            "configurationDone": Request(
                self._nothing_to_do, ("supportsConfigurationDoneRequest",)
            ),
            "disconnect": Request(self._disconnect, ("supportTerminateDebuggee",)),
            "terminate": Request(self._terminate, ("supportsTerminateRequest",)),
            "dumpCell": Request(self._dump),
            **{
                name: Request(partial(self._go, name), ("supportsSteppingGranularity",))
                for name in _GOES
            },
            "pause": Request(self._pause),
        }
        self._table: Table = {**life, **self._points.table, **self._looks.table}

    @property
    def wholes(self) -> Wholes:
        """The texts of cells that have run."""
        return self._cells.wholes

    def runs(self, text: str) -> None:
        """A cell is about to run."""
        self.wholes.runs(text)

    # -- messages ------------------------------------------------------------------------------

    async def answer(self, request: object) -> Body:
        """The reply to a request, whatever that is, never an exception; `answered` is to be told
        when it has been sent.  On the control thread's loop, which goes on while the session is
        asked."""
        asked = request if isinstance(request, Mapping) else {}
        command = str(asked.get("command", ""))
        seq = asked.get("seq", 0)
        reply: Body = {
            "type": "response", "request_seq": seq if isinstance(seq, int) else 0,
            "command": command, "success": True,
        }  # fmt: skip
        known = self._table.get(command)
        try:
            if known is None:
                words = ", ".join(sorted(self._table))
                raise UsageError(f"'{command}' is not supported; these requests are: {words}")
            given = asked.get("arguments")
            body = known.do(Arguments({} if given is None else given, command))
            reply["body"] = body if isinstance(body, dict) else await body
        except Exception as error:
            if not isinstance(error, JitError):
                logging.getLogger("jitkernel").exception("debug_request %s", command)
            words = str(error) or type(error).__name__
            reply.update(success=False, message=words, body=dict(known.nothing) if known else {})
        reply["seq"] = self._events.number()
        return reply

    def answered(self, reply: Body) -> None:
        """A reply is on its way to the client: so may be what came of it."""
        if reply["success"] and reply["command"] in _CAUSES:
            self._events.answered()

    def _told(self, event: Event) -> None:
        """The debugger says something, in the thread that waits for the call."""
        match event.kind:
            case "stopped" if event.stopped is not None:
                self._stands(event.stopped)
            case "continued" if not self._asked:
                self._continued()
            case "output":
                self._events.event("output", {"category": "console", "output": event.text})
            case "breakpoint" if (point := event.breakpoint) is not None:
                changed = {"reason": "changed", "breakpoint": self._points.body(point)}
                self._events.event("breakpoint", changed)
            case "ended":
                self._continued()

    def _stands(self, stop: Stopped) -> None:
        body: Body = {"reason": stop.reason, "threadId": stop.thread, "allThreadsStopped": True}
        if stop.text:
            body["text"] = body["description"] = stop.text
        if stop.breakpoints:
            body["hitBreakpointIds"] = list(stop.breakpoints)
        self._thread = stop.thread
        self._looks.stopped()
        self._events.event("stopped", body)

    def _continued(self) -> None:
        """Nothing stands any more, which the client does not know yet."""
        if self._thread:
            body = {"threadId": self._thread, "allThreadsContinued": True}
            self._thread = 0
            self._events.event("continued", body)

    # -- life ----------------------------------------------------------------------------------

    def _info(self, _: Arguments) -> Body:
        debugger = self._link.debugger
        stop = debugger.stop if debugger is not None else None
        return {
            "isStarted": debugger is not None,
            "hashMethod": "Murmur2", "hashSeed": SEED,
            "tmpFilePrefix": PREFIX, "tmpFileSuffix": self._cells.suffix,
            "breakpoints": self._points.told(),
            "stoppedThreads": [stop.thread] if stop is not None else [],
            "richRendering": True, "exceptionPaths": [], "copyToGlobals": False,
        }  # fmt: skip

    async def _initialize(self, arguments: Arguments) -> Body:
        debugger = await self._link.any()
        await asyncio.to_thread(self._begin, debugger)
        self._link.client = arguments.text("clientID", "")
        self._cells.begin(refers=self._link.client != LAB)
        able = {name: True for request in self._table.values() for name in request.able}
        return {**able, **FILTERS}

    def _begin(self, debugger: Debugger) -> None:
        if self._link.debugger is None:
            self._before = debugger.listener if debugger.on and debugger.heard else None
        debugger.start()
        debugger.listener, debugger.whole = self._told, self.wholes.whole
        self._link.debugger = debugger

    def session_changed(self, session: Session) -> None:
        """The kernel goes on with another session: so do the breakpoints."""
        if (old := self._link.debugger) is None:
            return
        self._begin(session.debugger)
        renamed = {}
        for point in old.breakpoints:
            with contextlib.suppress(UsageError):  # what it watches is not in this session
                renamed[point.number] = self._link.live.add(point).number
        self._points.renamed(renamed)

    def _attach(self, _: Arguments) -> Body:
        self._events.event("initialized", {})
        return {}

    def _nothing_to_do(self, _: Arguments) -> Body:
        return {}

    def _dump(self, arguments: Arguments) -> Body:
        return {"sourcePath": self._cells.dump(arguments.text("code"))}

    async def _disconnect(self, arguments: Arguments) -> Body:
        return await self._close(ends=arguments.flag("terminateDebuggee"))

    async def _terminate(self, _: Arguments) -> Body:
        return await self._close(ends=True)

    async def _close(self, ends: bool) -> Body:
        """The debugger goes off.  What stands goes on, or ends."""
        debugger = self._link.debugger
        if debugger is not None:
            if ends and debugger.stop is not None:
                self._interrupt()
            await self._link.ask(self._leave)
            self._link.debugger = None
            self._points.forget()
            self._events.event("terminated", {})
        return {}

    def _leave(self, debugger: Debugger) -> None:
        """The front end listens no more: whoever did before it does again, if somebody did."""
        if self._before is None:
            debugger.close()
            return
        debugger.listener = self._before
        if debugger.stop is not None:
            debugger.go()

    # -- going on ------------------------------------------------------------------------------

    async def _go(self, command: str, arguments: Arguments) -> Body:
        motion = _GOES[command]
        if arguments.text("granularity", "") == "instruction" and motion != "continue":
            motion = "instruction"

        thread = arguments.number("threadId", 0)

        def go(live: Debugger) -> None:
            if live.stop is not None and thread in dict(live.threads()):
                live.choose(thread)
            with self._events.answered_first():
                self._asked = True
                try:
                    live.go(motion)
                finally:
                    self._asked = False
                if motion == "continue":
                    self._thread = 0

        await self._link.ask(go)
        return {"allThreadsContinued": True} if command == "continue" else {}

    def _pause(self, _: Arguments) -> Body:
        with self._events.answered_first():
            self._link.live.pause()
        return {}
