"""What may stand at a place of a cell of C, and what stands there, as clang has it.

The cell is read up to the place, with what earlier cells have declared in front of it, as when it
is run (`unit.py`); clang says what may follow.  It is no text that can be compiled: what is open is
closed here so that it can be cut into pieces, and clang stops reading at the place.  Names of
headers are asked for once.  Start from `complete` and `inspect`.

Source: the form of the answer is `PrintingCodeCompleteConsumer` in clang/Sema.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache

from jitkernel.children import ask
from jitkernel.errors import JitError
from jitkernel.languages.c.clang import Clang, clang_of
from jitkernel.languages.c.generated import OWN
from jitkernel.languages.c.headers import macros_of_headers
from jitkernel.languages.c.miswritten import DIRECTIVES
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, TAG, Note, Notes, key_name, on_line
from jitkernel.languages.c.pieces import Mismatch, PieceKind, cut
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import CLOSING, Token, Unfinished, tokens
from jitkernel.languages.c.unit import Unit, unit_of
from jitkernel.languages.c.words import STANDARD_NAMES
from jitkernel.languages.language import Completions, StateView, Suggestion, split_commands
from jitkernel.record import record, replace
from jitkernel.regex import regex
from jitkernel.values.c import function_in_c

_SECONDS = 2.0  # for clang, and for man
_HERE = f"{OWN}here"
# Where a function may be that `STANDARD_NAMES` has not.
_COMMON = ("stdio.h", "stdlib.h", "string.h", "math.h", "ctype.h")
_KINDS = {
    "typedef": "type", "constant": "variable", "variable": "variable", "function": "function",
}  # fmt: skip
_WORD = regex(r"[A-Za-z_$\u0080-\U0010ffff][\w$]*")
_TYPED = regex(r"(?:[A-Za-z_$\u0080-\U0010ffff][\w$]*)?\Z")
_FILE = regex(r'#\s*(?:include|include_next|embed)\s*[<"](?P<folder>(?:[^<">\n]*/)?)[^<">/\n]*\Z')
_DIRECTIVE = regex(r"\s*#\s*(\w*)")
_LINE = regex(r"COMPLETION: (?P<name>\S+)(?: \([^)]*\))*(?: : (?P<form>.*))?")
_OVERLOAD = regex(r"OVERLOAD: (?P<form>.*)")
_NULLABILITY = regex(r"\s*\b_(?:Nonnull|Nullable|Null_unspecified)\b")
_BUILT_IN_SIZE = regex(r"\b__(?=(?:size|ptrdiff)_t\b)")  # how clang 22 calls those types
_MARKS = regex(r"<#|#>|\{#|#\}")
_MAN_LINES = 24
_LONGEST = 200_000  # characters of a cell that are read while somebody types
_COMMENT = regex(r"(?:^[ \t]*//[^\n]*\n)+\Z|/\*(?:[^*]|\*(?!/))*\*/[ \t]*\n?\Z", re.MULTILINE)


@record
class _Place:
    """A place of a cell, as clang is asked for it; `members` says that only those of a
    struct may stand there, `tags` the word that only tags follow (`struct`), "" elsewhere."""

    notes: Notes
    unit: Unit
    clang: Clang
    headers: str
    members: bool
    tags: str

    def every(self, prefix: str) -> list[Note]:
        """The notes of a kind of key, the cell's own first."""
        own = {n.key: n for n in self.unit.own}
        every = own | {n.key: n for n in self.notes if n.key not in own}
        return [n for n in every.values() if n.text and n.key.startswith(prefix)]

    def ask(self) -> str:
        """clang's lines."""
        text = self.unit.text.partition(_HERE)[0]
        last = text.rpartition("\n")[2].encode("utf-8", "surrogateescape")
        return self.clang.complete(
            text, self.notes.header, text.count("\n") + 1, len(last) + 1, headers=bool(self.tags)
        )


