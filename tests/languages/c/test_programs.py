"""Programs of several thousand lines that others wrote, with their own tests: as cells of C, a cell
for each file, and as archives that gcc made.  What they print is what a native program prints.

`C_PROGRAMS` names a folder with sources: of Lua 5.4 with its tests (`lua54`, as lupa ships it), and
Debian's source packages, unpacked (`zstd-1.5.4`, `lz4-1.9.4`, `zlib-1.2.13.dfsg`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import LinkError

pytest.importorskip("ziglang")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc"),
]

FOLDER = Path(os.environ.get("C_PROGRAMS", ""))
#: Tests of Lua that do not need minutes, or print times.
LUA = (
    "api attrib bitwise bwcoercion calls closure code coroutine cstack db errors events gc gengc"
    " goto literals main nextvar pm strings tpack tracegc utf8 vararg"
).split()
_TIMES = re.compile(
    rb"(?: +\d+(?: */ *\d+)?)+ +- |\d+ */ *\d+ *|\d+:\d+:\d+|[\d.]+ MB/s"
)  # of counters that run


@dataclass(frozen=True)
class Program:
    """Sources below a folder: the library's, and the file with `main`; how it is run, and where."""

    folder: str
    library: tuple[str, ...]
    main: str
    flags: str
    runs: tuple[tuple[str, ...], ...]
    cwd: str = "."

    @property
    def home(self):
        """The folder with its sources."""
        return next(iter(sorted(FOLDER.glob(self.folder))), None) if FOLDER.name else None

    def files(self):
        """The library's files."""
        return sorted({f for pattern in self.library for f in self.home.glob(pattern)})


PROGRAMS = {
    "lua": Program(
        "lua54", ("l[!u]*.c", "lu[!a]*.c"), "lua.c", "-I . -I .. -D LUA_USE_LINUX",
        tuple(("-e", "_U=true _port=true _soft=true", f"{name}.lua") for name in LUA), "testes",
    ),
    "lz4": Program(
        "lz4-*", ("lib/*.c",), "tests/fuzzer.c", "-I lib -I programs -D XXH_NAMESPACE=LZ4_",
        (("-s7", "-i20"), ("-s11", "-i50", "-v")),
    ),
    "zlib": Program(
        "zlib-*", ("*.c",), "test/example.c", "-I . -D HAVE_UNISTD_H", ((),),
    ),
    "zstd": Program(
        "zstd-*",
        (*(f"lib/{part}/*.c" for part in ("common", "compress", "decompress", "dictBuilder")),
         "programs/datagen.c", "programs/util.c", "programs/timefn.c"),
        "tests/fuzzer.c",
        "-I lib -I lib/common -I programs -D ZSTD_DISABLE_ASM -D ZSTD_MULTITHREAD -D XXH_NAMESPACE=ZSTD_",
        (("-s7", "-i8"),),
    ),
}  # fmt: skip
_UNUSED = frozenset(("ltests.c", "lua.c", "luac.c", "onelua.c"))


@pytest.fixture(params=PROGRAMS)
def program(request, monkeypatch):
    found = PROGRAMS[request.param]
    if found.home is None:
        pytest.skip(f"C_PROGRAMS has no {found.folder}")
    monkeypatch.chdir(found.home)
    return found


def library(program):
    return [f for f in program.files() if f.name not in _UNUSED]


def native(program, folder):
    """What each run of the native program prints, and its exit status."""
    path = folder / "native"
    built = [*library(program), program.main, "-lm", "-lpthread", "-ldl", "-Wl,-E"]
    subprocess.run(["gcc", "-O2", "-w", *program.flags.split(), *built, "-o", path], check=True)
    found = []
    for arguments in program.runs:
        done = subprocess.run([path, *arguments], capture_output=True, cwd=program.cwd)
        found.append((done.returncode, plain(done.stdout), plain(done.stderr)))
    return found


def plain(text):
    return [line for line in _TIMES.sub(b"", text.replace(b"\r", b"")).split(b"\n") if line.strip()]


def outcome(session, program, folder):
    """The same of a session that has all but `main`'s file."""
    session.run(f'#include "{program.home / program.main}"', "c")
    session.run("#include <stdio.h>\n#include <unistd.h>", "c")
    session.run(f'chdir("{program.cwd}");', "c")
    takes = "void" not in session.run("main", "c").text
    found = []
    for number, arguments in enumerate(program.runs):
        words = ", ".join(f'"{word}"' for word in (str(folder / "native"), *arguments))
        argv = f"char *argv{number}[] = {{{words}, 0}};\n"
        call = f"main({len(arguments) + 1}, argv{number})" if takes else "main()"
        done = session.run(argv + "int status = " + call + ";\nfflush(0);\nstatus", "c")
        status = int(done.text.removeprefix("(int) "))
        out, err = (t.encode("utf-8", "surrogateescape") for t in (done.stdout, done.stderr))
        found.append((status, plain(out), plain(err)))
    session.check()
    return found


def include(session, files, text=lambda file: f'#include "{file}"'):
    """A cell for each file; one that reads a variable of another file follows that."""
    while files:
        later = []
        for file in files:
            try:
                session.run(text(file), "c")
            except LinkError as error:
                assert "which nobody defines" in str(error)
                later.append(file)
        assert later != files
        files = later


def test_each_file_as_a_cell(program, tmp_path):
    wanted = native(program, tmp_path)
    with Session(timeout=600, clang_flags=program.flags) as session:
        include(session, library(program))
        assert outcome(session, program, tmp_path) == wanted


def test_each_file_pasted(program, tmp_path):
    """All files in one program, where each was one: what their headers keep apart, meets here."""
    wanted = native(program, tmp_path)
    with Session(timeout=600, clang_flags=program.flags) as session:
        include(session, library(program), lambda file: file.read_text("utf-8", "surrogateescape"))
        assert outcome(session, program, tmp_path) == wanted


def test_an_archive_that_gcc_made(program, tmp_path):
    wanted = native(program, tmp_path)
    objects = [tmp_path / f"{number}.o" for number, _ in enumerate(library(program))]
    for file, made in zip(library(program), objects, strict=True):
        command = ["gcc", "-O2", "-w", *program.flags.split(), "-c", file, "-o", made]
        subprocess.run(command, check=True)
    subprocess.run(["ar", "rcs", tmp_path / "liball.a", *objects], check=True)
    with Session(timeout=600, clang_flags=program.flags) as session:
        session.link(str(tmp_path / "liball.a"))
        assert outcome(session, program, tmp_path) == wanted
