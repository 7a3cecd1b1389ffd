"""What TAB offers for the arguments of a magic: its flags, and values by what they stand for.

A magic's declaration (`magics/registry.py`) says of each argument what completes it; here is what
that means.  Nothing is compiled, and LLVM is not asked.  Start from `argument_matches`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import escape, glob
from typing import TYPE_CHECKING

from jitkernel.ir.names import NAME, bare, written
from jitkernel.kernel.magics.parsing import split_option
from jitkernel.kernel.magics.registry import Argument, Magic
from jitkernel.kernel.settings import known_settings

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.setting import Setting

__all__ = [
    "Match", "argument_matches", "cell_symbols", "library_symbols", "option_at", "paths",
    "session_symbols",
]  # fmt: skip

_DEFINED = re.compile(rf"(?m)^\s*(?:(?:define|declare)\b[^@\n]*)?(@(?!\d){NAME})\s*[=(]")
_WORDS = re.compile(r'@"[^"]*"|(?:[^\s"]|"[^"]*")+')
#: More cells than this are not offered by number.
_CELLS = 100


@dataclass(frozen=True, slots=True)
class Match:
    """One completion: the text, what it is ("function", "magic", ...) and its type."""

    text: str
    kind: str
    signature: str = ""


def argument_matches(
    context: Frontend, magic: Magic, typed: str, word: str, code: str
) -> Iterator[Match]:
    """What `word` may become, which stands behind the arguments `typed`, in the cell `code`."""
    given = _WORDS.findall(typed)
    if given and _takes_value(magic, given[-1]):
        yield from _values(context, magic, magic.options[given[-1]], word, given, code)
        return
    name, equals, value = word.partition("=")
    if equals and (option := magic.options.get(name)) and option.take != "flag":
        for match in _values(context, magic, option, value, given, code):
            yield Match(f"{name}={match.text}", match.kind, match.signature)
        return
    used = {a for text in given if (a := option_at(magic, text)) and a.take != "*"}
    place = _positional(magic, given)
    if word.startswith("-") or (not word and place is None):
        for option_name, option in magic.options.items():
            if option_name.startswith(word) and option not in used:
                yield Match(option_name, "option", option.help)
            if len(option_name) == 2 and word.startswith(option_name) and option not in used:
                for choice in option.choices:  # -O2 in one word
                    if (option_name + choice).startswith(word):
                        yield Match(option_name + choice, "value", option.help)
    if place is not None and (not word.startswith("-") or place.take == "rest"):
        yield from _values(context, magic, place, word, given, code)


def option_at(magic: Magic, word: str) -> Argument | None:
    """The option that a word is, also as `--syntax=att` and `-O2`."""
    return magic.options.get(split_option(magic, word)[0])


def _takes_value(magic: Magic, word: str) -> bool:
    option = magic.options.get(word)
    return option is not None and option.take != "flag"


def _positional(magic: Magic, given: list[str]) -> Argument | None:
    """The positional argument that comes after these words."""
    places = list(magic.positional)
    skip = False
    for word in given:
        if skip or option_at(magic, word) is not None:
            skip = not skip and _takes_value(magic, word)
        elif places and places[0].take not in ("*", "rest"):
            places.pop(0)
    return places[0] if places else None


def _values(
    context: Frontend, magic: Magic, argument: Argument, word: str, given: list[str], code: str
) -> Iterator[Match]:
    for choice in argument.choices:
        if choice.startswith(word):
            yield Match(choice, "value", argument.help)
    what = argument.completes
    if what in ("symbol", "target", "function", "global", "code"):
        yield from _names(context, argument, word, code)
    if what in ("cell", "target"):
        yield from _cells(context, word)
    offered: Iterable[Match] = ()
    match what:
        case "file":
            offered = (Match(path, "path") for path in paths(word))
        case "magic":
            offered = _magics(context, word)
        case "setting":
            offered = _settings(context, word)
        case "variable":
            offered = (Match(name, "variable") for name in os.environ)
        case "pass":
            offered = _passes("")
        case "passes" | "pipeline":
            lead = word[: word.rfind(",") + 1]
            offered = [*_passes(lead), Match("none", "pass", "no pass at all")]
            if what == "pipeline" and not lead:
                levels = (Match(f"-O{n}", "level", "LLVM's default pipeline") for n in range(4))
                offered = [*levels, *offered]
        case "machine":
            from jitkernel.views.foreign import TARGETS

            offered = (Match(name, "machine", triple) for name, triple in TARGETS.items())
        case "cpu":
            offered = _processors(given)
        case "exercise":
            from jitkernel.grading import exercises

            offered = (Match(name, "exercise", str(path)) for name, path in exercises().items())
        case "language":
            from jitkernel import languages

            offered = (Match(name, "language") for name in languages.names())
        case "size":
            offered = (Match(text, "value", argument.help) for text in ("none", "1M", "8M", "64M"))
    yield from (match for match in offered if match.text.lower().startswith(word.lower()))


def _names(context: Frontend, argument: Argument, word: str, code: str) -> Iterator[Match]:
    """`sq` is understood for `@sq`; in free text, as after %timeit, only `@sq` is."""
    free = argument.completes == "code"
    mark, called = free or word.startswith("@"), context.session.inspect.program.called
    tail = word[word.rfind("@") :] if free and "@" in word else "" if free else word
    lead = word[: len(word) - len(tail)]
    if free and word and not tail:
        return
    wanted = {"function": "function", "global": "variable"}.get(argument.completes)
    found = [m for m in session_symbols(context) if wanted in (None, m.kind)]
    found += cell_symbols(code)
    if free:
        found += library_symbols()
    for match in found:
        plain = match.text.removeprefix("@")
        shown = match.text if mark else plain if word else called(bare(match.text))
        if shown.startswith(tail):
            yield Match(lead + shown, match.kind, match.signature)


def _cells(context: Frontend, word: str) -> Iterator[Match]:
    """Numbers of cells that have code, the last ones first; `3-` and `2,` go on."""
    lead = word[: max(word.rfind("-"), word.rfind(",")) + 1]
    if word and not word[-1].isdigit() and not lead:
        return
    for cell in list(context.session.cells)[-_CELLS:][::-1]:
        text = f"{lead}{cell.number}"
        if text.startswith(word):
            names = ", ".join(map(written, cell.names[:4]))
            yield Match(text, "cell", f"cell {cell.number}: {names}" if names else "cell")


def _magics(context: Frontend, word: str) -> Iterator[Match]:
    for magic in context.magics:
        yield Match(magic.name, "magic", magic.help)
        if word.startswith("%"):
            yield Match("%" + magic.name, "magic", magic.help)


def _passes(lead: str) -> Iterator[Match]:
    from jitkernel.compiler.passes import DESCRIPTIONS, KNOWN

    for name in KNOWN:
        yield Match(lead + name, "pass", DESCRIPTIONS.get(name, ""))


def _processors(given: list[str]) -> Iterator[Match]:
    """Those of the machine that `--target` names in the same line, or of this one."""
    from jitkernel.compiler.cpus import CPUS
    from jitkernel.views.foreign import TARGETS

    machine = ""
    for before, word in zip(["", *given], given, strict=False):
        if before == "--target" or word.startswith("--target="):
            machine = word.removeprefix("--target=")
    if machine not in CPUS:  # a triple
        start = machine.partition("-")[0]
        same = (name for name, triple in TARGETS.items() if start and triple.startswith(start))
        machine = next(same, "" if machine else "x86_64")
    if not given or "--target" not in " ".join(given):
        yield Match("native", "cpu", "the processor of this machine")
    for name in CPUS.get(machine, ()):
        yield Match(name, "cpu", machine)


def _settings(context: Frontend, word: str) -> Iterator[Match]:
    """`Section.name`, and behind a `=` the values that it may have."""
    name, equals, _ = word.partition("=")
    for full, (_, trait) in known_settings(context.settings).items():
        if not equals:
            yield Match(full, "setting", trait.help)
        elif full.lower() == name.strip().lower():
            for value in _setting_values(trait.metadata["setting"]):
                yield Match(f"{name}={value}", "value", trait.help)


def _setting_values(told: Setting) -> Iterable[str]:
    from jitkernel.languages import names

    match told.completes:
        case "cpu":
            return [m.text for m in _processors([])]
        case "passes":
            return [m.text for m in _passes("")]
        case "language":
            return names()
    if told.type == "bool":
        return ["True", "False"]
    return told.choices


def session_symbols(context: Frontend) -> Iterator[Match]:
    """The session's symbols, with what they are and their types."""
    look = context.session.inspect
    for symbol in context.session.symbols.values():
        if symbol.state != "fixed":
            yield Match(written(symbol.name), symbol.kind, look.type_of(symbol))


def cell_symbols(code: str) -> Iterator[Match]:
    """The names that a cell defines or declares."""
    for name in _DEFINED.findall(code):
        yield Match(name, "name", "in this cell")


def library_symbols() -> Iterator[Match]:
    """The C library's common functions."""
    from jitkernel.languages.llvm.prelude import PRELUDE

    for name, declaration in PRELUDE.items():
        yield Match("@" + name, "function", declaration)


def paths(word: str) -> list[str]:
    """Files and folders that a word may become, folders with a slash."""
    start = os.path.expanduser(word)
    found = sorted(glob(f"{escape(start)}*"))
    return [word + path[len(start) :] + "/" * os.path.isdir(path) for path in found]
