"""Where register allocation put each virtual register.  Start from `homes_of`.

LLVM does not tell.  But it keeps blocks, and the order of their instructions: so the code before
and the code after are laid beside each other, and what stands in a virtual register's place is its
home.  What was not there before is a spill, a reload, a copy, or a value that is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jitkernel.compiler.machine_code import Code, Operand, Step
from jitkernel.elf.registers import WHOLE
from jitkernel.regex import regex

#: Where a value is that has no register.
STACK = "stack"
#: What is computed again where it is needed (Briggs, Cooper, Torczon, "Rematerialization", 1992).
REMADE = "rematerialized"

_NEAR = 24  # instructions that may have come and gone between two that are the same
_FORM = regex(r"(?:[rmi]+8?|rm_alt)\Z")  # of an opcode: where its operands are
_VECTOR = regex(r"[xyz](mm\d+)\Z")


class _Homes:
    """The homes of virtual registers, as far as they are known: where each was at which
    instructions, by their numbers."""

    def __init__(self, before: Code, pieces: Mapping[str, Sequence[tuple[int, int]]]):
        self.steps, self._pieces = before.steps, pieces
        self.told: dict[str, list[tuple[int, str]]] = {}
        writes: dict[str, set[str]] = {}
        for step in before.steps:
            for each in step.defines():
                writes.setdefault(each.name, set()).add(step.shape)
        # By a shape, what it writes and may be computed again: first what nothing else writes.
        self._again: dict[str, list[str]] = {}
        for name in sorted(writes, key=lambda name: len(writes[name])):
            for shape in writes[name]:
                self._again.setdefault(shape, []).append(name)

    def tell(self, name: str, number: int, *homes: str) -> None:
        """Note where a virtual register was at an instruction."""
        self.told.setdefault(name, []).extend((number, home) for home in homes)

    def same(self, number: int, theirs: Sequence[Operand]) -> None:
        """An instruction, of which the operands are others now."""
        for one, other in zip(self.steps[number].operands, theirs, strict=False):
            if one.is_virtual and not other.is_virtual:
                self.tell(one.name, number, home_of(other.name))

    def folded(self, number: int, step: Step) -> None:
        """An instruction that has a slot where one of its registers was.  It may be commuted: the
        slot is of who was in one of the registers least lately."""
        has = {home_of(each.name) for each in step.operands} - {STACK}
        names = dict.fromkeys(e.name for e in self.steps[number].operands if e.is_virtual)

        def away(name: str) -> int:
            found = [abs(at - number) for at, home in self.told.get(name, ()) if home in has]
            return min(found, default=len(self.steps))

        if names:
            self.tell(max(names, key=away), number, STACK)

    def extra(self, number: int, step: Step) -> None:
        """An instruction that was not there, in front of one that was."""
        homes = {home_of(each.name) for each in step.operands}
        place = 2 * number
        live = [n for n, own in self._pieces.items() if any(a <= place <= b for a, b in own)]
        if len(step.operands) == 2 and len(homes) == 2:  # a spill, a reload or a copy
            owners = [
                (abs(at - number), name)
                for name in live
                for at, home in self.told.get(name, ())
                if home in homes - {STACK}
            ]
            owner = min(owners, default=(0, ""))[1]
        else:  # a value that is computed again
            homes = {home_of(step.operands[0].name), REMADE}
            owner = next((name for name in self._again.get(step.shape, ()) if name in live), "")
        if owner:
            self.tell(owner, number, *sorted(homes))


def homes_of(
    before: Code, after: Code, pieces: Mapping[str, Sequence[tuple[int, int]]]
) -> dict[str, list[str]]:
    """The homes of each virtual register, in the order of the code: registers as a whole (`rbx`),
    STACK, REMADE.  `pieces` are those of their live ranges."""
    homes = _Homes(before, pieces)
    folded: list[tuple[int, Step]] = []
    extra: list[tuple[int, Step]] = []
    made = dict(after.blocks())
    for block, steps in before.blocks():
        ours = before.steps[steps.start : steps.stop]
        theirs = [after.steps[n] for n in made.get(block, ())]
        for is_same, i, i_end, j, j_end in _aligned(
            [step.shape for step in ours], [step.shape for step in theirs]
        ):
            numbers = range(steps.start + i, steps.start + i_end)
            if is_same:
                for number, step in zip(numbers, theirs[j:j_end], strict=True):
                    homes.same(number, step.operands)
                continue
            rest = theirs[j:j_end]
            for number in numbers:
                own = before.steps[number]
                if found := next((step for step in rest if _is_folded(step, own)), None):
                    rest.remove(found)
                    folded.append((number, found))
                elif own.opcode == "COPY":  # of a register to itself
                    homes.same(number, own.operands[::-1])
            extra += [(numbers.stop, step) for step in rest if step.operands]
    for number, step in folded:
        homes.folded(number, step)
    for number, step in extra:
        homes.extra(number, step)
    return {
        name: list(dict.fromkeys(home for _, home in sorted(found)))
        for name, found in homes.told.items()
    }


def _aligned(
    ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[bool, int, int, int, int]]:
    """Stretches of two lists that are the same, and those between, by their ends in both.

    What they have in common goes on at the nearest place where both are the same; of copies, which
    come and go, the next ones have to be, too.  That takes time in proportion to the lists.
    """
    i = j = 0
    while i < len(ours) or j < len(theirs):
        n = 0
        while i + n < len(ours) and j + n < len(theirs) and ours[i + n] == theirs[j + n]:
            n += 1
        if n:
            yield True, i, i + n, j, j + n
            i, j = i + n, j + n
            continue
        places = ((a, away - a) for away in range(1, _NEAR) for a in range(away + 1))
        rest = len(ours) - i, len(theirs) - j
        a, b = next(
            (
                (a, b)
                for a, b in places
                if a <= rest[0] and b <= rest[1] and _meet(ours[i + a :][:2], theirs[j + b :][:2])
            ),
            rest,
        )  # fmt: skip
        yield False, i, i + a, j, j + b
        i, j = i + a, j + b


def _meet(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    return ours == theirs or (ours[:1] == theirs[:1] and ours[:1] != ["_ = COPY _"])


def _is_folded(step: Step, before: Step) -> bool:
    """True if it may be what was there before, with a stack slot in a register's place."""
    if not any(each.name.startswith("%stack") for each in step.operands):
        return False
    if before.opcode == "COPY":  # from or to a register that was no virtual one
        fixed = [e.name for e in before.operands if not e.is_virtual]
        moves = "MOV" in step.opcode and len(step.operands) == 2
        return moves and (not fixed or any(each.name in fixed for each in step.operands))
    return _FORM.sub("", before.opcode) == _FORM.sub("", step.opcode)


def home_of(operand: str) -> str:
    """The register that an operand is, or is a part of; STACK of a slot."""
    if operand.startswith("%stack"):
        return STACK
    name = operand[1:]
    if found := _VECTOR.match(name):
        return f"x{found[1]}"
    return WHOLE.get(name, name)
