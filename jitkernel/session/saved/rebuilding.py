"""Code made anew from the text that is in a session's file.  Start from `recompile`, for a whole
session that another LLVM or processor compiled, and `rebuild`, for what a damaged file still has.

`salvaged` finds rows that SQLite cannot read any more, page by page.  A page that leads to others
takes all of them with it when it is damaged, the first page all of the file.  The rows themselves
are looked for wherever one may begin, and each carries a checksum: what is read wrongly is never
taken for one.  Pages that were freed still hold old rows; so what SQLite does find comes before
what is found here.

Source: sqlite.org/fileformat2.html, "B-tree Pages" (1.6) and "Record Format" (2.1).
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from mmap import mmap
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Identity, Request
from jitkernel.errors import CompileError, JitError, UsageError
from jitkernel.languages.llvm.plan import ENTRY
from jitkernel.linker.editing import unname
from jitkernel.session.program.relinking import replace
from jitkernel.session.run.definer import Definer
from jitkernel.session.run.host import Execution
from jitkernel.session.saved.restoring import TRUST, Restored, find_libraries, named_libraries
from jitkernel.session.saved.store import Record, read_record
from jitkernel.session.saved.tables import UNREADABLE, Damaged, checksum
from jitkernel.session.settings import stored_request
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.program.program import Program

__all__ = ["rebuild", "recompile", "salvaged"]

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
    """Key and content of all that may be a row."""
    size = int.from_bytes(data[16:18], "big")
    size = size if size in _SIZES else 65536 if size == 1 else 4096
    for start in range(0, len(data) - size + 1, size):
        page = data[start : start + size]
        for at in _starts(page):
            try:
                length, at = _varint(page, at)
                key, at = _varint(page, at)
                yield key, _payload(data, page, at, length, size)
            except (IndexError, ValueError):
                continue


def _starts(page: bytes) -> Iterator[int]:
    """Where rows may begin in a page, whatever its head says: a length and a key of few bytes, then
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
        if kind in (8, 9):
            values.append(kind - 8)
        elif len(piece) != size or kind in (0, 7, 10, 11):  # none of ours is a float
            values.append(None)
        elif kind < 7:
            values.append(int.from_bytes(piece, "big", signed=True))
        else:
            values.append(piece.decode() if kind % 2 else piece)
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


def recompile(
    program: Program, pool: CompilerPool, head: Mapping[str, Any], restored: Restored
) -> None:
    """Give every cell whose code is another machine's an object of this one; data stays.

    Raises Damaged where a cell does not compile: none of its code is to run here.
    """
    then, now = Identity(*head["identity"]), pool.identity()
    stale: list[tuple[Record, Request]] = []
    kept: list[int] = []
    for number, cell in program.cells.items():
        record = program.store.get(number) if cell.image is not None else None
        if record is None:
            continue
        request = stored_request(record)
        cpu = request.options.cpu
        if record.is_linked:
            kept.append(number)  # its source is not known; it was no part of this LLVM either
        elif (then.llvm, then.triple, then.resolve(cpu)) != (
            now.llvm, now.triple, now.resolve(cpu),
        ):  # fmt: skip
            stale.append((record, request))
    answers = pool.compile_many([request for _, request in stale])
    for (record, request), answer in zip(stale, answers, strict=True):
        if isinstance(answer, CompileError):
            raise Damaged(
                f"{program.store.name} was saved by LLVM {then.llvm} on {then.cpu}; "
                f"{request.label} does not compile with LLVM {now.llvm} on {now.cpu}: {answer}"
            )
        cell = program.cells[record.number]
        replace(program, cell, record._replace(object=answer.object))
        _hide_block(program, cell.number)
    restored.words.append(
        f"{counted(len(stale), 'cell')} compiled again: the file is of LLVM "
        f"{then.llvm} on {then.cpu}, here is LLVM {now.llvm} on {now.cpu}"
    )
    if kept:
        restored.words.append(f"what was linked from object files is as it was: cells {kept}")


def _hide_block(program: Program, number: int) -> None:
    """The function of a cell's instructions has no name in the session."""
    if (image := program.cells[number].image) is not None:
        unname(program.linker, image, ENTRY)


def rebuild(session: Core, path: str, db: sqlite3.Connection, data: bytes | mmap) -> Restored:
    """Define in a new session what can be read of a file, in the cells' order; `data` is the file.

    Globals begin with their initial values, as when the cells were new.  Constructors run, and
    libraries are loaded, where the session trusts the file.  Raises UsageError where nothing can
    be read.
    """
    records, lost = _readable(db, data)
    if not records:
        raise UsageError(f"{path}: not one cell can be read")
    named, trust = _libraries(db), session.settings.trust
    libraries = find_libraries(session.engine.executor, named, trust)
    session.withheld = [] if trust else named
    made, failed, idle = 0, [], []
    for record in records:
        request = stored_request(record)
        definer = Definer(Execution(session, number=record.number))
        try:
            if record.is_linked:
                raise UsageError("its source is not known")
            answer = session.engine.pool.compile(request)
            definer.place_only(record.source, request, answer, trust)
            _hide_block(session.program, record.number)
            made += 1
            if definer.unconstructed:
                idle.append(str(record.number))
        except JitError as error:
            failed.append(f"cell {record.number}: {str(error).partition(chr(10))[0]}")
    words = [
        "built again from source: globals have their initial values, and those that statements "
        "made are missing; what was run before cannot be undone"
    ]
    if lost:
        words.append(f"{counted(lost, 'cell')} could not be read")
    if idle:
        words.append(
            f"the constructors of cells {', '.join(idle)} were not run, for they are the file's: "
            f"{TRUST} runs them"
        )
    return Restored(made, 0.0, words + libraries + failed, session.number)


def _readable(db: sqlite3.Connection, data: bytes | mmap) -> tuple[list[Record], int]:
    """The records whose checksums are right, of live cells where it is known which those are."""
    rows = salvaged(data, "records", 8)
    known = _numbers(db, "select number from records")
    for number in known | rows.keys():
        with contextlib.suppress(*UNREADABLE, TypeError):
            row = db.execute("select * from records where number = ?", (number,)).fetchone()
            if row is not None and checksum("records", row[0], *row[1:-1]) == row[-1]:
                rows[number] = row
    live = _numbers(db, "select id from cells") or set(salvaged(data, "cells", 4))
    found: dict[int, Record] = {}
    for number, row in rows.items():
        if not live or number in live:
            with contextlib.suppress(ValueError, TypeError):
                found[number] = read_record(row)
    return [found[n] for n in sorted(found)], len((live or known) - found.keys())


def _numbers(db: sqlite3.Connection, query: str) -> set[int]:
    """The numbers that a query finds, none where it cannot be answered."""
    try:
        return {n for (n,) in db.execute(query) if isinstance(n, int)}
    except UNREADABLE:
        return set()


def _libraries(db: sqlite3.Connection) -> list[str]:
    """The libraries that the program had loaded, where that can be read."""
    with contextlib.suppress(*UNREADABLE, ValueError, TypeError, KeyError):
        body, check = db.execute("select body, checksum from facts where id = 'session'").fetchone()
        if checksum("facts", "session", body, b"") == check:
            return named_libraries(json.loads(body))
    return []
