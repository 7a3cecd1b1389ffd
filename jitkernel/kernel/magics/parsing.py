"""How a magic's line is read, and how its use is told.  Start from `parse` and `cell_magic`."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.registry import Argument, Magic
from jitkernel.lookalikes import DASHES, advice
from jitkernel.regex import regex
from jitkernel.views.room import Room
from jitkernel.views.view import View, listing
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

SHOWN = Argument(
    "target", "a function or a cell; without it, the last cell", "?", completes="target"
)
ALL = Argument("-a --all", "all lines and rows, however many", "flag")
CELLS = Argument("target", "cells (3, 3-5) or names (sq)", "*", completes="target")

_CELL_HEAD = regex(r"%%([\w.]+)(\?{0,2})[ \t]*([^\n]*)(?:\n|$)")
_QUOTING = frozenset("\"'\\")
_CALL = regex(r"@(?=\w+\()")
_RANGE = regex(r"(\d+)(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class CellCall:
    """A cell magic and what it is applied to; `body` keeps the cell's line numbers."""

    name: str
    line: str
    body: str
    asks_help: bool = False


def cell_magic(source: str) -> CellCall | None:
    """The cell magic that `source` begins with, if any."""
    start = len(source) - len(source.lstrip())
    match = _CELL_HEAD.match(source, start)
    if match is None:
        return None
    # The lines before the body are kept as empty ones: an error names the cell's own line.
    body = "\n" * source.count("\n", 0, match.end()) + source[match.end() :]
    return CellCall(match[1], match[3], body, bool(match[2]))


def targets(words: list[str]) -> list[int | str]:
    """Cell numbers and names of what was typed: `3`, `3-5`, `2,4`, `@sq`, `sq`."""
    found: list[int | str] = []
    for word in words:
        for part in word.split(",") if not word.startswith('@"') else [word]:
            match = _RANGE.match(part)
            if match is None:
                if part:
                    found.append(part)
                continue
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise UsageError(f"{part}: the first cell comes first")
            found += range(first, last + 1)
    return found


def shown(word: str | None) -> list[int | str | None]:
    """The targets of a view; None, the last cell, where no word was typed."""
    return [*targets([word])] if word else [None]


def room(arguments: Any) -> Room:
    """The room of a view: what was typed, with `--all`, shows what there is none for."""
    return Room(f"{arguments.typed} --all", arguments.all)


def one_of(arguments: Any, flags: tuple[str, ...]) -> str:
    """The flag that was given, "" for none.  Raises UsageError for two."""
    given = [flag for flag in flags if getattr(arguments, flag)]
    if len(given) > 1:
        raise UsageError(f"one of {', '.join('--' + flag for flag in given)} at a time")
    return given[0] if given else ""


def parse(
    magic: Magic,
    line: str,
    symbol_for: Callable[[str], str] = str,
    worded: Callable[[str], str] = str,
) -> SimpleNamespace:
    """The values of `line` for a magic's arguments, with symbols for the names that a language has
    for them; UsageError says what is wrong.  `worded` gives magics as they are written here."""
    values: dict[str, Any] = {}
    for argument in magic.arguments:
        empty: Any = False if argument.take == "flag" else [] if argument.take == "*" else None
        values[argument.dest] = empty if argument.default is None else argument.default
    missing = {a.dest: a for a in magic.positional if a.take == ""}
    for argument, text in given(magic, line):
        if text is None and argument.take == "?" and argument.is_option:
            text = ""
        if text is None and argument.take != "flag":
            name = split_option(magic, line.split()[-1])[0]
            raise UsageError(f"%{magic.name}: {name} needs a value\n{usage(magic)}")
        value: Any = True if text is None else _convert(magic, argument, text)
        if argument.completes in ("symbol", "target", "function", "global"):
            value = symbol_for(value)
        values[argument.dest] = [*values[argument.dest], value] if argument.take == "*" else value
        missing.pop(argument.dest, None)
    for argument in missing.values():
        raise UsageError(f"%{magic.name} needs {argument.words.upper()}\n{usage(magic)}")
    return SimpleNamespace(**values, body=None, typed=f"{worded(f'%{magic.name}')} {line}".strip())


