"""What a function's array parameters are, held against what an array holds.

IR has one pointer type, so a signature cannot say what a pointer leads to.  Python may (`double[n],
double[n], n`): start from `ArraySignature`; `FunctionHandle.arrays` gives a function that checks
its arguments against one.  The function's own language may (languages/prototypes.py): start from
`elements_of`, what Python's own buffers say, as numpy's dtypes do, `refuse_other_members` and
`refuse_other_shape`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.regex import regex
from jitkernel.session.arrays import dtype_of, numpy, of_dtype, refuse_order
from jitkernel.values.c_numbers import number_type
from jitkernel.values.datatype import DataType, number

_PARAMETER = regex(r"\s*([A-Za-z_][\w ]*?)\s*(?:\[([^\]]*)\])?\s*\Z")
_SIDE = regex(r"\d+|[A-Za-z_]\w*|:")
#: LLVM's names that mean something else to numpy.
_OF_LLVM = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
_Pointer: Any = ctypes._Pointer
_KINDS = {
    **dict.fromkeys("hilqn", "i"), **dict.fromkeys("HILQN", "u"), **dict.fromkeys("efdg", "f"),
    "?": "b",
}  # fmt: skip
_NAMES = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_SHOWN = 8  # members


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
        for place, parameter in enumerate(self._parameters, 1):
            if left_out and parameter in told:
                arguments.append(None)
                continue
            thing = next(rest)
            arguments.append(thing)
            if parameter.dtype is not None:
                self._array(parameter, thing, known, f"{function}, argument {place}")
            elif parameter in told:
                what = f"{function}, argument {place}"
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
        where = "" if part.strip() == text.strip() else f" of {text!r}"
        raise UsageError(f"{part.strip()!r}{where} is no parameter, such as double[n, 3] or n")
    name, sides = match[1], match[2]
    if sides is None:
        return _Parameter(part.strip(), name, None, ())
    found = tuple(side.strip() for side in sides.split(","))
    if not all(_SIDE.fullmatch(side) for side in found):
        raise UsageError(f"{part.strip()!r}: sides are names, numbers or `:`")
    try:
        in_c = number_type(name)
        kind = numpy().dtype(_OF_LLVM.get(name) or (in_c and in_c.code) or name)
    except TypeError:
        raise UsageError(f"{part.strip()!r}: {name} is no type of numbers") from None
    return _Parameter(part.strip(), "", kind, found)


def named(code: str) -> str:
    """Numpy's name for numbers of a code: `float64`."""
    return f"{_NAMES[code[0]]}{8 * int(code[1:])}" if code[0] in _NAMES else "bool"


def elements_of(thing: Any) -> tuple[DataType, object] | None:
    """The numbers in an array of numpy's or a buffer (PEP 3118), or those that a pointer of ctypes
    leads to, and what numpy calls them, as text; None for bytes and all that it does not say."""
    if (dtype := getattr(thing, "dtype", None)) is not None:
        return (of_dtype(dtype), dtype) if hasattr(dtype, "isnative") else None
    if isinstance(thing, _Pointer):
        if not thing:
            return None
        thing = thing.contents
    try:
        with memoryview(thing) as view:
            form, size = view.format, view.itemsize
    except (TypeError, ValueError):  # it has none, or none any more
        return None
    kind = _KINDS.get(form.lstrip("@=<>!"))
    if kind is None:
        return None
    code = f"{kind}{size}"
    if form[0] in ">!":
        return DataType("bytes", size=size), f"{named(code)}, bytes swapped"
    return number(code), named(code)


def refuse_other_members(dtype: Any, wanted_type: DataType, what: str) -> None:
    """Raises UsageError where an array of records lies otherwise than the structs that a pointer
    leads to.  Names are not compared, nor members of which only bytes are known."""
    wanted = dtype_of(wanted_type)
    if _same(dtype, wanted):
        return
    aligned = numpy().dtype([(name, dtype[name]) for name in dtype.names], align=True)
    remedy = ": array.astype(numpy.dtype(array.dtype.descr, align=True)) gives one that fits"
    raise UsageError(
        f"{what} leads to structs of {wanted.itemsize} bytes ({_places(wanted)}), and an array of "
        f"records of {dtype.itemsize} ({_places(dtype)}) is given{remedy * _same(aligned, wanted)}"
    )


def refuse_other_shape(array: Any, wanted: DataType, what: str) -> None:
    """Raises UsageError where an array of several dimensions is not made of the arrays that a
    pointer leads to."""
    of, sides, shape = dtype_of(wanted).base, tuple(wanted.sides), tuple(array.shape)
    if shape[len(shape) - len(sides) :] != sides or not _same(array.dtype, of):
        raise UsageError(
            f"{what} leads to arrays of shape {sides} of {of}, and an array of shape {shape} of "
            f"{array.dtype} is given: one of shape (n, {', '.join(map(str, sides))}) fits"
        )


def _same(given: Any, wanted: Any) -> bool:
    if given.itemsize != wanted.itemsize:
        return False
    found = dict(_leaves(given))
    raw = [(at, at + size) for at, (kind, size) in found.items() if kind == "V"]
    return all(
        kind == "V"
        or found.get(at) == (kind, size)
        or any(low <= at and at + size <= high for low, high in raw)
        for at, (kind, size) in _leaves(wanted)
    )


def _leaves(dtype: Any, at: int = 0) -> Iterator[tuple[int, tuple[str, int]]]:
    """The place of numbers, their kind, and bytes; those of an array are one."""
    if dtype.names:
        for name in dtype.names:
            inner, offset, *_ = dtype.fields[name]
            yield from _leaves(inner, at + offset)
        return
    if dtype.subdtype is not None and dtype.base.names:
        step = dtype.base.itemsize
        for number in range(dtype.itemsize // step if step else 0):
            yield from _leaves(dtype.base, at + number * step)
        return
    base = dtype.base
    kind = {"u": "i", "M": "i", "m": "i"}.get(base.kind, base.kind)
    if kind == "S" or (kind in "ib" and base.itemsize == 1) or not base.isnative:
        kind = "V" if base.isnative else "other"
    if kind == "U":
        kind = "i"  # wchar_t
    yield at, (kind, dtype.itemsize)


def _places(dtype: Any) -> str:
    parts = [(name, *dtype.fields[name][:2]) for name in dtype.names[:_SHOWN]]
    found = [f"{_word(inner)} {name} at {offset}" for name, inner, offset in parts]
    return ", ".join(found) + ", ..." * (len(dtype.names) > _SHOWN)


def _word(dtype: Any) -> str:
    """`float64`; of what is no number, its bytes."""
    return str(dtype) if dtype.kind in "biufc" else f"{dtype.itemsize} bytes"
