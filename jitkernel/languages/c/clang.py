"""Runs clang's compiler proper (`-cc1`), a process for each text.  Start from `Clang`; `check`
tells whether cells can be compiled with some settings, when they are set.

The `ziglang` package brings one that needs nothing else on the machine, with headers of the C
library; another clang may be named, from 19 on (older ones write debug information otherwise).
Headers are read once and kept as precompiled headers in the user's cache folder, named by all that
they depend on.

Source: clang.llvm.org/docs/ClangCommandLineReference.html, clang.llvm.org/docs/PCHInternals.html.
"""

from __future__ import annotations

import glob
import itertools
import math
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial

from jitkernel import procfs
from jitkernel.children import Answer, Child
from jitkernel.compiler.cache_database import cache_home
from jitkernel.errors import CompileError, UsageError
from jitkernel.files import working_folder
from jitkernel.ir.attributes import values
from jitkernel.languages.c.flags import Flags, answer, flags_of
from jitkernel.languages.c.included import files_of
from jitkernel.languages.c.lead import lead_of
from jitkernel.languages.c.precompiled import HeaderCache
from jitkernel.languages.c.resident import Resident, lent, start
from jitkernel.linker.libraries import find_library
from jitkernel.printable import printable
from jitkernel.record import NamedTuple, field, record, replace
from jitkernel.regex import regex

#: Tried: 22.1 (ziglang 0.17, by the tests), and Debian's 19.1 and 22.1.
OLDEST = 19
_SLICE = 0.05  # seconds between looks for an interrupt
_READ = 0.2  # seconds within which a process that waits for its text has read it
_HEADERS = 256 << 20  # bytes of precompiled headers that are kept
#: The group `undefined`, as `-cc1` wants it.
_CHECKS = (
    "alignment,array-bounds,bool,builtin,enum,float-cast-overflow,integer-divide-by-zero,"
    "nonnull-attribute,null,pointer-overflow,return,returns-nonnull-attribute,shift-base,"
    "shift-exponent,signed-integer-overflow,unreachable,vla-bound"
)
#: What is nearly always a mistake and clang says only where it is asked: of -Wall what holds in a
#: notebook, whose cells use each other's definitions.
_WARNINGS = (
    "-Wuninitialized", "-Winfinite-recursion", "-Wreturn-type", "-Wmisleading-indentation",
    "-Wfor-loop-analysis", "-Wself-assign", "-Wunused-label", "-Wchar-subscripts",
)  # fmt: skip
_TRIED = """#include <stdlib.h>
static int twice(int x) { return 2 * x; }
struct pair { int first; double second; } both;
int used(int x) { both.first = x; return twice(both.first); }
"""
#: What LLVM's runtime for OpenMP has, and GCC's has not.  openmp.llvm.org, kmp.h.
_FORK = "__kmpc_fork_call"
_SHOWN = 3  # features that are named
_VERSION = regex(r"clang version (\d+)")
_COMPLAINT = regex(
    r"(?:(?P<file>[^\n]*?):(?P<line>\d+):(?P<column>\d+)(?::\{[^:]*\})*: )?"
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)"
)
_FIX = regex(r'fix-it:"(?:[^"\\]|\\.)*":\{\d+:\d+-\d+:\d+\}:"(?P<text>(?:[^"\\]|\\.)*)"')


class Complaint(NamedTuple):
    """A diagnostic of clang's: `file`, `line` and `column` as it counts them, columns in bytes;
    `fix` is the text that it would put there."""

    file: str
    line: int
    column: int
    severity: str
    message: str
    fix: str = ""

    @property
    def is_error(self) -> bool:
        """True if it refuses the text."""
        return self.severity in ("error", "fatal error")


class Output(NamedTuple):
    """The result of running clang: its standard output, "" where it refused, and its complaints."""

    text: str
    complaints: list[Complaint]


def nothing() -> None:
    """Do nothing while clang works, where nobody waits for it."""


