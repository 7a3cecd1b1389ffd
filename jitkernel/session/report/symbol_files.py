"""What tools outside know of a session's code: a jitdump for perf, a file of symbols for gdb.

Both are of one process that runs cells, in a folder of its own, and say what there is whenever code
is about to run.  A jitdump says when it came, too: perf names a sample by what was at its address
*then*, and what is redefined, moved or evicted needs no more than the next record.  gdb reads its
file once; there it is enough that no name is wrong.  Start from `SymbolFiles.tell`; the forms are
those of `elf/jitdump.py` and `elf/symbol_file.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count, pairwise
from typing import TYPE_CHECKING, TypeAlias

from jitkernel.elf import jitdump
from jitkernel.elf.symbol_file import Code, symbol_file
from jitkernel.errors import Interrupted, JitError, present
from jitkernel.files import absolute
from jitkernel.languages.registry import find
from jitkernel.linker.linkmap import read_symbols
from jitkernel.linker.x86_64 import STUB_SIZE
from jitkernel.session.program.cell import CellState

if TYPE_CHECKING:
    from jitkernel.linker import Image, Symbol
    from jitkernel.session.core import Core

#: An image, and whether its code is away; a stub.
_What: TypeAlias = "tuple[Image, bool] | Code"
#: What the runtime handles, or libc for itself, is not gdb's to stop at.
_COMMANDS = """\
set confirm off
handle SIGSEGV SIGBUS SIGFPE SIGILL SIGTRAP nostop noprint pass
add-symbol-file {path}
"""


class SymbolFiles:
    """The files of a session, in the folder that the setting names.  They stay there, with the
    texts of cells: perf reads them when the program has ended."""

    def __init__(self, core: Core):
        self._core = core
        self._of: tuple[str, int] = "", 0  # the setting, and the generation of the process
        self._folder = ""
        self._seen = -1  # of the linker's generations
        # By where it begins: what it is, and the functions in it.
        self._told: dict[int, tuple[_What, list[Code]]] = {}
        self._runtime: list[Code] = []
        self._process = self._index = 0

    def tell(self) -> None:
        """Write what has come and gone since the last time.  Where that cannot be, nothing more is
        written, with a notice."""
        engine = self._core.engine
        try:
            if self._of != (wanted := (engine.settings.symbol_folder, engine.executor.generation)):
                self._begin(*wanted)
            if self._seen != (now := engine.linker.generation):
                self._add()
                self._seen = now
        except Interrupted:
            raise
        except (OSError, JitError) as error:
            engine.settings.symbol_folder = ""
            engine.notices.append(f"nothing more is written for perf and gdb: {error}")

    def _begin(self, folder: str, generation: int) -> None:
        """Begin the files of a process, and have that map the one for perf, which finds it so."""
        executor = self._core.engine.executor
        self._of, self._process = (folder, generation), executor.pid
        self._told, self._seen = {}, -1
        os.makedirs(folder, 0o700, exist_ok=True)
        self._folder = _new_folder(absolute(folder), self._process)
        path = self._write(f"jit-{self._process}.dump", jitdump.header(self._process, _now()))
        self._write("gdb", os.fsencode(_COMMANDS.format(path=self._path("symbols"))))
        self._runtime = list(self._routines())
        self._record(self._runtime)
        executor.services.show(path)

    def _add(self) -> None:
        program, thunks = self._core.program, self._core.engine.thunks.images
        cells = program.cells.values()
        away = {id(cell.image) for cell in cells if cell.state is CellState.HIBERNATED}
        now: dict[int, _What] = {
            image.text.start: (image, id(image) in away)
            for image in (*program.images(), *thunks) if image.text is not None
        }  # fmt: skip
        now |= {s.stub: _stub(s) for s in program.every_symbol() if s.stub}
        told, self._told = self._told, {}
        for start, what in now.items():
            if (known := told.get(start)) is None or known[0] != what:
                known = what, list(self._functions(what, start))
                self._record(known[1])
            self._told[start] = known
        self._symbols()

    def _functions(self, what: _What, start: int) -> Iterator[Code]:
        """The functions of an image, those that only its cell knows too; stubs of one that is not
        in memory; a stub."""
        if isinstance(what, Code):
            yield what
            return
        core, lines, (image, away) = self._core, self._core.places.lines, what
        text = present(image.text, f"the code of {image}")
        if away:
            yield from (_stub(s, at) for s, at, _ in image.exports if start <= at < text.stop)
            return
        if (made := lines.made(image)) is None:
            yield Code("jk_thunk", start, text.size)
            return
        # While code runs, it would wait for the compile that tells lines.
        rows = lines.rows(image, *made) if not core.engine.executor.serving else []
        language = find(core.program.state.notes.language_of(image.cell) or "llvm")
        name = f"cell-{image.cell}{language.file_extension}"
        file = self._write(name, made[1].source.encode("utf-8", "surrogateescape")) if rows else ""
        for symbol in read_symbols(core.program.linker, image, made[1].object):
            at, size = symbol.address, symbol.size
            if symbol.kind == "function" and size and start <= at < text.stop:
                own = [row for row in rows if at <= row[0] < at + size and row[1]]
                yield Code(symbol.name, at, size, own, file)

    def _routines(self) -> Iterator[Code]:
        """Those that handle calls, signals and faults, each as long as up to the next."""
        engine = self._core.engine
        start, stop = engine.arena.base, engine.arena.slots[0]
        named = {at: name for name, at in engine.linker.fixed.items() if start <= at < stop}
        starts = [*sorted(named), stop]
        for at, end in pairwise(starts):
            yield Code(named[at], at, len(engine.arena.read(at, end - at).rstrip(b"\0")))

    # -- files -----------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _write(self, name: str, content: bytes) -> str:
        """Write a file anew, so that who reads it has it whole; its path."""
        path = self._path(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(path + "~", flags, 0o600), "wb") as file:
            file.write(content)
        os.replace(path + "~", path)
        return path

    def _record(self, functions: list[Code]) -> None:
        """Add functions that have come to the file for perf."""
        linker, process = self._core.engine.linker, self._process
        path = self._path(f"jit-{process}.dump")
        with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
            for name, start, size, lines, its in functions:
                if lines:
                    file.write(jitdump.lines(_now(), start, lines, its))
                if (found := linker.unwind.records(start)) is not None:
                    file.write(jitdump.frames(_now(), size, *found))
                self._index += 1
                code = linker.arena.read(start, size)
                file.write(jitdump.loaded(process, _now(), name, start, code, self._index))

    def _symbols(self) -> None:
        """Write the file for gdb."""
        arena, text = self._core.engine.arena, self._core.engine.arena.zones["text"]
        zones = {".runtime": (arena.base, arena.slots[0]), ".text": (text.start, text.high)}
        code = [*self._runtime, *(function for _, own in self._told.values() for function in own)]
        frames = self._core.engine.linker.unwind.walkable()
        self._write("symbols", symbol_file(code, zones, frames))


def _stub(symbol: Symbol, at: int = 0) -> Code:
    return Code(f"{symbol.name}@plt", at or symbol.stub, STUB_SIZE)


def _now() -> int:
    """Nanoseconds of the clock that `perf record -k 1` uses."""
    return time.monotonic_ns()


def _new_folder(parent: str, process: int) -> str:
    """A folder of a process; of one that has had its number there may be another."""
    for number in count(1):
        path = f"{parent}/{process}{f'-{number}' * (number > 1)}"
        try:
            os.mkdir(path, 0o700)
            return path
        except FileExistsError:
            continue
    raise AssertionError("counting has ended")
