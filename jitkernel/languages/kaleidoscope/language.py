"""Kaleidoscope for the session: how a cell is read, completed, explained.  Start from `read`."""

from __future__ import annotations

from lark import Token

from jitkernel.errors import CompileError
from jitkernel.ir.types import FloatType, FunctionType
from jitkernel.languages import Commands, Completeness, Known, Language, Once, plan, split_commands
from jitkernel.languages.kaleidoscope.codegen import SUPPLIED, generate
from jitkernel.languages.kaleidoscope.syntax import (
    BUILT_IN,
    ENDS_EARLY,
    KEYWORDS,
    Node,
    Prototype,
    complaint,
    parse,
)
from jitkernel.languages.language import StateView
from jitkernel.languages.llvm.plan import LanguageNote, Plan
from jitkernel.languages.prototypes import Spelling
from jitkernel.printable import printable
from jitkernel.regex import regex

_NOTE = "kaleidoscope:"  # of a function, its head: `binary| 5 (a b)`
_ENTRY = "top.level"  # no name of a program's has a dot
_WORD = regex(r"[A-Za-z]\w*|[-!$%&*+/:<=>?@^|~]")


def read(source: str, known: Known) -> Plan:
    """The plan of a cell: its definitions in one module, where all see each other, each expression
    at the top in its own, run from top to bottom once those are linked.  Raises CompileError."""
    commands = split_commands(source)
    try:
        items = parse(commands.code, lambda operator: _precedence(known, operator))
        return _plan(source, commands, items, known)
    except RecursionError:
        raise CompileError("the cell is too deeply nested to be read") from None


def _plan(source: str, commands: Commands, items: list[Node], known: Known) -> Plan:
    def complain(at: Token, message: str, hint: str = "") -> CompileError:
        near = known.nearest(at) if "there is no function" in message else None
        type = known.signature(near) if near and near.isidentifier() else None
        fits = type is not None and all_doubles(type)
        return complaint(source, at, message, f"did you mean `{near}`?" if fits else hint)

    def find(name: str, at: Token) -> int | None:
        type = known.signature(name)
        if type is not None and not all_doubles(type):
            raise complain(at, f"`{name}` is {type}, and Kaleidoscope has doubles only")
        return None if type is None else len(type.parameters)

    own: dict[str, int] = {}
    defined: dict[str, Prototype] = {}
    kept: list[Node] = []
    for item in items:
        head = item.children[0]
        if not isinstance(head, Prototype):
            continue
        name, count = head.name, len(head.parameters)
        known_as = own.get(name)
        if item.data == "definition":
            if name in defined:
                before = f"line {defined[name].at.line} of this cell"
                raise complain(head.at, f"`{name}` is defined in {before} too")
            defined[name] = head
        else:
            known_as = find(name, head.at) if known_as is None else known_as
            if known_as is None and name in SUPPLIED:
                continue  # each module that uses it gets its own
        if known_as not in (None, count):
            raise complain(head.at, f"`{name}` has {known_as} parameters, not {count}")
        own[name] = count
        kept.append(item)
    ir = generate(kept, own, find, complain) if kept else ""
    once = [
        Once(generate([item], own, find, complain, _ENTRY), _ENTRY,
             commands.code[at.start_pos : at.end_pos], at.line, at.end_line)
        for item in items if item.data == "top" and (at := item.meta)
    ]  # fmt: skip
    spelled = {name: head.text for name, head in defined.items()}
    notes = {_NOTE + name: LanguageNote(text) for name, text in spelled.items()}
    return plan(source, ir, once, commands, notes=notes, spelled=spelled)


def spelled(name: str, known: StateView) -> Spelling | None:
    """A function as its cell writes it: `sq(x)`."""
    head = str(known.notes.get(_NOTE + name, ""))
    types = ["double"] * len(head.partition("(")[2].removesuffix(")").split())
    return Spelling(head, types, lambda: "") if head else None


def _precedence(known: Known, operator: str) -> int:
    """The precedence of an operator that an earlier cell defined, 0 where none did."""
    return int(str(known.notes.get(f"{_NOTE}binary{operator}", "- 0")).split()[1])


def all_doubles(type: FunctionType) -> bool:
    """True if Kaleidoscope can call functions of a type."""
    double = FloatType("double")
    return not type.variadic and all(t == double for t in (type.result, *type.parameters))


def is_complete(source: str) -> Completeness:
    """Tell if a cell is whole (so are too long or deep ones), needs more lines, or is wrong."""
    try:
        if len(source) < 1 << 14:
            parse(split_commands(source).code, lambda operator: 1)
    except CompileError as error:
        early = error.diagnostics[0].message.startswith(ENDS_EARLY)
        return Completeness("incomplete", "  ") if early else Completeness("invalid")
    except RecursionError:
        pass
    return Completeness("complete")


def symbol_at(source: str, position: int) -> str:
    """The word at a position; of an operator the function that it calls."""
    words = [m for m in _WORD.finditer(source) if m.start() <= position <= m.end()]
    for match in words:
        if match[0][0].isalpha():
            return match[0]
    if not words or words[0][0] in BUILT_IN:
        return ""
    before = source[: words[0].start()].rstrip()
    binary = before[-1:].isalnum() or before.endswith((")", "_", "."))
    return ("binary" if binary else "unary") + words[0][0]


LANGUAGE = Language(
    name="kaleidoscope", read=read, display_name="Kaleidoscope", version="1",
    file_extension=".ks", mimetype="text/x-kaleidoscope",
    lexer="kaleidoscope", cell_lexer="jitkernel-kaleidoscope",
    help_url="https://llvm.org/docs/tutorial/MyFirstLanguageFrontend/index.html",
    is_complete=is_complete, symbol_at=symbol_at, callable_here=all_doubles, spelled=spelled,
    keywords={word: ("keyword", meaning) for word, meaning in KEYWORDS.items()},
    show=lambda value: repr(value.python) if value.type == FloatType("double") else "",
    called=lambda symbol, notes: printable(symbol),
)  # fmt: skip
