"""Code made anew from the text that is in a session's file.  Start from `recompile`, for a whole
session that another LLVM or processor compiled, and `rebuild`, for what a damaged file still has.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Mapping
from mmap import mmap
from typing import TYPE_CHECKING, Any

from jitkernel.compiler import Options, Request
from jitkernel.compiler.records import Identity
from jitkernel.errors import CompileError, JitError, UsageError
from jitkernel.languages.llvm.plan import ENTRY
from jitkernel.session.definer import Definer
from jitkernel.session.options import stored_options
from jitkernel.session.relinking import replace
from jitkernel.session.saved.restoring import TRUST, Restored, find_libraries, named_libraries
from jitkernel.session.saved.salvage import salvaged
from jitkernel.session.saved.tables import UNREADABLE, Damaged, checksum
from jitkernel.session.store import Record, read_record
from jitkernel.session.without_running import place_only

if TYPE_CHECKING:
    from jitkernel.session.core import Core

__all__ = ["rebuild", "recompile"]


def recompile(session: Core, head: Mapping[str, Any], restored: Restored) -> None:
    """Give every cell whose code is another machine's an object of this one; data stays.

    Raises Damaged where a cell does not compile: none of its code is to run here.
    """
    program = session.program
    then, now = Identity(*head["identity"]), session.engine.pool.identity()
    stale: list[tuple[Record, Request]] = []
    kept: list[int] = []
    for number, cell in program.cells.items():
        record = session.store.get(number) if cell.image is not None else None
        if record is None:
            continue
        options = stored_options(record)
        if record.source.startswith("; %link "):
            kept.append(number)  # its source is not known; it was no part of this LLVM either
        elif (then.llvm, then.triple, then.resolve(options.cpu)) != (
            now.llvm, now.triple, now.resolve(options.cpu),
        ):  # fmt: skip
            stale.append((record, _request(record, options)))
    answers = session.engine.pool.compile_many([request for _, request in stale])
    for (record, request), answer in zip(stale, answers, strict=True):
        if isinstance(answer, CompileError):
            raise Damaged(
                f"{session.store.name} was saved by LLVM {then.llvm} on {then.cpu}; "
                f"{request.label} does not compile with LLVM {now.llvm} on {now.cpu}: {answer}"
            )
        cell = program.cells[record.number]
        replace(program, cell, record._replace(object=answer.object))
        _hide_block(session, cell.number)
    restored.words.append(
        f"{len(stale)} cell{'s' * (len(stale) != 1)} compiled again: the file is of LLVM "
        f"{then.llvm} on {then.cpu}, here is LLVM {now.llvm} on {now.cpu}"
    )
    if kept:
        restored.words.append(f"what was linked from object files is as it was: cells {kept}")


def _hide_block(session: Core, number: int) -> None:
    """The function of a cell's instructions has no name in the session."""
    symbols, image = session.program.linker.symbols, session.program.cells[number].image
    block = symbols.get(ENTRY)
    if block is not None and image is not None and block.image is image:
        del symbols[ENTRY]
        image.exports = tuple([e for e in image.exports if e[0] is not block])


def _request(record: Record, options: Options) -> Request:
    return Request(
        record.module, options, f"cell {record.number}", frozenset(record.nobuiltin),
        record.first_line,
    )  # fmt: skip


def rebuild(session: Core, path: str, db: sqlite3.Connection, data: bytes | mmap) -> Restored:
    """Define in a new session what can be read of a file, in the cells' order; `data` is the file.

    Globals begin with their initial values, as when the cells were new.  Constructors run, and
    libraries are loaded, where the session trusts the file.  Raises UsageError where nothing can
    be read.
    """
    records, lost = _readable(db, data)
    if not records:
        raise UsageError(f"{path}: not one cell can be read")
    libraries = find_libraries(session, _libraries(db))
    made, failed, idle = 0, [], []
    for record in records:
        request = _request(record, stored_options(record))
        definer = Definer(session, number=record.number)
        try:
            if record.source.startswith("; %link "):
                raise UsageError("its source is not known")
            answer = session.engine.pool.compile(request)
            place_only(definer, record.source, request, answer, session.settings.trust)
            _hide_block(session, record.number)
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
        words.append(f"{lost} cells could not be read")
    if idle:
        words.append(
            f"the constructors of cells {', '.join(idle)} were not run, for they are the file's: "
            f"{TRUST} runs them"
        )
    return Restored(made, 0.0, words + libraries + failed)


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
            with contextlib.suppress(ValueError, TypeError, zlib.error):
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
