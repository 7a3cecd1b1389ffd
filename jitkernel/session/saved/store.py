"""What each cell was made from: on its way to the session's file, and back.  Start from `Store`.

Sources and objects leave memory when a cell is placed; they are read back for views, for undo and
for linking a cell again.  Writes are collected and go out together, outside the path that a cell's
latency is measured on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jitkernel.errors import LinkError
from jitkernel.forms import decompress
from jitkernel.ir.names import decode_name, quote_name
from jitkernel.record import NamedTuple
from jitkernel.rollback import RecordedDict, later, recording

if TYPE_CHECKING:
    from jitkernel.elf import ElfObject
    from jitkernel.session.saved.file import File
    from jitkernel.session.saved.tables import Row, Tables

_BATCH = 256
_BATCH_BYTES = 4 << 20
#: Bytes that a row's text and its object may have, which it has compressed.
_LONGEST_TEXT, _LARGEST_OBJECT = 256 << 20, 512 << 20

#: What the source of a cell begins with that is another compiler's object.
LINKED = "; %link "


class Record(NamedTuple):
    """A cell as it was compiled: the text given to the compiler, its options, and the object.

    `source` is the user's, `module` the text that was compiled, whose line `first_line` is the
    user's first.  `code` is the object, whose bytes may have to be put together yet.
    """

    number: int
    source: str
    module: str
    first_line: int
    options: str
    code: bytes | ElfObject
    nobuiltin: tuple[str, ...] = ()

    @property
    def object(self) -> bytes:
        """The object's bytes."""
        return self.code if isinstance(self.code, bytes) else self.code.data

    @property
    def is_linked(self) -> bool:
        """True if it is another compiler's object, of which there is no IR."""
        return self.source.startswith(LINKED)


class Store:
    """Records by cell number, in a file: see `File`, which says what is raised.

    With a `path` or a `copy_of` one it is opened at once, otherwise with the first that is written.
    """

    def __init__(self, path: str = "", copy_of: str = ""):
        self.path, self._copy_of = path, copy_of
        self.name = copy_of or path or "the session's store"  # as it is called in messages
        # Records and rows of texts, by table and number; None: dropped.
        self._pending: RecordedDict[tuple[str, int], Record | Row | None] = RecordedDict()
        self._bytes = 0
        self.commits_often = False  # what is not committed yet is worth being kept in memory
        self._written: dict[tuple[str, int], Record | Row | None] = {}  # that
        if path or copy_of:
            self.file = self._open()

    @cached_property
    def file(self) -> File:
        """The file, which is opened."""
        return self._open()

    def _open(self) -> File:
        from jitkernel.session.saved.file import File  # with SQLite, which a first cell never needs

        return File(self.path, self.name, self._copy_of)

    @property
    def tables(self) -> Tables:
        """Its rows."""
        return self.file.tables

    @property
    def durable(self) -> bool:
        """True if it stays when the session ends."""
        return bool(self.path)

    def numbers(self) -> list[int]:
        """The cells it has records of, ascending.  Raises Damaged."""
        self.flush()
        return self.file.numbers()

    def rows(self, numbers: Iterable[int]) -> Iterator[Row]:
        """The rows of some cells as they are in the file, with their checksums."""
        self.flush()
        return self.file.rows(numbers)

    def put(self, record: Record) -> None:
        """Keep a record."""
        self._collect("records", record.number, record, len(record.code) + len(record.module))

    def _collect(self, table: str, number: int, row: Record | Row | None, size: int = 0) -> None:
        self._pending[table, number] = row
        self._bytes += size
        if len(self._pending) >= _BATCH or self._bytes > _BATCH_BYTES:
            self.flush()

    def get(self, number: int) -> Record | None:
        """The record of a cell, or None.  Raises Damaged."""
        if ("records", number) in self._pending:
            record: Record | None = self._pending["records", number]  # type: ignore[assignment]
            return record and record._replace(code=record.object)
        return self.file.read(number, "*", read_record)

    def object(self, number: int) -> bytes:
        """The object of a cell.  Raises Damaged, and LinkError where it is gone."""
        if ("records", number) in self._pending:
            record = self.get(number)
            made = None if record is None else record.object
        else:
            made = self.file.read(number, "object", lambda row: decompress(row[0], _LARGEST_OBJECT))
        if made is None:
            raise LinkError(f"cell {number} cannot be linked again: its object is gone")
        return made

    def drop(self, number: int, table: str = "records") -> None:
        """Forget a record, or what a cell has asked ("texts")."""
        self._collect(table, number, None)

    def put_text(self, number: int, body: str, data: bytes) -> None:
        """Keep what a cell has asked."""
        self._collect("texts", number, (number, body, data), len(body) + len(data))

    def texts(self) -> list[Row]:
        """The rows of what cells have asked, with their checksums.  Raises Damaged."""
        self.flush()
        return self.file.texts()

    def flush(self) -> None:
        """Write what was collected; where it may be taken back, once that is decided."""
        if recording():
            later(self.flush)
            return
        if self._pending:
            self.begin()
            self._write()
            if not self.path:
                self.file.commit()

    def begin(self) -> None:
        """Go on with the file's transaction, or begin one."""
        self.file.begin()

    def commit(self) -> None:
        """From now on the file has all that was written since the last time."""
        if self._pending:
            self._write()
        self.file.commit()
        self._written.clear()

    def rollback(self) -> None:
        """The file stays as it was committed; what was written since is collected again."""
        self.file.rollback()
        self._pending = RecordedDict({**self._written, **self._pending})
        self._written.clear()

    def _write(self) -> None:
        """Write what was collected, in the transaction that is open, all of it or nothing: then it
        stays collected."""
        pending = self._pending
        changes: dict[str, dict[int, Row | None]] = {"records": {}, "texts": {}}
        for (table, number), row in pending.items():
            changes[table][number] = _row(row) if isinstance(row, Record) else row
        self.file.write(changes)
        if self.commits_often:
            self._written.update(pending)
        self._pending, self._bytes = RecordedDict(), 0

    def close(self) -> None:
        """Close; what was not committed is gone."""
        if "file" in self.__dict__:
            self.file.close()


def read_record(row: tuple[Any, ...]) -> Record:
    """A record from its row."""
    texts = (decompress(c, _LONGEST_TEXT) for c in row[1:3])
    source, module = (text.decode("utf-8", "surrogateescape") for text in texts)
    names = tuple(map(decode_name, row[6].split("\0"))) if row[6] else ()
    object = decompress(row[5], _LARGEST_OBJECT)
    return Record(row[0], source, module or source, row[3], row[4], object, names)


def _row(r: Record) -> Row:
    source = r.source.encode("utf-8", "surrogateescape")
    module = b"" if r.module == r.source else r.module.encode("utf-8", "surrogateescape")
    names = "\0".join(map(quote_name, r.nobuiltin))  # some are no UTF-8
    source, module, object = (zlib.compress(c, 1) for c in (source, module, r.object))
    return r.number, source, module, r.first_line, r.options, object, names
