"""From a cell of C to its plan: a text for clang, and clang's module taken apart.

Start from `read`.  What later cells have to know is left in the session's notes (`notes.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.names import decode_name, quote_name
from jitkernel.languages.c.clang import Clang, Complaint, clang_of
from jitkernel.languages.c.complaints import Complaints, missed
from jitkernel.languages.c.conditions import active, preprocessed
from jitkernel.languages.c.expansion import Expansion
from jitkernel.languages.c.foreign import function_in_c, type_in_c
from jitkernel.languages.c.generated import LENGTH, OWN, VALUE, file_name, value_type
from jitkernel.languages.c.headers import folders_of, read_header
from jitkernel.languages.c.learned import included, learned, outdated, reasons, spelled
from jitkernel.languages.c.module import Module, parse
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, TAG, Notes
from jitkernel.languages.c.pieces import Mismatch, Piece, PieceKind, cut
from jitkernel.languages.c.presented import present
from jitkernel.languages.c.tokens import Unfinished, tokens, without_digraphs
from jitkernel.languages.c.types import CType, Types
from jitkernel.languages.c.unit import Guesses, Unit
from jitkernel.languages.language import Known, Once, Remake, plan, split_commands
from jitkernel.languages.llvm.plan import Plan, PlanNote

__all__ = ["read"]

_QUOTED = re.compile(r'#\s*(?:include|embed)\s*"([^"\n]+)"')
_COMPUTED = re.compile("not a compile-time constant|statement expression not allowed at file scope")
_LENGTH = re.compile(rf"@{LENGTH}\(.*?\bret i64 (\d+)", re.DOTALL)
_EXTERNAL = re.compile(
    r"(@\S+ = .*?\bexternal\b.*?\b(?:global|constant) )(.*?)"
    r"((?:, (?:align|section) [^!]*)?(?:, !.*)?)$"
)


def read(source: str, known: Known) -> Plan:
    """The plan of a cell.  Raises CompileError with clang's words."""
    return _Reader(source.replace("\r\n", "\n"), known).read()


class _Again(Exception):
    """The text is to be made another time, with what clang has told."""


