"""What a function's array parameters are: `double[n], double[n], n`, or `double *` in C.

IR has one pointer type, so a signature cannot say what a pointer leads to.  Python may: start from
`ArraySignature`; `FunctionHandle.arrays` gives a function that checks its arguments against one.
What the function's own language says is told by `languages/prototypes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.languages.c.numbers import code_of
from jitkernel.session.arrays import numpy, refuse_order

__all__ = ["ArraySignature"]

_PARAMETER = re.compile(r"\s*([A-Za-z_][\w ]*?)\s*(?:\[([^\]]*)\])?\s*\Z")
_SIDE = re.compile(r"\d+|[A-Za-z_]\w*|:")
#: LLVM's names that mean something else to numpy.
_OF_LLVM = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}


class _Parameter(NamedTuple):
    text: str
    name: str  # of a number, where it is none of an array's
    dtype: Any
    sides: tuple[str, ...]


class ArraySignature:
    """Parameters in order: an array's element type with its sides, `float[rows, 3]`, `int[:]`; or
    the name of a number.

    Names stand for one number wherever they are, and `:` for any.  Raises UsageError for a text
    that cannot be read.
    """

    def __init__(self, text: str):
        self.text = text
        self._parameters = [_read(part, text) for part in re.split(r",(?![^\[]*\])", text)]
        self._sides = {s for p in self._parameters for s in p.sides if s.isidentifier()}

    def check(self, function: str, given: Sequence[Any]) -> list[Any]:
        """The arguments to pass; numbers that arrays tell may be left out at the end or between.

        Raises UsageError for an array of another type or shape, and where numbers do not agree.
        """
        left_out = len(self._parameters) - len(given)
        told = [p for p in self._parameters if p.dtype is None and p.name in self._sides]
        if left_out and left_out != len(told):
            raise UsageError(
                f"{function} takes {len(self._parameters)} arguments ({self.text}), "
                f"{len(given)} given"
            )
        rest = iter(given)
        arguments: list[Any] = []
        known: dict[str, int] = {}
        for number, parameter in enumerate(self._parameters, 1):
            if left_out and parameter in told:
                arguments.append(None)
                continue
            thing = next(rest)
            arguments.append(thing)
            if parameter.dtype is not None:
                self._array(parameter, thing, known, f"{function}, argument {number}")
            elif parameter in told:
                what = f"{function}, argument {number}"
                try:
                    value = int(thing)
                except (TypeError, ValueError):
                    raise UsageError(
                        f"{what} is {parameter.name}, a number, not {thing!r}"
                    ) from None
                self._agree(known, parameter.name, value, what)
        return [
            known[p.name] if left_out and p in told else a
            for p, a in zip(self._parameters, arguments, strict=True)
        ]

    def _array(self, parameter: _Parameter, array: Any, known: dict[str, int], what: str) -> None:
        found, wanted = numpy().asarray(array), parameter.sides
        what = f"{what} is {parameter.text}"
        if found.dtype != parameter.dtype:
            raise UsageError(f"{what}, and an array of {found.dtype} is given")
        sides = list(zip(wanted, found.shape, strict=False))
        if found.ndim != len(wanted) or any(w.isdigit() and int(w) != n for w, n in sides):
            raise UsageError(f"{what}, and an array of shape {found.shape} is given")
        if not found.flags.c_contiguous:
            refuse_order(found.shape, found.strides, found.itemsize, what)
        for side, length in sides:
            if side.isidentifier():
                self._agree(known, side, length, what)

    def _agree(self, known: dict[str, int], name: str, value: int, what: str) -> None:
        if known.setdefault(name, value) != value:
            raise UsageError(f"{what}: {name} is {known[name]} and {value} ({self.text})")


def _read(part: str, text: str) -> _Parameter:
    match = _PARAMETER.match(part)
    if match is None:
        raise UsageError(f"{part.strip()!r} is no parameter: {text!r}; such as double[n, 3] or n")
    name, sides = match[1], match[2]
    if sides is None:
        return _Parameter(part.strip(), name, None, ())
    found = tuple(side.strip() for side in sides.split(","))
    if not all(_SIDE.fullmatch(side) for side in found):
        raise UsageError(f"{part.strip()!r}: sides are names, numbers or `:`")
    try:
        kind = numpy().dtype(_OF_LLVM.get(name) or code_of(name.split()) or name)
    except TypeError:
        raise UsageError(f"{part.strip()!r}: {name} is no type of numbers") from None
    return _Parameter(part.strip(), "", kind, found)
