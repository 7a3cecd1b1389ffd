"""How a magic is declared, parsed and described.  Which ones there are is in `magics/__init__`.

A `Magic` says everything about itself once: its words, its arguments, what it completes and the
function that does it.  The parser, the help text and TAB all read that.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from jitkernel.errors import UsageError

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["Argument", "Magic", "help_text", "parse", "usage"]

#: What the values of an argument are; `kernel/arguments.py` offers them.  `symbol` is any name,
#: `target` a name or a cell's number, `code` a call line, `pipeline` a level or names of passes.
Completes = Literal[
    "", "cell", "code", "cpu", "exercise", "file", "function", "global", "machine", "magic", "pass",
    "passes", "pipeline", "setting", "size", "symbol", "target", "variable",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.  `words` is `target` for a positional one, `-n --number` for an option.

    `take`: "" one value, "?" at most one, "*" any number (an option is given once for each), "flag"
    none, "rest" the remaining text exactly as it was typed.  `least` and `most` bound a number.
    """

    words: str
    help: str
    take: Literal["", "?", "*", "flag", "rest"] = ""
    type: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] = ()
    completes: Completes = ""
    least: int | None = None
    most: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.words.split())

    @property
    def is_option(self) -> bool:
        return self.words.startswith("-")

    @property
    def dest(self) -> str:
        """The attribute that holds the value."""
        return self.names[-1].lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Magic:
    """One magic.  `call(frontend, arguments)` does it; a cell magic also gets `arguments.body`."""

    name: str
    help: str
    call: Callable[[Frontend, Any], Any]
    arguments: tuple[Argument, ...] = ()
    aliases: tuple[str, ...] = ()
    form: Literal["line", "cell", "both"] = "line"
    example: str = ""
    alone: bool = False  # it ends the session, so nothing can stand beside it
    options: Mapping[str, Argument] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options = {n: a for a in self.arguments if a.is_option for n in a.names}
        object.__setattr__(self, "options", options)

    @property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.is_option)


def parse(magic: Magic, line: str) -> SimpleNamespace:
    """The values of `line` for a magic's arguments; UsageError says what is wrong."""
    values: dict[str, Any] = {}
    for argument in magic.arguments:
        empty: Any = False if argument.take == "flag" else [] if argument.take == "*" else None
        values[argument.dest] = empty if argument.default is None else argument.default
    pending = list(magic.positional)
    rest = line.strip()
    while rest:
        if pending and pending[0].take == "rest" and not _is_option(magic, rest):
            values[pending.pop(0).dest] = rest
            break
        word, rest = _next_word(magic, rest)
        if word.startswith("-") and not _is_number(word):
            rest = _option(magic, values, word, rest)
            continue
        if not pending:
            raise UsageError(f"%{magic.name}: what is {word!r} for?\n{usage(magic)}")
        argument = pending[0]
        if not word:
            raise UsageError(f"%{magic.name}: {argument.words.upper()} is empty\n{usage(magic)}")
        if argument.take == "*":
            values[argument.dest] = [*values[argument.dest], _convert(magic, argument, word)]
        else:
            values[argument.dest] = _convert(magic, argument, word)
            pending.pop(0)
    missing = [a for a in pending if a.take == ""]
    if missing:
        raise UsageError(f"%{magic.name} needs {missing[0].words.upper()}\n{usage(magic)}")
    return SimpleNamespace(**values)


def _is_option(magic: Magic, text: str) -> bool:
    """Does `text` begin with an option?  Before free text only declared ones count."""
    word = text.split(None, 1)[0].split("=")[0]
    return word in magic.options or (word[1:2] != "-" and word[:2] in magic.options)