class _Reader:
    def __init__(self, source: str, known: Known):
        self._source, self._known = source, known
        self._commands = split_commands(source)
        self._notes = Notes(known.notes)
        self._guesses = Guesses()
        self._file = file_name(known.number)
        self._complaints = Complaints(source, self._file, lambda w: MACRO + w in self._notes)

    def read(self) -> Plan:
        if "\0" in self._source:
            line = self._source[: self._source.index("\0")].count("\n") + 1
            raise CompileError([Diagnostic("the cell has a NUL character", line)])
        code = without_digraphs(self._commands.code)
        if not code.strip():
            return plan(self._source, "", [], self._commands)
        self._clang = self._compiler()
        try:
            if self._known.file:
                code = self._beside(code, os.path.dirname(os.path.abspath(self._known.file)))
            asked = self._file, self._notes, self._clang, self._complaints
            code = active(code, *asked)
            self._expansion = expansion = Expansion(
                code, self._file, self._notes.macro,
                lambda name: bool(self._meaning(name)), lambda text: preprocessed(text, *asked),
                any(self._notes.directives()),
            )  # fmt: skip
            expansion.run()
            self._complaints.expansion = expansion
            code = expansion.code
            pieces = cut(code, self._meaning, self._notes.macro, expansion.tokens)
        except Unfinished as error:
            raise self._complaints.open(f"unterminated {error.what}", error.token, code) from None
        except Mismatch as error:
            wrong = f"unexpected '{error.token.text}'"
            raise self._complaints.open(wrong, error.token, code) from None
        self._check_ends(pieces)
        folders = folders_of(self._clang.more)
        headers = {
            piece.text: header for piece in pieces
            if piece.kind is PieceKind.DIRECTIVE and (header := read_header(piece.text, folders))
        }  # fmt: skip
        while True:
            unit = Unit(
                self._known.number, code, pieces, self._notes, self._guesses, self._prototype,
                self._is_defined, self._known.replaces, lambda text: self._length(text, pieces),
                self._known.cell_of, headers,
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
            waiting=lambda: self._known.waiting("clang"),
        )  # fmt: skip

    def _check_ends(self, pieces: list[Piece]) -> None:
        for piece in pieces[:-1]:
            if piece.kind is PieceKind.EXPRESSION:
                hint = "only the last expression of a cell, whose value is shown, has none"
                raise self._complaints.at(
                    "expected ';' behind this expression", piece.last_line, piece.end_column, hint
                )

    # -- what is asked of the session ------------------------------------------------------------

    def _meaning(self, name: str) -> str:
        return self._notes.meaning(name) or ("value" if self._known.cell_of(name) else "")

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

    def _mend(self, complaints: list[Complaint], pieces: list[Piece]) -> None:
        """Another attempt where the text was a guess that clang does not follow."""
        guesses = self._guesses
        computed: set[int] = set()
        for complaint in complaints:
            if not complaint.is_error:
                continue
            if (name := missed(complaint.message)) and name not in guesses.names:
                if self._notes.knows(name) or self._known.cell_of(name):
                    guesses.names.add(name)
                    if _is_header(complaint.file):
                        guesses.needed.add(name)
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
            raise self._complaints.refused(own or output.complaints)
        return int(found[1])

    # -- the plan --------------------------------------------------------------------------------

    def _planned(self, unit: Unit) -> Plan:
        output = self._clang.compile(unit.text, self._notes.header)
        if not output.text:
            self._mend(output.complaints, unit.pieces)
            raise self._complaints.refused(output.complaints, unit)
        module = parse(output.text)
        types = Types(module.metadata)
        value = self._value_type(unit, module, types)
        module.keep_lines(OWN, self._file)
        module.keep_literals(OWN)
        module.name_anonymous(self._known.number)
        self._agree(module)
        for note in (*unit.own, *(n for notes in unit.remade.values() for n in notes)):
            if note.computed:
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
        found = self._learned(unit, types, own)
        told = included(unit, self._known.number, types, own) + outdated(unit, self._notes)
        made = plan(
            self._source, self._text(module, own), self._once(unit, module, value), self._commands
        )
        remakes = [
            Remake(
                cell, self._text(module, [n for n, owner in owners.items() if owner == cell]),
                reasons(unit, cell),
            )
            for cell in sorted(unit.remade)
        ]  # fmt: skip
        return replace(
            made,
            warnings=(
                *made.warnings,
                *self._complaints.warnings(output.complaints),
                *(Diagnostic(text, severity="note") for text in told),
            ),
            notes=found,
            keep=self._symbols(unit, unit.kept),
            unchanged=self._symbols(unit, unit.unchanged),
            spelled=spelled(unit, own, found),
            remakes=tuple(remakes),
            translated=made.translated or bool(unit.owned),
        )

    def _learned(self, unit: Unit, types: Types, own: list[str]) -> dict[str, PlanNote]:
        """The cell's notes.  A header that it includes may need what stands before it; what that
        is, clang tells when it compiles what later cells are given."""
        number, needed = self._known.number, set(self._guesses.needed)
        last = max((n.order for n in unit.own if n.kind in ("include", "header")), default=-1)
        before = [n for n in unit.own if n.order < last] + list(unit.wanted.values())
        others = any(n.key.startswith((IDENTIFIER, TAG)) for n in before)
        while True:
            macros = self._expansion.macros_of
            found = learned(unit, number, self._notes, types, own, macros, needed)
            if last < 0 or not others:
                return found
            texts = self._notes.without(self._known.replaces)
            notes = Notes(texts | {key: note.text for key, note in found.items()})
            later = Unit(number + 1, ";", cut(";"), notes, Guesses(), lambda name: "", notes.knows)
            later.build()
            names = {
                missed(complaint.message)
                for complaint in self._clang.compile(later.text, notes.header).complaints
                if complaint.is_error and _is_header(complaint.file)
            }  # fmt: skip
            names = {n for n in names if n and n not in needed and notes.knows(n)}
            if not names:
                return found
            needed |= names

    @staticmethod
    def _symbols(unit: Unit, names: Collection[str]) -> frozenset[str]:
        """The symbols of names that the cell declares."""
        return frozenset(note.symbol for note in unit.own if note.name in names)

    def _value_type(self, unit: Unit, module: Module, types: Types) -> CType | None:
        if unit.value is None or VALUE not in module.entities:
            return None
        found = value_type(types)
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
                    lambda found: present(found, value, self._known, self._notes),
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


def _is_header(file: str) -> bool:
    """Whether clang calls a file so that is neither a cell nor our own text."""
    return file not in ("", "session", "-", "<stdin>") and not file.startswith("cell ")


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
