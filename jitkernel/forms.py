"""Whether what was read from a file has the form that was written.  Start from `check`.

A form is a type; `Maybe(form)` for None or that; a list of one form for any number of it; a tuple
of forms for a list of as many; a dictionary of forms for one that has these keys, or with the key
`...` for one of any keys whose values have that form.  Numbers are whole, from 0 to 2^64 - 1, and
may be truths.
"""

from __future__ import annotations

import zlib
from itertools import repeat
from typing import Any

from jitkernel.record import NamedTuple

_END = 1 << 64
_CONTAINERS: dict[type, type] = {tuple: list, list: list, dict: dict}


class Maybe(NamedTuple):
    """None, or a value of a form."""

    form: Any


def check(value: Any, form: Any) -> None:
    """Raise ValueError where a value has another form."""
    left = [(value, form)]  # a call for each part takes as long as all else that is read
    while left:
        value, form = left.pop()
        kind = form.__class__
        wanted = _CONTAINERS.get(kind) or form
        if kind is not Maybe and not isinstance(value, wanted):
            raise ValueError(f"{_shown(value)} is no {wanted.__name__}")
        if kind is tuple or kind is list:
            if kind is tuple and len(value) != len(form):
                raise ValueError(f"{_shown(value)} has {len(value)} parts instead of {len(form)}")
            for inner, its in zip(value, form if kind is tuple else repeat(form[0]), strict=False):
                if its is int and inner.__class__ is int and 0 <= inner < _END:
                    continue
                if its is not str or inner.__class__ is not str:
                    left.append((inner, its))
        elif kind is Maybe:
            if value is not None:
                left.append((value, form.form))
        elif kind is dict:
            if ... in form:
                left.extend(zip(value.values(), repeat(form[...])))
            else:
                left.extend(zip(map(value.get, form), form.values(), strict=True))
        elif form is int and not 0 <= value < _END:
            raise ValueError(f"{_shown(value)} is no number of 64 bits")


def decompress(data: bytes, limit: int) -> bytes:
    """Decompress data of zlib's, to at most `limit` bytes.  Raises ValueError."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(data, limit)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not reader.eof:
        raise ValueError(f"more than {limit} bytes" if len(found) >= limit else "it ends early")
    if reader.unused_data:
        raise ValueError("it goes on behind its end")
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
