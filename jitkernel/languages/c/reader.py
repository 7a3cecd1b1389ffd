"""From a cell of C to its plan: a text for clang, and clang's module taken apart.

Start from `read`.  What later cells have to know is left in the session's notes (`notes.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.names import CONTROL, decode_name, quote_name
from jitkernel.ir.types import PointerType, Type
from jitkernel.languages.c.clang import Clang, Complaint, clang_of
from jitkernel.languages.c.foreign import function_in_c, type_in_c, type_in_ir
from jitkernel.languages.c.module import Module, parse
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, Note, Notes, decode, encoded, key_name
from jitkernel.languages.c.pieces import Mismatch, Piece, PieceKind, cut
from jitkernel.languages.c.shapes import shape_of
from jitkernel.languages.c.tokens import Unfinished, tokens, words
from jitkernel.languages.c.types import CType, Types
from jitkernel.languages.c.unit import LENGTH, OWN, TYPE, VALUE, Guesses, Unit, file_name
from jitkernel.languages.c.values import Memory, show
from jitkernel.languages.c.words import C23
from jitkernel.languages.language import Known, Once, Remake, plan, split_commands
from jitkernel.languages.llvm.plan import Plan, PlanNote
from jitkernel.languages.llvm.values import TypedValue
from jitkernel.languages.shapes import Shape, Shaped

__all__ = ["CValue", "read"]

_ERRORS = 3  # complaints that are shown
_SPELLED = 80  # characters of a declaration in a status line
_CONDITION = re.compile(r"#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
_QUOTED = re.compile(r'#\s*(?:include|embed)\s*"([^"\n]+)"')
_HAS_CONDITION = re.compile(r"(?m)^[ \t]*#[ \t]*if")
_COMPUTED = re.compile("not a compile-time constant|statement expression not allowed at file scope")
_UNDECLARED = re.compile(r"(?:undeclared (?:identifier|function)|unknown type name) '(\w+)'")
_FIRST_WORD = re.compile(r"\s*(alignas|static_assert|typeof_unqual)\b")
_TYPE_OF = re.compile(r"'(?:__)?typeof(?:__)? ?\([^)]*\)' \(aka ('[^']*')\)")
_RETURNS = re.compile(rf"void function '{OWN}\w+' should not return a value")
_HEADER_OF = re.compile(r"include the header (<[^>]*>)")
_LENGTH = re.compile(rf"@{LENGTH}\(.*?\bret i64 (\d+)", re.DOTALL)
_MARK = f"#pragma {OWN}at"
_MARKED = re.compile(rf"#pragma {OWN}at (\d+)")
_EXTERNAL = re.compile(
    r"(@\S+ = .*?\bexternal\b.*?\b(?:global|constant) )(.*?)"
    r"((?:, (?:align|section) [^!]*)?(?:, !.*)?)$"
)


class CValue(Shaped):
    """A value with the text that C has for it."""

    __slots__ = ("shown",)
    shown: str

    def __init__(
        self, value: TypedValue, type: Type, data: bytes, shown: str, shape: Shape | None = None
    ):
        super().__init__(TypedValue(type, data, value.layouts), shape)
        object.__setattr__(self, "shown", shown)


def read(source: str, known: Known) -> Plan:
    """The plan of a cell.  Raises CompileError with clang's words."""
    return _Reader(source.replace("\r\n", "\n"), known).read()


class _Again(Exception):
    """The text is to be made another time, with what clang has told."""


