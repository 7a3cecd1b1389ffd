"""What a language says of its functions and variables, where that is more than their types in IR.

What C passes by value may be two numbers in IR, and all pointers are alike there.  Start from
`Prototype`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitkernel.record import NamedTuple
from jitkernel.values.datatype import DataType, number
from jitkernel.values.rows import read_type, row_of


class Spelling(NamedTuple):
    """The spelling of a definition in its language: `text` declares it, `types` are its parameters'
    types, or a variable's; `document` gives its lines, below the comment above them, "" where they
    are those that its module marks."""

    text: str
    types: Sequence[str]
    document: Callable[[], str]


class Foreign(NamedTuple):
    """A cell that defines a function of Python's, and what it hands over: a struct of the result,
    where it `returns` one, and the arguments."""

    source: str
    frame: DataType
    returns: bool


class Prototype(NamedTuple):
    """Of a variable, or a function's result, `result`: None where IR's view of it is right;
    types as Python sees them (`values.datatype.plain`).

    `parameters` are a function's where some of them are none of IR's, None else; `names` are
    theirs.  `text` is how the language declares it.  `pointees` say by parameter what arrays are
    wanted: None for those that take any, nothing where nothing is known.  `pointed` tells of a
    parameter, from 0 on, which struct or array it leads to, None for neither, `callback` the type
    of the function that it leads to, "" for none: that may need a compiler, and does not travel.
    """

    result: DataType | None = None
    parameters: tuple[DataType, ...] | None = None
    names: tuple[str, ...] = ()
    text: str = ""
    pointees: Sequence[DataType | None] = ()
    pointed: Callable[[int], DataType | None] = lambda index: None
    callback: Callable[[int], str] = lambda index: ""

    @property
    def is_simple(self) -> bool:
        """True if a function takes and gives numbers and pointers as a machine has them, by what
        is said here: no struct, no `_BitInt`."""
        of = self.result
        return self.parameters is None and (of is None or of.kind != "int" or bool(of.code))

    @property
    def is_unsigned(self) -> bool:
        """True if a function's result is an integer without a sign."""
        return self.result is not None and self.result.code[:1] == "u"

    def row(self) -> list[Any]:
        """A row that JSON can have, and `of` takes."""
        parameters = self.parameters
        return [
            self.result and row_of(self.result),
            None if parameters is None else [row_of(one) for one in parameters],
            list(self.names), self.text,
            [p and [p.name, code_of_elements(p), p.constant] for p in self.pointees],
        ]  # fmt: skip

    @classmethod
    def of(cls, row: Any) -> Prototype:
        """The inverse of `row`.  Raises ValueError, TypeError or KeyError for what is none."""
        result, parameters, names, text, pointees = row
        types = None if parameters is None else tuple(map(read_type, parameters))
        if not all(isinstance(word, str) for word in (*names, text)):
            raise TypeError("names of parameters are text")
        wanted = tuple(p and _pointer(*p) for p in pointees)
        return cls(result and read_type(result), types, tuple(names), text, wanted)


def _pointer(text: Any, code: Any, constant: Any) -> DataType:
    good = isinstance(text, str) and isinstance(code, str) and isinstance(constant, bool)
    if not good or code[:1] not in ("i", "u", "f", "b", "c") or not code[1:].isdecimal():
        raise TypeError(f"{code!r} is no type of numbers")
    return pointer_to(number(code), text, constant)


def pointer_to(element: DataType, text: str, constant: bool = False) -> DataType:
    """A pointer to numbers or to addresses, as a language writes it: `const double *`."""
    if constant:
        element = DataType("const", size=element.size, bits=element.bits, element=element)
    return DataType("pointer", text, 8, 8, 64, element=element)


def code_of_elements(pointer: DataType) -> str:
    """numpy's code of what a pointer leads to: addresses are `u8`."""
    return pointer.element.bare.code or "u8" if pointer.element is not None else ""
