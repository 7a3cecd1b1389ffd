"""What a function's array parameters are: `double[n], double[n], n`, or `double *` in C.

IR has one pointer type, so a signature cannot say what a pointer leads to.  Python may: start from
`ArraySignature`; `FunctionHandle.arrays` gives a function that checks its arguments against one.
What the function's own language says is in `PointerTypes`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.languages.c.numbers import code_of
from jitkernel.session.arrays import numpy

if TYPE_CHECKING:
    from jitkernel.languages.language import Pointee
    from jitkernel.linker import Image
    from jitkernel.session.program.program import Program

__all__ = ["ArraySignature", "PointerTypes", "pointees"]

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
            raise UsageError(
                f"{what}: its elements do not lie one behind the other; numpy.ascontiguousarray "
                "gives a copy whose do"
            )
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


class PointerTypes:
    """What the languages of a program's functions say that pointers lead to.

    It holds as long as the function's definition, which changes with the types that it mentions.
    """

    def __init__(self, program: Program):
        self._program = program
        self._known: dict[str, tuple[Image, Sequence[Pointee | None]]] = {}

    def check(self, name: str, arguments: Sequence[Any]) -> Sequence[Pointee | None]:
        """What is said, by parameter: None, or nothing, where nothing is.

        Raises UsageError for an array whose elements are others than a pointer's.  Only arrays that
        say what they hold are looked at, by `dtype`; plain bytes may be anything.
        """
        symbol = self._program.symbol(name)
        image = symbol.image if symbol is not None else None
        if image is None:
            return ()
        known, found = self._known.get(name, (None, ()))
        if known is not image:
            found = pointees(self._program, name, image.cell)
            self._known[name] = image, found
        for number, (thing, wanted) in enumerate(zip(arguments, found, strict=False), 1):
            if wanted is not None and (dtype := getattr(thing, "dtype", None)) is not None:
                _refuse_other(dtype, wanted, f"argument {number} of {written(name)}")
        return found


def pointees(program: Program, name: str, cell: int) -> Sequence[Pointee | None]:
    """What the language of a cell says of a function that it defines."""
    from jitkernel.languages import find

    found = dict(program.notes.found)
    # Where the note of its name is another cell's, the definition is in another language.
    texts = {k: n.text for k, n in found.items() if n.cell == cell or not k.endswith(f":{name}")}
    for language in dict.fromkeys(k.partition(":")[0] for k, n in found.items() if n.cell == cell):
        if said := find(language).pointees(name, texts):
            return said
    return ()


def _refuse_other(dtype: Any, wanted: Pointee, what: str) -> None:
    """Raises UsageError where numbers of a type are not what a pointer leads to; whether integers
    have a sign is the function's business."""
    kind, size = wanted.code[0], int(wanted.code[1:])
    given = getattr(dtype, "kind", kind)
    fits = given == kind or {given, kind} == {"i", "u"}
    if fits and getattr(dtype, "itemsize", size) == size and getattr(dtype, "isnative", True):
        return
    name = numpy().dtype(wanted.code).name
    raise UsageError(
        f"{what} is {wanted.text}, and an array of {dtype} is given: array.astype({name!r}) "
        "gives one that fits"
    )