def given(magic: Magic, line: str) -> Iterator[tuple[Argument, str | None]]:
    """The arguments in a line, with what was typed for each: None for a flag, and for an option at
    the end whose value is still to come.  Raises UsageError."""
    pending = list(magic.positional)
    rest = line.strip()
    while rest:
        if rest[0] in DASHES:
            raise UsageError(f"%{magic.name}: {advice(rest)}\n{usage(magic)}")
        # Before free text only declared options count.
        option = split_option(magic, rest.split(None, 1)[0])[0] in magic.options
        if pending and pending[0].take == "rest" and not option:
            yield pending[0], rest
            return
        word, rest = _next_word(magic, rest)
        if word.startswith("-") and not word[1:2].isdigit():
            name, value = split_option(magic, word)
            argument = magic.options.get(name)
            if argument is None:
                hint = did_you_mean(name, magic.options)
                raise UsageError(f"%{magic.name} has no option {name}{hint}\n{usage(magic)}")
            if argument.take == "flag" and value is not None:
                raise UsageError(f"%{magic.name}: {name} takes no value\n{usage(magic)}")
            alone = argument.take == "?" and rest.startswith("-")
            if argument.take != "flag" and value is None and rest and not alone:
                value, rest = _next_word(magic, rest)
            yield argument, value
            continue
        if not pending:
            raise UsageError(f"%{magic.name}: what is {word!r} for?\n{usage(magic)}")
        argument = pending[0]
        if not word:
            raise UsageError(f"%{magic.name}: {argument.words.upper()} is empty\n{usage(magic)}")
        if argument.take != "*":
            pending.pop(0)
        yield argument, word


def split_option(magic: Magic, word: str) -> tuple[str, str | None]:
    """The name of an option, and the value that stands in one word with it: `--to=x`, `-O2`."""
    name, equals, value = word.partition("=")
    if name not in magic.options and not word.startswith("--") and word[:2] in magic.options:
        return word[:2], word[2:]
    return name, value if equals else None


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
    if word.startswith(("@", "%")) or not _QUOTING.intersection(word):
        return word, rest
    try:
        return "".join(shlex.split(word)), rest
    except ValueError as error:
        raise UsageError(f"%{magic.name}: {error}") from None


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
    """The magic's usage: one line, or as many as 100 columns need."""
    words = [("%%" if magic.form == "cell" else "%") + magic.name]
    for argument in magic.arguments:
        name = argument.names[-1] if len(argument.names) == 1 else argument.names[0]
        if argument.is_option:
            value = f" {argument.value_name}" if argument.take != "flag" else ""
            words.append(f"[{name}{value}]")
        elif argument.take == "*":
            words.append(f"[{name.upper()} ...]")
        else:
            # What a cell's magic takes as text stands below it, or, in a line, has to be there.
            optional = argument.take == "?" or (argument.take == "rest" and magic.form == "line")
            words.append(f"[{name.upper()}]" if optional else name.upper())
    lines = ["usage:"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > 100:
            lines.append("      ")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def in_language(context: Frontend, text: str) -> str:
    """A text of ours as the notebook's language writes its calls: `sq(7)` for `@sq(7)`."""
    of_ir = context.setting("JITKernel.default_language") == "llvm"
    return text if of_ir else _CALL.sub("", text)


def help_view(context: Frontend, magic: Magic) -> View:
    """The whole help of a magic, in the notebook's language."""
    return listing("", in_language(context, help_text(magic)))


def help_text(magic: Magic) -> str:
    """The whole help of a magic, plain text."""
    lines = [usage(magic), "", *textwrap.wrap(magic.help, 100)]
    if magic.form == "both":
        lines.append(f"As a cell magic, %%{magic.name}, it takes the rest of the cell.")
    if magic.arguments:
        lines.append("")
        width = max(len(argument.title) for argument in magic.arguments)
        for a in magic.arguments:
            first, later = f"  {a.title:<{width}}  ", " " * (width + 4)
            lines += textwrap.wrap(a.meaning, 100, initial_indent=first, subsequent_indent=later)
    if magic.aliases:
        lines += ["", "also: " + ", ".join("%" + alias for alias in magic.aliases)]
    if magic.example:
        lines += ["", "example: " + magic.example]
    return "\n".join(lines)
