"""Rows of a file that SQLite cannot read any more, found page by page.  Start from `salvaged`.

A page that leads to others takes all of them with it when it is damaged, the first page all of the
file.  The rows themselves are in leaves that say what they hold, and each row carries a checksum:
what is read wrongly is never taken for one.  Leaves that were freed still hold old rows; so what
SQLite does find comes before what is found here.

Source: sqlite.org/fileformat2.html, "B-tree Pages" (1.6) and "Record Format" (2.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from mmap import mmap

from jitkernel.session.saved.tables import checksum

__all__ = ["salvaged"]

_LEAF = 0x0D  # of a table with integer keys
_KINDS = {0x02, 0x05, 0x0A, _LEAF}
_RECORD = re.compile(rb"(?=[\x05-\x20]\x00)")
_SIZES = {512 << n for n in range(8)}
_FIXED = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes that a value of serial type 0 to 9 takes

Value = None | int | float | str | bytes
Row = tuple[Value, ...]


def salvaged(data: bytes | mmap, table: str, columns: int) -> dict[int, Row]:
    """The rows of a table that are proved by their checksum, by number; `columns` they have each.

    The first column is the number, the last one the checksum.
    """
    found: dict[int, Row] = {}
    for number, content in _payloads(data):
        try:
            values = _record(content)
            if len(values) != columns:
                continue
            row = (number, *values[1:])
            if checksum(table, number, *row[1:-1]) == row[-1]:  # type: ignore[arg-type]
                found[number] = row
        except (IndexError, ValueError):
            continue
    return found


def _payloads(data: bytes | mmap) -> Iterator[tuple[int, bytes]]:
    """Key and content of what each leaf says that it has."""
    size = int.from_bytes(data[16:18], "big")
    size = size if size in _SIZES else 65536 if size == 1 else 4096
    for start in range(0, len(data) - size + 1, size):
        page = data[start : start + size]
        head = 100 if start == 0 else 0  # the file's header comes first
        for at in _listed(page, head) if page[head] in _KINDS else _guessed(page):
            try:
                length, at = _varint(page, at)
                key, at = _varint(page, at)
                yield key, _payload(data, page, at, length, size)
            except (IndexError, ValueError):
                continue


def _listed(page: bytes, head: int) -> Iterator[int]:
    """Where a page says that its rows begin; everywhere that they may, where it says nonsense."""
    if page[head] != _LEAF:
        return
    count, first = (int.from_bytes(page[head + n : head + n + 2], "big") for n in (3, 5))
    slots = range(head + 8, head + 8 + 2 * count, 2)
    places = [int.from_bytes(page[slot : slot + 2], "big") for slot in slots]
    if not places or min(places) != (first or 65536) or max(places) >= len(page):
        yield from _guessed(page)
    yield from places


def _guessed(page: bytes) -> Iterator[int]:
    """Where rows may begin in a page whose head is damaged: a length and a key of few bytes, then
    a record whose first value is no value, as that of each table here is."""
    for match in _RECORD.finditer(page):
        for back in range(2, min(8, match.start() + 1)):
            yield match.start() - back


def _payload(data: bytes | mmap, page: bytes, at: int, length: int, size: int) -> bytes:
    """A row's content, which goes on in other pages where it is long (1.6, "Overflow Pages")."""
    if length > len(data):
        raise ValueError("longer than the file")
    most, least = size - 35, (size - 12) * 32 // 255 - 23
    local = length
    if length > most:
        local = least + (length - least) % (size - 4)
        local = local if local <= most else least
    pieces = [page[at : at + local]]
    left = length - len(pieces[0])
    follow = page[at + local : at + local + 4]
    while left > 0:
        next_ = int.from_bytes(follow, "big")
        start = (next_ - 1) * size
        if next_ < 2 or start + size > len(data):
            raise ValueError("it leads out of the file")
        piece = data[start + 4 : start + 4 + min(left, size - 4)]
        pieces.append(piece)
        left -= len(piece)
        follow = data[start : start + 4]
    return b"".join(pieces)


def _record(content: bytes) -> list[Value]:
    """The values of a row."""
    head, at = _varint(content, 0)
    kinds: list[int] = []
    while at < head:
        kind, at = _varint(content, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        size = _FIXED[kind] if kind < len(_FIXED) else (kind - 12) // 2
        piece = content[at : at + size]
        at += size
        if kind == 0 or len(piece) != size or size < 0:
            values.append(None)
        elif kind < 7:
            values.append(int.from_bytes(piece, "big", signed=True))
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind >= 12:
            values.append(piece.decode() if kind % 2 else piece)
        else:
            values.append(None)
    return values


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9