class _Reader:
    def __init__(self, source: str, known: Known):
        self._source, self._known = source, known
        self._commands = split_commands(source)
        self._lines = source.split("\n")
        self._notes = Notes(known.notes)
        self._guesses = Guesses()
        self._file = file_name(known.number)

    def read(self) -> Plan:
        if "\0" in self._source:
            line = self._source[: self._source.index("\0")].count("\n") + 1
            raise CompileError([Diagnostic("the cell has a NUL character", line)])
        code = self._commands.code
        if not code.strip():
            return plan(self._source, "", [], self._commands)
        self._clang = self._compiler()
        try:
            if self._known.file:
                code = self._beside(code, os.path.dirname(os.path.abspath(self._known.file)))
            if _HAS_CONDITION.search(code):
                code = self._active(code)
            pieces = cut(code, self._meaning, self._macro_text)
        except Unfinished as error:
            token = error.token
            raise self._refuse(f"unterminated {error.what}", token.line, token.column) from None
        except Mismatch as error:
            token = error.token
            raise self._refuse(f"unexpected '{token.text}'", token.line, token.column) from None
        self._check_ends(pieces)
        while True:
            unit = Unit(
                self._known.number, code, pieces, self._notes, self._guesses, self._prototype,
                self._is_defined, self._known.replaces, lambda text: self._length(text, pieces),
            )  # fmt: skip
            try:
                unit.build()
                return self._planned(unit)
            except _Again:  # it knows more now
                continue

    def _compiler(self) -> Clang:
        return replace(
            clang_of(self._known.setting), optimise=self._known.opt_level != 0,
            sanitize=self._known.sanitize,
            timeout=float(self._known.setting("timeout") or 60),
        )  # fmt: skip

    def _check_ends(self, pieces: list[Piece]) -> None:
        for piece in pieces[:-1]:
            if piece.kind is PieceKind.EXPRESSION:
                hint = "only the last expression of a cell, whose value is shown, has none"
                raise self._refuse(
                    "expected ';' behind this expression", piece.last_line, piece.end_column, hint
                )

    # -- what is asked of the session ------------------------------------------------------------

    def _meaning(self, name: str) -> str:
        note = self._notes.identifier(name)
        if note is None:
            return "value" if self._known.cell_of(name) else ""
        return "type" if note.kind == "typedef" else "value"

    def _macro_text(self, name: str) -> str:
        note = self._notes.get(MACRO + name)
        return note.text if note is not None and note.kind == "define" else ""

    def _is_defined(self, name: str) -> bool:
        return self._notes.identifier(name) is not None or self._known.is_defined(name)

    def _prototype(self, name: str) -> str:
        """What declares in C what a cell of another language defines; "" where C cannot say it."""
        if not self._known.cell_of(name):
            return ""
        type = self._known.signature(name)
        if type is not None:
            return function_in_c(name, type)
        variable = self._known.variable(name)
        text = type_in_c(variable[0], name) if variable is not None else ""
        return f"extern {text};" if text else ""

    @staticmethod
    def _beside(code: str, folder: str) -> str:
        """The code of a file: headers in quotation marks are looked for beside it first."""
        parts: list[str] = []
        at = 0
        for token in tokens(code):
            if token.kind == "directive" and (match := _QUOTED.match(token.text)):
                path = os.path.join(folder, match[1])
                if os.path.isfile(path):
                    parts += code[at : token.start + match.start(1)], path
                    at = token.start + match.end(1)
        return "".join((*parts, code[at:]))

    # -- conditions ------------------------------------------------------------------------------

    def _active(self, code: str) -> str:
        """The code with blanks for what its `#if` leaves out, and for those directives."""
        marks = [t for t in tokens(code) if t.kind == "directive" and _CONDITION.match(t.text)]
        parts: list[str] = []
        at = 0
        for number, mark in enumerate(marks):
            parts.append(
                f'{code[at : mark.stop]}\n{_MARK} {number}\n# {mark.line + 1} "{self._file}"'
            )
            at = mark.stop
        parts.append(code[at:])
        macros = "".join(
            f"\n{note.text}\n" for note in sorted(self._notes, key=lambda n: n.place)
            if note.kind in ("define", "undef")
        )  # fmt: skip
        text = f'{macros}\n# 1 "{self._file}"\n{"".join(parts)}'
        output = self._clang.preprocess(text, self._notes.header)
        if any(c.is_error for c in output.complaints):
            raise self._refused(output.complaints, None)
        alive = {int(number) for number in _MARKED.findall(output.text)}
        found = list(code)
        for number, mark in enumerate(marks):
            stop = marks[number + 1].start if number + 1 < len(marks) else len(code)
            end = stop if number not in alive else mark.stop
            found[mark.start : end] = re.sub(r"[^\n]", " ", code[mark.start : end])
        return "".join(found)

    # -- complaints ------------------------------------------------------------------------------

    def _refuse(self, message: str, line: int, column: int, hint: str = "") -> CompileError:
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return CompileError([Diagnostic(message, line, column, text, hint)])

    def _diagnostic(self, complaint: Complaint) -> Diagnostic:
        severity = "error" if complaint.is_error else complaint.severity
        line, column = complaint.line, complaint.column
        if complaint.file == self._file and line > 0:
            if line > len(self._lines):  # behind what stands last
                line = len(self._lines)
                column = len(self._lines[-1].encode("utf-8", "surrogateescape")) + 1
            text = self._lines[line - 1]
            before = text.encode("utf-8", "surrogateescape")[: column - 1]
            column = len(before.decode("utf-8", "replace")) + 1
            fix = complaint.fix.strip()
            hint = f"write `{fix}`" if fix and "did you mean" not in complaint.message else ""
            hint = hint or self._hint_of_words(complaint, text)
            return Diagnostic(_plain(complaint.message), line, column, text, hint, severity)
        own = complaint.file in ("", "session", "-", "<stdin>")
        where = "" if own else f"{_nearer(complaint.file)}, line {line}: "
        return Diagnostic(where + complaint.message, severity=severity)

    def _hint_of_words(self, complaint: Complaint, line: str) -> str:
        """What to do about a word that only a newer C has."""
        named = _UNDECLARED.search(complaint.message)
        if named is None and complaint.message.startswith("expected "):
            named = _FIRST_WORD.match(line)
        header = C23.get(named[1]) if named and complaint.is_error else None
        if header is None or self._is_macro(named[1], ()):  # type: ignore[index]
            return ""
        newer = "C23 has it: Compiler.clang_flags=-std=gnu23"
        return f"write `#include <{header}>`; {newer}" if header else newer

    def _refused(self, complaints: Iterable[Complaint], unit: Unit | None) -> CompileError:
        seen: dict[tuple[str, int, str], Complaint] = {}
        last: Complaint | None = None
        for complaint in complaints:
            if (header := _HEADER_OF.match(complaint.message)) and last is not None:
                key = (last.file, last.line, last.message)
                seen[key] = last._replace(fix=f"#include {header[1]}")
            last = complaint if complaint.is_error else None
            if complaint.is_error and "too many errors" not in complaint.message:
                seen.setdefault((complaint.file, complaint.line, complaint.message), complaint)
        found = list(seen.values())
        diagnostics = [self._diagnostic(c) for c in found[:_ERRORS]]
        error = CompileError(diagnostics)
        if len(found) > _ERRORS:
            error.args = (f"{error}\nand {len(found) - _ERRORS} more",)
        files = {file_name(cell) for cell in unit.remade} if unit is not None else set()
        if unit is not None and any(c.file in files for c in found):
            names = ", ".join(sorted({name for why in unit.stale.values() for name in why}))
            error.args = (
                f"{error}\nThe change of {names} reaches code that does not fit it "
                "any more. Nothing was changed: define both in one cell.",
            )
        return error

    def _mend(self, complaints: list[Complaint], pieces: list[Piece]) -> None:
        """Another attempt where the text was a guess that clang does not follow."""
        guesses = self._guesses
        computed: set[int] = set()
        for complaint in complaints:
            if not complaint.is_error:
                continue
            if (name := _UNDECLARED.search(complaint.message)) and name[1] not in guesses.names:
                if self._notes.knows(name[1]) or self._known.cell_of(name[1]):
                    guesses.names.add(name[1])
                    raise _Again
            if "bit-field" in complaint.message and "typeof" in complaint.message:
                if not guesses.bit_field:
                    guesses.bit_field = True
                    raise _Again
            if _COMPUTED.search(complaint.message) and complaint.file == self._file:
                computed |= _at(complaint, pieces)
        if not computed <= guesses.computed:
            guesses.computed |= computed
            raise _Again

    def _length(self, text: str, pieces: list[Piece]) -> int:
        """What a function gives that has a constant for clang."""
        output = self._clang.compile(text, self._notes.header)
        found = _LENGTH.search(output.text)
        if found is None:
            self._mend(output.complaints, pieces)
            own = [c for c in output.complaints if c.file == self._file]
            raise self._refused(own or output.complaints, None)
        return int(found[1])

    # -- the plan --------------------------------------------------------------------------------

    def _planned(self, unit: Unit) -> Plan:
        output = self._clang.compile(unit.text, self._notes.header)
        if not output.text:
            self._mend(output.complaints, unit.pieces)
            raise self._refused(output.complaints, unit)
        module = parse(output.text)
        types = Types(module.metadata)
        value = self._value_type(unit, module, types)
        module.keep_lines(OWN, self._file)
        module.name_anonymous(self._known.number)
        self._agree(module)
        for note in (*unit.own, *(n for notes in unit.remade.values() for n in notes)):
            if note.kind == "variable" and note.definition and "=" not in note.definition:
                module.make_writable(quote_name(note.symbol))
        owners = self._owners(unit, module)
        own = [name for name, cell in owners.items() if not cell]
        entries = [n for n in module.entities if n.startswith(OWN)]
        for functions, notes in (
            (own + entries, unit.own),
            *(
                ([n for n, owner in owners.items() if owner == cell], each)
                for cell, each in unit.remade.items()
            ),
        ):
            module.inline(functions, [note.symbol for note in notes if note.inline])
        learned = self._learned(unit, types, own)
        made = plan(
            self._source, self._text(module, own), self._once(unit, module, value), self._commands
        )
        remakes = [
            Remake(
                cell, self._text(module, [n for n, owner in owners.items() if owner == cell]),
                _reasons(unit, cell),
            )
            for cell in sorted(unit.remade)
        ]  # fmt: skip
        return replace(
            made,
            warnings=(*made.warnings, *self._warnings(output.complaints)),
            notes=learned,
            keep=self._symbols(unit, unit.kept),
            unchanged=self._symbols(unit, unit.unchanged),
            spelled=_spelled(unit, own, learned),
            remakes=tuple(remakes),
        )

    @staticmethod
    def _symbols(unit: Unit, names: Collection[str]) -> frozenset[str]:
        """The symbols of names that the cell declares."""
        return frozenset(note.symbol for note in unit.own if note.name in names)

    def _value_type(self, unit: Unit, module: Module, types: Types) -> CType | None:
        if unit.value is None or VALUE not in module.entities:
            return None
        found = types.local(TYPE)
        found = found.of if found is not None else None
        while found is not None and found.kind == "typedef" and found.name == f"{OWN}T":
            found = found.of
        if found is not None and not self._guesses.temporary:
            array = found.bare.kind == "array" and -1 not in found.bare.counts
            if array and any(t.text == "(" for t in unit.value.tokens):
                self._guesses.temporary = True  # copied before it is gone
                raise _Again
        return found

    def _owners(self, unit: Unit, module: Module) -> dict[str, int]:
        """Which cell each definition of the module belongs to; 0: this one."""
        remade = {note.symbol: cell for cell, notes in unit.remade.items() for note in notes}
        return {
            name: remade.get(decode_name(name), 0)
            for name, entity in module.entities.items()
            if not (entity.local or entity.is_declaration or name.startswith((OWN, "llvm.")))
        }

    @staticmethod
    def _text(module: Module, own: list[str]) -> str:
        """The text of a cell's module, "" where it has none."""
        roots = [*own]
        for name in ("llvm.global_ctors", "llvm.global_dtors", "llvm.used"):
            entity = module.entities.get(name)
            if entity is not None and not entity.symbols.isdisjoint(own):
                roots.append(name)
        assembly = "\n".join(module.assembly)
        if not roots and not assembly:
            return ""
        names = module.reach(roots)
        text = module.write(names, module.borrowed(names))
        return f"{assembly}\n{text}" if assembly else text

    def _once(self, unit: Unit, module: Module, value: CType | None) -> list[Once]:
        """What is run once: its statements, and the last expression."""
        found = []
        for run in unit.runs:
            if run.entry in module.entities:
                names = module.reach([run.entry])
                text = module.write(names, module.borrowed(names))
                found.append(Once(text, run.entry, run.text, run.line, run.last_line))
        piece = unit.value
        if piece is not None and VALUE in module.entities:
            names = module.reach([VALUE])
            text = module.write(names, module.borrowed(names))
            found.append(
                Once(
                    text, VALUE, piece.text, piece.line, piece.last_line,
                    lambda found: self._present(found, value),
                )
            )  # fmt: skip
        return found

    def _agree(self, module: Module) -> None:
        """Where the session knows a name better than a C declaration says, its words stand."""
        for name, entity in list(module.entities.items()):
            plain = decode_name(name)
            if entity.kind == "declaration" and "(...)" in entity.text:
                type = self._known.signature(plain)
                if type is not None and self._known.cell_of(plain) and not type.variadic:
                    arguments = ", ".join(map(str, type.parameters))
                    entity.text = f"declare {type.result} @{name}({arguments})"
            elif entity.external:
                variable = self._known.variable(plain)
                match = _EXTERNAL.match(entity.text)
                if variable is not None and match and self._known.cell_of(plain):
                    entity.text = match[1] + str(variable[0]) + match[3]

    def _present(self, value: TypedValue, type: CType | None) -> TypedValue | None:
        """The value that a run has left at an address."""
        if type is None or type.bare.kind == "void":
            return None
        address = int.from_bytes(value.data, "little")
        memory = Memory(self._known.read_memory, self._name_in_c)
        bare = type.bare
        if bare.kind == "function":
            name = self._name_in_c(address).removeprefix("&")
            return CValue(value, PointerType(), value.data, type.declare(name or "(*)"))
        data = self._known.read_memory(address, bare.size).ljust(bare.size, b"\0")
        return CValue(value, type_in_ir(bare), data, show(type, data, memory), shape_of(bare))

    def _name_in_c(self, address: int) -> str:
        """An expression for an address; "" where it has no name."""
        found = self._known.describe(address)
        if not found.startswith("@"):
            return ""
        name, plus, offset = found[1:].partition("+")
        name = decode_name(name)
        if not name.isidentifier():
            return ""
        if plus:
            return f"(void *)((char *)&{name} + {offset})"
        note = self._notes.identifier(name)
        function = (
            note.kind == "function" if note is not None else bool(self._known.signature(name))
        )
        return name if function else f"&{name}"

    def _warnings(self, complaints: Iterable[Complaint]) -> list[Diagnostic]:
        found = dict.fromkeys(
            c for c in complaints
            if c.severity == "warning" and c.file == self._file and OWN not in c.message
        )  # fmt: skip
        return [self._diagnostic(c) for c in found]

    # -- what is remembered ----------------------------------------------------------------------

    def _learned(self, unit: Unit, types: Types, own: list[str]) -> dict[str, PlanNote]:
        """The notes that the cell leaves."""
        notes: dict[str, Note] = {}
        for note in unit.own:
            notes[note.key] = self._completed(note, types, unit.owned)
        others = {decode_name(name) for name in own}
        others -= {note.symbol for note in unit.own}
        others = {n for n in others if IDENTIFIER + n not in unit.owned}
        for order, name in enumerate(sorted(others), 1000):
            type, kind, before = types.function(name), "function", ""
            if type is None:
                type, kind, before = types.variable(name), "variable", "extern "
            if type is not None:
                notes[IDENTIFIER + name] = Note(
                    IDENTIFIER + name, kind, f"{before}{type.declare(name)};",  # type: ignore[arg-type]
                    self._known.number, order, definition_line=0,
                )  # fmt: skip
        if any(types.file(name) not in ("", self._file) for name in others):
            # A file of definitions: once is enough.
            notes = {key: note for key, note in notes.items() if note.kind != "include"}
        every = _Keys(unit.owned | notes.keys(), self._notes)
        return encoded(note.known_with(every) for note in notes.values() if note.text)

    def _is_macro(self, word: str, owned: Collection[str]) -> bool:
        return MACRO + word in self._notes or MACRO + word in owned

    def _completed(self, note: Note, types: Types, owned: Collection[str]) -> Note:
        """A note with what clang has found out."""
        name = key_name(note.key)
        if note.kind == "function" and not note.text:
            type = types.function(name)
            return replace(note, text=f"{type.promoted.declare(name)};" if type else "")
        if note.kind != "variable":
            return note
        sized = re.search(r"\[\s*\]", note.text)
        macros = any(self._is_macro(word, owned) for word in words(note.text))
        deduced = not words(note.text).isdisjoint(("auto", "__auto_type"))
        type = types.variable(name)
        if type is None:
            return note
        named = "[" not in note.text and type.kind == "array"  # its type's name says no length
        if not (sized or macros or deduced or named):
            return note
        if sized and "{" in note.text:  # of a type without a name
            count = type.bare.counts[0] if type.bare.counts else 0
            return replace(note, text=re.sub(r"\[\s*\]", f"[{count}]", note.text, count=1))
        _, equals, value = note.definition.partition("=")
        return replace(
            note, text=f"extern {type.declare(name)};",
            definition=note.definition and f"{type.declare(name)}{f' ={value}' if equals else ';'}",
        )  # fmt: skip