def complete(source: str, position: int, known: StateView) -> Completions | None:
    """The completions before a position, in place of the word that is being typed; None where clang
    cannot be asked."""
    before = source[:position]
    line = before.rpartition("\n")[2]
    if found := _FILE.search(line):
        return _files(line, position, found.end("folder"), known)
    if found := _DIRECTIVE.fullmatch(line):
        words = [Suggestion(d, "keyword") for d in DIRECTIVES if d.startswith(found[1])]
        return Completions(position - len(found[1]), words)
    word = _TYPED.search(before)
    start = word.start() if word else position
    typed = before[start:]
    if _is_text(before):
        return Completions(position, ())
    place = _place(before[:start], known)
    if place is None:
        return None
    offered = [*_suggestions(place.ask())]
    if place.tags:
        of_kind = (n for n in place.every(TAG) if n.text.startswith(place.tags))
        offered += (Suggestion(n.name, "type", _declaration(n)) for n in of_kind)
    elif not place.members:
        offered += _known(place, known, typed)
    fitting = [
        s for s in offered
        if s.text.startswith(typed) and OWN not in s.text
        and (s.text[0] != "_" or typed.startswith("_"))
    ]  # fmt: skip
    first: dict[str, Suggestion] = {}
    for one in fitting:
        first.setdefault(one.text, one)
    return Completions(start, sorted(first.values(), key=lambda s: s.kind == "keyword"))


def _is_text(before: str) -> bool:
    """True if a place is in a string or in a comment, where no names are."""
    try:
        found = tokens(before + _HERE)
    except Unfinished:
        return True
    line = before.count("\n") + 1
    last = found[-2] if len(found) > 1 else found[-1]
    if not last.text.endswith(_HERE) or (last.kind == "directive" and '"' in last.text):
        return True
    return any(t.line == line and t.kind == "other" and t.text in "\"'" for t in found)


def _known(place: _Place, known: StateView, typed: str) -> Iterator[Suggestion]:
    """The names that cells and headers have."""
    for note in place.every(IDENTIFIER):
        if note.kind in _KINDS:
            yield Suggestion(note.name, _KINDS[note.kind], _declaration(note))
    for note in place.every(MACRO):
        yield Suggestion(note.name, "macro", _declaration(note))
    for note in place.every(TAG):
        for key in note.also:
            if key.startswith(IDENTIFIER):
                yield Suggestion(key_name(key), "enumerator", _declaration(note))
    for name in known.functions:
        type = known.signature(name) if name.startswith(typed) else None
        text = function_in_c(name, type) if type is not None and _WORD.fullmatch(name) else ""
        if text:
            yield Suggestion(name, "function", text.rstrip(";"))
    if typed:
        every = _of_headers(place.clang, place.headers).values()
        yield from (s for s in every if s.text.startswith(typed))


def _declaration(note: Note) -> str:
    text = on_line(note.text)
    return text if len(text) <= 100 else f"{text[:97]}..."


# -- clang -----------------------------------------------------------------------------------------


def _compiler(known: StateView) -> Clang:
    """The compiler with the flags that cells have, so that its headers are there."""
    return replace(clang_of(known.setting), timeout=_SECONDS)


def _place(before: str, known: StateView) -> _Place | None:
    """The place behind a text; None in comments, strings and what cannot be read."""
    code = split_commands(before + _HERE).code
    if len(code) > _LONGEST or "\0" in code:
        return None
    try:
        found = tokens(code)
        if len(found) > 1 and found[-2].kind == "directive":  # as if it were a statement
            code = code[: found[-2].start] + _HERE
            found = tokens(code)
        if len(found) < 2 or found[-2].kind != "name" or found[-2].text != _HERE:
            return None
        notes = Notes(known.notes)
        pieces = cut(
            code + _closed(found),
            lambda name: notes.meaning(name) or ("value" if known.cell_of(name) else ""),
            notes.macro,
        )  # fmt: skip
    except (Unfinished, Mismatch):
        return None

    def foreign(name: str) -> str:
        type = known.signature(name) if known.cell_of(name) else None
        return function_in_c(name, type) if type is not None else ""

    reading = Reading(
        0, code, pieces, notes, foreign=foreign,
        defines=lambda name: notes.identifier(name) is not None,
    )  # fmt: skip
    unit = unit_of(reading)
    if _HERE not in unit.text:
        return None
    own = "".join(
        f"{p.text}\n" for p in pieces
        if p.kind is PieceKind.DIRECTIVE and re.match(r"#\s*include\s*<", p.text)
    )  # fmt: skip
    last = found[-3].text if len(found) > 2 else ""
    return _Place(
        notes, unit, _compiler(known), notes.header + own, last in (".", "->"),
        last if last in ("struct", "union", "enum") else "",
    )  # fmt: skip