@record(slots=False)
class Clang:
    """A compiler and how it is asked: `program` is the start of its command line, `resources` the
    folder with its own headers, `include` those of the C library, `asked` the flags that a session
    asks for.  `processor` is the one that the session's compiler has, unless they name another.
    `identity` changes with the program, `timeout` is in seconds; `waiting` is called now and then
    while it works.
    """

    program: tuple[str, ...]
    resources: str
    include: tuple[str, ...]
    identity: str
    asked: Flags = field(default_factory=Flags)
    processor: tuple[str, ...] = ("-target-cpu", "x86-64")
    sanitize: bool = False
    optimise: bool = True
    timeout: float = 60.0
    waiting: Callable[[], None] = field(default=nothing, compare=False)

    @cached_property
    def flags(self) -> list[str]:
        """The flags that all runs share; a precompiled header fits those that it was made with."""
        checks = [f"-fsanitize={_CHECKS}", f"-fsanitize-trap={_CHECKS}"] if self.sanitize else []
        every = [
            *self.program, "-triple", "x86_64-unknown-linux-gnu",
            # The session's compiler verifies and optimises.
            "-disable-free", "-disable-llvm-verifier", "-disable-llvm-passes",
            *(["-O2"] if self.optimise else ["-O0", "-disable-O0-optnone"]),
            "-mrelocation-model", "pic", "-pic-level", "2", "-fhalf-no-semantic-interposition",
            "-mframe-pointer=none", "-funwind-tables=2", *self.processor,
            "-resource-dir", self.resources, "-nostdsysteminc", "-nobuiltininc",
            *(word for folder in self.include for word in ("-internal-isystem", folder)),
            "-iquote", ".", "-D", f"__GLIBC_MINOR__={_glibc_minor()}", "-fgnuc-version=4.2.1",
            "-std=gnu17", "-fmath-errno", "-ffp-contract=on",
            # Null pointers fault where they are used; endless recursion does at -O0.
            "-fno-delete-null-pointer-checks",
            *([] if self.optimise else ["-fno-optimize-sibling-calls"]),
            # Types of values and lines of code are read from it, and it goes.
            "-debug-info-kind=limited", "-gno-column-info", "-dwarf-version=4",
            "-fdebug-compilation-dir=.",
            "-ferror-limit", "20", "-fno-caret-diagnostics", "-fdiagnostics-parseable-fixits",
            "-Wno-deprecated-non-prototype", *_WARNINGS, *self.asked.more, *checks,
            # Later cells may use it; and it is no file.
            "-Wno-unused-const-variable", "-Wno-gnu-line-marker", "-Wno-newline-eof",
        ]  # fmt: skip
        return [flag for flag in every if flag not in self.asked.without]

    def compile(self, source: str, header: str = "", whole: bool = False) -> Output:
        """The text of the module that `header` and `source` are; the `whole` of it has functions
        and variables that nothing uses, too."""
        every = ["-femit-all-decls"] * whole
        arguments = [*every, "-emit-llvm", "-x", "c", "-o", "-", "-"]
        lead = None if whole else lead_of(source, self.asked.folders)
        if lead is None:
            return self._run(arguments, source, header, again=not whole)
        return self._run(arguments, lead.rest, header + lead.text, True, lead.files)

    def preprocess(self, source: str, header: str = "") -> Output:
        """Preprocess a text: what `#if` leaves of it, macros expanded."""
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

    def macros(self, header: str, more: str = "") -> str:
        """The `#define` directives that a header leaves, and `more` behind it."""
        return self._run(["-E", "-dM", "-x", "c", "-o", "-", "-"], more, header).text

    def _run(
        self, arguments: Sequence[str], source: str, header: str, again: bool = False,
        known: Sequence[str] = (),
    ) -> Output:  # fmt: skip
        # What is only preprocessed has its headers as text: clang would look for that of an entry.
        without: tuple[list[str], str] = [], header
        first = without if "-E" in arguments else self._precompiled(header, known)
        for paths, rest in (first, without):
            command = [*self.flags, *_including(paths), *arguments]
            text = rest + source
            files = partial(self._files, header, (*paths, *known)) if again else None
            status, out, err = _ask(command, text, self.timeout, self.waiting, files)
            complaints = complaints_of(err)
            blamed = _blamed(paths, status, err, complaints)
            if not blamed:
                break
            self._cache.drop(blamed)
        if status and not any(c.is_error for c in complaints):
            if status < 0:
                raise CompileError(
                    "clang ended without an answer: it crashed, or had no memory left for this cell"
                )
            raise CompileError(f"clang refused the cell: {printable(err.strip()[-300:])}")
        completing = any(a.startswith("-code-completion-at") for a in arguments)
        return Output(out if completing or not status else "", complaints)

    def _files(self, header: str, known: Sequence[str]) -> list[str]:
        """The files that clang reads for any text behind a header, but for the system's; of those
        some are `known`."""
        found = (files_of(line, self.asked.folders) for line in header.split("\n"))
        return [*known, *(path for path, _ in itertools.chain(*found))]

    @property
    def _cache(self) -> HeaderCache:
        return _header_cache(os.path.join(cache_home(), "c"))

    def _precompiled(self, header: str, known: Sequence[str]) -> tuple[list[str], str]:
        """The paths of what is precompiled of a header, the last is for clang, and the rest; the
        content of some files is `known` from the header's text."""
        if not header.strip() or not cache_home():
            return [], header
        here = working_folder() if '"' in header or self.asked.more else ""
        identity = "\0".join([self.identity, *self.flags, here])
        return self._cache.chain(identity, header, self._precompile, _HEADERS, known)

    def _precompile(self, text: str, below: list[str], path: str, files: str) -> list[str] | None:
        """Make a precompiled header: see `precompiled.Build`."""
        command = [
            *self.flags, *_including(below), "-emit-pch", "-dependency-file", files, "-MT", "it",
            "-sys-header-deps", "-x", "c-header", "-o", path, "-",
        ]  # fmt: skip
        try:
            status, _, err = _ask(command, text, self.timeout, self.waiting)
        except CompileError:
            return []
        return _blamed(below, status, err, complaints_of(err)) if status else None


