"""What TAB offers for the arguments of a magic: its flags, and values by what they stand for.

A magic's declaration (`magics/registry.py`) says of each argument what completes it; here is what
that means.  Nothing is compiled, and LLVM is not asked.  Start from `argument_matches`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from glob import escape, glob
from typing import TYPE_CHECKING

from jitkernel.errors import JitError, UsageError
from jitkernel.ir.names import NAME, bare, quote_name, written
from jitkernel.kernel.magics.parsing import given
from jitkernel.kernel.magics.registry import IN_LANGUAGE, Argument, Magic
from jitkernel.kernel.settings import SETTINGS
from jitkernel.languages.language import Suggestion
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

_DEFINED = regex(rf"(?m)^\s*(?:(?:define|declare)\b[^@\n]*)?(@(?!\d){NAME})\s*[=(]")
#: Arguments with what was typed for each, as `given` reads them.
Given = Sequence[tuple[Argument, str | None]]
_KINDS = {
    "function": "function", "global": "variable", "expression": "variable", "type": "variable",
}  # fmt: skip
#: More cells than this are not offered by number.
_CELLS = 100


def argument_matches(
    context: Frontend, magic: Magic, typed: str, word: str, code: str
) -> Iterator[Suggestion]:
    """Completions of `word`, which stands behind the arguments `typed`, in the cell `code`."""
    found = list[tuple[Argument, str | None]]()
    with contextlib.suppress(UsageError):  # what comes before a mistake counts
        for each in given(magic, typed):
            found.append(each)
    last, text = found[-1] if found else (None, None)
    if last is not None and text is None and last.take != "flag":
        yield from _values(context, last, word, found, code)
        return
    name, equals, value = word.partition("=")
    if equals and (option := magic.options.get(name)) and option.take != "flag":
        for match in _values(context, option, value, found, code):
            yield Suggestion(f"{name}={match.text}", match.kind, match.signature)
        return
    used = [argument for argument, _ in found if argument.take not in ("*", "rest")]
    place = next((argument for argument in magic.positional if argument not in used), None)
    if word.startswith("-") or (not word and place is None):
        for option_name, option in magic.options.items():
            if option_name.startswith(word) and option not in used:
                yield Suggestion(option_name, "option", option.help)
            if len(option_name) == 2 and word.startswith(option_name) and option not in used:
                for choice in option.choices:  # -O2 in one word
                    if (option_name + choice).startswith(word):
                        yield Suggestion(option_name + choice, "value", option.help)
    if place is not None and (not word.startswith("-") or place.take == "rest"):
        yield from _values(context, place, word, found, code)


def _values(
    context: Frontend, argument: Argument, word: str, found: Given, code: str
) -> Iterator[Suggestion]:
    for choice in argument.choices:
        if choice.startswith(word):
            yield Suggestion(choice, "value", argument.help)
    what = argument.completes
    if what in ("symbol", "target", "function", "global", *IN_LANGUAGE):
        yield from _names(context, argument, word, code)
    if what in ("cell", "target"):
        yield from _cells(context, word)
    offered = _offered(context, argument, word, found)
    yield from (match for match in offered if match.text.lower().startswith(word.lower()))


def _offered(
    context: Frontend, argument: Argument, word: str, before: Given
) -> Iterable[Suggestion]:
    """The values of a kind that is neither a symbol nor a cell."""
    match argument.completes:
        case "file":
            return [Suggestion(path, "path") for path in paths(word)]
        case "block":
            mark = "%" if not word or word.startswith("%") else ""
            return [Suggestion(mark + name, "block") for name in _blocks(context, before)]
        case "breakpoint":
            debugger = context.session.inspect.debugger
            points = debugger.breakpoints if debugger is not None else []
            numbers = [Suggestion(str(p.number), "breakpoint", p.function) for p in points]
            return [*numbers, Suggestion("all", "breakpoint")]
        case "magic":
            return _magics(context, word)
        case "setting":
            return _settings(context, word)
        case "type":
            types = dict(context.session.types).items()
            return [Suggestion(f"%{quote_name(name)}", "type", text) for name, text in types]
        case "variable":
            return [Suggestion(name, "variable") for name in os.environ]
        case "pass":
            return _passes("")
        case "passes" | "pipeline" as what:
            lead = word[: word.rfind(",") + 1]
            found = [*_passes(lead), Suggestion("none", "pass", "no pass at all")]
            levels = [Suggestion(f"-O{n}", "level", "LLVM's default pipeline") for n in range(4)]
            return [*levels, *found] if what == "pipeline" and not lead else found
        case "machine":
            from jitkernel.views.foreign import TARGETS

            return [Suggestion(name, "machine", triple) for name, triple in TARGETS.items()]
        case "cpu":
            return _processors(before)
        case "exercise":
            from jitkernel.grading import exercises

            return [Suggestion(name, "exercise", str(path)) for name, path in exercises().items()]
        case "language":
            from jitkernel import languages

            return [Suggestion(name, "language") for name in languages.names()]
        case "size":
            return [
                Suggestion(text, "value", argument.help) for text in ("none", "1M", "8M", "64M")
            ]
    return ()


def _blocks(context: Frontend, before: Given) -> Iterable[str]:
    """The labels of the function or cell that was named before, or of the last cell."""
    from jitkernel.views.lines import labels

    with contextlib.suppress(JitError):
        named = next((text for told, text in before if told.completes == "target" and text), None)
        target = int(named) if named and named.isdigit() else named
        return labels(context.session, target)
    return ()


def _names(context: Frontend, argument: Argument, word: str, code: str) -> Iterator[Suggestion]:
    """`sq` is understood for `@sq`; in free text, as after %timeit, only `@sq` is."""
    free = argument.completes == "code"
    mark, called = free or word.startswith("@"), context.session.inspect.program.called
    tail = word[word.rfind("@") :] if free and "@" in word else "" if free else word
    lead = word[: len(word) - len(tail)]
    if free and word and not tail:
        return
    wanted = _KINDS.get(argument.completes)
    found = [m for m in session_symbols(context) if wanted in (None, m.kind)]
    found += cell_symbols(code)
    if free:
        found += library_symbols()
    for match in found:
        plain = match.text.removeprefix("@")
        shown = match.text if mark else plain if word else called(bare(match.text))
        if shown.startswith(tail):
            yield Suggestion(lead + shown, match.kind, match.signature)


def _cells(context: Frontend, word: str) -> Iterator[Suggestion]:
    """Numbers of cells that have code, the last ones first; `3-` and `2,` go on."""
    lead = word[: max(word.rfind("-"), word.rfind(",")) + 1]
    if word and not word[-1].isdigit() and not lead:
        return
    for cell in list(context.session.cells)[-_CELLS:][::-1]:
        text = f"{lead}{cell.number}"
        if text.startswith(word):
            names = ", ".join(map(written, cell.names[:4]))
            yield Suggestion(text, "cell", f"cell {cell.number}: {names}" if names else "cell")


def _magics(context: Frontend, word: str) -> Iterator[Suggestion]:
    for magic in context.magics:
        yield Suggestion(magic.name, "magic", magic.help)
        if word.startswith("%"):
            yield Suggestion("%" + magic.name, "magic", magic.help)


def _passes(lead: str) -> Iterator[Suggestion]:
    from jitkernel.compiler.passes import DESCRIPTIONS, KNOWN

    for name in KNOWN:
        yield Suggestion(lead + name, "pass", DESCRIPTIONS.get(name, ""))


def _processors(before: Given) -> Iterator[Suggestion]:
    """Those of the machine that `--target` names in the same line, or of this one."""
    from jitkernel.compiler.cpus import CPUS
    from jitkernel.views.foreign import TARGETS

    machines = [text or "" for argument, text in before if argument.words == "--target"]
    machine = machines[-1] if machines else "x86_64"
    if machine not in CPUS:  # a triple
        start = machine.partition("-")[0]
        same = (name for name, triple in TARGETS.items() if start and triple.startswith(start))
        machine = next(same, "")
    if not machines:
        yield Suggestion("native", "cpu", "the processor of this machine")
    for name in CPUS.get(machine, ()):
        yield Suggestion(name, "cpu", machine)


def _settings(context: Frontend, word: str) -> Iterator[Suggestion]:
    """`Section.name`, and behind a `=` the values that it may have."""
    name, equals, _ = word.partition("=")
    for full, told in SETTINGS.items():
        if not equals:
            yield Suggestion(full, "setting", told.described)
        elif full.lower() == name.strip().lower():
            choices = told.choices or ("True", "False") * (told.type == "bool")
            what = Argument(full, told.described, choices=choices, completes=told.completes)
            for value in _values(context, what, "", (), ""):
                yield Suggestion(f"{name}={value.text}", "value", told.described)


def session_symbols(context: Frontend) -> Iterator[Suggestion]:
    """The session's symbols, with what they are and their types."""
    look = context.session.inspect
    for symbol in context.session.symbols.values():
        if symbol.state != "fixed":
            yield Suggestion(written(symbol.name), symbol.kind, look.type_of(symbol))


def cell_symbols(code: str) -> Iterator[Suggestion]:
    """The names that a cell defines or declares."""
    for name in _DEFINED.findall(code):
        yield Suggestion(name, "name", "in this cell")


def library_symbols() -> Iterator[Suggestion]:
    """The C library's common functions."""
    from jitkernel.languages.llvm.prelude import PRELUDE

    for name, declaration in PRELUDE.items():
        yield Suggestion("@" + name, "function", declaration)


def paths(word: str) -> list[str]:
    """Files and folders that a word may become, folders with a slash."""
    start = os.path.expanduser(word)
    found = sorted(glob(f"{escape(start)}*"))
    return [word + path[len(start) :] + "/" * os.path.isdir(path) for path in found]