def _closed(found: list[Token]) -> str:
    """The text that closes the brackets that are open at the end, and the statement."""
    open_: list[str] = []
    for token in found:
        if token.kind == "operator":
            if token.text in CLOSING:
                open_.append(CLOSING[token.text])
            elif open_ and token.text == open_[-1]:
                open_.pop()
    return "".join(reversed(open_)) + ";"


def _suggestions(answer: str) -> Iterator[Suggestion]:
    """The suggestions in clang's lines."""
    for line in answer.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, form = match["name"], match["form"]
        if form and form.endswith("::"):  # of C++
            continue
        if name == "Pattern":
            words = _WORD.match(re.sub(r"\[#.*?#\]", "", form or ""))
            if words:
                yield Suggestion(words[0], "keyword")
        elif not form:
            yield Suggestion(name, "keyword")
        else:
            text, comment = _plain(form)
            kind = "function" if f"{name}(" in form else "variable"
            if "[#" not in form:
                kind = "type" if form == name and "#" not in form else "macro"
            yield Suggestion(name, kind, f"{text}: {comment}" if comment else text)


def _plain(form: str) -> tuple[str, str]:
    """A form of clang's as C, and the comment that stands behind it."""
    pattern, _, comment = form.partition(" : ")
    type, bracket, rest = pattern.partition("#]")
    if bracket and type.startswith("[#"):
        type = type[2:]
        pattern = f"{type}{'' if type.endswith('*') else ' '}{rest}"
    pattern = _BUILT_IN_SIZE.sub("", pattern)
    text = _NULLABILITY.sub("", _MARKS.sub("", pattern.replace("[#", "").replace("#]", " ")))
    return " ".join(text.replace("restrict  ", "restrict ").split()), comment.strip()


@lru_cache(maxsize=16)
def _of_headers(clang: Clang, headers: str) -> Mapping[str, Suggestion]:
    """The names that headers declare, and macros."""
    try:
        answer = clang.complete("void f(void) {\n", headers, 2, 1, headers=True, macros=True)
        macros = macros_of_headers(clang, headers)
    except JitError:
        return {}
    found: dict[str, Suggestion] = {}
    for one in _suggestions(answer):
        if one.kind != "keyword" and one.text != "f":
            macro = one.text in macros and one.kind == "type"
            own = one._replace(kind="macro", signature=macros[one.text]) if macro else one
            found.setdefault(one.text, own)
    return found


def declared_by_headers(name: str, known: StateView, notes: Notes) -> str:
    """The declaration of a function or a variable that headers of the system have, as an earlier
    cell includes them; "" where none does, or clang cannot be asked."""
    if not notes.header:
        return ""
    try:
        found = _of_headers(_compiler(known), notes.header).get(name)
    except JitError:
        return ""
    return f"{found.signature};" if found and found.kind in ("function", "variable") else ""


def _files(line: str, position: int, folder: int, known: StateView) -> Completions:
    """The files that an include directive can name."""
    start = position - (len(line) - folder)
    typed = line[folder:]
    clang = _compiler(known)
    text = line[:folder].lstrip()
    found = []
    for match in map(
        _LINE.fullmatch, clang.complete(text, "", 1, len(text.encode()) + 1).split("\n")
    ):
        name = match["form"].strip() if match and match["form"] else ""
        if name.startswith(typed) and not (name.startswith("_") and not typed):
            found.append(Suggestion(name.rstrip('>"'), "path"))
    return Completions(start, found)


# -- what stands somewhere -------------------------------------------------------------------------


def inspect(source: str, position: int, known: StateView, level: int = 0) -> str:
    """Describe the name at a position, and the call around it; "" for nothing."""
    word = next((m for m in _WORD.finditer(source) if m.start() <= position <= m.end()), None)
    start = word.start() if word is not None else position
    if _is_text(source[:start]):
        return ""
    parts = []
    if word is not None and (text := _described(source, word, known)):
        parts.append(text)
    if not parts or source[:start].rstrip().endswith((",", "(")):
        parts += _calls(source[:start], known)
    return "\n\n".join(parts)


