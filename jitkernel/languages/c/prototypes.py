"""What C says of a variable or a function that IR does not: signs, members, what is by value.

Start from `prototype`.  A declaration of numbers and pointers is read here; clang is asked what
others are.  `declaration` is IR for what an object or a library has, and C declares; `spelled` is
how C writes what a cell of it defines.  `foreign` defines a function of Python's: it hands the
bytes of result and arguments to the kernel process (executor/native/ask.ll), so whatever C passes
by value goes as clang lays it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import takewhile

from jitkernel.errors import JitError, UsageError
from jitkernel.ir.names import ASK, quote_name
from jitkernel.languages.c.clang import Clang, clang_of
from jitkernel.languages.c.completion import declared_by_headers, with_comment
from jitkernel.languages.c.declarations import (
    ATTRIBUTES,
    Declarator,
    declarators,
    parameters,
    specifiers,
)
from jitkernel.languages.c.generated import OWN, value_type
from jitkernel.languages.c.module import Module, parse
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, Note, Notes, on_line
from jitkernel.languages.c.pieces import Mismatch, cut
from jitkernel.languages.c.reading import Reading
from jitkernel.languages.c.tokens import Token, Unfinished, closing, tokens
from jitkernel.languages.c.unit import unit_of
from jitkernel.languages.c.words import BASIC_TYPES, QUALIFIERS
from jitkernel.languages.language import StateView
from jitkernel.languages.prototypes import Foreign, Prototype, Spelling, pointer_to
from jitkernel.record import record
from jitkernel.regex import regex
from jitkernel.values.c import declare
from jitkernel.values.c_numbers import number_type
from jitkernel.values.datatype import VOID, DataType, Member, number, plain
from jitkernel.values.debug_info import Types

_PLACE = 16  # bytes: what a result and each argument begin at a multiple of
#: Nothing is said of characters: they may be any bytes.
_CHARACTERS = ("i1", "u1")
_NUMBERS = ("int", "bool", "float")
_POINTER = DataType("pointer", size=8, bits=64)  # to anything
_CONST = ("const", "__const", "__const__")
_DEEPEST = 20  # typedefs of typedefs
_INCLUDES = regex(r"(?m)^\s*#\s*(?:include|import|embed)")


@record
class _Said:
    """The declaration of a function or a variable that cells have left, with its `note`, or headers
    of the system have: its text, its tokens, and the one name in it, None where it is otherwise."""

    name: str
    known: StateView
    notes: Notes
    note: Note | None
    text: str
    tokens: list[Token]
    declared: Declarator | None

    @property
    def parameters(self) -> list[list[Token]] | None:
        """The tokens of a function's parameters, none of `(void)`; None of what is no function."""
        one = self.declared
        if one is None or not one.function or (self.note and self.note.kind == "variable"):
            return None
        parts = parameters(self.tokens, one)
        return [] if [t.text for part in parts for t in part] == ["void"] else parts

    def type(self) -> DataType | None:
        """The type, as clang has it; None where that cannot be asked."""
        return type_of(self.name, self.known, self.notes)


def _said(name: str, known: StateView) -> _Said | None:
    """The declaration of a name; None for what is neither a function nor a variable."""
    notes = Notes(known.notes)
    note = notes.identifier(name)
    said = note.text if note is not None else declared_by_headers(name, known, notes)
    if not said or (note is not None and note.kind not in ("function", "variable")):
        return None
    found, declared = list[Token](), None
    with suppress(Unfinished, IndexError, ValueError):
        found = tokens(said)[:-1]
        (declared,) = declarators(found)
    return _Said(name, known, notes, note, on_line(said), found, declared)


def prototype(name: str, known: StateView) -> Prototype | None:
    """Python's prototype of a name of C's; None where that is what IR says."""
    said = _said(name, known)
    if said is None or said.declared is None:
        return None
    parts = said.parameters
    if parts is None:
        return _variable(said, said.declared)
    types = [_read(part, said.notes) for part in parts]
    function = _function(said, said.declared, parts, types)
    if said.note is None:  # no module has their names
        names = tuple(map(_name_of, parts))
        function = (function or Prototype(text=said.text))._replace(names=names)
    if all(type is not None and type.kind in _NUMBERS for type in types):
        return function
    pointed, callback = _pointed(said, parts)
    return (function or Prototype(text=said.text))._replace(pointed=pointed, callback=callback)


