"""LLVM's own log of a compile, as records.  Start from `read_log`.

With `-print-changed` LLVM writes the IR after every pass that changed it, and one line for each
that did not; code generation does the same with its machine IR.  With `-print-pass-numbers` it
writes a line before each pass, and `-debug-pass=Executions` one before each pass of code
generation, with the time.  No LLVM is needed to read these.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from jitkernel.regex import regex

_HEAD = regex(
    rb"^\*\*\* IR (?:Dump (?P<start>At Start)|"
    rb"(?:Dump|Deleted) After (?P<title>.+?) on (?P<unit>(?s:.+?))"
    rb"(?P<same> omitted because no change)?(?P<out> filtered out)?|"
    rb"Pass (?P<gone>.+?) invalidated|Pass .* ignored) \*\*\*\n",
    re.M,
)
_RUNNING = regex(r" Running pass \d+ (.+?) on ")
_EXECUTING = regex(
    r"^\[(?P<time>[-\d]+ [\d:.]+)\] 0x[0-9a-f]+ +"
    r"(?:(?P<what>Executing Pass) '(?P<title>.+?)' on Function '(?P<unit>(?s:.*?))'\.\.\.|)",
    re.M,
)


class PassRun(NamedTuple):
    """One pass that ran: its title, what it ran on, and where the log has the text it left.

    `start` and `stop` are byte offsets, equal where nothing changed.  `verified` says whether what
    it left is well formed, None where that was not tried; `nanoseconds` are -1 where they could not
    be measured.
    """

    title: str
    unit: str
    start: int
    stop: int
    verified: bool | None = None
    nanoseconds: int = -1


def read_log(log: bytes) -> list[PassRun]:
    """Every pass of a log, in order; the state at the start has the title ""."""
    found: list[PassRun] = []
    heads = list(_HEAD.finditer(log))
    for index, head in enumerate(heads):
        stop = heads[index + 1].start() if index + 1 < len(heads) else len(log)
        if head["start"]:
            if not found:
                found.append(PassRun("", "[module]", head.end(), stop))
        elif head["gone"]:  # a pass that removed what it ran on, a loop: no text is logged
            if b"PassManager<" in head["gone"] or b"Adaptor" in head["gone"]:
                continue  # what ran it
            found.append(
                PassRun(head["gone"].decode("utf-8", "replace"), "", head.end(), head.end())
            )
        elif head["title"]:
            title = head["title"].decode("utf-8", "replace")
            unit = head["unit"].decode("utf-8", "surrogateescape")
            same = bool(head["same"] or head["out"])
            found.append(PassRun(title, unit, head.end(), head.end() if same else stop))
    return found


def pass_times(parts: Iterable[tuple[int, bytes]]) -> list[tuple[str, int]]:
    """Class name and nanoseconds of each pass over IR, from what was written and when.

    `parts` are single writes with their time: a line is several.  A pass runs from the last part
    of its own line to the first of the next, analyses that it asks for included.
    """
    found: list[tuple[str, int]] = []
    line, begun = b"", 0
    title = ""
    for time, data in parts:
        if not line:
            if title:
                found.append((title, max(time - begun, 0)))
                title = ""
        line += data
        if line.endswith(b"\n"):
            match = _RUNNING.match(line.decode("utf-8", "replace"))
            title, begun = (match[1], time) if match else ("", 0)
            line = b""
    return found


def codegen_times(log: str) -> dict[tuple[str, str], list[int]]:
    """Nanoseconds of each pass of code generation, by title and function, in order."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    rows = list(_EXECUTING.finditer(log))
    for row, after in pairwise(rows):
        if row["what"]:
            spent = _nanoseconds(after["time"]) - _nanoseconds(row["time"])
            found[row["title"], row["unit"]].append(max(spent, 0))
    return found


def _nanoseconds(stamp: str) -> int:
    from datetime import datetime  # a compile, which reads changes too, asks for no times

    whole, _, part = stamp.partition(".")
    return int(datetime.fromisoformat(whole).timestamp()) * 10**9 + int(part.ljust(9, "0")[:9])


def with_times(
    changes: Sequence[PassRun],
    optimised: Sequence[tuple[str, int]],
    generated: dict[tuple[str, str], list[int]],
    border: int,
) -> Iterator[PassRun]:
    """The changes with their nanoseconds, where those can be told.

    Both runs do the same in the same order; where they do not, no times are given.  The log from
    offset `border` on is code generation's.
    """
    passes = [c for c in changes if c.title and c.start < border]
    agreed = [c.title for c in passes] == [title for title, _ in optimised]
    spent = iter(optimised)
    left = {key: iter(times) for key, times in generated.items()}
    for change in changes:
        taken = -1
        if change.title and change.start < border:
            taken = next(spent)[1] if agreed else -1
        elif change.title:
            title = change.title.rpartition(" (")[0]
            taken = next(left.get((title, change.unit), iter(())), -1)
        yield change._replace(nanoseconds=taken)
