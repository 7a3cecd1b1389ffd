"""Every error a session raises.  Start from `JitError`.

A message says what happened, where (cell, line, column, symbol), what state the session is in and
what to do about it.  An error never leaves the session half changed: what could not be done was
not begun or was taken back.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from jitkernel.printable import printable
from jitkernel.record import NamedTuple
from jitkernel.regex import regex

__all__ = [
    "ArenaFull",
    "CheckFailed",
    "CompileError",
    "Diagnostic",
    "EvictError",
    "Exited",
    "Fault",
    "Interrupted",
    "JitError",
    "LinkError",
    "TypeMismatch",
    "UndefinedSymbol",
    "UnknownName",
    "UsageError",
    "limit_met",
    "WorkerDied",
    "WrongArgument",
    "present",
]

T = TypeVar("T")


class JitError(Exception):
    """Base of all errors of a session; `str(error)` is the whole message, plain text."""

    def __init__(self, message: object = ""):
        super().__init__(printable(str(message)))

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows of it: the user's frames and the message."""
        from jitkernel.tracebacks import rendered

        return rendered(self)


#: What a process may run out of, as the system says it, and who allows more.
_LIMITS = {
    errno.EMFILE: "this process may have no more files open: `ulimit -n` allows more",
    errno.ENFILE: "the system has too many files open: end what has them",
    errno.EFBIG: "this process may write no file as large as that: `ulimit -f` allows more",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk has no more room for this user",
    errno.EAGAIN: "the system allows no more processes or threads: `ulimit -u` allows more",
    errno.ENOMEM: "the system has no memory left",
}


def limit_met(error: BaseException) -> JitError | None:
    """The error of a session that met a limit of the system's; None for any other."""
    words = _LIMITS.get(error.errno or 0) if isinstance(error, OSError) else None
    return JitError(f"the session cannot go on: {words}") if words else None


@contextlib.contextmanager
def within_limits() -> Iterator[None]:
    """Raise that error where such a limit was met."""
    try:
        yield
    except OSError as error:
        if limit := limit_met(error):
            raise limit from None
        raise


class UsageError(JitError):
    """A call or a magic was used wrongly; nothing was done."""


class UnknownName(UsageError, KeyError):
    """A name that the session does not know, where one was looked up as in a mapping."""

    __str__ = Exception.__str__  # KeyError's is for keys: it quotes


class WrongArgument(UsageError, TypeError):
    """An argument that is plainly of the wrong type: None for a path, a number for a name."""


class Damaged(UsageError):
    """A session's file that is not what was written."""


class Unopened(UsageError):
    """A file that the system does not let us open: its folder is full, say, or another's."""


class Diagnostic(NamedTuple):
    """One complaint about a cell's source.

    `line` and `column` count from 1 in the cell as the user typed it; 0 where unknown.
    `source` is that line's text, `hint` what to try, empty where there is none; `file` names the
    file that the cell is the text of.
    """

    message: str
    line: int = 0
    column: int = 0
    source: str = ""
    hint: str = ""
    severity: str = "error"
    file: str = ""

    def render(self) -> str:
        """The sentence first, with the near name if there is one, then the line with a caret, then
        the hint.  A note is the sentence alone: nothing is wrong at its place."""
        where = f"{self.file}, " * bool(self.file) + f"line {self.line}"
        where += f", column {self.column}" if self.column else ""
        text = f"{where}: {self.message}" if self.line else self.message
        near = _NEAR.match(self.hint)
        hint = self.hint
        if near:
            first, newline, more = text.partition("\n")
            text, hint = f"{first}; {near[1]}{newline}{more}", near[2]
        if self.source and self.line and self.severity != "note":
            source, column = _part(self.source, self.column)
            text += f"\n  {source}"
            if column:
                pad = "".join("\t" if c == "\t" else " " for c in source[: column - 1])
                text += f"\n  {pad}^"
        if hint:
            text += f"\nhint: {hint}"
        return text


_LINE, _BEFORE = 96, 40  # columns of a line that is shown, and before its place


def _part(source: str, column: int) -> tuple[str, int]:
    """A line that is too long in part, and the column there."""
    if len(source) <= _LINE:
        return source, column
    begin = max(0, min(column - 1 - _BEFORE, len(source) - _LINE + 1)) if column else 0
    part = ("…" if begin else "") + source[begin:]
    if len(part) > _LINE:
        part = part[: _LINE - 1] + "…"
    return part, column - begin + bool(begin) if column else 0


