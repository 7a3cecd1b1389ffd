"""`complete_request`: symbols, magics and their arguments, IR words, locals of the cell.

What fits is decided by the text before the cursor alone; nothing is compiled, but for a language
that completes its cells itself.  Start from `complete`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from jitkernel.errors import JitError, UsageError
from jitkernel.ir.names import NAME, quote_name
from jitkernel.kernel import python_cells
from jitkernel.kernel.arguments import (
    argument_matches,
    cell_symbols,
    library_symbols,
    paths,
    session_symbols,
)
from jitkernel.kernel.magics.parsing import cell_magic, given
from jitkernel.kernel.magics.registry import IN_LANGUAGE, Argument, Magic
from jitkernel.languages.language import Suggestion
from jitkernel.regex import regex

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.languages import Language

_TOKEN = regex(r'(?:[@%!]{0,2}"[^"\n]*|[@!]?[\w.$-]*|%{1,2}[\w.$-]*|--?[\w-]*)\Z')
_WORD = regex(r"%{1,2}\w*\Z|[A-Za-z_]\w*\Z|\Z")
_MAGIC_LINE = regex(r"[ \t]*(%{1,2})([A-Za-z_][\w.]*)(\s+)(.*)\Z", re.DOTALL)
_MAGIC_HEAD = regex(r"[ \t]*(%{1,2})([A-Za-z_][\w.]*)?\Z")
_LOCAL = regex(rf"^\s*(%(?!\d){NAME})\s*=", re.MULTILINE)
_PARAMETER = regex(rf"[\s(](%(?!\d){NAME})\s*[,)]")
_LABEL = regex(rf"^\s*((?!\d){NAME}):", re.MULTILINE)
_COMPARED = regex(r"\b([if]cmp)\s+\w*\Z")
_UNFINISHED = regex(r'(?:@"[^"]*|[^\s"]|"[^"]*")*\Z')
MANY = 500  # matches; more help nobody


def complete(context: Frontend, code: str, position: int) -> dict[str, Any]:
    """The content of a `complete_reply`; `position` counts characters."""
    before = code[:position]
    line = before.rsplit("\n", 1)[-1]
    if python_cells.is_python(code, position):
        start, matches = python_cells.completed(code, position)
        return reply(matches, start, position)
    start, matches = position, list[Suggestion]()
    language = cell_language(context, code)
    magic = magic_of(context, line)
    head = _MAGIC_HEAD.match(line)
    text = code_of(magic, line) if magic is not None and language is not None else None
    if text is not None and language is not None:
        start, matches = _in_language(context, language, text, len(text))
        start += position - len(text)
    elif magic is not None:
        typed, word = _last_word(line)
        start = position - len(word)
        matches = list(argument_matches(context, magic, typed, word, code))
    elif language is None and line.lstrip().startswith("!") and line.lstrip()[:2] != "!!":
        word = line.split(None)[-1] if not line[-1:].isspace() else ""
        word = word.removeprefix("!")
        start = position - len(word)
        matches = [Suggestion(path, "path") for path in paths(word)]
    else:
        if language is None:
            found = _TOKEN.search(line)
            word = found[0] if found else ""
            start = position - len(word)
            matches = list(_ir_matches(context, code, before, word))
        else:
            body, at = cell_body(code, position)
            start, matches = _in_language(context, language, body, at)
            start += position - at
        if head is not None:
            first_line = not before[: len(before) - len(line)].strip()
            matches = [*_magic_matches(context, head[1], head[2] or "", first_line), *matches]
    return reply(matches, start, position)


def reply(matches: Iterable[Suggestion], start: int, end: int) -> dict[str, Any]:
    """The content of a `complete_reply` with these, where they take the place of `[start, end)`."""
    unique: dict[str, Suggestion] = {}
    for match in matches:
        unique.setdefault(match.text, match)
        if len(unique) >= MANY:
            break
    found = list(unique.values())
    types = [
        {"start": start, "end": end, "text": m.text, "type": m.kind, "signature": m.signature}
        for m in found
    ]
    return {
        "status": "ok",
        "matches": [m.text for m in found],
        "cursor_start": start,
        "cursor_end": end,
        "metadata": {"_jupyter_types_experimental": types},
    }


# -- magics --------------------------------------------------------------------------------


def magic_of(context: Frontend, line: str) -> Magic | None:
    """The magic whose arguments are being typed."""
    match = _MAGIC_LINE.match(line)
    if match is None or match[4].startswith("="):
        return None
    return context.magics.get_cell(match[2])


def code_of(magic: Magic, line: str) -> str | None:
    """The code that a magic takes in its line, as far as it is typed; None where something else is
    being typed, such as an option."""
    match = _MAGIC_LINE.match(line)
    text = match[4] if match else ""
    found = list[tuple[Argument, str | None]]()
    with contextlib.suppress(UsageError):
        found.extend(given(magic, text))
    words = list[str]()  # of the code, the last ones of the line
    while found and found[-1][0].completes in IN_LANGUAGE and found[-1][1]:
        words.insert(0, str(found.pop()[1]))
    if words:
        typed = re.search(r"\s+".join(map(re.escape, words)) + r"\s*\Z", text)
        return typed[0] if typed and words[-1][0] != "-" else None
    if found and found[-1][0].take != "flag" and found[-1][1] is None:
        return None  # an option's value
    takes = any(a.completes in IN_LANGUAGE for a in magic.positional)
    return "" if takes and text[-1:] in ("", " ") else None


def _last_word(line: str) -> tuple[str, str]:
    """The arguments before the cursor's word, and that word, which may hold a quoted name."""
    match = _MAGIC_LINE.match(line)
    text = match[4] if match else line
    found = _UNFINISHED.search(text)
    word = found[0] if found else ""
    return text[: len(text) - len(word)], word


