"""How a machine passes numbers and pointers to functions: where each lies in the block of words
that the common thunk hands on.  Start from `passed`.

System V ABI, AMD64 supplement, 3.2.3: each is in a register of its own as long as there are some of
its class, then in the next word of the stack.  What is passed otherwise (structs by value, vectors,
numbers of more than 64 bits, `nest`, other conventions) is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from jitkernel.values.datatype import DataType, Member
from jitkernel.values.ir import data_type

_WORD = 8  # bytes


class Registers(NamedTuple):
    """The number of a machine's registers for integers and pointers, and for numbers with a
    point."""

    integers: int
    reals: int


X86_64 = Registers(6, 8)


class Block(NamedTuple):
    """The words that are handed on: the content of each register, then so many words of the
    stack."""

    machine: Registers
    stack: int

    @property
    def types(self) -> tuple[str, ...]:
        """Types of LLVM's that are passed just so."""
        integers, reals = self.machine
        return ("i64",) * integers + ("double",) * reals + ("i64",) * self.stack

    @property
    def size(self) -> int:
        """In bytes."""
        return _WORD * (sum(self.machine) + self.stack)


#: The blocks of this machine that there are thunks for, the smallest first.
BLOCKS = (Block(X86_64, 0), Block(X86_64, 16))


def passed(types: Sequence[str], attributes: Mapping[int, str]) -> DataType | None:
    """The struct of arguments of these types (without names), of which some have attributes, as
    large as one of the `BLOCKS`; None where they are passed otherwise.

    What is in a word beside an argument is zero: so it is as `zeroext` wants it, and not as
    `signext` does.
    """
    machine = BLOCKS[0].machine
    integers, reals = iter(range(machine.integers)), iter(range(machine.reals))
    stack = count(sum(machine))
    members: list[Member] = []
    used = 0
    for index, text in enumerate(types):
        type = data_type(text)
        if (kind := _kind(type)) is None or attributes.get(index, "zeroext") != "zeroext":
            return None
        word = next(integers if kind == "i64" else reals, None)
        if word is None:
            word = next(stack)
        elif kind == "double":
            word += machine.integers
        members.append(Member("", type, _WORD * word))
        used = max(used, _WORD * (word + 1))
    size = next((block.size for block in BLOCKS if used <= block.size), 0)
    return DataType("struct", "", size, _WORD, members=tuple(members)) if size else None


def returned(type: str, attributes: str) -> str:
    """The type of LLVM's that is returned where a result of this type is, `i64` or `double`; ""
    where neither is.  Above the bits of an integer that is no whole number of bytes is anything,
    but for `zeroext`."""
    if type == "void":
        return "i64"
    of = data_type(type)
    whole = of.kind != "int" or of.bits == 8 * of.size
    known = attributes == "zeroext" or (whole and attributes in ("", "signext"))
    return (_kind(of) or "") if known else ""


def _kind(type: DataType) -> str | None:
    match type.kind:
        case "int" if type.bits <= 8 * _WORD:
            return "i64"
        case "pointer" if type.bits == 8 * _WORD:
            return "i64"
        case "float" if type.name in ("float", "double"):
            return "double"
    return None
