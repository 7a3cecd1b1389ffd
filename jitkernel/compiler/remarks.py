"""What LLVM's passes say of what they did and did not do: remarks.  Start from `Remarks`.

Runs in the kernel process; `pass_tracing.remarks` is the other side.  A remark does not say which
pass it is of: the log has a line before each pass, and what follows is that one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from jitkernel.compiler.pass_dumps import CODE, PASSES, Dumps
from jitkernel.compiler.pass_log import MODULE, functions_of, read_log
from jitkernel.compiler.passes import name_of
from jitkernel.regex import regex

#: What a remark tells: that something was done, that it was not, or something else.
DONE: Final = "done"
NOT_DONE: Final = "not done"
SAID: Final = "said"
#: The pass of remarks on code that is generated.
ALLOCATION: Final = "register allocation"

_HEAD = regex(r"(?m)^(?:remark: (?:<unknown>|[^\n:]*):(\d+):\d+: |\w+: |end$)")
_INLINER = regex(
    r"'(?P<callee>.*)' (?:(?P<yes>inlined)|not inlined|will not be inlined) into "
    r"'(?P<caller>.*?)'(?: because| with)? ?(?P<why>.*?)(?: at callsite .*)?$"
)
_NOT = regex(
    r"\b(?:not|[Cc]annot|can't|[Ff]ailed|[Uu]nable|impossible|[Uu]nsupported|unsafe|too many)\b"
)
_DID = regex(
    r"^(?:vectorized|interleaved|hoist|sink|sunk|load .*eliminated|unroll|completely|peeled|"
    r"Stores SLP|Vectorized|SLP vectorized|Formed|Loop deleted|transform|marked|remov|delet|"
    r"[Ss]plit|[Dd]istributed|eliminat|replac|convert|merg|[Mm]ov(?:ed|ing)|promot|"
    r"simplif)|\binlined into\b"
)


class Remark(NamedTuple):
    """One remark: the pass by its name in pipelines, what it was on (a function, "" for none), the
    line that it speaks of, 0 where unknown, LLVM's words, and how often it was made.

    Lines are those of the text that was compiled, as `line_table.located` counts them.
    """

    name: str
    function: str
    line: int
    text: str
    times: int = 1

    @property
    def tells(self) -> str:
        """DONE, NOT_DONE or SAID, by its words."""
        if _NOT.search(self.text):
            return NOT_DONE
        return DONE if _DID.search(self.text) else SAID


class Remarks(NamedTuple):
    """The remarks of one compile, in order; `stopped` says where it was, where it was interrupted.

    A loop is looked at again after inlining: what is said twice of the same place is one.
    """

    found: tuple[Remark, ...]
    stopped: str = ""

    @staticmethod
    def of(dumps: Dumps) -> Remarks | None:
        """From what the worker left; None where that is nothing."""
        found: dict[Remark, int] = {}
        name = unit = ""
        passes = 0
        for entry in read_log(dumps.logged(PASSES)):
            if entry.kind != "running":
                continue
            unit, _, said = entry.unit.partition("\n")
            name, passes = name_of(entry.title), passes + 1
            names = functions_of(unit) if unit != MODULE else ()
            for remark in _read(said, name, names[0] if len(names) == 1 else ""):
                found[remark] = found.get(remark, 0) + 1
        over_code = dumps.logged(CODE)
        for remark in _read(over_code.decode("utf-8", "replace"), ALLOCATION, ""):
            found[remark] = found.get(remark, 0) + 1
        stopped = ""
        if dumps.get("last") is None:
            stopped = "code generation" if over_code else f"pass {passes}, {name}"
        if stopped and not found:
            return None
        every = (remark._replace(times=times) for remark, times in found.items())
        return Remarks(tuple(every), stopped)


def _read(log: str, name: str, function: str) -> Iterator[Remark]:
    """The remarks of a pass: each begins a line, and goes on to where something else begins."""
    begins = [*_HEAD.finditer(log)]
    for match, after in zip_longest(begins, begins[1:]):
        stop = after.start() if after is not None else len(log)
        text = " ".join(log[match.end() : stop].split()).rstrip(";")
        if match[1] and text:
            inliner = _INLINER.match(text)
            yield Remark(name, inliner["caller"] if inliner else function, int(match[1]), text)


def inlined(remarks: Iterable[Remark]) -> list[tuple[str, str, bool, str]]:
    """The outcome of each call at the inliner: callee, caller, whether it was inlined, and why."""
    rows: dict[tuple[str, str, bool, str], None] = {}
    for remark in remarks:
        if found := _INLINER.match(remark.text):
            why = found["why"].strip().rstrip(";.")
            rows[found["callee"], found["caller"], bool(found["yes"]), why] = None
    return list(rows)