def _including(paths: Sequence[str]) -> list[str]:
    """The flags for a precompiled header, which is on disk in so many files."""
    return ["-include-pch", paths[-1]] if paths else []


def _blamed(
    paths: Sequence[str], status: int, err: str, complaints: Iterable[Complaint]
) -> list[str]:
    """The files of a precompiled header that may be the cause of a failure: those that clang names,
    or all of them where it does not say of any place that it is wrong."""
    if not status:
        return []
    told = status > 0 and any(c.is_error and c.file for c in complaints)
    return [path for path in paths if path in err] or ([] if told else [*paths])


#: The cache in a folder, one for all sessions of this process.
_header_cache = lru_cache(maxsize=8)(HeaderCache)


class _Unread(Exception):
    """A process does not read its text, or has no answer."""


def _ask(
    command: Sequence[str], source: str, timeout: float, waiting: Callable[[], None],
    files: Callable[[], Sequence[str]] | None = None,
) -> Answer:  # fmt: skip
    """Run a command on a text.  It ends with whatever is raised here, and is ended when it takes
    too long or too much memory.  Where `files` says what it reads besides, it may be one that has
    compiled other texts."""
    if files is not None:
        with suppress(_Unread, OSError), lent(command, files) as process:
            found = _outcome(process, source, timeout, waiting, _READ)
            refused = any(complaint.is_error for complaint in complaints_of(found.errors))
            if process.ended() or not (refused or found.output):
                raise _Unread
            process.spent |= refused
            return found._replace(status=int(refused))
    try:
        child = start(command)
    except OSError as error:
        raise CompileError(f"clang could not be started: {error.strerror}") from None
    with child:
        return _outcome(child, source, timeout, waiting)


def _outcome(
    child: Child | Resident, source: str, timeout: float, waiting: Callable[[], None],
    read: float = math.inf,
) -> Answer:  # fmt: skip
    """Give a process its text, and return its answer.  Raises _Unread where it has not read it in
    `read` seconds."""
    begun = time.monotonic()
    # So that it ends where this process was killed.
    child.limit(resource.RLIMIT_CPU, math.ceil(timeout) + 1)
    child.give(source.encode("utf-8", "surrogateescape"))
    while not child.wait(_SLICE):
        waiting()
        if pipe := procfs.waits_to_open(procfs.family(child.pid)):
            raise CompileError(
                f"{printable(pipe)} is a named pipe, not a file: nothing is included from it"
            )
        passed = time.monotonic() - begun
        if passed > timeout:
            raise CompileError(f"clang needs more than {timeout:g} s for this cell and was ended")
        if passed > read and child.unread:
            raise _Unread
    return child.answer()


def complaints_of(text: str) -> list[Complaint]:
    """The complaints in clang's standard error, each with its fix."""
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
        version = _VERSION.search(_said(path, "--version"))
        if version is None or int(version[1]) < OLDEST:
            said = f" (it says {version[0]})" if version is not None else ""
            raise UsageError(f"{path} is no clang from {OLDEST} on{said}; C cells need one")
        resources = _said(path, "-print-resource-dir").strip()
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
    return _set_up(setting("clang"), setting("clang_flags"), setting("processor"))


@lru_cache(maxsize=8)
def _set_up(path: str, text: str, processor: str) -> Clang:
    clang = find_clang(path)
    flags = flags_of(clang.program, clang.identity, text)
    known = () if "-target-cpu" in flags.more else _processor(clang, processor)
    include = clang.include + (_openmp_headers() if "-fopenmp" in flags.more else ())
    return replace(clang, asked=flags, processor=known, include=include)


