"""Memory as text, in the forms of gdb's `x/FMT` ("Examining Memory").  Start from `dump`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jitkernel.errors import UsageError
from jitkernel.languages.c.values import quoted
from jitkernel.regex import regex

__all__ = ["Format", "dump", "read_format"]

_FORMAT = regex(r"(\d*)([a-z]*)\Z")
_SIZES = {"b": 1, "h": 2, "w": 4, "g": 8}
_LETTERS = "xduotacfs"
_ROWS = {1: 8, 2: 8, 4: 4, 8: 2}  # of so many bytes, that many stand in a line
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}
_MOST = 4096  # values
_STRING = 200  # bytes of a string


class Format(NamedTuple):
    """The number of values, in which form (`i`: instructions), of how many bytes each."""

    many: int = 1
    letter: str = "x"
    size: int = 4


def read_format(text: str, last: Format) -> Format:
    """`8xb`: a count, a letter of the form and one of the size, each of which may be missing, the
    last two then as they were `last`.  Raises UsageError."""
    match = _FORMAT.match(text)
    letter, size = last.letter, last.size
    for each in match[2] if match else "":
        if each in _SIZES:
            size = _SIZES[each]
        elif each in (*_LETTERS, "i"):
            letter = each
            size = 8 if each == "a" else size
        else:
            match = None
            break
    if match is None:
        raise UsageError(
            f"x/{text}: write a count, a form (x d u o t c f, a: address, s: text, i: "
            "instructions) and a size (b: 1 byte, h: 2, w: 4, g: 8), such as x/8xb"
        )
    count = int(match[1]) if match[1] else 1
    if not 0 < count <= _MOST:
        raise UsageError(f"x/{text}: from 1 to {_MOST} values at once")
    if letter == "f" and size not in _FLOATS:
        size = 8
    return Format(count, letter, size)


def dump(
    address: int, format: Format, read: Callable[[int, int], bytes], name: Callable[[int], str]
) -> Iterator[str]:
    """Lines of memory from an address on: `0x3f10 <g+4>: 0x01 0x02`; `name` says what is at an
    address, or nothing."""
    if format.letter == "s":
        yield from _strings(address, format.many, read, name)
        return
    size, row = format.size, _ROWS[format.size]
    data = read(address, format.many * size)
    for first in range(0, format.many, row):
        at = address + first * size
        numbers = range(first, min(first + row, format.many))
        pieces = [data[n * size : (n + 1) * size] for n in numbers]
        values = [_value(piece, format, name) if len(piece) == size else "??" for piece in pieces]
        yield f"{_place(at, name)}: {'  '.join(values)}"
        if len(pieces[-1]) < size:
            yield f"{address + len(data):#x}: nothing can be read from here on"
            return


def _strings(
    address: int, count: int, read: Callable[[int, int], bytes], name: Callable[[int], str]
) -> Iterator[str]:
    for _ in range(count):
        data = read(address, _STRING)
        if not data:
            yield f"{address:#x}: nothing can be read from here on"
            return
        text, end, _ = data.partition(b"\0")
        yield f"{_place(address, name)}: {quoted(text)}{'' if end else '...'}"
        address += len(text) + bool(end)


def _place(address: int, name: Callable[[int], str]) -> str:
    called = name(address)
    return f"{address:#x} <{called}>" if called else f"{address:#x}"


def _value(data: bytes, format: Format, name: Callable[[int], str]) -> str:
    size, number = format.size, int.from_bytes(data, "little")
    signed = int.from_bytes(data, "little", signed=True)
    match format.letter:
        case "d":
            return str(signed)
        case "u":
            return str(number)
        case "o":
            return f"0{number:o}" if number else "0"
        case "t":
            return f"{number:0{8 * size}b}"
        case "c":
            return f"{data[0]} {quoted(data[:1], chr(39))}"
        case "f":
            return repr(struct.unpack(_FLOATS[size], data)[0])
        case "a":
            return _place(number, name)
    return f"{number:#0{2 * size + 2}x}"
