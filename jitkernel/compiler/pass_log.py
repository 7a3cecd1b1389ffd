"""LLVM's own log of its passes, as records.  Start from `read_log`.

With `-print-pass-numbers` LLVM writes a line before each pass; with `-print-changed=quiet` the IR
after each pass that changed it, and with `-print-before-pass-number` the IR before a pass.  All of
it may stand in one log.  No LLVM is needed to read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jitkernel.compiler.passes import may_change
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

_ENTRY = regex(
    rb"^(?: (?P<running>Running) pass (?P<number>\d+) (?P<ran>\S+(?: \S+)*?) on |"
    rb"(?:; )?\*\*\* IR (?:Dump|Deleted) (?P<kind>After|Before) (?:\d+-)?(?P<title>.+?) on )",
    re.M,
)
_END = b" ***\n"
_IN_FUNCTION = " in function "
#: What stands behind the last pass over IR.
END = b"end\n"
#: The title of an entry that tells of the module before its first pass, and that entry's head.
START = "start"
BEGIN = f"*** IR Dump After {START} on [module] ***\n"
#: The unit of a pass that runs on all of a module.
MODULE = "[module]"


class Entry(NamedTuple):
    """One entry of a log.

    `kind` is `running` (a pass begins), `after` (the text that a pass left, which changed it) or
    `before` (the text that a pass is about to run on).  `title` is the pass's class; `unit` what it
    runs on: `f`, `(f, g)`, `loop %b in function f` or `[module]`.  `number` is that of a pass that
    begins, counted from 1 in each of LLVM's pass managers.
    """

    kind: str
    title: str
    unit: str
    text: str = ""
    number: int = 0


class PassRun(NamedTuple):
    """A pass that ran: its number and class, its unit, its nanoseconds, -1 where unknown, and which
    of LLVM's pass managers ran it: each counts anew."""

    number: int
    title: str
    unit: str
    nanoseconds: int = -1
    manager: int = 1


def read_log(log: bytes) -> Iterator[Entry]:
    """The entries of a log, in order."""
    heads = list(_ENTRY.finditer(log))
    for index, head in enumerate(heads):
        stop = heads[index + 1].start() if index + 1 < len(heads) else len(log)
        if head["running"]:  # nothing but the unit stands before the next entry
            unit = log[head.end() : stop].removesuffix(b"\n")
            yield Entry("running", _text(head["ran"]), _text(unit), number=int(head["number"]))
            continue
        end = log.find(_END, head.end(), stop)
        if end >= 0:
            kind, text = head["kind"].lower(), log[end + len(_END) : stop]
            yield Entry(
                _text(kind), _text(head["title"]), _text(log[head.end() : end]), _text(text)
            )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def loop_of(unit: str) -> tuple[str, str]:
    """The header and the function of a unit that is a loop; "" and "" for any other."""
    head, _, function = unit.partition(_IN_FUNCTION)
    return (head.removeprefix("loop "), function) if unit.startswith("loop %") else ("", "")


def functions_of(unit: str) -> tuple[str, ...]:
    """The names of the functions that a pass runs on; none for a module."""
    if unit == MODULE:
        return ()
    if function := loop_of(unit)[1]:
        return (function,)
    if unit.startswith("(") and unit.endswith(")"):
        return tuple(unit[1:-1].split(", "))
    return (unit,)


def looks(
    runs: Iterable[PassRun], only: str = "", modules: bool = True
) -> tuple[list[int], list[int]]:
    """The passes before which, and those after which, to look at what they run on, so that what two
    looks find different one pass has changed, or one function's passes over loops.

    LLVM numbers attributes and metadata otherwise when it prints a module than when it prints a
    function.  So both are looked at where passes go from the one to the other: a function before
    the first pass over it and after the last, a module before and after each pass over all of it.
    In between a function is looked at before a pass over it where another one may have changed it
    since.  With `only` that is the one function that is looked at; without `modules`, no module.
    """
    before: set[int] = set()
    after: set[int] = set()
    seen: set[str] = set()  # functions that were last looked at by themselves
    changed: dict[str, PassRun] = {}  # the last pass that may have changed each since

    def settle(names: Iterable[str]) -> None:
        """Look at functions after the last pass over each, as the next is one over loops, or over
        the module."""
        for name in [*names]:
            last = changed.get(name)
            if last and last.unit != MODULE and not loop_of(last.unit)[1]:
                after.add(changed.pop(name).number)

    for run in runs:
        loop = loop_of(run.unit)[1]
        names = [n for n in ([loop] if loop else functions_of(run.unit)) if only in ("", n)]
        changes = may_change(run.title)
        if run.unit == MODULE and not modules:
            names = [only]
        elif run.unit == MODULE:
            settle(changed)
            if seen:
                before.add(run.number)
            if changes:
                after.add(run.number)
            seen.clear()
            changed.clear()
        elif loop:
            settle(names)
        elif any(n in changed or (changes and n not in seen) for n in names):
            before.add(run.number)
            seen.update(names)
            for name in names:
                changed.pop(name, None)
        if changes:
            changed.update(dict.fromkeys(names, run))
    settle(changed)
    return sorted(before), sorted(after)


def pass_runs(parts: Iterable[tuple[int, bytes]]) -> list[PassRun]:
    """The passes that ran, with their times, from what was written and when.

    `parts` are single writes with their time: a line is several.  A pass runs from the last part
    of its own line to the first of the next, analyses that it asks for included.
    """
    found: list[PassRun] = []
    line = b""
    begun: tuple[PassRun, int] | None = None
    last, manager = 0, 1
    for time, data in parts:
        if not line and begun:
            found.append(begun[0]._replace(nanoseconds=max(time - begun[1], 0)))
            begun = None
        line += data
        if line.endswith(b"\n"):
            if match := _ENTRY.match(line):
                unit, number = _text(line[match.end() : -1]), int(match["number"])
                manager, last = manager + (number <= last), number
                begun = PassRun(number, _text(match["ran"]), unit, manager=manager), time
            line = b""
    return found


def loop_runs(runs: Iterable[PassRun], function: str) -> list[list[PassRun]]:
    """The passes over each loop of a function, in order.

    LLVM runs the passes of one of its managers over a loop before it goes on to the next loop, and
    some of them (loop-rotate) give a loop another header: who begins again with the first pass has
    gone on, everybody else is at the same loop still.
    """
    loops: list[list[PassRun]] = []
    by_label: dict[str, list[PassRun]] = {}
    first = ""  # of the manager that is running
    current: list[PassRun] | None = None
    for run in runs:
        label, name = loop_of(run.unit)
        if name != function:
            first, current = "", None
            continue
        first = first or run.title
        if current is None or run.title == first:
            current = by_label.get(label)
            if current is None:
                current = []
                loops.append(current)
        by_label[label] = current
        current.append(run)
    return loops
