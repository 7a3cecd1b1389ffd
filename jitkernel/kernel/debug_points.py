"""Requests about breakpoints: at lines of cells, in functions, at instructions, on variables.

Start from `Points`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.kernel.cell_files import CellFiles
from jitkernel.kernel.debug_arguments import Arguments
from jitkernel.kernel.debug_requests import Body, Link, Request, Table

if TYPE_CHECKING:
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.debugging.records import Breakpoint

__all__ = ["FILTERS", "Points"]

_FAULTS = "faults"
#: Of the reply to `initialize`.
FILTERS: Body = {
    "exceptionBreakpointFilters": [
        {"filter": _FAULTS, "label": "Faults (segmentation fault, division by zero, ...)",
         "default": False}
    ],
}  # fmt: skip
_NONE: Body = {"breakpoints": []}
_SOME = ("supportsConditionalBreakpoints", "supportsHitConditionalBreakpoints", "supportsLogPoints")


class Points:
    """A client's breakpoints; `frame_of` gives the frame that arguments mean."""

    def __init__(self, link: Link, cells: CellFiles, frame_of: Callable[[Arguments], int]):
        self._link, self._cells, self._frame_of = link, cells, frame_of
        self._watchable: dict[str, Breakpoint] = {}  # what can be watched, by its dataId
        self.forget()
        self.table: Table = {
            "setBreakpoints": Request(self._set_lines, _SOME, _NONE),
            "setFunctionBreakpoints": Request(
                self._set_functions, ("supportsFunctionBreakpoints",), _NONE
            ),
            "setInstructionBreakpoints": Request(
                self._set_addresses, ("supportsInstructionBreakpoints",), _NONE
            ),
            "dataBreakpointInfo": Request(self._can_be_watched),
            "setDataBreakpoints": Request(self._set_watches, ("supportsDataBreakpoints",), _NONE),
            "setExceptionBreakpoints": Request(self._set_faults),
        }

    def forget(self) -> None:
        """The debugger is off: there are none any more."""
        # The numbers of those that are set all at once.
        self._functions: list[int] = []
        self._addresses: list[int] = []
        self._watches: list[int] = []

    def renamed(self, numbers: dict[int, int]) -> None:
        """Breakpoints have other numbers in another session."""
        for mine in (self._functions, self._addresses, self._watches):
            mine[:] = [numbers[number] for number in mine if number in numbers]

    def told(self) -> list[Body]:
        """The lines with breakpoints, by file, as `debugInfo` has them."""
        found: dict[str, list[Body]] = {}
        debugger = self._link.debugger
        for point in debugger.breakpoints if debugger is not None else ():
            if point.source:
                found.setdefault(self._cells.path(point.source), []).append({"line": point.line})
        return [{"source": path, "breakpoints": lines} for path, lines in found.items()]

    def body(self, point: Breakpoint) -> Body:
        """A breakpoint, as the protocol has it."""
        found: Body = {"id": point.number, "verified": point.verified}
        if point.message or not point.verified:
            found["message"] = point.message or "it is set as soon as code of this cell runs"
        if point.source:
            found["line"] = point.line
            found["source"] = self._cells.source(point.source)
        return found

    async def _set_lines(self, arguments: Arguments) -> Body:
        text = self._cells.text(arguments.within("source").text("path"))
        given = arguments.each("breakpoints", absent=True)
        wanted = [_wanted(one, line=one.number("line")) for one in given]
        found = await self._link.ask(lambda live: live.set_breakpoints(text, wanted))
        return {"breakpoints": [self.body(point) for point in found]}

    async def _set_functions(self, arguments: Arguments) -> Body:
        given = arguments.each("breakpoints")
        wanted = [_wanted(one, function=one.text("name")) for one in given]
        return await self._replace(self._functions, wanted)

    async def _set_addresses(self, arguments: Arguments) -> Body:
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

        return {"breakpoints": [self.body(point) for point in await self._link.ask(change)]}

    async def _can_be_watched(self, arguments: Arguments) -> Body:
        name, reference = arguments.text("name"), arguments.number("variablesReference", 0)
        frame = self._frame_of(arguments)
        try:
            point = await self._link.ask(
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

    async def _set_watches(self, arguments: Arguments) -> Body:
        wanted = []
        for one in arguments.each("breakpoints"):
            if (known := self._watchable.get(key := one.text("dataId"))) is None:
                raise UsageError(f"'{key}' is no dataId: ask for dataBreakpointInfo first")
            access, condition = one.text("accessType", "write"), one.text("condition", "")
            hits = one.text("hitCondition", "")
            wanted.append(replace(known, access=access, condition=condition, hit_condition=hits))
        return await self._replace(self._watches, wanted)

    def _set_faults(self, arguments: Arguments) -> Body:
        self._link.live.faults = _FAULTS in arguments.words("filters")
        return {}


def _wanted(given: Arguments, line: int = 0, function: str = "", address: int = 0) -> Breakpoint:
    from jitkernel.session.debugging.records import Breakpoint

    return Breakpoint(
        line=line, function=function, address=address, condition=given.text("condition", ""),
        hit_condition=given.text("hitCondition", ""), log=given.text("logMessage", ""),
    )  # fmt: skip