#: A hint that asks for a name that is near the one written, and what it says besides.
_NEAR = regex(r"(did you mean .*?\?)(?:\s+|\Z)(.*)", re.DOTALL)


class CompileError(JitError):
    """Source or IR that cannot become an object; the session is as it was."""

    def __init__(self, diagnostics: Sequence[Diagnostic] | str):
        if isinstance(diagnostics, str):
            diagnostics = [Diagnostic(diagnostics)]
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    def in_file(self, path: str) -> CompileError:
        """The same of a cell that is the text of a file, which its words name."""
        before = "\n".join(d.render() for d in self.diagnostics)
        self.diagnostics = tuple([d._replace(file=path) for d in self.diagnostics])
        after = "\n".join(d.render() for d in self.diagnostics)
        self.args = (str(self).replace(before, after, 1),)
        return self


class CheckFailed(JitError):
    """A solution that is not what its exercise asks for; the message says by which input or rule.

    `call` is the call that gave it away, as it is typed (`@clz(0)`), "" where a rule was broken.
    """

    def __init__(self, message: str, call: str = ""):
        self.call = call
        super().__init__(message)


class WorkerDied(CompileError):
    """The compiler worker ended while it compiled; `words` is what LLVM said last.

    `begun`: whether it had read what it was asked, which then may be what ended it.
    """

    def __init__(self, message: str, words: str = "", begun: bool = True):
        self.words = words
        self.begun = begun
        super().__init__(message)


class LinkError(JitError):
    """An object that cannot be linked; nothing of it stayed in the arena.

    `undefined` is the variable that it reads and nobody defines, where that is why.
    """

    undefined: str = ""


class TypeMismatch(JitError):
    """A signature or a type that differs from the one the session knows."""


class ArenaFull(JitError):
    """A zone has no room for a request; nothing was placed.

    `zone` is its name, `size` the bytes asked for, `free` the bytes free, `largest` the largest
    free extent.
    """

    def __init__(
        self, message: str, zone: str = "", size: int = 0, free: int = 0, largest: int = 0
    ):
        self.zone, self.size, self.free, self.largest = zone, size, free, largest
        super().__init__(message)


class EvictError(JitError):
    """Others still use what was to be evicted; `dependents` names them."""

    def __init__(self, message: str, dependents: Sequence[str] = ()):
        self.dependents = tuple(dependents)
        super().__init__(message)


class Frame(NamedTuple):
    """One frame of a backtrace: `where` reads `@get+4, cell 7` or `strlen+0x2d, libc.so.6`."""

    address: int
    where: str


class Fault(JitError):
    """User code was stopped by a signal; the session goes on.

    `signal` is its name (`SIGSEGV`), `address` the address it concerns, `pc` where the code stood.
    `kept` and `lost` are sentences about what survived.
    """

    def __init__(  # noqa: PLR0913  (public, each by its name)
        self,
        message: str,
        *,
        signal: str = "",
        address: int = 0,
        pc: int = 0,
        where: str = "",
        instruction: str = "",
        frames: Sequence[Frame] = (),
        kept: str = "",
        lost: str = "",
    ):
        self.signal, self.address, self.pc = signal, address, pc
        self.where, self.instruction = where, instruction
        self.frames: tuple[Frame, ...] = tuple(frames)
        self.kept, self.lost = kept, lost
        super().__init__(message)


class UndefinedSymbol(Fault):
    """A call reached a symbol that nobody defines; `symbol` is its name."""

    def __init__(self, message: str, *, symbol: str = "", **rest: object):
        self.symbol = symbol
        super().__init__(message, **rest)  # type: ignore[arg-type]


class Exited(Fault):
    """User code asked to end the process; `status` is what it would have returned."""

    def __init__(self, message: str, *, status: int = 0, **rest: object):
        self.status = status
        super().__init__(message, **rest)  # type: ignore[arg-type]


class Interrupted(Fault):
    """The user interrupted the cell."""


def present(thing: T | None, what: str) -> T:
    """`thing`, where it cannot be None as long as the books are right.

    Raises RuntimeError, which names `what`, where they are not.
    """
    if thing is None:
        raise RuntimeError(f"{what} is not there, and has to be: this is a mistake of jitkernel's")
    return thing
