"""A session comes back from its file: bytes where they were, records as they were, and what has
moved since (libc, the runtime) found anew.  Start from `restore`.

Nothing of the session runs: constructors ran when its cells did, and the libraries that it names
are loaded only where the user trusts the file.  Nothing is compiled either, where the file's code
is this LLVM's and this processor's; else see `rebuilding`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jitkernel.arena import Arena, Extent
from jitkernel.errors import JitError, UsageError
from jitkernel.ir.names import written
from jitkernel.ir.types import parse_type
from jitkernel.languages.llvm.values import TypedValue
from jitkernel.linker import Symbol
from jitkernel.linker.restoring import file, rebind_all, set_image
from jitkernel.session.history.snapshot import far_words
from jitkernel.session.operation import without_collections
from jitkernel.session.saved.rows import Blocks, info_of, read_cell, read_symbol
from jitkernel.session.saved.tables import Damaged
from jitkernel.session.saved.writing import LAST, put_back

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.saved.rows import SymbolNumbers
    from jitkernel.session.saved.tables import Key

__all__ = [
    "TRUST",
    "Restored",
    "Rows",
    "ago",
    "find_libraries",
    "header",
    "named_libraries",
    "restore",
    "same_machine",
]

#: How a user says so.
TRUST = "trust=True (%restore --trust)"

Rows = Mapping[str, list[tuple["Key", str, bytes]]]
_loads = json.JSONDecoder().decode


@dataclass(slots=True)
class Restored:
    """What came back: how many cells, when they were saved (seconds since 1970, 0: not known), and
    what the user is to know of it."""

    cells: int
    saved: float
    words: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        first = f"{self.cells} cell{'s' * (self.cells != 1)}"
        if self.saved:
            first += f", saved {ago(self.saved)}"
        return "; ".join([first, *self.words])


def ago(moment: float) -> str:
    """`3 minutes ago`."""
    seconds = max(0, int(time.time() - moment))
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {word}{'s' * (count != 1)} ago"
    return "just now" if seconds < 5 else f"{seconds} seconds ago"


def header(rows: Rows, path: str) -> dict[str, Any]:
    """What a file says of its session as a whole.  Raises Damaged."""
    for key, body, _ in rows["facts"]:
        if key == "session":
            found: dict[str, Any] = _loads(body)
            return found
    raise Damaged(f"{path} has the sources of cells, but no session that was saved")


def saved_at(rows: Rows) -> float:
    """When the file was last written, in seconds since 1970."""
    return next((float(body) for key, body, _ in rows["facts"] if key == "saved"), 0.0)


def restore(session: Core, rows: Rows, path: str, numbers: SymbolNumbers) -> Restored:
    """Fill a session that has just begun, at the base that the file says.

    Raises Damaged where the rows do not make a session; the session is of no use then.
    """
    try:
        with without_collections():
            return _restore(session, rows, path, numbers)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, JitError) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged(f"{path} does not hold a whole session: {error!r}") from error


def _restore(session: Core, rows: Rows, path: str, numbers: SymbolNumbers) -> Restored:
    program, linker = session.program, session.program.linker
    arena = linker.arena
    head = header(rows, path)
    if (arena.base, arena.capacity) != (head["settings"]["base"], head["settings"]["capacity"]):
        raise Damaged(f"{path} was saved at another base")
    blocks = Blocks(linker)
    symbols: dict[int, Symbol] = {}
    owners: list[tuple[Symbol, int]] = []
    for key, body, _ in rows["symbols"]:
        symbol, cell, is_stale = read_symbol(_loads(body), blocks.extents)
        number = _number(key, path)
        symbols[number] = symbol
        numbers.give(symbol, number)
        if cell:
            owners.append((symbol, cell))
        if not is_stale:
            file(linker, symbol)
    for key, body, content in rows["cells"]:
        read_cell(program, arena, _number(key, path), _loads(body), content, symbols, blocks)
    for symbol, cell in owners:
        set_image(symbol, program.cells[cell].image)
    _lay_out(arena, blocks.extents, rows["pages"])
    words = find_libraries(session, named_libraries(head))
    shared: dict[bytes, int] = {}
    for key, body, _ in rows["facts"]:
        kind, _, name = str(key).partition(" ")
        if kind == "type":
            program.types[_loads(name)] = _loads(body)
        elif kind == "declared" and (info := info_of(_loads(body))) is not None:
            program.declared[_loads(name)] = info
        elif kind == "unwind":
            shared = {bytes.fromhex(content): at for content, at in _loads(body)}
    linker.unwind.restore(shared)
    lost = rebind_all(linker, symbols.values())
    if session.engine.executor.libraries:
        linker.resolver.retry_missing()  # a library may have been missing when the file was written
    if lost:
        some = ", ".join(written(name) for name in lost[:5])
        words.append(f"{len(lost)} functions of libraries are missing now: {some}")
    if stale := far_words(arena):
        words.append(
            f"{stale} word{'s' * (stale != 1)} in globals may point into the process that ended: "
            "what was in its heap is gone"
        )
    session.number = max([head["number"], *program.cells])
    _read_results(session, rows, head["order"])
    words.append("what was run before cannot be undone")
    return Restored(len(program.cells), saved_at(rows), words)


def _lay_out(arena: Arena, extents: list[Extent], pages: Iterable[tuple[Key, str, bytes]]) -> None:
    """The books of the arena, and the bytes of constants and globals."""
    ends: dict[str, int] = {}
    for zone, start, size in extents:
        if start + size > ends.get(zone, 0):
            ends[zone] = start + size
    put_back(arena, [(int(number), content) for number, _, content in pages], ends)
    arena.reserve_all(extents)


def _number(key: object, path: str) -> int:
    if not isinstance(key, int):
        raise Damaged(f"{path} numbers something {key!r}")
    return key


def named_libraries(head: Mapping[str, Any]) -> list[str]:
    """The libraries that a file names: those that were loaded, those that were not trusted."""
    return [str(path) for path in (*head["libraries"], *head.get("withheld", ()))]


def find_libraries(session: Core, paths: Sequence[str]) -> list[str]:
    """Load the libraries that the program had loaded, where the session trusts its file.

    A library runs code of its own when it is loaded, and whoever made the file chose which.
    """
    if not session.settings.trust:
        session.withheld = list(paths)
        if not paths:
            return []
        names = ", ".join(paths)
        return [f"not loaded, for a library runs code when it is: {names}; {TRUST} loads them"]
    words: list[str] = []
    for library in paths:
        try:
            session.engine.executor.library(library)
        except OSError as error:
            words.append(f"{library} cannot be loaded: {error}")
        except UsageError as error:
            words.append(str(error))
    return words


def _read_results(session: Core, rows: Rows, order: list[int]) -> None:
    layouts = session.program.layouts
    found = {
        int(key): TypedValue(parse_type(body), content, layouts)
        for key, body, content in rows["results"]
    }
    session.results.last = found.pop(LAST, None)
    session.results.update({n: found[n] for n in order if n in found})
    last = session.results.last
    for value in session.results.values():
        if last is not None and value == last:
            session.results.last = value


def same_machine(session: Core, head: Mapping[str, Any]) -> bool:
    """Whether the file's code was made by this LLVM for this processor."""
    return list(session.engine.pool.identity()) == list(head["identity"])
