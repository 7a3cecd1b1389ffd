"""What a language says of its functions and variables, where that is more than their types in IR.

What C passes by value may be two numbers in IR, and all pointers are alike there.  Start from
`Prototype`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitkernel.languages.shapes import Shape, read_shape, row_of

__all__ = ["Foreign", "Pointee", "Prototype", "Spelling"]

_KINDS = {None: None, "int": int, "float": float, "bool": bool, "complex": complex,
          "tuple": tuple, "bytes": bytes}  # fmt: skip


class Spelling(NamedTuple):
    """The spelling of a definition in its language: `text` declares it, `types` are its parameters'
    types, or a variable's; `document` gives its lines, below the comment above them."""

    text: str
    types: Sequence[str]
    document: Callable[[], str]


class Foreign(NamedTuple):
    """A cell that defines a function of Python's, and what it hands over: a struct of the result,
    where it `returns` one, and the arguments."""

    source: str
    frame: Shape
    returns: bool


class Pointee(NamedTuple):
    """A parameter that is a pointer to numbers: `text` as the language writes it, and what it leads
    to as numpy writes that (`f8`; addresses are `u8`, and `text` has another star).  `constant`:
    the function does not write there."""

    text: str
    code: str
    constant: bool = False


def _nothing(index: int) -> Shape | None:
    return None


def _no_function(index: int) -> str:
    return ""


class Prototype(NamedTuple):
    """Of a variable, or a function's result, `result`: None where IR's view of it is right.

    `parameters` are a function's where some of them are none of IR's: None for those that are.
    `names` and `kinds` are theirs, and last the result's: classes of Python's, None for any and for
    nothing.  `text` is how the language declares it.  `pointees` say by parameter what arrays are
    wanted: None for those that take any, nothing where nothing is known.  `pointed` tells of a
    parameter, from 0 on, which struct it leads to, None for no struct, `callback` the type of the
    function that it leads to, "" for none: that may need a compiler, and does not travel.
    """

    result: Shape | None = None
    parameters: tuple[Shape | None, ...] | None = None
    names: tuple[str, ...] = ()
    kinds: tuple[type | None, ...] = ()
    text: str = ""
    pointees: Sequence[Pointee | None] = ()
    pointed: Callable[[int], Shape | None] = _nothing
    callback: Callable[[int], str] = _no_function

    def row(self) -> list[Any]:
        """A row that JSON can have, and `of` takes."""
        parameters = self.parameters
        return [
            self.result and row_of(self.result),
            None if parameters is None else [shape and row_of(shape) for shape in parameters],
            list(self.names), [kind and kind.__name__ for kind in self.kinds], self.text,
            list(self.pointees),
        ]  # fmt: skip

    @classmethod
    def of(cls, row: Any) -> Prototype:
        """The inverse of `row`.  Raises ValueError, TypeError or KeyError for what is none."""
        result, parameters, names, kinds, text, pointees = row
        shapes = None if parameters is None else tuple(p and read_shape(p) for p in parameters)
        if not all(isinstance(word, str) for word in (*names, text)):
            raise TypeError("names of parameters are text")
        if shapes is not None and len(kinds) != len(shapes) + 1:
            raise ValueError("not as many classes as parameters")
        found = tuple(_KINDS[kind] for kind in kinds)
        wanted = tuple(p and _pointee(*p) for p in pointees)
        return cls(result and read_shape(result), shapes, tuple(names), found, text, wanted)


def _pointee(text: Any, code: Any, constant: Any) -> Pointee:
    good = isinstance(text, str) and isinstance(code, str) and isinstance(constant, bool)
    if not good or code[:1] not in ("i", "u", "f", "b", "c") or not code[1:].isdecimal():
        raise TypeError(f"{code!r} is no type of numbers")
    return Pointee(text, code, constant)
