"""Runs clang's compiler proper (`-cc1`), a process for each text.  Start from `Clang`.

The `ziglang` package brings one that needs nothing else on the machine, with headers of the C
library; another clang may be named, from 19 on (older ones write debug information otherwise).
Headers are read once and kept as precompiled headers in the user's cache folder, named by all that
they depend on.

Source: clang.llvm.org/docs/ClangCommandLineReference.html, clang.llvm.org/docs/PCHInternals.html.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import NamedTuple

from jitkernel.children import give
from jitkernel.compiler.cache_files import cache_home
from jitkernel.errors import CompileError, UsageError
from jitkernel.files import private_folder
from jitkernel.languages.c import ahead
from jitkernel.printable import printable

__all__ = ["Clang", "Complaint", "Output", "clang_of", "find_clang"]

#: Tried: 22.1 (ziglang 0.17, by the tests), and Debian's 19.1 and 22.1.
OLDEST = 19
_SLICE = 0.05  # seconds between looks for an interrupt
_HEADERS = 256 << 20  # bytes of precompiled headers that are kept
#: The group `undefined`, as `-cc1` wants it.
_CHECKS = (
    "alignment,array-bounds,bool,builtin,enum,float-cast-overflow,integer-divide-by-zero,"
    "nonnull-attribute,null,pointer-overflow,return,returns-nonnull-attribute,shift-base,"
    "shift-exponent,signed-integer-overflow,unreachable,vla-bound"
)
_VERSION = re.compile(r"clang version (\d+)")
_COMPLAINT = re.compile(
    r"(?:(?P<file>[^\n]*?):(?P<line>\d+):(?P<column>\d+)(?::\{[^:]*\})*: )?"
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)"
)
_FIX = re.compile(r'fix-it:"(?:[^"\\]|\\.)*":\{\d+:\d+-\d+:\d+\}:"(?P<text>(?:[^"\\]|\\.)*)"')
_CHANGED = "has been modified since the precompiled header"
#: Flags of clang that run nothing and write nothing, and those of them with an argument behind.
_WITH_ARGUMENT = ("-I", "-D", "-U", "-isystem", "-iquote", "-idirafter")
_HARMLESS = ("-I", "-D", "-U", "-W", "-std=", "-pedantic", "-ffp-contract=", "-fwrapv",
             "-fno-strict-aliasing", "-funsigned-char", "-fsigned-char")  # fmt: skip


class Complaint(NamedTuple):
    """What clang says of a place: `file`, `line` and `column` as it counts them, columns in bytes;
    `fix` is the text that it would put there."""

    file: str
    line: int
    column: int
    severity: str
    message: str
    fix: str = ""

    @property
    def is_error(self) -> bool:
        """Whether it refuses the text."""
        return self.severity in ("error", "fatal error")


class Output(NamedTuple):
    """What a run of clang gave: its standard output, "" where it refused, and its complaints."""

    text: str
    complaints: list[Complaint]


@dataclass(frozen=True)
class Clang:
    """A compiler and how it is asked: `program` is the start of its command line, `resources` the
    folder with its own headers, `include` those of the C library, `more` flags as `-cc1` takes
    them.  `identity` changes with the program, `timeout` is in seconds; `waiting` is called now and
    then while it works.
    """

    program: tuple[str, ...]
    resources: str
    include: tuple[str, ...]
    identity: str
    more: tuple[str, ...] = ()
    sanitize: bool = False
    optimise: bool = True
    timeout: float = 60.0
    waiting: Callable[[], None] = field(default=lambda: None, compare=False)

    @cached_property
    def flags(self) -> list[str]:
        """What all runs share; a precompiled header fits those that it was made with."""
        checks = [f"-fsanitize={_CHECKS}", f"-fsanitize-trap={_CHECKS}"] if self.sanitize else []
        return [
            *self.program, "-triple", "x86_64-unknown-linux-gnu",
            # The session's compiler verifies and optimises.
            "-disable-free", "-disable-llvm-verifier", "-disable-llvm-passes",
            *(["-O2"] if self.optimise else ["-O0", "-disable-O0-optnone"]),
            "-mrelocation-model", "pic", "-pic-level", "2", "-fhalf-no-semantic-interposition",
            "-mframe-pointer=none", "-funwind-tables=2", "-target-cpu", "x86-64",
            "-resource-dir", self.resources, "-nostdsysteminc", "-nobuiltininc",
            *(word for folder in self.include for word in ("-internal-isystem", folder)),
            "-iquote", ".", "-D", f"__GLIBC_MINOR__={_glibc_minor()}", "-fgnuc-version=4.2.1",
            "-std=gnu17", "-fmath-errno", "-ffp-contract=on",
            # Null pointers fault where they are used; endless recursion does at -O0.
            "-fno-delete-null-pointer-checks",
            *([] if self.optimise else ["-fno-optimize-sibling-calls"]),
            # Types of values and lines of code are read from it, and it goes.
            "-debug-info-kind=limited", "-dwarf-version=4", "-fdebug-compilation-dir=.",
            "-ferror-limit", "20", "-fno-caret-diagnostics", "-fdiagnostics-parseable-fixits",
            "-Wno-deprecated-non-prototype", *self.more, *checks,
            # Later cells may use it; and it is no file.
            "-Wno-unused-const-variable", "-Wno-gnu-line-marker", "-Wno-newline-eof",
        ]  # fmt: skip

    def compile(self, source: str, header: str = "") -> Output:
        """The text of the module that `header` and `source` are."""
        return self._run(["-emit-llvm", "-x", "c", "-o", "-", "-"], source, header, again=True)

    def preprocess(self, source: str, header: str = "") -> Output:
        """What `#if` leaves of a text, macros expanded."""
        return self._run(["-E", "-x", "c", "-o", "-", "-"], source, header)

    def complete(
        self, source: str, header: str, line: int, column: int,
        headers: bool = False, macros: bool = False,
    ) -> str:  # fmt: skip
        """The lines that clang writes for what may stand at a place of the text: also what stands
        outside of functions, with `headers`, and macros, only where asked for."""
        at = ["-fsyntax-only", f"-code-completion-at=-:{line}:{column}"]
        at.append("-code-completion-brief-comments")
        at += ["-code-completion-macros"] * macros + ["-no-code-completion-globals"] * (not headers)
        return self._run([*at, "-x", "c", "-"], source, header).text

    def macros(self, header: str) -> str:
        """The `#define` directives that a header leaves."""
        return self._run(["-E", "-dM", "-x", "c", "-o", "-", "-"], "", header).text

    def _run(
        self, arguments: Sequence[str], source: str, header: str, again: bool = False
    ) -> Output:
        for precompiled in dict.fromkeys((self.precompiled(header), "")):
            whole, more = source, ["-include-pch", precompiled]
            if not precompiled:
                whole, more = header + source, []
            command = [*self.flags, *more, *arguments]
            status, out, err = _child(command, whole, self.timeout, self.waiting)
            if precompiled and status and _CHANGED in err:
                with contextlib.suppress(OSError):
                    os.unlink(precompiled)
                continue
            break
        if again:
            ahead.prepare(command)
        complaints = complaints_of(err)
        if status and not any(c.is_error for c in complaints):
            if status < 0:
                raise CompileError(
                    "clang ended without an answer: it crashed, or had no memory left for this cell"
                )
            raise CompileError(f"clang refused the cell: {printable(err.strip()[-300:])}")
        completing = any(a.startswith("-code-completion-at") for a in arguments)
        return Output(out if completing or not status else "", complaints)

    def precompiled(self, header: str) -> str:
        """The path of a precompiled header, made where there is none; "" where clang refuses it or
        there is no place for it."""
        home = cache_home()
        if not header.strip() or not home:
            return ""
        key = "\0".join([self.identity, *self.flags, os.getcwd() if '"' in header else "", header])
        folder = os.path.join(home, "c")
        path = os.path.join(folder, sha256(key.encode("utf-8", "surrogateescape")).hexdigest())
        if os.path.exists(path):
            return path
        try:
            private_folder(folder)
            _trim(folder)
            made, source = f"{path}.{os.getpid()}", f"{path}.h"  # which clang looks at again
            with open(os.open(source, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(header)
            arguments = ["-emit-pch", "-x", "c-header", "-o", made, source]
            try:
                if _child([*self.flags, *arguments], "", self.timeout, self.waiting)[0]:
                    os.unlink(source)
                    return ""
                os.chmod(made, 0o600)
                os.replace(made, path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(made)
        except (OSError, UsageError):
            return ""
        return path


def _child(
    command: Sequence[str], source: str, timeout: float,
    waiting: Callable[[], None] = lambda: None,
) -> tuple[int, str, str]:  # fmt: skip
    """Run a command on a text: its status, its output, its errors.  It ends with whatever is raised
    here, and is ended when it takes too long or too much memory."""
    end = time.monotonic() + timeout
    data = source.encode("utf-8", "surrogateescape")
    with ahead.take(command) or ahead.start(command) as child:
        try:
            with contextlib.suppress(OSError):
                seconds = math.ceil(timeout) + 1  # so that it ends where this process was killed
                resource.prlimit(child.pid, resource.RLIMIT_CPU, (seconds, seconds))
            give(child, data)
            while True:
                try:
                    out, err = child.communicate(timeout=_SLICE)
                    break
                except subprocess.TimeoutExpired:
                    waiting()
                    if time.monotonic() > end:
                        raise CompileError(
                            f"clang needs more than {timeout:g} s for this cell and was ended"
                        ) from None
        finally:
            if child.poll() is None:
                child.kill()
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def complaints_of(text: str) -> list[Complaint]:
    """What clang's standard error says, each with its fix."""
    found: list[Complaint] = []
    for line in text.split("\n"):
        if match := _COMPLAINT.fullmatch(line):
            found.append(
                Complaint(
                    match["file"] or "", int(match["line"] or 0), int(match["column"] or 0),
                    match["severity"], match["message"],
                )
            )  # fmt: skip
        elif (fix := _FIX.fullmatch(line)) and found and not found[-1].fix:
            found[-1] = found[-1]._replace(fix=fix["text"])
    return found


