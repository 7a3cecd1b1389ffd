"""Linear-scan register allocation (Poletto and Sarkar 1999): the interval in which each value is
live, and its register, or a place on the stack."""

from collections.abc import Iterator, Sequence
from typing import Any

from jitkernel.ir.model import Argument, Function, Instruction, Value

REGISTERS = ("r0", "r1", "r2", "r3")


def intervals(f: Function) -> dict[Value, tuple[int, int]]:
    """Of each value the first and the last place where it is live, in reverse post-order."""
    live, spans, place = f.liveness(), dict[Value, tuple[int, int]](), 0

    def reach(value: Value, place: int) -> None:
        if isinstance(value, (Argument, Instruction)):
            first, last = spans.get(value, (place, place))
            spans[value] = (min(first, place), max(last, place))

    for argument in f.args:
        reach(argument, 0)
    for b in f.reverse_post_order():
        for value in live.live_in[b]:
            reach(value, place)
        for i in b.instructions:
            if i.opcode != "phi":  # what a phi takes is live at the end of the other block
                for value in i.operands:
                    reach(value, place)
            if str(i.type) != "void":
                reach(i, place)
            place += 1
        for value in live.live_out[b]:
            reach(value, place - 1)
    return spans


def allocate(spans: dict[Any, Any], registers: Sequence[str] = REGISTERS) -> dict[Any, str]:
    """A register or `stack` for each: where none is free, what is needed longest is in memory."""
    active, where = list[Any](), dict[Any, str]()
    for value, (first, _) in sorted(spans.items(), key=lambda item: item[1]):
        active = [v for v in active if spans[v][1] > first or spans[v][0] == first]
        free = [r for r in registers if r not in {where[v] for v in active}]
        longest = max([*active, value], key=lambda v: spans[v][1])
        if free:
            where[value] = free[0]
        elif longest is not value:
            where[value], where[longest] = where[longest], "stack"
            active.remove(longest)
        else:
            where[value] = "stack"
        active += [value] if where[value] != "stack" else []
    return where


def linear_scan(f: Function) -> Iterator[dict[str, object]]:
    spans = intervals(f)
    where = allocate(spans)
    for value, (first, last) in spans.items():
        yield {"value": value.ref, "from": first, "to": last, "in": where[value]}
