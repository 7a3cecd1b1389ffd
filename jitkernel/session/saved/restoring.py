"""A session comes back from its file: bytes where they were, records as they were, and what has
moved since (libc, the runtime) found anew.  Start from `restore`.

Nothing of the session runs: constructors ran when its cells did, and the libraries that it names
are loaded only where the user trusts the file.  Nothing is compiled either, where the file's code
is this LLVM's and this processor's; else see `rebuilding`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitkernel import languages
from jitkernel.arena import Arena, Extent
from jitkernel.collecting import without_collections
from jitkernel.errors import Damaged, Interrupted, UsageError
from jitkernel.forms import Maybe, check
from jitkernel.ir.types import FloatType, IntType, PointerType, parse_type
from jitkernel.linker import Symbol
from jitkernel.linker.editing import file, rebind_all, set_image
from jitkernel.session.history.snapshot import far_words
from jitkernel.session.saved.rows import FACTS, Index, read_cell, read_symbol
from jitkernel.session.saved.tables import Part, Parts
from jitkernel.session.saved.writing import LAST, PAGE, ZONES
from jitkernel.session.settings import check_value
from jitkernel.values.ir import data_type
from jitkernel.values.value import TypedValue
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.executor.executor import Executor
    from jitkernel.session.program.program import Program
    from jitkernel.session.program.signatures import TypeLayouts
    from jitkernel.session.run.results import Results

#: How a user says so.
TRUST = "trust=True (%restore --trust)"

_loads = json.JSONDecoder().decode


@dataclass(slots=True)
class Restored:
    """The result of a restore: how many cells, when they were saved (seconds since 1970, 0: not
    known), what the user is to know of it, and the number of the latest cell."""

    cells: int
    saved: float
    words: list[str]
    number: int

    def __str__(self) -> str:
        first = counted(self.cells, "cell")
        if self.saved:
            first += f", saved {ago(self.saved)}"
        return "; ".join([first, *self.words])


def ago(moment: float) -> str:
    """`3 minutes ago`."""
    seconds = max(0, int(time.time() - moment))
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{counted(count, word)} ago"
    return "just now" if seconds < 5 else f"{seconds} seconds ago"


def restore(
    program: Program,
    executor: Executor,
    results: Results,
    rows: Parts,
    head: Mapping[str, Any],
    numbers: dict[Symbol, int],
    trust: bool,
) -> Restored:
    """Fill a program that has just begun, at the base that the file says; `head` is what that says
    of the session as a whole.

    Raises Damaged where the rows do not make a program; the session is of no use then.
    """
    at = Reading(program.store.name)
    with without_collections(), at:
        linker, arena, path = program.linker, program.linker.arena, program.store.name
        if (arena.base, arena.capacity) != (head["settings"]["base"], head["settings"]["capacity"]):
            raise Damaged(f"{path} was saved at another base")
        index = Index(linker)
        owners: list[tuple[Symbol, int]] = []
        for key, body, _ in at.each("symbols", rows):
            symbol, cell, is_stale = read_symbol(_loads(body), index.extents)
            number = int(key)
            index.symbols[number] = symbol
            numbers[symbol] = number
            if cell:
                owners.append((symbol, cell))
            if not is_stale:
                file(linker, symbol)
        for key, body, content in at.each("cells", rows):
            read_cell(program, int(key), _loads(body), content, index)
        for symbol, cell in owners:
            set_image(symbol, program.cells[cell].image)
        _lay_out(arena, index.extents, at.each("pages", rows))
        words = find_libraries(executor, named_libraries(head), trust)
        saved = _read_facts(program, at.each("facts", rows))
        with arena.rollback.atomic():  # what is elsewhere now is not what the file has
            lost = rebind_all(linker, index.symbols.values())
            if executor.services.libraries:
                # A library may have been missing when the file was written.
                linker.resolver.retry_missing()
        if lost:
            some = ", ".join(program.called(name) for name in lost[:5])
            words.append(f"missing now: {counted(len(lost), 'function')} of libraries: {some}")
        if stale := far_words(arena, head["memory"]):
            words.append(
                f"{counted(stale, 'word')} in globals may point into the process that "
                "ended: what was in its heap is gone"
            )
        _read_results(results, at.each("results", rows), head["order"], program.layouts)
        words.append("what was run before cannot be undone")
        if head.get("speaks") in languages.names():
            program.speaks = head["speaks"]
        number = max([head["number"], *program.cells])
        return Restored(len(program.cells), saved, words, number)


def _read_facts(program: Program, rows: Iterable[Part]) -> float:
    """Types, notes, declarations and shared unwind records; the time when the file was saved."""
    shared: dict[bytes, int] = {}
    saved = 0.0
    for key, body, _ in rows:
        kind: Any
        kind, _, name = str(key).partition(" ")
        if kind in FACTS:
            fact = FACTS[kind]
            check(name := _loads(name), fact.key_form)
            check(row := _loads(body), fact.form)
            program.state.put(kind, key := fact.key(name), fact.value(program, key, row))
        elif kind == "unwind":
            check(pairs := _loads(body), [(str, int)])
            shared = {bytes.fromhex(content): at for content, at in pairs}
        elif kind == "saved":
            saved = float(body)
    program.linker.unwind.restore(shared)
    program.linker.unwind.check()  # whoever walks it believes its lengths
    return saved


class Reading:
    """Rows of a file that are read; what goes wrong with them, as Damaged.

    Who made the file decides what they say, and no error in reading them is another's.
    """

    def __init__(self, path: str):
        self._path, self._row = path, ""

    def each(self, table: str, rows: Parts) -> Iterator[Part]:
        """The rows of a table."""
        for row in rows[table]:
            self._row = f"{table}, row {row[0]}"
            yield row
        self._row = ""

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (Damaged, Interrupted)):
            what = f"{self._row} is none" if self._row else "its rows do not make a session"
            raise Damaged(f"{self._path} is damaged: {what}") from error


def _lay_out(arena: Arena, extents: list[Extent], pages: Iterable[Part]) -> None:
    """The books of the arena, and the bytes of constants and globals."""
    ends: dict[str, int] = {}
    for zone, start, size in extents:
        if start + size > ends.get(zone, 0):
            ends[zone] = start + size
    zones = [(arena.zones[name].start, ends.get(name, 0)) for name in ZONES]
    for number, _, content in pages:
        at = int(number) * PAGE
        for low, high in zones:
            if low <= at < high:
                arena.write(at, content[: high - at])
    arena.reserve_all(extents)


#: What concerns the session as a whole, but for its settings.
_HEAD = {
    "number": int, "settings": dict, "identity": (str,) * 5, "libraries": [str],
    "withheld": [str], "archives": [str], "memory": [(int, int)], "order": [int],
    "speaks": Maybe(str),
}  # fmt: skip


def read_head(path: str, body: str) -> dict[str, Any]:
    """The data of the session as a whole. Raises Damaged."""
    with Reading(path):
        head: dict[str, Any] = _loads(body)
        check(head, _HEAD)
        for name, value in head["settings"].items():
            check_value("Session", name, value)
        return head


def named_libraries(head: Mapping[str, Any]) -> list[str]:
    """The libraries that a file names: those that were loaded, those that were not trusted."""
    return [str(path) for path in (*head["libraries"], *head.get("withheld", ()))]


def find_libraries(executor: Executor, paths: Sequence[str], trust: bool) -> list[str]:
    """Load the libraries that the program had loaded, where the user trusts its file; what there
    is to say of that.

    A library runs code of its own when it is loaded, and whoever made the file chose which.
    """
    if not trust:
        if not paths:
            return []
        names = ", ".join(paths)
        return [f"not loaded, since loading them runs their code: {names}; {TRUST} loads them"]
    words: list[str] = []
    for library in paths:
        try:
            executor.services.library(library)
        except OSError as error:
            words.append(f"{library} cannot be loaded: {error}")
        except UsageError as error:
            words.append(str(error))
    return words


def _read_results(
    results: Results, rows: Iterable[Part], order: Iterable[int], layouts: TypeLayouts
) -> None:
    """The values that cells gave, in the order in which they were kept."""
    found: dict[int, TypedValue] = {}
    for key, body, content in rows:
        type = parse_type(body)
        known = data_type(body) if isinstance(type, (IntType, FloatType, PointerType)) else None
        if known is not None and len(content) != known.size:  # others may be other types by now
            raise ValueError(f"{len(content)} bytes are no {body}")
        found[int(key)] = TypedValue(type, content, layouts)
    last = results.last = found.pop(LAST, None)
    results.update({n: found[n] for n in order if n in found})
    for value in results.values():
        if last is not None and value == last:
            results.last = value