def declaration(name: str, known: StateView) -> str:
    """The IR that declares a function or a variable of somebody else's, as cells or the headers
    that they include declare it in C; "" where they do not."""
    notes = Notes(known.notes)
    note = notes.identifier(name)
    module = asked(name, known, notes)
    symbol = quote_name(name if note is None else note.symbol)
    entity = module.entities.get(symbol) if module is not None else None
    if module is None or entity is None:
        return ""
    module.keep_lines(OWN, "")
    if entity.is_inline:  # a header has a body, too
        return module.plan([], declared=[symbol]).source
    return module.plan([symbol]).source if entity.is_declaration else ""


def _pointed(
    said: _Said, parts: list[list[Token]]
) -> tuple[Callable[[int], DataType | None], Callable[[int], str]]:
    """Functions that tell which structs or arrays, and which functions, a function's parameters
    lead to; clang is asked once."""
    whole = cache(said.type)

    def target(index: int) -> DataType | None:
        type = whole()
        if type is None or type.bare.kind != "function" or index >= len(type.bare.parameters):
            return None
        return type.bare.parameters[index].bare.element

    def pointed(index: int) -> DataType | None:
        texts = [token.text for token in parts[index]] if index < len(parts) else []
        one = _read(parts[index], said.notes) if texts.count("[") + texts.count("(") < 2 else None
        of = target(index) if one is None or one.element is None else None  # `double *`
        seen = plain(of) if of is not None else None
        return seen if seen is not None and seen.kind in ("struct", "array") else None

    def callback(index: int) -> str:
        of = target(index)
        return declare(of.bare) if of is not None and of.bare.kind == "function" else ""

    return pointed, callback


def _is_irs(type: DataType | None) -> bool:
    """True if IR has all that there is of a variable's or a result's type."""
    return type is not None and type.kind != "enum" and type.code[:1] in ("", "i", "f")


def _variable(said: _Said, declared: Declarator) -> Prototype | None:
    of = _read(said.tokens[: declared.name_at], said.notes)
    is_array = declared.name_at + 1 < declared.last
    if of is not None and _is_irs(of) and not (is_array and of.code == "i1"):
        return None
    if of is not None and of.code and not is_array:
        return Prototype(of, text=said.text)
    type = said.type()
    if type is not None and type.bare.kind == "function":  # declared by a macro
        return _by_type(type, [], said.text, ())
    return Prototype(plain(type), text=said.text) if type is not None else None


def _function(
    said: _Said, declared: Declarator, parts: list[list[Token]], types: list[DataType | None]
) -> Prototype | None:
    of, text = _read(said.tokens[: declared.name_at], said.notes), said.text
    wanted = tuple(t if t is not None and t.element is not None else None for t in types)
    alone = Prototype(text=text, pointees=wanted) if any(wanted) else None
    told = [t is not None and t.kind != "complex" for t in types]
    told += [t.text != "__attribute__" for part in parts for t in part]  # clang knows of those
    if all(told) and of is not None and (_is_irs(of) or of.code):
        return Prototype(of, text=text, pointees=wanted) if of.code[:1] in ("u", "c") else alone
    type = said.type()
    if type is None or type.bare.kind != "function":
        return alone
    return _by_type(type, [_name_of(part) for part in parts], text, wanted)


def _by_type(
    type: DataType, names: list[str], text: str, wanted: tuple[DataType | None, ...]
) -> Prototype | None:
    every = tuple(map(plain, type.bare.parameters))
    of = type.bare.element or VOID
    seen, is_void = plain(of), of.bare.kind == "void"
    # IR's has either sign, and more bits than a `_BitInt`.
    other = seen.kind == "int" and (seen.signed is False or seen.bits < 8 * seen.size)
    result = None if is_void or (seen.is_scalar and not other) else seen
    by_value = result is not None and not (result.is_scalar or result.kind == "complex")
    if by_value or not all(one.is_scalar for one in every):
        return Prototype(result, every, tuple(names), text, wanted)
    if result is not None or any(wanted):
        return Prototype(result, text=text, pointees=wanted)
    return None


