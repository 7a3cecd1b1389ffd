"""`inspect_request`, `name?` and `name??`: what is known of a symbol, a magic or an IR word.

Start from `look_up`.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from jitkernel.compiler.passes import DESCRIPTIONS
from jitkernel.errors import JitError
from jitkernel.ir.marks import are_marked, marked_lines
from jitkernel.ir.names import NAME, bare, written
from jitkernel.kernel import python_cells
from jitkernel.kernel.completion import cell_body, cell_language, magic_of
from jitkernel.kernel.magics.parsing import help_view, split_option
from jitkernel.kernel.magics.registry import Magic
from jitkernel.regex import regex
from jitkernel.views.view import View, join, listing, prose
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.languages import Language
    from jitkernel.session import Session
    from jitkernel.session.handles import Symbol

_HALF = 150_000  # bytes of IR, and of machine code
_WORD = regex("[@%!]{0,2}" + NAME)


def inspect_at(context: Frontend, code: str, position: int, level: int) -> View | None:
    """A view of what stands at a position (in characters) of a cell; None if nothing is known."""
    if python_cells.is_python(code, position):
        text = python_cells.explained(code, position)
        return listing("", text) if text else None
    start = code.rfind("\n", 0, position) + 1
    stop = code.find("\n", position)
    line = code[start : stop if stop >= 0 else len(code)]
    language = cell_language(context, code)
    if language is not None and not line.lstrip().startswith("%"):
        return _in_language(context, language, code, position, level)
    magic = magic_of(context, line[: position - start])
    for match in _WORD.finditer(line):
        if match.start() <= position - start <= match.end():
            found = _argument(magic, match[0]) if magic is not None else None
            found = found or look_up(context, match[0], level)
            if found is not None:
                return found
    if magic is not None and not re.search(r"@\S+\(\S*\Z", line[: position - start]):
        return help_view(context, magic)
    # Inside the parentheses of a call: the function that is called.
    call = re.findall(rf"(@{NAME})\(", line[: position - start])
    return inspect_name(context, call[-1], level) if call else None


def look_up(context: Frontend, name: str, level: int) -> View | None:
    """A view of what is known of a name in the notebook's language; from level 1 on with IR and
    assembly."""
    language = cell_language(context, "")
    if language is not None and language.inspect is not None and name[:1] not in "@%":
        found = _in_language(context, language, name, 0, level)
        if found is not None:
            return found
    return inspect_name(context, name, level)


def _argument(magic: Magic, word: str) -> View | None:
    """A flag of a magic, or a pass where passes are named."""
    option = magic.options.get(split_option(magic, word)[0])  # also `--syntax=att` and `-O2`
    if option is not None:
        return listing("", f"%{magic.name} {option.title}: {option.meaning}")
    wanted = {a.completes for a in magic.arguments}
    if word in DESCRIPTIONS and not wanted.isdisjoint(("pass", "passes", "pipeline")):
        return listing("", f"{word}: a pass of LLVM; it {DESCRIPTIONS[word]}")
    return None


def _in_language(
    context: Frontend, language: Language, code: str, position: int, level: int
) -> View | None:
    """A keyword of the language, a function that stands or is called there, or a magic."""
    body, at = cell_body(code, position)
    if language.inspect is not None and at >= 0:
        name = language.symbol_at(body, at)
        symbol = context.session.symbols.get(name) if name else None
        text = language.inspect(body, at, context.session.inspect.state)
        parts = [listing("", text)] if text else []
        if symbol is not None and symbol.cell:
            parts += [
                _row_view(context, symbol),
                *(_source(context, symbol, level) if level else ()),
            ]
        return join(parts) if parts else None
    from jitkernel.languages.llvm.prelude import prelude_type

    called = re.findall(r"([A-Za-z_]\w*)\(", code[:position])
    for name in (language.symbol_at(code, position), *called[-1:]):
        if name in language.keywords:
            return listing("", f"{name}: {language.keywords[name][1]}")
        if (type := prelude_type(name)) and name not in context.session.symbols:
            return listing("", f"{name}: {type}, of the C library; cells call it once declared")
        found = inspect_name(context, f"@{name}", level) if name else None
        if found is not None:
            return found
    return None


def inspect_name(context: Frontend, name: str, level: int) -> View | None:
    """A view of what `name` is, short at level 0; from 1 on (`??`) IR and assembly follow."""
    if name.startswith("%"):
        known = context.magics
        magic = known.get_cell(name[2:]) if name.startswith("%%") else known.get(name[1:])
        if magic is not None:
            return help_view(context, magic)
        text = context.session.types.get(bare(name[1:]))
        return listing("", f"{name} = type {text}") if text is not None else None
    symbol = context.session.symbols.get(bare(name))
    if symbol is not None:
        return join([_row_view(context, symbol), *_source(context, symbol, level)])
    if name.startswith("@"):
        return _prelude(bare(name))
    magic = context.magics.get(name)
    from jitkernel.ir.keywords import describe_word

    if text := describe_word(name):
        return listing("", text)
    return help_view(context, magic) if magic is not None else None


def _row_view(context: Frontend, symbol: Symbol) -> View:
    """The facts that the session keeps of a symbol."""
    from jitkernel.session import VariableHandle

    session = context.session
    kind = "constant" if symbol.constant else symbol.kind
    rows = [("type", f"{kind} {session.inspect.type_of(symbol)}")]
    if symbol.cell:
        rows.append(("cell", str(symbol.cell)))
    if symbol.address:
        rows.append(("address", f"{symbol.address:#x}"))
    if symbol.size:
        rows.append(("size", counted(symbol.size, "byte")))
    users = ", ".join(map(str, symbol.users))
    word = "cell" if len(symbol.users) == 1 else "cells"
    rows.append(("used by", f"{word} {users}" if users else "no other cell"))
    if symbol.kind == "variable" and symbol.cell:
        with contextlib.suppress(JitError):
            handle = session[symbol.name]
            if isinstance(handle, VariableHandle):
                rows.append(("value", session.inspect.text_of(symbol.name, handle.typed)))
    width = max(len(key) for key, _ in rows)
    name = session.inspect.program.called(symbol.name)
    return View(
        "\n".join([name, *(f"  {key:<{width}}  {value}" for key, value in rows)]),
        f"<p><b>{prose(name)}</b></p><table><tbody>"
        + "".join(
            f'<tr><th scope="row" style="text-align:left">{prose(key)}</th>'
            f'<td style="text-align:left">{prose(value)}</td></tr>'
            for key, value in rows
        )
        + "</tbody></table>",
    )


def _source(context: Frontend, symbol: Symbol, level: int) -> list[View]:
    from jitkernel.views.asm import asm
    from jitkernel.views.ir import ir
    from jitkernel.views.room import Room

    if not symbol.cell:
        return []
    name = written(symbol.name)
    try:
        if level < 1:
            text = _as_written(context.session, symbol)
            return [listing("source", text)] if text else []
        called = context.session.inspect.program.called(symbol.name)
        room = {
            what: Room(f"{context.worded(f'%{what}')} {called} --all", size=_HALF)
            for what in ("ir", "asm")
        }
        parts = [ir(context.session, name, room=room["ir"])]
        if symbol.kind == "function":
            syntax = context.setting("JITKernel.asm_syntax")
            parts.append(asm(context.session, name, syntax, room=room["asm"]))
        return parts
    except JitError:
        return []  # what is not there any more is not worth an error here


def _as_written(session: Session, symbol: Symbol) -> str:
    """A definition as its cell has it: in another language than IR those of its lines that the
    module names, and what is indented below them."""
    from jitkernel.views.ir import entity

    said = session.inspect.spelling(symbol.name)
    if said is not None and (text := said.document()):
        return text
    text = entity(session.inspect.module(symbol.cell), symbol.name)
    record = session.inspect.store.get(symbol.cell)
    if record is None or not are_marked(record.module, record.first_line, record.source):
        return text
    every = map(marked_lines(text, 1), range(1, text.count("\n") + 2))
    if not (found := [line for line in every if line]):
        return text
    lines, last = record.source.split("\n"), max(found)
    while last < len(lines) and lines[last][:1].isspace() and lines[last].strip():
        last += 1
    return "\n".join(lines[min(found) - 1 : last])


def _prelude(name: str) -> View | None:
    from jitkernel.languages.llvm.prelude import PRELUDE

    if name not in PRELUDE:
        return None
    return listing("", f"{PRELUDE[name]}\ndeclared by itself when a cell uses it (C library)")
