"""Magics of the debugger: breakpoints, and whether it is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.regex import regex
from jitkernel.views.view import table
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session.debugging.debugger import Debugger

#: Magics that change nothing: they are done while the program stands, too.
LOOKS = frozenset(
    "arena asm break breaks callgraph cells cfg config debug deps env explain help history "
    "inline ir lsmagic memory mir object passes pwd quickref remarks stack symbols timeline watch "
    "who whos".split()
)
_OPTIONS = regex(r"\s--?(?:hits|log|once|delete|d)\b")
_NONE = "no breakpoints: %break f, %break 3 (a line), %break 2:3 (line 3 of cell 2) set one"


@magic(
    "break",
    Argument(
        "place",
        "f or @f, 3 (a line of this cell, or of the last one), 2:3 (line 3 of cell 2)",
        "?",
        completes="function",
    ),
    Argument("condition", "if and an expression: stop only where it holds", "rest"),
    Argument("--hits", "stop only at these of its hits: 5, '>= 5', '% 5'", value="COUNT"),
    Argument("--log", "print this and go on; of {x} the value", value="TEXT"),
    Argument("--once", "remove it when it has stopped", "flag"),
    Argument(
        "-d --delete",
        "remove the breakpoint of this number, or all",
        completes="breakpoint",
        value="NUMBER",
    ),
    example="%break sum if i == 10",
)
def breakpoint_(context: Frontend, arguments: Any) -> None:
    """Stop where a line or a function begins: in the notebook's debugger, where its panel is open,
    else at a prompt with gdb's words. The options come before the condition; without a place, list
    the breakpoints. Code with a breakpoint runs unoptimised, while it has one."""
    if arguments.delete is not None:
        _delete(context, arguments.delete)
        return
    if arguments.place is None:
        breaks.call(context, arguments)
        return
    from jitkernel.session.debugging.records import Breakpoint
    from jitkernel.session.debugging.where import shown, wanted

    place, condition = arguments.place, (arguments.condition or "").strip()
    if condition and not condition.startswith("if"):
        raise UsageError(
            f"%break: what is {condition!r} for? A condition begins with if: "
            f"%break {place} if {condition}"
        )
    if _OPTIONS.search(condition):
        raise UsageError("%break: options come before the condition: %break 3 --once if i == 10")
    standing = context.standing
    more = Breakpoint(
        hit_condition=arguments.hits or "", log=arguments.log or "", temporary=arguments.once
    )
    point = wanted(f"{place} {condition}".strip(), standing.source_of, more)
    debugger = standing.start()
    made = debugger.ask(lambda: debugger.add(point))
    lines = made.source.split("\n")
    text = lines[made.line - 1].strip() if made.line else ""
    words = f": {text}" if text else ""
    why = f" ({made.message})" if made.message else ""
    context.print(f"breakpoint {made.number}: {shown(made, standing.cell_of)}{words}{why}")


def _delete(context: Frontend, word: str) -> None:
    debugger = context.standing.debugger
    known = [point.number for point in debugger.breakpoints]
    if word == "all":
        numbers = known
    elif word.isdigit():
        numbers = [int(word)]
    else:
        raise UsageError(f"%break --delete takes the number of a breakpoint, or all, not {word!r}")
    for number in numbers:
        debugger.ask(lambda number=number: debugger.remove(number))  # type: ignore[misc]
    if not numbers:
        context.print("there are no breakpoints")


@magic("breaks")
def breaks(context: Frontend, arguments: Any) -> None:
    """The breakpoints: where they are, when they stop, how often they were met, whether there is
    code for them and if not, why."""
    from jitkernel.session.debugging.where import ROWS, rows

    debugger = context.standing.debugger
    if not debugger.breakpoints:
        context.print(context.worded(_NONE))
        return
    found = rows(debugger.breakpoints, context.standing.cell_of)
    note = "" if debugger.on else context.worded("The debugger is off: %debug on")
    context.display(table("Breakpoints", ROWS, found, note))


@magic(
    "debug",
    Argument("state", "the debugger", "?", choices=("on", "off")),
    Argument("--faults", "on, and stop at faults, too, before the cell is ended", "flag"),
    Argument(
        "-O",
        "on; 2: code to be debugged is optimised as its cell is, from the next call on; 0: it is "
        "not, as at first",
        choices=("0", "2"),
        value="LEVEL",
    ),
    example="%debug --faults",
)
def debug(context: Frontend, arguments: Any) -> None:
    """Turn the debugger on or off, which removes all breakpoints; alone, say how it is, and look
    at what the last cell that was stopped has left, as by a fault: frames, registers, memory.
    With -O2 lines come out of order, functions are parts of others, and values may be gone; those
    that are shown are right. LLVM IR has lines and registers then, and no values."""
    standing = context.standing
    level = arguments.O
    if arguments.state == "off":
        if arguments.faults:
            raise UsageError("%debug off stops at nothing: leave --faults out")
        if level is not None:
            raise UsageError(f"%debug off debugs no code: leave -O{level} out")
        standing.debugger.ask(standing.debugger.close)
        context.print("the debugger is off")
        return
    if arguments.state == "on" or arguments.faults or level is not None:
        debugger = standing.start()
        if level is None or arguments.faults:
            debugger.faults = arguments.faults
        if level is not None:
            debugger.optimised = level == "2"
        context.print(context.worded(_state(debugger)))
        return
    context.print(context.worded(_state(standing.debugger)))
    if standing.stands:
        return
    stopped = context.session.inspect.observers.stopped
    if stopped is not None and stopped.kind != "running":
        standing.look_back()


def _state(debugger: Debugger) -> str:
    if not debugger.on:
        return "the debugger is off: %break or %debug on starts it, %debug --faults stops at faults"
    words = ["the debugger is on", counted(len(debugger.breakpoints), "breakpoint")]
    words.append("it stops at faults" if debugger.faults else "not at faults (%debug --faults)")
    if debugger.optimised:
        words.append("code to be debugged is optimised (%debug -O0: not)")
    if debugger.stop is not None:
        words.append("the program stands")
    return ", ".join(words)