def _name_of(part: list[Token]) -> str:
    return next((one.name for one in declarators(part)), "")


def type_of(name: str, known: StateView, notes: Notes) -> DataType | None:
    """The type of a name; None where clang cannot be asked."""
    module = asked(name, known, notes)
    return value_type(Types(module.metadata)) if module is not None else None


def asked(name: str, known: StateView, notes: Notes) -> Module | None:
    """The module clang makes of an expression, as a name is one; None where it cannot be asked."""
    pieces = cut(name, lambda word: "value", lambda word: "")
    unit = unit_of(Reading(0, name, pieces, notes, defines=lambda word: True))
    try:
        clang = clang_of(known.setting)
        own = _INCLUDES.search(unit.text) is not None  # headers of one's own change
        text = (_compiled.__wrapped__ if own else _compiled)(clang, unit.text, notes.header)
    except (JitError, OSError):
        return None
    return parse(text) if text else None


@lru_cache(maxsize=256)
def _compiled(clang: Clang, text: str, header: str) -> str:
    """The IR that clang makes of a text that always means the same."""
    return clang.compile(text, header).text


# -- parameters and pointers -----------------------------------------------------------------------


def _read(part: list[Token], known: Notes) -> DataType | None:
    """The type of one name, or the result's, by what stands around it, where that is a number or a
    pointer: `T *x` or `T x[n][m]` with what it leads to where this is one of both, whatever is
    const or restrict in it.  None of others, and where it is not known; of an enum the kind alone.
    """
    begin = 0
    while begin < len(part) and part[begin].text in ATTRIBUTES:
        begin = closing(part, begin + 1)
    texts = [t.text for t in part]
    if texts == ["..."]:
        return _POINTER  # as IR has it
    if texts[:2] == ["[", "["] or not texts[begin:]:
        return None
    end = specifiers([*part, *part[-1:]]).end
    rest = [text for text in texts[end:] if text not in QUALIFIERS]
    stars = len(list(takewhile(lambda text: text == "*", rest)))
    behind = rest[stars:]
    if behind[:1] and behind[0] not in ("[", "("):
        behind = behind[1:]  # the name
    stars += behind[:1] == ["["]
    words = [text for text in texts[begin:end] if text not in ("register", "extern")]
    code = _number_of(words, known)
    if not stars and "*" not in rest and "[" not in rest:
        if "enum" in words:
            return DataType("enum")
        return VOID if words == ["void"] else number(code) if code and not begin else None
    constant = any(word in _CONST for word in words)
    words = [word for word in words if word not in QUALIFIERS]
    text = f"{'const ' * constant}{' '.join(words)} {'*' * stars}"
    if not stars or "(" in behind or (stars == 1 and (not code or code in _CHARACTERS)):
        return _POINTER
    return pointer_to(_POINTER, text) if stars > 1 else pointer_to(number(code), text, constant)


def _number_of(words: list[str], known: Notes) -> str:
    """numpy's code of a type of numbers; "" for any other."""
    for _ in range(_DEEPEST):
        kept = [word for word in words if word not in QUALIFIERS]
        note = known.identifier(kept[0]) if len(kept) == 1 and kept[0] not in BASIC_TYPES else None
        if note is None:
            found = number_type(" ".join(kept))
            return found.code if found is not None else ""
        words = _words_of(note.text, kept[0]) if note.kind == "typedef" else []
    return ""


def _words_of(text: str, name: str) -> list[str]:
    """The words of `typedef WORDS name;`; none where that has a pointer or another shape."""
    found = [t.text for t in tokens(text)[:-1]]
    if found[:1] == ["typedef"] and found[-2:] == [name, ";"]:
        words = found[1:-2]
        return words if all(word.isidentifier() for word in words) else []
    return []


