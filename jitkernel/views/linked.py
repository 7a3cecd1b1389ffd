"""A function's own lines of source, its IR and its machine code side by side.  Start from `linked`.

The lines are those of the function and of what was inlined into it, wherever that stands; of a
whole cell, the cell's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import bare
from jitkernel.session.report.sources import Place
from jitkernel.views.asm import Code, Instruction, code_of, decode, describer
from jitkernel.views.lines import Line, Located
from jitkernel.views.panes import Keys, Pane, beside
from jitkernel.views.view import View
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

_WHOLE = 400  # lines of a cell's source that are shown where no function was named
_MOST = 2_000  # lines of a pane
_MARKED = 2_000  # lines of source of which words are marked


def linked(
    session: Session,
    target: int | str | None = None,
    syntax: str = "intel",
    ir: bool = True,
) -> View:
    """Source, IR (`ir`) as it was compiled, and machine code of a function or a cell, what belongs
    together in one colour and with one number.

    Raises UsageError where there is neither IR nor code.
    """
    cell, names = session.inspect.cell_of(target)
    located = Located(session, cell.number)
    one = isinstance(target, str)
    bodies, codes = (
        _ir(located, names, one) if ir else [],
        _machine(session, located, target, syntax),
    )
    if not bodies and not codes:
        raise UsageError(
            f"cell {cell.number} has neither IR nor machine code to stand side by side"
        )
    source, keys = _source(session, located, cell.number, names if one else [], [*bodies, *codes])
    panes = [Pane("Source", source[:_MOST])]
    if bodies:
        panes.append(Pane("IR, as it was compiled", bodies[:_MOST]))
    if codes:
        panes.append(Pane("Machine code", codes[:_MOST]))
    what = session.inspect.program.called(bare(target)) if isinstance(target, str) else ""
    title = f"{what}, cell {cell.number}" if what else f"cell {cell.number}"
    note = (
        "What has one number comes from one line of source; a letter before it means another text. "
        "Each bar is a loop."
    )
    left = sum(max(len(lines) - _MOST, 0) for lines in (source, bodies, codes))
    if left:
        note += (
            f" {counted(left, 'more line')} are not shown: %ir --opt and %asm show those of code."
        )
    return beside(title, panes, keys, note)


def _ir(located: Located, names: Sequence[str], one: bool) -> list[Line]:
    lines: list[Line] = []
    shown = [n for n in (names if one else located.functions) if n in located.functions]
    for name in shown:
        head = located.functions[name]
        if len(shown) > 1:
            lines.append(Line(f"@{head.spelled}:"))
        lines += located.body(name).lines()
        if len(lines) > _MOST:
            break
    return lines


def _machine(
    session: Session, located: Located, target: int | str | None, syntax: str
) -> list[Line]:
    try:
        cell, found = code_of(session, target)
    except UsageError:
        return []
    lines: list[Line] = []
    describe = describer(session, cell)
    for code in found:
        if len(found) > 1:
            lines.append(Line(f"{session.inspect.program.called(code.name, code.cell or None)}:"))
        lines += located.machine(_decoded(session, located, code, describe, syntax), _instruction)
        if len(lines) > _MOST:
            break
    return lines


def _decoded(
    session: Session, located: Located, code: Code, describe: Callable[[int], str], syntax: str
) -> list[Instruction]:
    content = session.inspect.engine.arena.read(code.address, code.size)
    return decode(content, code.address, describe, syntax, located.rows)


def _instruction(i: Instruction) -> str:
    if i.refers and i.mnemonic.startswith(("call", "j")):
        return f"  {i.mnemonic} {i.refers}"
    text = f"  {i.mnemonic} {i.operands}".rstrip()
    return f"{text}  ; {i.refers}" if i.refers else text


def _source(
    session: Session, located: Located, number: int, names: Sequence[str], code: Iterable[Line]
) -> tuple[list[Line], Keys]:
    """The function's lines, then those of others that have become part of it."""
    sources = located.sources
    if sources is None:
        return [], Keys(number)
    used = sorted({line.place for line in code if line.place is not None})
    file, extent = sources.own.extent(names[0]) if names else ("", range(0))
    if not extent:
        whole = min(sources.own.source.count("\n") + 1, _WHOLE)
        extent = range(1, whole + 1) if not names else extent
    keys = Keys(number, file)
    own = {p.line: p for p in reversed(used) if (p.cell, p.file) == (number, file)}
    lines = _text(session, located, [Place(number, file, n, "") for n in extent], own)
    others: dict[tuple[str, int, str, str], list[Place]] = {}
    for place in used:
        if (place.cell, place.file) != (number, file) or place.line not in extent:
            key = (keys.tag(place), place.cell, place.file, place.function)
            others.setdefault(key, []).append(place)
    for (tag, cell, where, function), places in sorted(others.items()):
        called = session.inspect.program.called(function, cell)
        inlined = "" if function in names else "inlined: "
        lines.append(
            Line(f"{f'{tag}: ' if tag else ''}{inlined}{called}, {where or f'cell {cell}'}")
        )
        of = {p.line: p for p in reversed(places)}
        shown = [Place(cell, where, n, function) for n in sorted(of)]
        lines += [line._replace(number=keys.name(p)) for line, p in
                  zip(_text(session, located, shown, of), shown, strict=True)]  # fmt: skip
    return lines, keys


def _text(
    session: Session, located: Located, places: Sequence[Place], own: dict[int, Place]
) -> list[Line]:
    """Lines of one text, as they are written; those of which there is code have a place."""
    if located.sources is None:
        return []
    texts = [located.sources.text(place) for place in places]
    language = session.inspect.program.state.notes.language_of(places[0].cell) if places else ""
    html = highlighted(texts, language) if len(texts) <= _MARKED else [""] * len(texts)
    return [
        Line(text, own.get(place.line), 0, markup, str(place.line))
        for text, place, markup in zip(texts, places, html, strict=True)
    ]


def highlighted(lines: Sequence[str], language: str) -> list[str]:
    """HTML of lines of a language: keywords and types are bold, comments and texts italic, which
    costs fewer bytes than colours and stays where styles are dropped."""
    from pygments.token import Comment, Keyword, String

    lexer = _lexer(language)
    if lexer is None:
        return [escape(line) for line in lines]
    found = [""]
    for kind, text in lexer.get_tokens("\n".join(lines)):
        tag = "b" if kind in Keyword else "i" if kind in Comment or kind in String else ""
        for number, part in enumerate(text.split("\n")):
            if number:
                found.append("")
            found[-1] += f"<{tag}>{escape(part)}</{tag}>" if tag and part else escape(part)
    found += [""] * (len(lines) - len(found))
    return [html.replace("</i><i>", "").replace("</b><b>", "") for html in found[: len(lines)]]


def _lexer(language: str):  # type: ignore[no-untyped-def]
    from pygments.lexers.c_cpp import CLexer

    from jitkernel.languages.lexer import IRLexer, KaleidoscopeLexer

    found = {"c": CLexer, "": IRLexer, "llvm": IRLexer, "kaleidoscope": KaleidoscopeLexer}
    kind = found.get(language)
    return kind(stripnl=False, ensurenl=False) if kind is not None else None
