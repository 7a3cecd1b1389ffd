"""Programs that others wrote to test compilers of C, run as notebooks.

`C_TESTSUITE` names a checkout of github.com/c-testsuite/c-testsuite; csmith is Debian's package of
that name, with its headers.  `CSMITH_SEEDS` says how many of its programs are run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.c_programs import in_cells as cells
from jitkernel import Session
from jitkernel.languages.c.pieces import PieceKind, cut
from jitkernel.languages.c.tokens import Unfinished

pytest.importorskip("ziglang")
pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(6 * 3600)]

SUITE = Path(os.environ.get("C_TESTSUITE", "")) / "tests" / "single-exec"
CSMITH = Path("/usr/include/csmith")
LINES = "00152"  # checks `#line` across cells
TWICE = "00136"  # a branch that its own `#define` closes cannot be run again


def defines(cell):
    try:
        return any(piece.kind is PieceKind.FUNCTION for piece in cut(cell))
    except Unfinished:
        return False


def outcome(notebook):
    """What the cells and then `main` print, and what it returns."""
    with Session() as session:
        printed = "".join(session.run(cell, "c").stdout for cell in notebook)
        takes = session.inspect.program.linker.symbols.get("main").info.shown
        result = session.run("main(0, 0)" if "i32 (i32" in takes else "main()", "c")
        session.check()
    return result.text, printed + result.stdout


def wrong(change, apart=()):
    """The programs of the suite that do not give what they should."""
    failed = []
    for file in sorted(SUITE.glob("*.c")):
        if file.stem in apart:
            continue
        try:
            found = outcome(change(file.read_text()))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"[:300]
        if found != ("(int) 0", Path(f"{file}.expected").read_text()):
            failed.append((file.stem, found))
    return failed


@pytest.fixture(autouse=True)
def away(tmp_path, monkeypatch):
    """One of them writes a file."""
    monkeypatch.chdir(tmp_path)


needs_suite = pytest.mark.skipif(not SUITE.is_dir(), reason="C_TESTSUITE names no checkout")


@needs_suite
def test_each_program_as_one_cell():
    assert wrong(lambda source: [source]) == []


@needs_suite
def test_each_declaration_as_a_cell():
    assert wrong(cells, (LINES,)) == []


@needs_suite
def test_every_function_is_defined_again_by_itself():
    def twice(source):
        return [c for cell in cells(source) for c in ([cell, cell] if defines(cell) else [cell])]

    assert wrong(twice, (LINES, TWICE)) == []


@needs_suite
def test_functions_are_run_again_in_any_order():
    rng = random.Random(7)

    def shuffled(source):
        every = cells(source)
        again = [cell for cell in every if defines(cell) and not cell.lstrip().startswith("#")]
        rng.shuffle(again)
        return [*every, *again]

    assert wrong(shuffled, (LINES, TWICE)) == []


def random_program(seed):
    """A program of csmith's, and what its native build prints: nothing where that takes long."""
    made = subprocess.run(["csmith", "--seed", str(seed)], capture_output=True, text=True)
    Path("native.c").write_text(made.stdout)
    subprocess.run(["gcc", "-O1", "-w", "native.c", "-o", "native"], check=True)
    try:
        ran = subprocess.run(["./native"], capture_output=True, text=True, timeout=5)
    except subprocess.TimeoutExpired:
        return made.stdout, ""
    return made.stdout, ran.stdout


@pytest.mark.skipif(not (shutil.which("csmith") and shutil.which("gcc")), reason="no csmith")
def test_random_programs_give_the_checksum_of_the_native_build(tmp_path):
    for header in CSMITH.glob("*.h"):
        (tmp_path / header.name).symlink_to(header)
    right, slow, failed = 0, 0, []
    for seed in range(1, int(os.environ.get("CSMITH_SEEDS", "300")) + 1):
        source, wanted = random_program(seed)
        if not wanted:
            slow += 1
            continue
        try:
            found = outcome([piece.text for piece in cut(source)])
        except Exception as error:
            found = ("", f"{type(error).__name__}: {error}"[:300])
        if found[1] == wanted:
            right += 1
        else:
            failed.append((seed, found))
    print(f"csmith: {right} right, {slow} too slow natively, {len(failed)} wrong")
    assert failed == []


VARIABLE = re.compile(r"static [^(){]*=|static [^(){]*\[[^(){]*=")
STEPS = ("again", "elsewhere", "struct", "evict", "undo", "save")


class Edited:
    """A program of csmith's as a notebook, whose cells are edited; `main` prints a checksum."""

    def __init__(self, source, folder, seed):
        self.rng, self.folder = random.Random(seed), folder
        self.cells = []
        for cell in cells(source):  # the variables are one cell: it gives them their first values
            if VARIABLE.match(cell) and self.cells and VARIABLE.match(self.cells[-1]):
                self.cells[-1] += "\n" + cell
            else:
                self.cells.append(cell)
        self.session = Session()
        for at in range(len(self.cells)):
            self.run(at)

    def run(self, at):
        self.session.run(self.cells[at], "c", cell_id=f"cell {at}")

    def checksum(self):
        """What `main` prints where variables begin with their first values."""
        for at, cell in enumerate(self.cells):
            if VARIABLE.match(cell):
                self.run(at)
        self.session.run("crc32_context = 0xFFFFFFFFUL;", "c")
        return self.session.run("main(0, 0)", "c").stdout

    def step(self):
        s, rng = self.session, self.rng
        functions = [at for at, cell in enumerate(self.cells) if defines(cell)]
        match rng.choice(STEPS):
            case "again":
                self.run(rng.choice(functions))
            case "elsewhere":
                s.run(self.cells[rng.choice(functions)], "c")
            case "struct":
                structs = [at for at, c in enumerate(self.cells) if re.match(r"struct \w+ \{", c)]
                if structs:
                    at = rng.choice(structs)
                    more = f"  int more{rng.randrange(10**6)};\n}}"
                    self.cells[at] = more.join(self.cells[at].rsplit("}", 1))
                    self.run(at)
            case "evict":
                name = rng.choice([n for n in s.symbols if n.startswith("func_")])
                gone = {cell.number for cell in s.evict(name, cascade=True, force=True)}
                assert gone
                for at in range(len(self.cells)):
                    self.run(at)
            case "undo":
                for at in (first := rng.choice(functions), rng.choice(functions)):
                    self.run(at)
                s.undo(2)
                self.run(first)
                s.undo()
                s.redo()
            case "save":
                path = self.folder / "edited.jks"
                s.save(path)
                s.close()
                self.session = Session.restore(path)


@pytest.mark.skipif(not (shutil.which("csmith") and shutil.which("gcc")), reason="no csmith")
def test_random_programs_that_are_edited_keep_their_checksum(tmp_path):
    for header in CSMITH.glob("*.h"):
        (tmp_path / header.name).symlink_to(header)
    checks, failed, seed = 0, [], 1000
    while checks < int(os.environ.get("CSMITH_CHECKS", "300")):
        seed += 1
        source, native = random_program(seed)
        if not native:
            continue
        edited = Edited(source, tmp_path, seed)
        try:
            for step in range(6):
                if step:
                    edited.step()
                checks += 1
                found = edited.checksum()
                if found != native:
                    failed.append((seed, step, found, native))
                    break
            edited.session.check()
        finally:
            edited.session.close()
    assert failed == []