# -- declarations as C writes them -----------------------------------------------------------------


def spelled(name: str, known: StateView) -> Spelling | None:
    """The declaration of a function or a variable, its parameters' types or its own, and its
    definition below the comment that stands above it; None for what neither cells declare nor
    headers of the system."""
    said = _said(name, known)
    if said is None:
        return None
    note, parts = said.note, said.parameters
    if parts is None:
        parts = [[t for t in said.tokens if t.text not in ("extern", ";")]]

    def document() -> str:
        if note is None:
            return f"{said.text};"
        own = (note.definition or f"{said.text};").strip("\n")
        return with_comment(own, note, known)

    types = map(_type, parts) if said.declared is not None else ()
    return Spelling(said.text, tuple(types), document)


def _type(part: Sequence[Token]) -> str:
    """The type in a declaration of one name, without the name: `const double *`, `int [4]`."""
    try:
        (declared,) = declarators(list(part))
    except (IndexError, ValueError):
        return " ".join(t.text for t in part)
    words = [t.text for at, t in enumerate(part) if at != declared.name_at or not declared.name]
    text = " ".join(words)
    for mark in "*)][(":
        text = text.replace(f"{mark} ", mark)
    for mark in "])":
        text = text.replace(f" {mark}", mark)
    return text.strip()


# -- functions of Python's -------------------------------------------------------------------------


def foreign(name: str, type: str, number: int, known: StateView) -> Foreign | None:
    """A cell that defines `name` with a function's type such as `unsigned (double, const char *)`;
    None for what is none.  Raises UsageError for one that takes `...`."""
    notes = Notes(known.notes)
    try:
        pointer = type_of(f"(__typeof__({type}) *)0", known, notes)
    except (Unfinished, Mismatch):
        return None
    function = pointer.bare.element.bare if pointer is not None and pointer.bare.element else None
    if function is None or function.kind != "function" or function.element is None:
        return None
    if function.variadic:
        raise UsageError(f"{name}: a Python function takes no `...` from a cell")
    returns = function.element.bare.kind != "void"
    names = [f"a{at}" for at in range(len(function.parameters))]
    for at, each in enumerate(names):
        if IDENTIFIER + each in notes or MACRO + each in notes:  # a type's, which this would hide
            names[at] = OWN + each
    head = declare(
        function.element,
        f"{name}({', '.join(map(declare, function.parameters, names)) or 'void'})",
    )
    own, result = f"{OWN}frame", f"{OWN}result"
    handed = [*([result] if returns else []), *names]
    members = [f"{OWN}{at}" for at in range(len(handed))]
    # Copied byte by byte, since types may ask for more or less alignment than a place has.  Nothing
    # is said of their sizes: this is compiled again when one is defined again.
    places = (
        f"_Alignas({_PLACE}) char {member}[sizeof {each}];"
        for member, each in zip(members, handed, strict=True)
    )
    lines = [
        f"{head} {{",
        *([f"  {declare(function.element.unqualified, result)};"] if returns else []),
        f"  struct {{ {' '.join(places)} }} {own};",
        f"  __builtin_memset(&{own}, 0, sizeof {own});",
        *(
            f"  __builtin_memcpy({own}.{member}, (void *)&{each}, sizeof {each});"
            for member, each in zip(members[returns:], names, strict=True)
        ),
        f"  void {ASK}(long, void *, long);",
        f"  {ASK}({number}, &{own}, sizeof {own});",
    ]
    if returns:
        copied = f"__builtin_memcpy(&{result}, {own}.{members[0]}, sizeof {result})"
        lines += [f"  {copied};", f"  return {result};"]
    lines.append("}")
    frame = _frame([*([function.element] if returns else []), *function.parameters])
    return Foreign("\n".join(lines), frame, returns)


def _frame(types: Sequence[DataType]) -> DataType:
    """The struct of these, each where its place begins."""
    parts, at = list[Member](), 0
    for seen in map(plain, types):
        parts.append(Member(f"m{len(parts)}", seen, at))
        at += seen.size + -seen.size % _PLACE
    return DataType("struct", size=at, members=tuple(parts))
