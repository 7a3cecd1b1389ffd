"""Code made anew from the text that is in a session's file.  Start from `recompile`, for a whole
session that another LLVM or processor compiled, and `rebuild`, for what a damaged file still has.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Identity, Request
from jitkernel.errors import CompileError, Damaged, JitError, UsageError
from jitkernel.languages.llvm.plan import ENTRY
from jitkernel.linker.editing import unname
from jitkernel.session.program.relinking import replace
from jitkernel.session.run.definer import Definer
from jitkernel.session.saved.restoring import TRUST, Restored, find_libraries, named_libraries
from jitkernel.session.saved.store import Record, read_record
from jitkernel.session.saved.tables import UNREADABLE, is_whole
from jitkernel.session.settings import stored_request
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.program.program import Program


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
        request = program.lender.stored(record)
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
        replace(program, cell, record._replace(code=answer.object))
        if cell.image is not None:  # the function of its instructions has no name
            unname(program.linker, cell.image, ENTRY)
    restored.words.append(
        f"{counted(len(stale), 'cell')} compiled again: the file is of LLVM "
        f"{then.llvm} on {then.cpu}, here is LLVM {now.llvm} on {now.cpu}"
    )
    if kept:
        restored.words.append(f"what was linked from object files is as it was: cells {kept}")


def rebuild(session: Core, path: str, db: sqlite3.Connection) -> Restored:
    """Define in a new session what can be read of a file, in the cells' order.

    Globals begin with their initial values, as when the cells were new.  Constructors run, and
    libraries are loaded, where the session trusts the file.  Raises UsageError where nothing can
    be read.
    """
    records, lost = _readable(db)
    if not records:
        raise UsageError(f"{path}: not one cell can be read")
    named, trust = _libraries(db), session.settings.trust
    libraries = find_libraries(session.engine.executor, named, trust)
    session.withheld = [] if trust else named
    made, failed, idle = 0, [], []
    for record in records:
        request = stored_request(record)
        definer = Definer(session, number=record.number)
        try:
            if record.is_linked:
                raise UsageError("its source is not known")
            request = definer.lending.lend(request)
            answer = session.engine.pool.compile(request)
            definer.place_only(record.source, request, answer, trust)
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


def _readable(db: sqlite3.Connection) -> tuple[list[Record], int]:
    """The records whose checksums are right, of live cells where it is known which those are; how
    many are lost."""
    known = _numbers(db, "select number from records")
    live = _numbers(db, "select id from cells") or known
    found: list[Record] = []
    for number in sorted(live & known):
        with contextlib.suppress(*UNREADABLE, ValueError, TypeError):
            row = db.execute("select * from records where number = ?", (number,)).fetchone()
            if row is not None and is_whole("records", row):
                found.append(read_record(row))
    return found, len(live) - len(found)


def _numbers(db: sqlite3.Connection, query: str) -> set[int]:
    """The numbers that a query finds, up to the first page that cannot be read."""
    found: set[int] = set()
    with contextlib.suppress(*UNREADABLE):
        found.update(n for (n,) in db.execute(query) if isinstance(n, int))
    return found


def _libraries(db: sqlite3.Connection) -> list[str]:
    """The libraries that the program had loaded, where that can be read."""
    with contextlib.suppress(*UNREADABLE, ValueError, TypeError, KeyError):
        row = db.execute("select * from facts where id = 'session'").fetchone()
        if is_whole("facts", row):
            return named_libraries(json.loads(row[1]))
    return []