def _trim(folder: str) -> None:
    """Remove the precompiled headers that were not used for longest, where they are too many."""
    with os.scandir(folder) as entries:
        files = sorted((e.stat().st_atime, e.stat().st_size, e.path) for e in entries)
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= _HEADERS:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


@lru_cache(maxsize=1)
def _glibc_minor() -> str:
    """The C library's second number, which its headers are told."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").split(".")[1]
    except (ValueError, IndexError, OSError):
        return "31"


@lru_cache(maxsize=8)
def find_clang(path: str = "") -> Clang:
    """The compiler of the `ziglang` package, or the program at `path`, which may be a name that the
    PATH has.

    Raises UsageError where it is not there, or too old.
    """
    system = ["/usr/local/include", "/usr/include/x86_64-linux-gnu", "/usr/include"]
    if path:
        path = shutil.which(os.path.expanduser(path)) or path
        version = _VERSION.search(_answer([path, "--version"]))
        if version is None or int(version[1]) < OLDEST:
            said = f" (it says {version[0]})" if version is not None else ""
            raise UsageError(f"{path} is no clang from {OLDEST} on{said}; C cells need one")
        resources = _answer([path, "-print-resource-dir"]).strip()
        own = [os.path.join(resources, "include"), *system]
        return Clang((path, "-cc1"), resources, tuple(own), _stamp(path) + version[0])
    try:
        import ziglang
    except ImportError:
        raise UsageError(
            "C cells need clang: pip install 'jitkernel[c]', or set Compiler.clang to the path "
            f"of a clang from {OLDEST} on"
        ) from None
    home = os.path.dirname(str(ziglang.__file__))
    program, library = os.path.join(home, "zig"), os.path.join(home, "lib")
    libc = ("x86-linux-gnu", "generic-glibc", "x86-linux-any", "any-linux-any")
    folders = [os.path.join(library, "libc", "include", name) for name in libc]
    own = [os.path.join(library, "include"), *folders, *system]
    return Clang((program, "clang", "-cc1"), library, tuple(own), _stamp(program))


def clang_of(setting: Callable[[str], str]) -> Clang:
    """The compiler that a session's settings ask for.  Raises UsageError."""
    try:
        flags = tuple(shlex.split(setting("clang_flags")))
    except ValueError as error:
        raise UsageError(f"Compiler.clang_flags: {error}") from None
    return replace(find_clang(setting("clang")), more=tuple(flags))


def harmless(flags: str) -> str:
    """Those of some flags that say where headers are, which macros there are and which C it is; no
    others are taken from a stranger: clang runs code of plugins."""
    found: list[str] = []
    try:
        words = iter(shlex.split(flags))
    except ValueError:
        return ""
    for word in words:
        if word in _WITH_ARGUMENT:
            argument = next(words, None)
            found += [word, argument] if argument is not None else []
        elif word.startswith(_HARMLESS):
            found.append(word)
    return shlex.join(found)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return f"{path} {status.st_size} {status.st_mtime_ns} "


def _answer(command: Iterable[str]) -> str:
    try:
        return subprocess.run(
            list(command), capture_output=True, text=True, timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"{next(iter(command))} does not answer as a clang does: {error}"
        ) from None
