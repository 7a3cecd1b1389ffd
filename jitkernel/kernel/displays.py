"""How errors look in a notebook, and what `deterministic` masks.

An error is one `error` message: the sentence first, then where, then the art (caret, backtrace),
then what was kept.  Plain text with ANSI colour that only repeats what the words say.
Start from `error_content`.
"""

from __future__ import annotations

import textwrap

from jitkernel.errors import CompileError, JitError
from jitkernel.printable import printable
from jitkernel.regex import regex
from jitkernel.views.room import Room

# No red: JupyterLab's reds are hard to read on the red of an error, in its dark theme above all.
_BOLD, _OFF = "\x1b[1m", "\x1b[0m"
FOLD = 100  # columns, as of any plain text
_LARGEST = 150_000  # bytes of an error: names in it may have any length
_ANSI = regex(r"\x1b\[[0-9;]*m")
_ADDRESS = regex(r"\b0x[0-9a-f]{7,16}\b")
_TIME = regex(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)? ?(?:ns|us|µs|ms|s)\b")


def plain(text: str) -> str:
    """`text` without colour."""
    return _ANSI.sub("", text)


def mask(text: str) -> str:
    """Addresses and durations replaced, so that a display is the same on every run; also where a
    duration comes in another unit then."""
    return _TIME.sub("? ms", _ADDRESS.sub("0x…", text))


def error_lines(error: BaseException) -> list[str]:
    """The lines of an error, its name and sentence first; no colour."""
    name = type(error).__name__
    if not isinstance(error, JitError):
        return [
            f"{name}: {printable(str(error))}",
            "This is a fault of jitkernel, not of your code. The session goes on.",
        ]
    first, *rest = str(error).removeprefix(f"{name}: ").split("\n")
    return [f"{name}: {first}", *rest]


def error_content(error: BaseException, deterministic: bool = False) -> dict[str, object]:
    """`ename`, `evalue` and `traceback` of the `error` message and of the reply."""
    lines = Room(size=_LARGEST).lines(error_lines(error))
    if deterministic:
        lines = [mask(line) for line in lines]
    name = type(error).__name__
    value = lines[0].removeprefix(f"{name}: ")
    folded = [part for line in lines for part in _fold(line)]
    return {"ename": name, "evalue": value, "traceback": [_coloured(folded, error)]}


def _fold(line: str) -> list[str]:
    """A sentence in lines that fit; what is indented is drawn, and stays as it is."""
    if len(line) <= FOLD or line[:1].isspace():
        return [line]
    return textwrap.wrap(line, FOLD, break_long_words=False, break_on_hyphens=False)


def _coloured(lines: list[str], error: BaseException) -> str:
    name = type(error).__name__
    shown = [f"{_BOLD}{name}{_OFF}{lines[0].removeprefix(name)}"]
    for line in lines[1:]:
        if line.startswith(("hint:", "Kept:", "Lost:")):
            word, _, rest = line.partition(":")
            shown.append(f"{_BOLD}{word}:{_OFF}{rest}")
        elif isinstance(error, CompileError) and line.strip() == "^":
            shown.append(f"{_BOLD}{line}{_OFF}")
        else:
            shown.append(line)
    return "\n".join(shown)