def _magic_matches(
    context: Frontend, marks: str, word: str, cell_too: bool
) -> Iterator[Suggestion]:
    for magic in context.magics:
        for name in (magic.name, *magic.aliases):
            if not name.startswith(word):
                continue
            if marks == "%" and magic.form != "cell":
                yield Suggestion("%" + name, "magic", magic.help.split(". ")[0])
            if cell_too and magic.form != "line":
                yield Suggestion("%%" + name, "magic", magic.help.split(". ")[0])
    if cell_too:
        from jitkernel.languages import names

        for name in names():
            if name.startswith(word) and name not in context.magics:
                yield Suggestion("%%" + name, "magic", f"Run the rest of the cell as {name}")


# -- other languages -----------------------------------------------------------------------


def cell_language(context: Frontend, code: str) -> Language | None:
    """The language of a cell, by its %% line or by default; None for IR and for unknown ones."""
    from jitkernel.languages import find, names

    name = context.setting("JITKernel.default_language")
    call = cell_magic(code)
    if call is not None and call.name in names():
        name = call.name
    try:
        return None if name == "llvm" else find(name)
    except UsageError:
        return None


def cell_body(code: str, position: int) -> tuple[str, int]:
    """The text below a cell's %% lines, on its own lines, and the position there."""
    body = code
    while (call := cell_magic(body)) is not None:
        body = call.body
    return body, position - (len(code) - len(body))


def _in_language(
    context: Frontend, language: Language, body: str, at: int
) -> tuple[int, list[Suggestion]]:
    """The completions at a place of a text in a language, behind the place where they begin; a
    place above the text, in the lines of its magics, is negative."""
    if language.complete is not None and at >= 0:
        with contextlib.suppress(JitError):
            own = language.complete(body, at, context.session.inspect.state)
            if own is not None:
                return own.start, list(own.found)
    found = _WORD.search(body[: max(at, 0)].rpartition("\n")[2])
    word = found[0] if found else ""
    return at - len(word), list(_language_matches(context, language, body, word))


def _language_matches(
    context: Frontend, language: Language, code: str, word: str
) -> Iterator[Suggestion]:
    """Keywords, functions that the language can call, and the cell's own words."""
    if not word:
        return
    for text, (kind, meaning) in language.keywords.items():
        if text.startswith(word):
            yield Suggestion(text, kind, meaning)
    from jitkernel.ir.types import FunctionType, parse_type
    from jitkernel.languages.llvm.prelude import PRELUDE, prelude_type

    types = {s.name: s.type for s in context.session.symbols.values() if s.kind == "function"}
    for name in dict.fromkeys((*types, *PRELUDE)):
        if not name.startswith(word):
            continue
        type = parse_type(types[name]) if name in types else prelude_type(name)
        if isinstance(type, FunctionType) and language.callable_here(type):
            yield Suggestion(name, "function", str(type))
    for name in re.findall(r"[A-Za-z_]\w*", code):
        if name.startswith(word) and name != word:
            yield Suggestion(name, "name", "in this cell")


# -- IR ------------------------------------------------------------------------------------


def _ir_matches(context: Frontend, code: str, before: str, word: str) -> Iterator[Suggestion]:
    if word.startswith("@"):
        known = chain(session_symbols(context), cell_symbols(code), library_symbols())
        yield from (m for m in known if m.text.startswith(word))
        return
    if word.startswith("%"):
        yield from (m for m in _locals(context, code, before) if m.text.startswith(word))
        return
    from jitkernel.ir.keywords import KEYWORDS, PREDICATES

    if compared := _COMPARED.search(before):
        for text, meaning in PREDICATES[compared[1]].items():
            if text.startswith(word):
                yield Suggestion(text, "predicate", meaning)
        return
    if not word:
        return
    for text, (kind, meaning) in KEYWORDS.items():
        if text.startswith(word):
            yield Suggestion(text, kind, meaning)


def _locals(context: Frontend, code: str, before: str) -> Iterator[Suggestion]:
    """Values, parameters and labels of the function around the cursor, and named types."""
    start = before.rfind("\ndefine ")
    stop = code.find("\n}", len(before))
    body = code[max(start, 0) : stop if stop >= 0 else len(code)]
    for name in (*_PARAMETER.findall(body), *_LOCAL.findall(body)):
        yield Suggestion(name, "local")
    for name in _LABEL.findall(body):
        yield Suggestion("%" + name, "label")
    for name, text in dict(context.session.types).items():
        yield Suggestion(f"%{quote_name(name)}", "type", text)