def clang_for(
    setting: Callable[[str], str], level: int | None, sanitize: bool,
    waiting: Callable[[], None],
) -> Clang:  # fmt: skip
    """The same for a cell that asks for a level of its own, or for none; `waiting` is called while
    it works.  Raises UsageError."""
    clang, timeout = clang_of(setting), float(setting("timeout") or 60)
    level = clang.asked.level if level is None else level
    asked, found = _asked(clang, level != 0, sanitize, timeout), object.__new__(Clang)
    vars(found).update(vars(asked), waiting=waiting)
    return found


@lru_cache(maxsize=8)
def _asked(clang: Clang, optimise: bool, sanitize: bool, timeout: float) -> Clang:
    """The compiler with its flags, which cell after cell has."""
    found = replace(clang, optimise=optimise, sanitize=sanitize, timeout=timeout)
    return found if found.flags else clang


@lru_cache(maxsize=1)
def _openmp_headers() -> tuple[str, ...]:
    """The folder with `omp.h`, which is among the headers of the clang that brought the runtime."""
    found = glob.glob("/usr/lib/llvm-*/lib/clang/*/include/omp.h")
    return (os.path.dirname(max(found, key=len)),) if found else ()


@lru_cache(maxsize=16)
def _processor(clang: Clang, said: str) -> tuple[str, ...]:
    """The flags that tell clang of a processor, by its name and its features as LLVM has them
    (`haswell +avx,-avx512f`); one that an older clang does not know is any, with those features."""
    name, _, features = said.partition(" ")
    told: tuple[str, ...] = ("-target-cpu", name or "x86-64")
    if name and len(clang.program) == 2:  # not the one that is of the same LLVM
        if answer([*clang.program, "-triple", "x86_64-unknown-linux-gnu", *told, "-E", "-"]).status:
            told = ("-target-cpu", "x86-64")
    return told + tuple(w for f in features.split(",") if f for w in ("-target-feature", f))


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return f"{path} {status.st_size} {status.st_mtime_ns} "


def _said(path: str, option: str) -> str:
    """The answer of a program that should be clang to an option."""
    status, output, errors = answer([path, option])
    if status:
        raise UsageError(
            f"{path} does not answer as a clang does: {option} ended with status {status}"
            f"{': ' * bool(errors.strip())}{printable(errors.strip()[-300:])}"
        )
    return output


# -- settings --------------------------------------------------------------------------------------


def check(setting: Callable[[str], str], is_defined: Callable[[str], bool]) -> None:
    """Raise UsageError for a compiler or flags with which no cell would do; `is_defined` tells
    what the session's cells and libraries have."""
    clang = clang_of(setting)
    if "-fopenmp" in clang.asked.more and not is_defined(_FORK):
        raise UsageError(f"Compiler.clang_flags: -fopenmp needs LLVM's OpenMP: {_openmp()}")
    try:
        output = clang.compile(_TRIED)
    except CompileError as error:
        raise UsageError(f"Compiler.clang_flags: {error}") from None
    wrong = [c.message for c in output.complaints if c.is_error or not c.file]
    if wrong:
        raise UsageError(f"Compiler.clang_flags: {wrong[0]}")
    if clang.asked.processor and (lacking := _lacking(output.text, setting("machine"))):
        more = ", ..." if len(lacking) > _SHOWN else ""
        raise UsageError(
            f"Compiler.clang_flags: this machine has no {', '.join(lacking[:_SHOWN])}{more}: what "
            "is compiled so would end with an illegal instruction"
        )


def _lacking(text: str, machine: str) -> list[str]:
    """The features that functions of a module's text are compiled for and a machine has not."""
    features = machine.partition(" ")[2].split(",")
    absent = {feature[1:] for feature in features if feature[:1] == "-"}
    told = values(text, "target-features")
    used = {f[1:] for found in told for f in found.split(",") if f[:1] == "+"}
    return sorted(absent & used)


def _openmp() -> str:
    """Advice on loading LLVM's OpenMP."""
    for name in ("omp", "iomp5"):
        try:
            return f"%lib {find_library(name)[0]} first"
        except UsageError:
            pass
    found = sorted(glob.glob("/usr/lib/llvm-*/lib/libomp.so*"), key=os.path.realpath)
    if found:
        return f"%lib {found[-1]} first"
    return "install it (on Debian: apt-get install libomp-dev), then %lib -lomp first"
