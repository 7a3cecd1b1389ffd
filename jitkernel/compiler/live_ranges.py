"""The live ranges of a function's virtual registers, as register allocation finds them.  Start from
`read`.

Machine IR is not in SSA form any more there: a register may be written several times, and its range
has holes.  Instruction number n reads at place 2n and writes at 2n + 1; a piece of a range is half
open, so that what ends at an instruction does not overlap what begins there.  Liveness is a fixed
point over blocks, from their ends: Aho, Lam, Sethi, Ullman, "Compilers", 9.2.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from jitkernel.compiler.allocation import homes_of
from jitkernel.compiler.machine_code import CLASS, Block, Code, code_of

# Of x86-64: the kinds of registers by the beginning of a class's name.
_BANKS = (("gr", "general"), ("low", "general"), ("vr", "vector"), ("fr", "vector"),
          ("vk", "mask"), ("rfp", "x87"), ("tile", "tile"))  # fmt: skip


class Range(NamedTuple):
    """A virtual register: its class and its bank (`general`, `vector`, ...), the pieces of its
    range, in order, the instructions that mention it, and where register allocation put it, in the
    order of the code: `rbx`, STACK, REMADE; nothing where that is not known."""

    name: str
    kind: str
    bank: str
    pieces: tuple[tuple[int, int], ...]
    mentions: tuple[int, ...]
    homes: tuple[str, ...] = ()

    @property
    def start(self) -> int:
        """The place where its first piece begins."""
        return self.pieces[0][0]

    @property
    def stop(self) -> int:
        """The place behind its last piece."""
        return self.pieces[-1][1]

    def live(self, place: int) -> bool:
        """True if it is live at a place."""
        return any(start <= place < stop for start, stop in self.pieces)

    def overlaps(self, other: Range) -> bool:
        """True if both are live at some place and are of one bank: they interfere."""
        return self.bank == other.bank and any(
            a < d and c < b for a, b in self.pieces for c, d in other.pieces
        )


@dataclass(frozen=True)
class LiveRanges:
    """A function before registers are allocated: its `instructions` as text, `blocks` as the number
    of each one's first instruction with its label, the instructions that are `calls`, and the
    `ranges` of virtual registers in the order in which they begin."""

    instructions: tuple[str, ...]
    blocks: tuple[tuple[int, str], ...]
    calls: tuple[int, ...]
    ranges: tuple[Range, ...]

    @property
    def banks(self) -> list[str]:
        """The banks of which there are registers, the most crowded one first."""
        found = dict.fromkeys(r.bank for r in self.ranges)
        return sorted(found, key=lambda bank: -self.widest(bank)[0])

    @cached_property
    def _pressure(self) -> dict[str, list[int]]:
        """The number of ranges of each bank that are live at each place."""
        size = 2 * len(self.instructions) + 1
        found: dict[str, list[int]] = {r.bank: [0] * size for r in self.ranges}
        for one in self.ranges:
            for start, stop in one.pieces:
                found[one.bank][start] += 1
                found[one.bank][stop] -= 1
        for counts in found.values():
            for place in range(1, size):
                counts[place] += counts[place - 1]
        return found

    def pressure(self, number: int, bank: str) -> int:
        """The registers of a bank that are needed at once at an instruction."""
        counts = self._pressure[bank]
        return max(counts[2 * number], counts[2 * number + 1])

    def widest(self, bank: str) -> tuple[int, int]:
        """The most registers of a bank that are needed at once, and the first instruction where."""
        count = max(self._pressure[bank])
        return count, self._pressure[bank].index(count) // 2

    def across(self, call: int) -> list[Range]:
        """The ranges that are live before and behind a call."""
        return [r for r in self.ranges if r.live(2 * call) and r.live(2 * call + 1)]

    @cached_property
    def interference(self) -> dict[str, list[str]]:
        """By name the ranges of the same bank that a range overlaps."""
        found: dict[str, list[str]] = {r.name: [] for r in self.ranges}
        active: list[Range] = []
        for one in self.ranges:
            active = [r for r in active if r.stop > one.start]
            for other in active:
                if other.overlaps(one):
                    found[one.name].append(other.name)
                    found[other.name].append(one.name)
            active.append(one)
        return found


def read(before: str, after: str = "") -> LiveRanges:
    """The live ranges in a function's machine IR `before` registers are allocated, with their homes
    where that `after` is given and LLVM numbers its instructions."""
    code = code_of(before)
    pieces = _pieces(code)
    kinds = {name: kind for name, _, kind in CLASS.findall(before)}
    mentions: dict[str, list[int]] = {}
    for number, step in enumerate(code.steps):
        for name in dict.fromkeys(each.name for each in step.operands):
            mentions.setdefault(name, []).append(number)
    homes = homes_of(code, code_of(after), pieces) if after else {}
    ranges = []
    for name, found in pieces.items():
        kind = kinds.get(name, "")
        bank = next((bank for start, bank in _BANKS if kind.startswith(start)), kind)
        ranges.append(Range(name, kind, bank, tuple(found), tuple(mentions[name]),
                            tuple(homes.get(name, ()))))  # fmt: skip
    ranges.sort(key=lambda r: (r.start, r.stop, int(r.name[1:])))
    return LiveRanges(
        tuple(step.text for step in code.steps),
        tuple((block.first, block.label) for block in code.heads),
        tuple(n for n, step in enumerate(code.steps) if "<regmask>" in step.text),
        tuple(ranges),
    )


def _pieces(code: Code) -> dict[str, list[tuple[int, int]]]:
    """The pieces of each range, in order; those that touch are one."""
    steps, blocks = code
    ends = [span.stop for _, span in code.blocks()]
    into: dict[str, set[str]] = {block.number: set() for block in blocks}
    at = dict(zip(into, zip(blocks, ends, strict=True), strict=True))
    before: dict[str, list[str]] = {number: [] for number in into}
    for block in blocks:
        for after in block.successors:
            before[after].append(block.number)

    def out(block: Block) -> set[str]:
        return set[str]().union(*(into[after] for after in block.successors))

    work = dict.fromkeys(into)
    while work:
        number, _ = work.popitem()
        block, end = at[number]
        live = out(block)
        for step in reversed(steps[block.first : end]):
            live.difference_update(each.name for each in step.defines())
            live.update(step.uses())
        if live != into[number]:
            into[number] = live
            work.update(dict.fromkeys(before[number]))
    found: dict[str, list[tuple[int, int]]] = {}
    for block, end in reversed(at.values()):  # from the end, so that pieces come last first
        until = dict.fromkeys(out(block), 2 * end)

        def begin(name: str, place: int, stop: int) -> None:
            known = found.setdefault(name, [])
            if known and known[-1][0] <= stop:
                known[-1] = place, known[-1][1]
            elif place < stop:
                known.append((place, stop))

        for n in range(end - 1, block.first - 1, -1):
            for each in steps[n].defines():
                place = 2 * n + ("early-clobber" not in each.flags)
                begin(each.name, place, until.pop(each.name, 2 * n + 2))
            for name in steps[n].uses():
                until.setdefault(name, 2 * n + 1)
        for name, stop in until.items():
            begin(name, 2 * block.first, stop)
    return {name: known[::-1] for name, known in found.items()}