def _option(magic: Magic, values: dict[str, Any], word: str, rest: str) -> str:
    name, equals, value = word.partition("=")
    argument = magic.options.get(name)
    if argument is None and len(word) > 2 and word[1] != "-" and word[:2] in magic.options:
        name, equals, value = word[:2], "=", word[2:]  # -n10, -O3
        argument = magic.options[name]
    if argument is None:
        raise UsageError(f"%{magic.name} has no option {name}\n{usage(magic)}")
    if argument.take == "flag":
        if equals:
            raise UsageError(f"%{magic.name}: {name} takes no value\n{usage(magic)}")
        values[argument.dest] = True
        return rest
    if not equals:
        if not rest:
            raise UsageError(f"%{magic.name}: {name} needs a value\n{usage(magic)}")
        value, rest = _next_word(magic, rest)
    converted = _convert(magic, argument, value)
    if argument.take == "*":
        converted = [*values[argument.dest], converted]
    values[argument.dest] = converted
    return rest


def _next_word(magic: Magic, text: str) -> tuple[str, str]:
    """The first word, quotes taken off, and the text after it.

    A symbol may be written as in IR, `@"a b"`, so quotes inside a word of that form stay.
    """
    quote = ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char.isspace():
            word, rest = text[:index], text[index:].lstrip()
            break
    else:
        if quote:
            raise UsageError(f"%{magic.name}: no closing {quote}")
        word, rest = text, ""
    if word.startswith(("@", "%")):
        return word, rest
    try:
        return "".join(shlex.split(word)), rest
    except ValueError as error:
        raise UsageError(f"%{magic.name}: {error}") from None


def _is_number(word: str) -> bool:
    return word[1:2].isdigit()


def _convert(magic: Magic, argument: Argument, value: str) -> Any:
    if argument.choices and value not in argument.choices:
        known = ", ".join(argument.choices)
        raise UsageError(f"%{magic.name}: {argument.names[-1]} is one of {known}, not {value!r}")
    name = argument.names[-1]
    try:
        found = argument.type(value)
    except (ValueError, OverflowError):
        kind = "whole number" if argument.type is int else "number"
        raise UsageError(f"%{magic.name}: {name} takes a {kind}, not {value!r}") from None
    if argument.least is not None and found < argument.least:
        raise UsageError(f"%{magic.name}: {name} is at least {argument.least}, not {value}")
    if argument.most is not None and found > argument.most:
        raise UsageError(f"%{magic.name}: {name} is at most {argument.most:,}, not {value}")
    return found


def usage(magic: Magic) -> str:
    """How it is called: one line, or as many as 100 columns need."""
    words = [("%%" if magic.form == "cell" else "%") + magic.name]
    for argument in magic.arguments:
        name = argument.names[-1] if len(argument.names) == 1 else argument.names[0]
        if argument.is_option:
            text = name if argument.take == "flag" else f"{name} {argument.dest.upper()}"
            words.append(f"[{text}]")
        elif argument.take == "*":
            words.append(f"[{name.upper()} ...]")
        else:
            words.append(f"[{name.upper()}]" if argument.take == "?" else name.upper())
    lines = ["usage:"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > 100:
            lines.append("      ")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def help_text(magic: Magic) -> str:
    """The whole help of a magic, plain text."""
    lines = [usage(magic), "", *textwrap.wrap(magic.help, 100)]
    if magic.form == "both":
        lines.append(f"As a cell magic, %%{magic.name}, it takes the rest of the cell.")
    if magic.arguments:
        lines.append("")
        heads = [", ".join(a.names) if a.is_option else a.words.upper() for a in magic.arguments]
        width = max(map(len, heads))
        for head, argument in zip(heads, magic.arguments, strict=True):
            text = argument.help
            if argument.choices:
                text += f" ({', '.join(argument.choices)})"
            lines.append(f"  {head.ljust(width)}  {text}")
    if magic.aliases:
        lines += ["", "also: " + ", ".join("%" + alias for alias in magic.aliases)]
    if magic.example:
        lines += ["", "example: " + magic.example]
    return "\n".join(lines)