def _calls(before: str, known: StateView, header: str = "") -> list[str]:
    """The call around a place, as `header` declares its function, where nothing here does."""
    lead = f"#include <{header}>\n" if header else ""
    place = _place(lead + before, known)
    if place is None:
        return []
    forms = [m["form"] for m in map(_OVERLOAD.fullmatch, place.ask().split("\n")) if m]
    missing = "" if header else _missing(_called(before), place, known)
    if missing:
        return _calls(before, known, missing)
    return [lead + _call(form, place, known) for form in forms]


def _called(before: str) -> str:
    """The name in front of the innermost parenthesis that is open; "" for none."""
    names = [""]
    found = tokens(before)
    for last, token in zip([None, *found], found, strict=False):
        if token.text == "(":
            names.append(last.text if last is not None and last.kind == "name" else "")
        elif token.text == ")" and len(names) > 1:
            names.pop()
    return names[-1]


def _missing(name: str, place: _Place, known: StateView) -> str:
    """The header of the standard library that has to be included for a name; "" where something
    declares it here, and of other names."""
    if not name:
        return ""
    keys = (MACRO + name, IDENTIFIER + name)
    own = {key for n in place.unit.own for key in n.keys}
    if known.cell_of(name) or any(key in own or place.notes.get(key) for key in keys):
        return ""
    if name in _of_headers(place.clang, place.headers):
        return ""
    headers = (STANDARD_NAMES[name],) if name in STANDARD_NAMES else _COMMON
    every = (h for h in headers if name in _of_headers(place.clang, f"#include <{h}>\n"))
    return next(every, "")


def _call(form: str, place: _Place, known: StateView) -> str:
    """A call's function and the argument that is being typed, marked."""
    text = _plain(re.sub(r"<#(.*?)#>", r"»\1«", form))[0]
    name = _WORD.findall(text.partition("(")[0])[-1:]
    more = next((s for n in name for s in _known(place, known, n) if s.text == n), None)
    if more is not None and "..." in more.signature and "..." not in text:
        text = f"{text[:-1]}, ...)"
    return f"the call around it: {text}"


def _described(source: str, word: re.Match[str], known: StateView) -> str:
    """The declaration of a word, its comment, and what a manual has on it."""
    name = word[0]
    place = _place(source[: word.start()], known)
    found: list[str] = []
    notes = place.notes if place is not None else Notes(known.notes)
    offered = _suggestions(place.ask()) if place is not None else ()
    here = next((s for s in offered if s.text == name), None)
    if place is not None and (place.members or (here and here.kind == "variable")):
        return here.signature if here else ""
    own = {key: n for n in (place.unit.own if place else ()) for key in n.keys}
    for key in (MACRO + name, IDENTIFIER + name, TAG + name):
        note = own.get(key) or notes.get(key)
        if note is not None:
            text = note.text.removeprefix("extern ").strip()
            found.append(with_comment(text, note, known))
    if found:
        return "\n".join(found)
    if place is None:
        return ""
    if here is not None and here.kind != "keyword":
        return here.signature
    missing = _missing(name, place, known)
    lead = f"#include <{missing}>\n" if missing else ""
    if suggestion := _of_headers(place.clang, lead or place.headers).get(name):
        manual = _manual(name) if suggestion.kind == "function" else ""
        text = lead + suggestion.signature
        return f"{text}\n\n{manual}" if manual else text
    type = known.signature(name)
    return function_in_c(name, type) if type is not None else ""


def with_comment(text: str, note: Note, known: StateView) -> str:
    """A text of a note below the comment that stands directly above its declaration."""
    lines = known.source(note.cell).split("\n") if note.cell else []
    match = _COMMENT.search("".join(f"{line}\n" for line in lines[: note.line - 1]))
    comment = match[0].strip() if match else ""
    return f"{comment}\n{text}" if comment else text


@lru_cache(maxsize=64)
def _manual(name: str) -> str:
    """The beginning of a function's manual page, "" where there is none."""
    program = shutil.which("man")
    if program is None:
        return ""
    try:
        done = ask(
            [program, "-P", "cat", "-S", "3:2", "--", name], _SECONDS,
            {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""},
        )  # fmt: skip
    except OSError:
        return ""
    if done.status:
        return ""
    text = re.sub(r".\x08|\x1b\[[\d;]*m", "", done.output)
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    head = "\n".join(lines[:_MAN_LINES])
    return head + ("\n..." if len(lines) > _MAN_LINES else "")
