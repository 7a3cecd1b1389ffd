"""`inspect_request`, `name?` and `name??`: what is known of a symbol, a magic or an IR word.

Start from `inspect_name`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jitkernel.kernel.magics import BY_NAME
from jitkernel.kernel.magics.table import help_text
from jitkernel.views.names import bare, written
from jitkernel.views.view import View, escape, join, listing

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["inspect_at", "inspect_name"]

_WORD = re.compile(r'[@%!]{0,2}(?:"[^"\n]*"|[-\w.$]+)')


def inspect_at(frontend: Frontend, code: str, position: int, level: int) -> View | None:
    """What stands at a position (counted in characters) of a cell; None if nothing is known."""
    start = code.rfind("\n", 0, position) + 1
    stop = code.find("\n", position)
    line = code[start : stop if stop >= 0 else len(code)]
    for match in _WORD.finditer(line):
        if match.start() <= position - start <= match.end():
            found = inspect_name(frontend, match[0], level)
            if found is not None:
                return found
    # Inside the parentheses of a call: the function that is called.
    call = re.findall(r'(@(?:"[^"\n]*"|[-\w.$]+))\(', line[: position - start])
    return inspect_name(frontend, call[-1], level) if call else None


def inspect_name(frontend: Frontend, name: str, level: int) -> View | None:
    """What `name` is.  Level 0 is the short form; from 1 on (`??`) IR and assembly follow."""
    if name.startswith("%"):
        magic = BY_NAME.get(name.lstrip("%"))
        if magic is not None:
            return listing("", help_text(magic))
        text = frontend.session.types.get(bare(name[1:]))
        return listing("", f"{name} = type {text}") if text is not None else None
    symbol = frontend.session.symbols.get(bare(name))
    if symbol is not None:
        return _symbol(frontend, symbol, level)
    if name.startswith("@"):
        return _prelude(bare(name))
    magic = BY_NAME.get(name)
    word = _word(name)
    if word is not None:
        return word
    return listing("", help_text(magic)) if magic is not None else None


def _symbol(frontend: Frontend, symbol: Any, level: int) -> View:
    session = frontend.session
    facts = [("type", f"{symbol.kind} {symbol.type}")]
    if symbol.cell:
        facts.append(("cell", str(symbol.cell)))
    if symbol.address:
        facts.append(("address", f"{symbol.address:#x}"))
    if symbol.size:
        facts.append(("size", f"{symbol.size} bytes"))
    users = ", ".join(map(str, symbol.users))
    facts.append(("used by", f"cells {users}" if users else "nobody"))
    if symbol.kind == "variable" and symbol.cell:
        value = session.show(symbol.name)
        if value:
            facts.append(("value", value))
    width = max(len(key) for key, _ in facts)
    name = written(symbol.name)
    head = View(
        "\n".join([name, *(f"  {key:<{width}}  {value}" for key, value in facts)]),
        f"<p><b>{escape(name)}</b></p><table><tbody>"
        + "".join(
            f'<tr><th scope="row">{escape(key)}</th><td>{escape(value)}</td></tr>'
            for key, value in facts
        )
        + "</tbody></table>",
    )
    return join([head, *_source(frontend, symbol, level)])


def _source(frontend: Frontend, symbol: Any, level: int) -> list[View]:
    from jitkernel.views.asm import asm
    from jitkernel.views.ir import entity, ir

    if not symbol.cell:
        return []
    name = written(symbol.name)
    try:
        if level < 1:
            text = entity(frontend.session.module_text(symbol.cell), name)
            return [listing("source", text)] if text else []
        parts = [ir(frontend.session, name)]
        if symbol.kind == "function":
            parts.append(asm(frontend.session, name, frontend.setting("JITKernel.asm_syntax")))
        return parts
    except Exception:
        return []  # what is not there any more is not worth an error here


def _prelude(name: str) -> View | None:
    from jitkernel.languages.llvm.prelude import PRELUDE

    declaration = PRELUDE.get(name)
    if declaration is None:
        return None
    return listing("", f"{declaration}\ndeclared by itself when a cell uses it (C library)")


def _word(name: str) -> View | None:
    from jitkernel.languages.llvm.keywords import KEYWORDS

    keyword = KEYWORDS.get(name)
    if keyword is None:
        return None
    return listing("", f"{name}: {keyword.kind}\n{keyword.summary}")
