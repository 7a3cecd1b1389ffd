"""What an array holds, held against what a function's pointer leads to.

Start from `elements_of`: what Python's own buffers say, as numpy's dtypes do; and
`refuse_other_members`, of structs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from jitkernel.errors import UsageError
from jitkernel.session.arrays import dtype_of, numpy, of_dtype
from jitkernel.values.datatype import DataType, number

__all__ = ["elements_of", "named", "refuse_other_members"]

_Pointer: Any = ctypes._Pointer
_KINDS = {
    **dict.fromkeys("hilqn", "i"), **dict.fromkeys("HILQN", "u"), **dict.fromkeys("efdg", "f"),
    "?": "b",
}  # fmt: skip
_NAMES = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_SHOWN = 8  # members


def named(code: str) -> str:
    """What numpy calls numbers of a code: `float64`."""
    return f"{_NAMES[code[0]]}{8 * int(code[1:])}" if code[0] in _NAMES else "bool"


def elements_of(thing: Any) -> tuple[DataType, str] | None:
    """The numbers in an array of numpy's or a buffer (PEP 3118), or those that a pointer of ctypes
    leads to, and what numpy calls them; None for bytes and all that it does not say."""
    if (dtype := getattr(thing, "dtype", None)) is not None:
        return (of_dtype(dtype), str(dtype)) if hasattr(dtype, "isnative") else None
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
    """Where numbers lie, their kind, and bytes; those of an array are one."""
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
