"""What is no file where a header is looked for: refused at once, in whatever way it is named."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jitkernel import Session, procfs
from jitkernel.errors import CompileError
from jitkernel.syscalls import SYS
from tests.seeds import sampled

WAYS = {
    "included": '#include "{0}/pipe.h"',
    "in a header": '#include "{0}/outer.h"',
    "by a macro": '#define H "{0}/pipe.h"\n#include H',
    "looked for": '#if __has_include("{0}/pipe.h")\nint q = 1;\n#endif',
    "embedded": 'const char e[] = {{\n#embed "{0}/pipe.h"\n}};',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outer.h").write_text('#include "pipe.h"\n')
    (tmp_path / "later.h").write_text("#define K 3\n")
    os.mkfifo(tmp_path / "pipe.h")
    return tmp_path


def test_a_named_pipe_is_no_header(s: Session, folder: Path) -> None:
    s.run(f'#include "{folder}/later.h"\nint k(void) {{ return K; }}', "c")
    s.save(str(folder / "s.jks"))

    def refused(session: Session, code: str, words: str) -> None:
        began = time.monotonic()
        with pytest.raises(CompileError, match=words):
            session.run(code, "c")
        assert time.monotonic() - began < 55, "it waited for clang's timeout"

    for way in WAYS.values():
        refused(s, way.format(folder) + "\nint w = 2;", r"pipe\.h is a named pipe, not a file")
        assert s.run("k()", "c").value == 3
    (folder / "later.h").unlink()
    os.mkfifo(folder / "later.h")
    with Session.restore(str(folder / "s.jks"), spare=False) as r:
        for session in (s, r):
            refused(session, "k()", r"later\.h is a named pipe, not a file")


def test_a_pipe_without_a_name_is_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clang opens its own text so: where it gets no processor then, it does not wait for anybody."""
    reading, writing = os.pipe()
    os.mkfifo(tmp_path / "named")
    opened = tmp_path / "named"
    for path, words in ((opened, str(opened)), (Path(f"/dev/fd/{reading}"), "")):
        name = ctypes.create_string_buffer(os.fsencode(path))
        call = (os.getpid(), SYS["openat"], (0, ctypes.addressof(name)))
        monkeypatch.setattr(procfs, "_calls", lambda pids: [call])  # noqa: B023 (at once)
        assert procfs.waits_to_open([os.getpid()]) == words
    os.close(reading)
    os.close(writing)


def _socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(path)


def _large(path: str) -> None:
    """A file of holes that has no place in memory."""
    with open(path, "wb") as file:
        file.truncate(1 << 40)


OTHERS: dict[str, tuple[Callable[[str], object], str]] = {
    "a device": (lambda path: os.symlink("/dev/zero", path), r"own\.h is a device, not a file"),
    "another": (lambda path: os.symlink("/dev/random", path), r"own\.h is a device, not a file"),
    "a pipe": (os.mkfifo, r"own\.h is a named pipe, not a file"),
    "a socket": (_socket, r"own\.h is a socket, not a file"),
    "a folder": (os.mkdir, r"own\.h' file not found"),
    "a link to a folder": (lambda path: os.symlink("/usr", path), r"own\.h' file not found"),
    "itself": (lambda path: os.symlink(path, path), r"own\.h': Symbolic link loop"),
    "nothing": (lambda path: None, r"own\.h' file not found"),
    "no end": (_large, "."),
}


@pytest.mark.parametrize("inner", [False, True], ids=["included", "within another"])
@pytest.mark.parametrize("name", sampled(OTHERS, 4))
def test_a_header_becomes_something_else(tmp_path: Path, name: str, inner: bool) -> None:
    """Its cell run again, another cell that includes it, and one that only uses it."""
    make, words = OTHERS[name]
    header, outer = tmp_path / "own.h", tmp_path / "outer.h"
    header.write_text("#define K 3\nstatic inline int three(void) { return K; }\n")
    outer.write_text('#include "own.h"\n')
    include = f'#include "{outer if inner else header}"\n'
    with Session(spare=False) as s:
        s.run(f"{include}int k(void) {{ return three(); }}", "c", cell_id="first")
        header.unlink()
        make(str(header))
        began = time.monotonic()
        for cell, text in (
            ("first", f"{include}int k(void) {{ return three(); }}"),
            ("second", f"{include}int k2(void) {{ return three(); }}"),
        ):
            with pytest.raises(CompileError, match=words):
                s.run(text, "c", cell_id=cell)
        if not inner and name != "no end":
            with pytest.raises(CompileError, match=f"{words}(?s:.*)"):
                s.run("int k3(void) { return K; }", "c")
        assert time.monotonic() - began < 50, "it waited for clang's timeout"
        assert s.call("k") == 3 and "k2" not in s
        if os.path.lexists(header):
            (os.rmdir if os.path.isdir(header) and not header.is_symlink() else os.unlink)(header)
        header.write_text("#define K 4\nstatic inline int three(void) { return K; }\n")
        s.run(f"{include}int k(void) {{ return three(); }}", "c", cell_id="first")
        assert s.call("k") == 4