def _at(complaint: Complaint, pieces: list[Piece]) -> set[int]:
    """The declarations that a complaint is about; all of its line where no column tells."""
    line = {
        index: piece for index, piece in enumerate(pieces)
        if piece.kind is PieceKind.DECLARATION and piece.line <= complaint.line <= piece.last_line
    }  # fmt: skip
    there = complaint.line, complaint.column
    exact = {
        index for index, piece in line.items()
        if (piece.line, piece.column) <= there <= (piece.last_line, piece.end_column)
    }  # fmt: skip
    return exact or set(line)


def _nearer(path: str) -> str:
    """A path from here, where the file is below."""
    found = os.path.relpath(path) if os.path.isabs(path) else path
    return path if found.startswith("..") else found


def _plain(message: str) -> str:
    """clang's words without what the cell's text was put into."""
    if _RETURNS.match(message):
        return "no function stands around this `return`: a cell's last expression is its value"
    return _TYPE_OF.sub(r"\1", message)


class _Keys(Collection[str]):
    """The keys of a cell and of all earlier ones."""

    def __init__(self, own: Collection[str], notes: Notes):
        self._own, self._notes = own, notes

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (key in self._own or key in self._notes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def _spelled(unit: Unit, own: Iterable[str], notes: Mapping[str, PlanNote]) -> dict[str, str]:
    """Symbols as C declares them: `int sq(int x)`."""
    found = {}
    names = {note.symbol: note.name for note in unit.own}
    for name in own:
        plain = decode_name(name)
        bare = names.get(plain, plain)
        note = notes.get(IDENTIFIER + bare)
        text = decode(note.text).text if note is not None else bare
        text = " ".join(text.removeprefix("extern ").rstrip(";").split())
        found[plain] = found[CONTROL + plain] = text if len(text) <= _SPELLED else bare
    return found


def _reasons(unit: Unit, cell: int) -> str:
    """What the user is told of a cell that is compiled again."""
    stale = [note for note in unit.remade[cell] if note.key in unit.stale]
    news = ", ".join(dict.fromkeys(name for n in stale for name in unit.stale[n.key]))
    names = ", ".join(note.name for note in stale if note.kind == "function")
    return f"{names} (cell {cell}) was compiled again for the new {news}" if names else ""
