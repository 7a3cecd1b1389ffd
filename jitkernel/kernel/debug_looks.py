"""Requests that look at what stands: frames, variables, expressions, memory, sources.

Start from `Looks`.
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from jitkernel.errors import JitError, UsageError
from jitkernel.kernel.cell_files import CODE, CellFiles
from jitkernel.kernel.debug_arguments import Arguments
from jitkernel.kernel.debug_requests import LAB, Body, Link, Request, Table
from jitkernel.recent import Recent
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.debugging.records import Frame, Stopped, Variable
    from jitkernel.views.view import View

__all__ = ["Looks"]

_FRAMES = 1000  # more than a stack has
_TOLD = 4000  # names that are remembered
_LISTED = 1000  # sources
_INSTRUCTIONS = 40  # where there is no source
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$%@"
_MEMBER = regex(r"([%@$]?\w+(?:\[\w+\]|\.\w+|->\w+)*)(?:\.|->)(\w*)\Z")


class Looks:
    """The part of the adapter that shows things.  `command` does what a line such as `%break 3`
    says, for a frame of what stands, and gives what it shows; None for a line that is no such
    command."""

    def __init__(self, link: Link, cells: CellFiles, command: Callable[[str, int], str | None]):
        self._link, self._cells, self._command = link, cells, command
        self._frames_of = range(0)  # the series of numbers that the frames of this stop have had
        # Expressions of parts, by the names that the client was told.
        self._expressions: Recent[str, str] = Recent(_TOLD)
        self._functions: Recent[int, str] = Recent(_TOLD)  # by the numbers of frames
        self.table: Table = {
            "source": Request(self._source),
            "loadedSources": Request(
                self._sources, ("supportsLoadedSourcesRequest",), {"sources": []}
            ),
            "modules": Request(self._modules, ("supportsModulesRequest",), {"modules": []}),
            "threads": Request(self._threads, nothing={"threads": []}),
            "stackTrace": Request(
                self._stack, ("supportsDelayedStackTraceLoading",),
                {"stackFrames": [], "totalFrames": 0},
            ),
            "exceptionInfo": Request(self._exception, ("supportsExceptionInfoRequest",)),
            "scopes": Request(self._scopes, nothing={"scopes": []}),
            "variables": Request(self._variables, nothing={"variables": []}),
            "setVariable": Request(self._set_variable, ("supportsSetVariable",)),
            "evaluate": Request(
                self._evaluate, ("supportsEvaluateForHovers", "supportsClipboardContext")
            ),
            "setExpression": Request(self._set_expression, ("supportsSetExpression",)),
            "completions": Request(
                self._completions, ("supportsCompletionsRequest",), {"targets": []}
            ),
            "inspectVariables": Request(self._globals, nothing={"variables": []}),
            "richInspectVariables": Request(self._in_full),
            "copyToGlobals": Request(self._copy_to_globals),
            "readMemory": Request(self._read_memory, ("supportsReadMemoryRequest",)),
            "disassemble": Request(self._disassemble, ("supportsDisassembleRequest",)),
        }  # fmt: skip

    def stopped(self) -> None:
        """The program stands: its frames get numbers that none had before."""
        self._frames_of = range(self._frames_of.stop, self._frames_of.stop + 1)

    # -- sources -------------------------------------------------------------------------------

    async def _source(self, arguments: Arguments) -> Body:
        within = arguments.within("source") if "source" in arguments.given else arguments
        reference = within.number("sourceReference", 0) or arguments.number("sourceReference", 0)
        path = within.text("path", "") or self._cells.referred(reference)
        if not path.startswith(CODE):
            return {"content": self._cells.text(path)}
        address = int(path.removeprefix(CODE), 16)
        return {"content": await self._link.ask(partial(_machine_code, address=address))}

    async def _sources(self, _: Arguments) -> Body:
        return {
            "sources": [
                {**self._cells.source(text), "name": name} for name, text in await self._ran()
            ]
        }

    async def _modules(self, _: Arguments) -> Body:
        found = [
            {"id": name, "name": name, "path": self._cells.path(text)}
            for name, text in await self._ran()
        ]
        return {"modules": found, "totalModules": len(found)}

    async def _ran(self) -> list[tuple[str, str]]:
        """The cells that have defined something, and their texts."""
        if self._link.debugger is None:
            return []
        found = await self._link.ask(lambda live: live.texts(_LISTED))
        return [(f"cell {number}", text) for number, text in found]

    # -- frames --------------------------------------------------------------------------------

    async def _threads(self, _: Arguments) -> Body:
        found = await self._link.ask(lambda live: live.threads())
        return {"threads": [{"id": number, "name": name} for number, name in found]}

    async def _stack(self, arguments: Arguments) -> Body:
        first, levels = arguments.number("startFrame", 0), arguments.number("levels", 0)
        thread = arguments.number("threadId", 0)

        def look(live: Debugger) -> list[Frame]:
            if thread in dict(live.threads()):
                live.choose(thread)  # scopes and variables are asked for behind this
            return live.frames()

        frames = await self._link.ask(look)
        shown = frames[first : first + levels if levels else None]
        return {"stackFrames": [self._frame(f) for f in shown], "totalFrames": len(frames)}

    def _frame(self, frame: Frame) -> Body:
        number = (self._frames_of.stop - 1) * _FRAMES + frame.index + 1
        self._functions[number] = frame.name
        told: Body = {
            "id": number, "name": frame.name, "line": frame.line, "column": 1,
            "instructionPointerReference": hex(frame.address),
        }  # fmt: skip
        if frame.source:
            told["source"] = self._cells.source(frame.source)
            if frame.cell:
                told["source"]["name"] = f"cell {frame.cell}"
        else:  # JupyterLab has no frames without a source
            told["source"] = self._cells.code(frame.address)
            told |= {"line": 2, "presentationHint": "subtle"}
        return told

    def frame_of(self, arguments: Arguments) -> int:
        """The frame that is meant: the innermost where none is named."""
        number = arguments.number("frameId", 0)
        if not number:
            return 0
        series, index = divmod(number - 1, _FRAMES)
        if self._link.live.stop is None or series not in self._frames_of:
            raise UsageError(f"nothing here is frame {number}: ask for the stackTrace of this stop")
        return index

    def _again(self, debugger: Debugger, number: int) -> int:
        """The frame that had this number at a stop: at a later one that of the same function, for
        its client keeps a variable in view and asks with the number that it had.  The innermost
        where nothing stands."""
        if not number or debugger.stop is None:
            return 0
        series, index = divmod(number - 1, _FRAMES)
        if series in self._frames_of:
            return index
        name = self._functions.get(number)
        found = [frame.index for frame in debugger.frames() if frame.name == name]
        if not found:
            raise UsageError(f"{name or 'the function'} is not on the stack any more")
        return found[0]

    async def _exception(self, _: Arguments) -> Body:
        def look(live: Debugger) -> Stopped | None:
            return live.stop

        stop = await self._link.ask(look)
        if stop is None or stop.reason != "exception":
            raise UsageError("no fault has stopped the program")
        return {"exceptionId": stop.text, "description": stop.text, "breakMode": "always"}

    # -- variables -----------------------------------------------------------------------------

    async def _scopes(self, arguments: Arguments) -> Body:
        frame = self.frame_of(arguments)
        found = await self._link.ask(lambda live: live.scopes(frame))
        return {
            "scopes": [
                {"name": s.name, "variablesReference": s.reference, "expensive": s.expensive}
                for s in found
            ]
        }

    async def _variables(self, arguments: Arguments) -> Body:
        reference = arguments.number("variablesReference")
        start, count = arguments.number("start", 0), arguments.number("count", 0)
        found = await self._link.ask(lambda live: live.variables(reference, start, count))
        return {"variables": [self._variable(variable) for variable in found]}

    def _variable(self, variable: Variable) -> Body:
        found: Body = {
            "name": variable.name, **_value(variable), "evaluateName": variable.expression,
        }  # fmt: skip
        if variable.expression not in ("", variable.name):
            self._expressions[variable.name] = variable.expression
        if self._link.client == LAB:  # its panel shows the values of Python's types alone
            leaf = not variable.reference
            found["type"] = f"{variable.type} {variable.value}" if leaf else variable.value
        return found

    async def _set_variable(self, arguments: Arguments) -> Body:
        reference = arguments.number("variablesReference")
        name, text = arguments.text("name"), arguments.text("value")
        return _value(await self._link.ask(lambda live: live.set_variable(reference, name, text)))

    async def _set_expression(self, arguments: Arguments) -> Body:
        left, right = arguments.text("expression"), arguments.text("value")
        frame = self.frame_of(arguments)
        return _value(await self._link.ask(lambda live: live.evaluate(f"{left} = {right}", frame)))

    async def _evaluate(self, arguments: Arguments) -> Body:
        text, frame = arguments.text("expression"), self.frame_of(arguments)
        typed = arguments.text("context", "") == "repl"
        if typed and self._link.client == LAB:
            # It asks for the frames again, and looks at the variables of those with new numbers.
            self._frames_of = range(self._frames_of.start, self._frames_of.stop + 1)
        try:
            if typed and text.lstrip().startswith("%"):
                shown = await self._link.ask(lambda live: self._command(text.strip(), frame))
                if shown is not None:
                    return {"result": shown, "variablesReference": 0}
            made = _value(
                await self._link.ask(lambda live: live.evaluate(text, frame, calls=typed))
            )
        except JitError as error:
            if not (typed and self._link.client == LAB):
                raise
            return {"result": str(error), "variablesReference": 0}  # else it shows no words
        made["result"] = made.pop("value")
        return made

    async def _completions(self, arguments: Arguments) -> Body:
        text, column = arguments.text("text"), arguments.number("column")
        frame, before = self.frame_of(arguments), text[: max(column - 1, 0)]
        found = await self._link.ask(partial(_completed, before=before, frame=frame))
        return {
            "targets": [
                {
                    "label": name, "type": "variable", "start": len(before) - typed + 1,
                    "length": typed,
                }
                for name, typed in found
            ]
        }  # fmt: skip

    async def _globals(self, _: Arguments) -> Body:
        found = await self._link.ask_any(lambda debugger: debugger.globals())
        return {"variables": [self._variable(variable) for variable in found]}

    async def _in_full(self, arguments: Arguments) -> Body:
        name, number = arguments.text("variableName"), arguments.number("frameId", 0)

        def look(debugger: Debugger) -> View:
            from jitkernel.views.variable import variable

            session, frame = self._link.session(), self._again(debugger, number)
            try:
                return variable(session, name, frame)
            except UsageError:
                if (expression := self._expressions.get(name)) is None:
                    raise
                return variable(session, expression, frame)

        view = await self._link.ask_any(look)
        return {"data": view._repr_mimebundle_(), "metadata": {}}

    def _copy_to_globals(self, _: Arguments) -> Body:
        raise UsageError("a variable of a function cannot become one of the session: define it")

    # -- memory --------------------------------------------------------------------------------

    async def _read_memory(self, arguments: Arguments) -> Body:
        address = arguments.address("memoryReference") + arguments.number("offset", 0)
        count = arguments.number("count")
        data = await self._link.ask(lambda live: live.read(address, count))
        body: Body = {"address": hex(address), "unreadableBytes": count - len(data)}
        return {**body, "data": b64encode(data).decode()} if data else body

    async def _disassemble(self, arguments: Arguments) -> Body:
        address = arguments.address("memoryReference") + arguments.number("offset", 0)
        first, count = (
            arguments.number("instructionOffset", 0),
            arguments.number("instructionCount"),
        )
        found = await self._link.ask(lambda live: live.instructions(address, first, count))
        return {"instructions": [{"address": hex(at), "instruction": text} for at, text in found]}


def _completed(live: Debugger, before: str, frame: int) -> list[tuple[str, int]]:
    """The names that what stands before the cursor may become: of variables, and of the members of
    one.  With each, how many of its letters are there."""
    names: list[str] = []
    word = before[len(before.rstrip(_WORD)) :]
    if word or not before.strip().endswith(("->", ".")):
        names = [variable.name for variable in live.globals()]
        if live.stop is not None:
            for scope in live.scopes(frame):
                names += [v.expression for v in live.variables(scope.reference)]
    found = [(name, len(word)) for name in sorted(set(names)) if name.startswith(word)]
    if (match := _MEMBER.search(before)) is not None:
        with contextlib.suppress(JitError):
            parts = live.variables(live.evaluate(match[1], frame).reference)
            found += [(p.name, len(match[2])) for p in parts if p.name.startswith(match[2])]
    return found


def _machine_code(live: Debugger, address: int) -> str:
    """The text in the place of a source; the second line is where a frame goes on."""
    found = live.disassemble(address, _INSTRUCTIONS)
    lines = [f"{at:#x}  {text}" for at, text in found]
    return "\n".join([f"{live.name_of(address)}: its source is not known", *lines])


def _value(variable: Variable) -> Body:
    found: Body = {
        "value": variable.value, "type": variable.type, "variablesReference": variable.reference,
    }  # fmt: skip
    if variable.address:
        found["memoryReference"] = hex(variable.address)
    if variable.named:
        found["namedVariables"] = variable.named
    if variable.indexed:
        found["indexedVariables"] = variable.indexed
    return found
