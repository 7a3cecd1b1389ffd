"""Jupyter's debugger protocol: the Debug Adapter Protocol on the control channel, with cells for
files (jupyter-client's "Messaging", *debug_request*; ipykernel adds `debugInfo`, `dumpCell`,
`inspectVariables`, `richInspectVariables`, `copyToGlobals`).

What requests mean is `Session.debugger`'s business.  Start from `Adapter.answer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from jitkernel.errors import JitError, UsageError
from jitkernel.kernel.cell_files import PREFIX, SEED, CellFiles
from jitkernel.kernel.debug_arguments import Arguments
from jitkernel.kernel.debug_commands import COMMANDS
from jitkernel.kernel.debug_events import DebugEvents

if TYPE_CHECKING:
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.debugging.records import Breakpoint, Event, Frame, Motion, Variable
    from jitkernel.session.debugging.wholes import Wholes
    from jitkernel.session.session import Session

__all__ = ["Adapter"]

T = TypeVar("T")
Body = dict[str, Any]
Handler = Callable[[Arguments], Body | Awaitable[Body]]
_LAB = "jupyterlab"
_FAULTS = "faults"
_GOES: dict[str, Motion] = {
    "continue": "continue", "next": "next", "stepIn": "step_in", "stepOut": "step_out",
}  # fmt: skip
_FRAMES = 1000  # more than a stack has
_CAUSES = {*_GOES, "pause"}  # what events tell the effects of
_ABLE = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsEvaluateForHovers": True,
    "supportsSetVariable": True,
    "supportsLogPoints": True,
    "supportsReadMemoryRequest": True,
    "supportsDisassembleRequest": True,
    "supportsInstructionBreakpoints": True,
    "supportsDataBreakpoints": True,
    "supportsSteppingGranularity": True,
    "supportsTerminateRequest": True,
    "supportTerminateDebuggee": True,
    "exceptionBreakpointFilters": [
        {"filter": _FAULTS, "label": "Faults (segmentation fault, division by zero, ...)",
         "default": False}
    ],
}  # fmt: skip
# What a client that does not look whether a request failed reads from its answer.
_NOTHING: dict[str, Body] = {
    "setBreakpoints": {"breakpoints": []},
    "stackTrace": {"stackFrames": [], "totalFrames": 0},
    "scopes": {"scopes": []},
    "variables": {"variables": []},
    "inspectVariables": {"variables": []},
    "threads": {"threads": []},
}


class Adapter:
    """The debugger of a kernel's session, as a front end sees it.

    `suffix` is what the names of cells' files end with, `send` publishes an event, `interrupt` ends
    the cell that runs.  `command` does what a line such as `%break 3` says in a frame of what
    stands (None where nothing does), and gives what it shows.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        suffix: Callable[[], str],
        send: Callable[[Body], object],
        interrupt: Callable[[], object] = lambda: None,
        command: Callable[[str, Frame | None], str] | None = None,
    ):
        self._session, self._interrupt, self._command = session, interrupt, command
        self._cells, self._events = CellFiles(suffix), DebugEvents(send)
        self._debugger: Debugger | None = None
        self._before: Callable[[Event], object] | None = None  # who listened before
        self._client = ""
        self._thread = 0  # the one that stands, as far as the client knows
        self._frames_of = range(0)  # the series of numbers that the frames of this stop have had
        self._asked = False  # the client has let the program go on
        self._functions: list[int] = []  # the numbers of breakpoints in functions
        self._addresses: list[int] = []
        self._watches: list[int] = []
        self._watchable: dict[str, Breakpoint] = {}  # what can be watched, by its dataId
        self._turn = asyncio.Lock()  # the session is asked in the order in which requests came

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
        try:
            handler = self._handler(command)
            body = handler(Arguments(_or_none(asked.get("arguments")), command))
            reply["body"] = body if isinstance(body, dict) else await body
        except Exception as error:
            if not isinstance(error, JitError):
                logging.getLogger("jitkernel").exception("debug_request %s", command)
            words = str(error) or type(error).__name__
            reply.update(success=False, message=words, body=dict(_NOTHING.get(command, {})))
        reply["seq"] = self._events.number()
        return reply

    def answered(self, reply: Body) -> None:
        """A reply is on its way to the client: so may be what came of it."""
        if reply["success"] and reply["command"] in _CAUSES:
            self._events.answered()

    def _handler(self, command: str) -> Handler:
        handler: Handler | None = getattr(self, f"_do_{command}", None)
        if handler is None:
            known = ", ".join(name[4:] for name in dir(self) if name.startswith("_do_"))
            raise UsageError(f"'{command}' is not supported; these requests are: {known}")
        return handler

    def _told(self, event: Event) -> None:
        """The debugger says something, in the thread that waits for the call."""
        match event.kind:
            case "stopped" if (stop := event.stopped) is not None:
                body: Body = {
                    "reason": stop.reason, "threadId": stop.thread, "allThreadsStopped": True,
                }  # fmt: skip
                if stop.text:
                    body["text"] = body["description"] = stop.text
                if stop.breakpoints:
                    body["hitBreakpointIds"] = list(stop.breakpoints)
                self._thread = stop.thread
                self._frames_of = range(self._frames_of.stop, self._frames_of.stop + 1)
                self._events.event("stopped", body)
            case "continued" if not self._asked:
                self._continued()
            case "output":
                self._events.event("output", {"category": "console", "output": event.text})
            case "breakpoint" if (point := event.breakpoint) is not None:
                changed = {"reason": "changed", "breakpoint": self._point(point)}
                self._events.event("breakpoint", changed)
            case "ended":
                self._continued()

    def _continued(self) -> None:
        """Nothing stands any more, which the client does not know yet."""
        if self._thread:
            body = {"threadId": self._thread, "allThreadsContinued": True}
            self._thread = 0
            self._events.event("continued", body)

    @property
    def _live(self) -> Debugger:
        if self._debugger is None:
            raise UsageError("the debugger is not on: initialize comes first")
        return self._debugger

    async def _ask(self, job: Callable[[Debugger], T]) -> T:
        """The result of a job that needs the session."""
        return await self._told_by(self._live, job)

    async def _told_by(self, debugger: Debugger, job: Callable[[Debugger], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(debugger.ask, lambda: job(debugger))

    async def _any(self) -> Debugger:
        """The session's debugger, which need not be on."""
        if self._debugger is not None:
            return self._debugger
        return await asyncio.to_thread(lambda: self._session().debugger)

    # -- life ----------------------------------------------------------------------------------

    def _do_debugInfo(self, _: Arguments) -> Body:
        debugger = self._debugger
        points: dict[str, list[Body]] = {}
        for point in debugger.breakpoints if debugger is not None else ():
            if point.source:
                points.setdefault(self._cells.path(point.source), []).append({"line": point.line})
        stop = debugger.stop if debugger is not None else None
        return {
            "isStarted": debugger is not None,
            "hashMethod": "Murmur2", "hashSeed": SEED,
            "tmpFilePrefix": PREFIX, "tmpFileSuffix": self._cells.suffix,
            "breakpoints": [{"source": path, "breakpoints": p} for path, p in points.items()],
            "stoppedThreads": [stop.thread] if stop is not None else [],
            "richRendering": True, "exceptionPaths": [], "copyToGlobals": False,
        }  # fmt: skip

    async def _do_initialize(self, arguments: Arguments) -> Body:
        debugger = await self._any()
        await asyncio.to_thread(self._begin, debugger)
        self._client = arguments.text("clientID", "")
        return dict(_ABLE)

    def _begin(self, debugger: Debugger) -> None:
        if self._debugger is None:
            self._before = debugger.listener if debugger.on and debugger.heard else None
        debugger.start()
        debugger.listener, debugger.whole = self._told, self.wholes.whole
        self._debugger = debugger

    def session_changed(self, session: Session) -> None:
        """The kernel goes on with another session: so do the breakpoints."""
        if (old := self._debugger) is None:
            return
        self._begin(session.debugger)
        renamed = {}
        for point in old.breakpoints:
            with contextlib.suppress(UsageError):  # what it watches is not in this session
                renamed[point.number] = self._live.add(point).number
        for numbers in (self._functions, self._addresses, self._watches):
            numbers[:] = [renamed[number] for number in numbers if number in renamed]

    def _do_attach(self, _: Arguments) -> Body:
        self._events.event("initialized", {})
        return {}

    _do_launch = _do_attach

    def _do_configurationDone(self, _: Arguments) -> Body:
        return {}

    async def _do_disconnect(self, arguments: Arguments) -> Body:
        return await self._close(ends=arguments.flag("terminateDebuggee"))

    async def _do_terminate(self, _: Arguments) -> Body:
        return await self._close(ends=True)

    async def _close(self, ends: bool) -> Body:
        """The debugger goes off.  What stands goes on, or ends."""
        debugger = self._debugger
        if debugger is not None:
            if ends and debugger.stop is not None:
                self._interrupt()
            await self._ask(self._leave)
            self._debugger = None
            self._functions, self._addresses, self._watches = [], [], []
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

    # -- breakpoints ---------------------------------------------------------------------------

    def _do_dumpCell(self, arguments: Arguments) -> Body:
        return {"sourcePath": self._cells.path(arguments.text("code"))}

    def _do_source(self, arguments: Arguments) -> Body:
        within = arguments.within("source") if "source" in arguments.given else arguments
        return {"content": self._cells.text(within.text("path"))}

    async def _do_setBreakpoints(self, arguments: Arguments) -> Body:
        text = self._cells.text(arguments.within("source").text("path"))
        given = arguments.each("breakpoints", absent=True)
        wanted = [_wanted(one, line=one.number("line")) for one in given]
        found = await self._ask(lambda live: live.set_breakpoints(text, wanted))
        return {"breakpoints": [self._point(point) for point in found]}

    async def _do_setFunctionBreakpoints(self, arguments: Arguments) -> Body:
        given = arguments.each("breakpoints")
        wanted = [_wanted(one, function=one.text("name")) for one in given]
        return await self._replace(self._functions, wanted)

    async def _do_setInstructionBreakpoints(self, arguments: Arguments) -> Body:
        wanted = [
            _wanted(one, address=one.address("instructionReference") + one.number("offset", 0))
            for one in arguments.each("breakpoints")
        ]
        return await self._replace(self._addresses, wanted)

    async def _replace(self, numbers: list[int], wanted: list[Breakpoint]) -> Body:
        def change(live: Debugger) -> list[Breakpoint]:
            there = {point.number for point in live.breakpoints}
            for number in there.intersection(numbers):
                live.remove(number)
            numbers.clear()
            made = []
            for point in wanted:
                try:
                    made.append(live.add(point))
                    numbers.append(made[-1].number)
                except UsageError as error:
                    if not point.watch:
                        raise
                    made.append(replace(point, verified=False, message=str(error)))
            return made

        return {"breakpoints": [self._point(point) for point in await self._ask(change)]}

    async def _do_dataBreakpointInfo(self, arguments: Arguments) -> Body:
        name, reference = arguments.text("name"), arguments.number("variablesReference", 0)
        frame = self._index(arguments)
        try:
            point = await self._ask(
                lambda live: live.watchable(name, frame=frame, reference=reference)
            )
        except UsageError as error:
            return {"dataId": None, "description": str(error)}
        key = f"{point.watch} at {point.address:#x}"
        self._watchable[key] = point
        return {
            "dataId": key, "description": f"{point.watch}, {point.size} bytes",
            "accessTypes": ["write", "readWrite"], "canPersist": False,
        }  # fmt: skip

    async def _do_setDataBreakpoints(self, arguments: Arguments) -> Body:
        wanted = []
        for one in arguments.each("breakpoints"):
            if (known := self._watchable.get(key := one.text("dataId"))) is None:
                raise UsageError(f"'{key}' is no dataId: ask for dataBreakpointInfo first")
            access, condition = one.text("accessType", "write"), one.text("condition", "")
            hits = one.text("hitCondition", "")
            point = replace(known, access=access, condition=condition, hit_condition=hits)
            wanted.append(point)
        return await self._replace(self._watches, wanted)

    def _do_setExceptionBreakpoints(self, arguments: Arguments) -> Body:
        self._live.faults = _FAULTS in arguments.words("filters")
        return {}

    def _point(self, point: Breakpoint) -> Body:
        found: Body = {"id": point.number, "verified": point.verified}
        if point.message or not point.verified:
            found["message"] = point.message or "it is set as soon as code of this cell runs"
        if point.source:
            found["line"] = point.line
            found["source"] = {"path": self._cells.path(point.source)}
        return found

    # -- going on ------------------------------------------------------------------------------

    async def _go(self, command: str, arguments: Arguments) -> Body:
        motion = _GOES[command]
        if arguments.text("granularity", "") == "instruction" and motion != "continue":
            motion = "instruction"

        def go(live: Debugger) -> None:
            with self._events.answered_first():
                self._asked = True
                try:
                    live.go(motion)
                finally:
                    self._asked = False
                if motion == "continue":
                    self._thread = 0

        await self._ask(go)
        return {"allThreadsContinued": True} if command == "continue" else {}

    async def _do_continue(self, arguments: Arguments) -> Body:
        return await self._go("continue", arguments)

    async def _do_next(self, arguments: Arguments) -> Body:
        return await self._go("next", arguments)

    async def _do_stepIn(self, arguments: Arguments) -> Body:
        return await self._go("stepIn", arguments)

    async def _do_stepOut(self, arguments: Arguments) -> Body:
        return await self._go("stepOut", arguments)

    def _do_pause(self, _: Arguments) -> Body:
        with self._events.answered_first():
            self._live.pause()
        return {}

    # -- looking -------------------------------------------------------------------------------

    async def _do_threads(self, _: Arguments) -> Body:
        found = await self._ask(lambda live: live.threads())
        return {"threads": [{"id": number, "name": name} for number, name in found]}

    async def _do_stackTrace(self, arguments: Arguments) -> Body:
        first, levels = arguments.number("startFrame", 0), arguments.number("levels", 0)
        frames = await self._ask(lambda live: live.frames())
        shown = frames[first : first + levels if levels else None]
        return {"stackFrames": [self._frame(f) for f in shown], "totalFrames": len(frames)}

    def _frame(self, frame: Frame) -> Body:
        told: Body = {
            "id": (self._frames_of.stop - 1) * _FRAMES + frame.index + 1, "name": frame.name,
            "line": frame.line, "column": 1,
            "instructionPointerReference": hex(frame.address),
        }  # fmt: skip
        if frame.source:
            path = self._cells.path(frame.source)
            told["source"] = {"name": os.path.basename(path), "path": path}
        else:
            told["presentationHint"] = "subtle"
        return told

    def _index(self, arguments: Arguments) -> int:
        """The frame that is meant: the innermost where none is named."""
        number = arguments.number("frameId", 0)
        if not number:
            return 0
        series, index = divmod(number - 1, _FRAMES)
        if self._live.stop is None or series not in self._frames_of:
            raise UsageError(f"nothing here is frame {number}: ask for the stackTrace of this stop")
        return index

    async def _do_scopes(self, arguments: Arguments) -> Body:
        frame = self._index(arguments)
        found = await self._ask(lambda live: live.scopes(frame))
        return {
            "scopes": [
                {"name": s.name, "variablesReference": s.reference, "expensive": s.expensive}
                for s in found
            ]
        }

    async def _do_variables(self, arguments: Arguments) -> Body:
        reference = arguments.number("variablesReference")
        start, count = arguments.number("start", 0), arguments.number("count", 0)
        found = await self._ask(lambda live: live.variables(reference, start, count))
        return {"variables": [self._variable(variable) for variable in found]}

    def _variable(self, variable: Variable) -> Body:
        found: Body = {
            "name": variable.name, "value": variable.value, "type": variable.type,
            "variablesReference": variable.reference, "evaluateName": variable.expression,
        }  # fmt: skip
        if self._client == _LAB:  # its panel shows the values of Python's types alone
            leaf = not variable.reference
            found["type"] = f"{variable.type} {variable.value}" if leaf else variable.value
        if variable.address:
            found["memoryReference"] = hex(variable.address)
        if variable.named:
            found["namedVariables"] = variable.named
        if variable.indexed:
            found["indexedVariables"] = variable.indexed
        return found

    async def _do_setVariable(self, arguments: Arguments) -> Body:
        reference = arguments.number("variablesReference")
        name, text = arguments.text("name"), arguments.text("value")
        return _value(await self._ask(lambda live: live.set_variable(reference, name, text)))

    async def _do_evaluate(self, arguments: Arguments) -> Body:
        text, frame = arguments.text("expression"), self._index(arguments)
        typed = arguments.text("context", "") == "repl"
        if typed and self._client == _LAB:
            # It asks for the frames again, and looks at the variables of those with new numbers.
            self._frames_of = range(self._frames_of.start, self._frames_of.stop + 1)
        try:
            if typed and (text.split() or [""])[0] in COMMANDS:
                return {"result": await self._magic(text.strip(), frame), "variablesReference": 0}
            made = _value(await self._ask(lambda live: live.evaluate(text, frame)))
        except JitError as error:
            if not (typed and self._client == _LAB):
                raise
            return {"result": str(error), "variablesReference": 0}  # else it shows no words
        made["result"] = made.pop("value")
        return made

    async def _magic(self, text: str, frame: int) -> str:
        """The text that a line such as `%break 3` shows."""
        command = self._command
        if command is None:
            raise UsageError(f"{text.split()[0]} cannot be used here: write it in a cell")

        def do(live: Debugger) -> str:
            frames = live.frames() if live.stop is not None else []
            return command(text, frames[frame] if frame < len(frames) else None)

        return await self._ask(do)

    async def _do_inspectVariables(self, _: Arguments) -> Body:
        found = await self._told_by(await self._any(), lambda debugger: debugger.globals())
        return {"variables": [self._variable(variable) for variable in found]}

    async def _do_richInspectVariables(self, arguments: Arguments) -> Body:
        name, frame = arguments.text("variableName"), self._index(arguments)
        debugger = await self._any()
        made = await self._told_by(debugger, lambda debugger: debugger.evaluate(name, frame))
        return {"data": {"text/plain": f"{made.type} {made.value}"}, "metadata": {}}

    def _do_copyToGlobals(self, _: Arguments) -> Body:
        raise UsageError("a variable of a function cannot become one of the session: define it")

    def _do_modules(self, _: Arguments) -> Body:
        return {"modules": [], "totalModules": 0}

    async def _do_readMemory(self, arguments: Arguments) -> Body:
        address = arguments.address("memoryReference") + arguments.number("offset", 0)
        count = arguments.number("count")
        data = await self._ask(lambda live: live.read(address, count))
        body: Body = {"address": hex(address), "unreadableBytes": count - len(data)}
        return {**body, "data": b64encode(data).decode()} if data else body

    async def _do_disassemble(self, arguments: Arguments) -> Body:
        address = arguments.address("memoryReference") + arguments.number("offset", 0)
        count = arguments.number("instructionCount")
        found = await self._ask(lambda live: live.disassemble(address, count))
        return {"instructions": [{"address": hex(at), "instruction": text} for at, text in found]}


def _or_none(arguments: object) -> object:
    return {} if arguments is None else arguments


def _value(variable: Variable) -> Body:
    return {
        "value": variable.value, "type": variable.type,
        "variablesReference": variable.reference,
        **({"namedVariables": variable.named} if variable.named else {}),
        **({"indexedVariables": variable.indexed} if variable.indexed else {}),
    }  # fmt: skip


def _wanted(given: Arguments, line: int = 0, function: str = "", address: int = 0) -> Breakpoint:
    from jitkernel.session.debugging.records import Breakpoint

    return Breakpoint(
        line=line, function=function, address=address, condition=given.text("condition", ""),
        hit_condition=given.text("hitCondition", ""), log=given.text("logMessage", ""),
    )  # fmt: skip
