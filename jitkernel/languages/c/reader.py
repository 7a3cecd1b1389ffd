"""From a cell of C to its plan: a text for clang, and clang's module taken apart.

Start from `read`.  What later cells have to know is left in the session's notes (`notes.py`).
"""

from __future__ import annotations

import itertools
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import cache, partial

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.files import working_folder
from jitkernel.ir.names import decode_name, quote_name
from jitkernel.ir.text import replaced
from jitkernel.languages.c.changes import old_objects
from jitkernel.languages.c.clang import Clang, Complaint, clang_for
from jitkernel.languages.c.complaints import Complaints, missed
from jitkernel.languages.c.expansion import Expansion, written
from jitkernel.languages.c.generated import LENGTH, OWN, VALUE, file_name, value_type
from jitkernel.languages.c.headers import Header, macros_included, macros_of_headers, read_header
from jitkernel.languages.c.included import brings, is_of, refuse_others
from jitkernel.languages.c.learned import included, learned, outdated, reasons, spelled
from jitkernel.languages.c.module import Module, parse
from jitkernel.languages.c.notes import IDENTIFIER, MACRO, Notes, plan_notes
from jitkernel.languages.c.pieces import Mismatch, Piece, PieceKind, cut
from jitkernel.languages.c.reading import Guesses, Reading, Written
from jitkernel.languages.c.tokens import Unfinished, tokens, without_digraphs, words
from jitkernel.languages.c.unit import Unit, unit_of
from jitkernel.languages.c.values import present
from jitkernel.languages.c.words import TAGS
from jitkernel.languages.language import NOTHING, Known, LazyMapping, Once, plan, split_commands
from jitkernel.languages.llvm.plan import Plan, Remake
from jitkernel.record import replace
from jitkernel.regex import regex
from jitkernel.values.c import function_in_c, type_in_c
from jitkernel.values.datatype import DataType
from jitkernel.values.debug_info import Types
from jitkernel.values.value import TypedValue

_QUOTED = regex(r'#\s*(?:include|embed)\s*"([^"\n]+)"')
_READ_AS_TYPE = regex("expected ';' after top level declarator|unexpected type name")
_MARK = regex("^\ufeff", re.MULTILINE)  # also behind lines of magics
_NO_TEXT = regex("[\0\ud800-\udc7f\udd00-\udfff]")  # the others stand for bytes
_INCOMPLETE = regex("^tentative definition has type .* that is never completed")
_COMPUTED = regex("not a compile-time constant|statement expression not allowed at file scope")
_LENGTH = regex(rf"@{LENGTH}\(.*?\bret i64 (\d+)", re.DOTALL)
_EXPANDED = regex(r"expanded from macro '(\w+)'")
_MANGLED = regex(r"_Z(\d+)(?=[A-Za-z_])")
_MARKS = frozenset(("setjmp", "_setjmp", "sigsetjmp"))
_JUMPS = frozenset(("longjmp", "_longjmp", "siglongjmp"))
_SELECT = "give each a name of its own; `_Generic` selects one by a type (C11 6.5.1.1)"


def read(source: str, known: Known) -> Plan:
    """The plan of a cell.  Raises CompileError with clang's words."""
    return _Reader(_plain(source), known).read()


def superseded(names: Collection[str], known: Known) -> Plan:
    """The plan for cells of C when a cell of another language defines these names of theirs:
    modules of those in which clang has put values of them, and notes that only declare them."""
    notes = Notes(known.notes)
    keys = {
        note.key for name in names
        if (note := notes.identifier(name)) is not None and note.is_defined
    }  # fmt: skip
    return _Reader("", known).without(keys) if keys else Plan("")


def with_debug(cell: int, known: Known) -> str:
    """The module of what an earlier cell defines with its debug information, "" where it defines
    nothing in C.  Raises CompileError."""
    return _Reader("", known).debugged(cell)


def _plain(source: str) -> str:
    """A text as clang reads it from a file: any end of line is one, and a mark of the order of
    bytes is none of its text."""
    return _MARK.sub("", source.replace("\r\n", "\n").replace("\r", "\n"))


class _Again(Exception):
    """The text is to be made another time, with what clang has told."""


class _Reader:
    def __init__(self, source: str, known: Known):
        self._source, self._known = source, known
        self._commands = split_commands(source)
        self._notes = Notes(known.notes)
        self._notes.hide(known.replaces, self._commands.code)
        self._guesses = Guesses()
        self._file = file_name(known.number)
        self._complaints = Complaints(source, self._file, self._notes)
        self._macros_of: Callable[[int], Iterable[str]] = lambda line: ()
        self._written: list[Written] = []

    def read(self) -> Plan:
        if bad := _NO_TEXT.search(self._source):
            before = self._source[: bad.start()]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            what = "a NUL character" if bad[0] == "\0" else f"character U+{ord(bad[0]):04X}"
            message = f"{what}, which no text of C has: remove it; nothing was read"
            raise CompileError([Diagnostic(message, line, column)])
        code = without_digraphs(self._commands.code)
        if code.endswith("\\"):
            code += "\n"  # what follows is no part of its last line
        if not code.strip():
            if not self._notes.takes_place:
                return plan(self._source, "", [], self._commands)
            code = ";"  # what the cell had is none any more
        self._clang = self._compiler()
        try:
            if self._known.file:
                path = os.path.join(working_folder(), self._known.file)
                code = self._beside(code, os.path.dirname(os.path.normpath(path)))
            self._expansion = expansion = Expansion(code, self._file, self._preprocessed)
            code = expansion.code.text
            self._of_headers = cache(partial(macros_included, code, self._notes, self._clang))
            expansion.expand(self._macro, lambda name: bool(self._meaning(name)))
            self._complaints.code, self._complaints.tokens = expansion.code, expansion.tokens
            self._code = code = expansion.code.text
            self._pieces = self._cut(code)
        except Unfinished as error:
            raise self._complaints.open(f"unterminated {error.what}", error.token, code) from None
        except Mismatch as error:
            wrong = error.wanted or f"unexpected '{error.token.text}'"
            raise self._complaints.open(wrong, error.token, code) from None
        self._written, conditions = written(expansion.code, self._pieces)
        starts = expansion.code.starts
        lines = {
            line for start, stop, _ in self._written
            for line in range(bisect_right(starts, start), bisect_right(starts, stop - 1) + 1)
        }  # fmt: skip
        self._macros_of = lambda line: (
            conditions if line in lines else expansion.macros_of(line) | conditions
        )
        self._complaints.check(self._pieces)
        folders = self._clang.asked.folders
        directives = [p.text for p in self._pieces if p.kind is PieceKind.DIRECTIVE]
        for text in directives:
            refuse_others(text, folders)
        for note in self._notes.directives():
            if note.kind in ("include", "header"):
                hint = f"\nhint: put the file there again, or %evict {note.owner}"
                refuse_others(note.text, folders, hint)
        headers = {text: read_header(text, folders) for text in directives}
        return self._understood({text: header for text, header in headers.items() if header})

    def _cut(self, code: str) -> list[Piece]:
        found = self._expansion.tokens
        return cut(code, self._meaning, self._macro, found, self._guesses.declarations)

    def without(self, leaving: Set[str]) -> Plan:
        """The plan for other cells when the definitions with these keys are no more C's."""
        self._clang = self._compiler()
        self._code, self._pieces = ";", cut(";")
        made = self._understood({}, leaving)
        gone = [note for key in leaving if (note := self._notes.get(key)) is not None]
        plain = plan_notes(
            self._notes.__contains__,
            (),
            [replace(n, definition="", folded=False, deduced=False) for n in gone],
        )
        return replace(made, notes={**made.notes, **plain}, warnings=())

    def debugged(self, cell: int) -> str:
        """The module of a cell's definitions with its debug information."""
        self._clang = self._compiler()
        self._code, self._pieces = ";", cut(";")
        while True:
            known, notes = self._known, self._notes
            unit = unit_of(
                Reading(
                    known.number, ";", self._pieces, notes, self._guesses, known.replaces,
                    foreign=self._prototype, defines=self._is_defined, cell_of=known.cell_of,
                    users=known.users_of, length=self._length, again=frozenset((cell,)),
                    macros_of=partial(macros_of_headers, self._clang),
                )
            )  # fmt: skip
            output = self._clang.compile(unit.text, notes.header, unit.has_state)
            if output.text:
                module = self._with_debug(output.text, unit)
                return self._module(module, self._owned(unit, module).get(cell, [])).source
            try:
                self._find_hidden(unit, output.complaints)
                self._mend(output.complaints, unit.reading.pieces)
            except _Again:
                continue
            raise self._complaints.refused(output.complaints, unit)

    def _with_debug(self, text: str, unit: Unit) -> Module:
        """The module that clang has printed as a debugger wants it."""
        module = parse(text, self._clang.asked.processor)
        module.share(lambda name: self._is_elsewhere(name, unit))
        module.keep_debug({run.entry: range(run.line, run.last_line + 1) for run in unit.runs})
        self._finish(module, unit)
        return module

    def _finish(self, module: Module, unit: Unit) -> None:
        """Make a module the session's."""
        module.keep_literals(OWN)
        module.name_anonymous(self._known.number)
        self._agree(module)
        for note in (*unit.own, *unit.changes.every):
            if note.computed:
                module.make_writable(quote_name(note.symbol))

    def _understood(self, headers: Mapping[str, Header], leaving: Set[str] = frozenset()) -> Plan:
        while True:
            known = self._known
            reading = Reading(
                known.number, self._code, self._pieces, self._notes, self._guesses,
                known.replaces, known.position, headers, leaving, self._written, self._prototype,
                self._is_defined, known.cell_of, known.users_of, self._length,
                header_of=partial(read_header, folders=self._clang.asked.folders),
                macros_of=partial(macros_of_headers, self._clang),
            )  # fmt: skip
            try:
                return self._planned(unit_of(reading))
            except _Again:  # it knows more now
                continue

    def _compiler(self) -> Clang:
        known = self._known
        waiting = partial(known.waiting, "clang")
        return clang_for(known.setting, known.opt_level, known.sanitize, waiting)

    # -- what is asked of the session ------------------------------------------------------------

    def _meaning(self, name: str) -> str:
        return self._notes.meaning(name) or ("value" if self._known.cell_of(name) else "")

    def _macro(self, name: str) -> str:
        """The directive that defines a macro of an earlier cell or of a header, "" for none."""
        if MACRO + name in self._notes or self._notes.identifier(name) is not None:
            return self._notes.macro(name)
        return self._of_headers().get(name, "")

    def _preprocessed(self, text: str) -> str:
        """A text of the cell with its conditions and macros resolved.  Raises CompileError."""
        header, notes = self._notes.preprocessed()
        macros = "".join(f"\n{note.text}\n" for note in notes)
        output = self._clang.preprocess(f'{macros}\n# 1 "{self._file}"\n{text}', header)
        if any(c.is_error for c in output.complaints):
            raise self._complaints.refused(output.complaints)
        return output.text

    def _is_defined(self, name: str) -> bool:
        return self._notes.identifier(name) is not None or self._known.is_defined(name)

    def _prototype(self, name: str) -> str:
        """The C declaration of what another language's cell defines; "" where C cannot say it."""
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
        found = [(t.start, m) for t in tokens(code) if (m := _QUOTED.match(t.text))]
        paths = [(at + m.start(1), at + m.end(1), os.path.join(folder, m[1])) for at, m in found]
        return replaced(code, [place for place in paths if os.path.isfile(place[2])])

    def _mend(self, complaints: list[Complaint], pieces: list[Piece]) -> None:
        """Another attempt where the text was a guess that clang does not follow."""
        learn = self._guesses.learn
        own = [c for c in complaints if c.is_error and c.file == self._file]
        new_types = False
        for at, complaint in enumerate(complaints):
            if not complaint.is_error:
                continue
            message, header = complaint.message, _is_header(complaint.file)
            name = missed(message)
            if name and (self._notes.knows(name) or self._known.cell_of(name)):
                if learn(names={name}):
                    learn(needed={name} if header else set())
                    if "incomplete" not in message:
                        raise _Again
                    new_types = True  # all at once
            other = self._expanded_by_another_header(complaints[at:])
            if (
                (header and "redefinition" in message
                 and learn(again=self._included_twice(complaint.file, pieces)))
                or (other and learn(taken_back={other: self._of_headers().get(other)}))
                or ("bit-field" in message and "typeof" in message and learn(bit_field=True))
            ):  # fmt: skip
                raise _Again
        computed = {i for c in own if _COMPUTED.search(c.message) for i in _at(c, pieces)}
        incomplete = {i for c in own if _INCOMPLETE.search(c.message) for i in _at(c, pieces)}
        if (
            learn(first=any(c.is_error and _is_header(c.file) for c in complaints))
            or learn(declares=any(_declares_type(c, p) for c in complaints for p in pieces[-1:]))
            or new_types
            or learn(elsewhere={pieces[i].start for i in incomplete if pieces[i].head.extern})
            or learn(computed=computed)
        ):
            raise _Again

    def _included_twice(self, file: str, pieces: list[Piece]) -> set[str]:
        """The directives of the cell that include a file which an earlier cell includes, too,
        however they name it; all that earlier cells have where it is none of these."""
        folders = self._clang.asked.folders
        known = {n.text for n in self._notes.directives() if n.kind in ("include", "header")}
        own = {piece.text for piece in pieces if piece.kind is PieceKind.DIRECTIVE}
        found = {text for text in own & known if brings(text, file, folders)}
        if any(brings(text, file, folders) for text in known):
            found |= {text for text in own if is_of(text, file, folders)}
        return found or own & known

    def _expanded_by_another_header(self, complaints: list[Complaint]) -> str:
        """The macro of a header of earlier cells that the header which clang complains of first
        does not mean, "" where it is nothing of the kind."""
        notes = itertools.takewhile(lambda c: not c.is_error, complaints[1:])
        for note in notes if _is_header(complaints[0].file) else ():
            match = _EXPANDED.fullmatch(note.message)
            if match is not None and _is_header(note.file) and note.file != complaints[0].file:
                name = match[1]
                if name not in self._guesses.taken_back and self._of_headers().get(name):
                    return name
        return ""

    def _find_hidden(self, unit: Unit, complaints: list[Complaint]) -> None:
        """Another attempt where clang may have read the names of an old-style function's parameters
        as types: it takes `f(a)` for a declaration then, which wants a `;`."""
        wrong = {(c.file, c.line) for c in complaints if _READ_AS_TYPE.search(c.message)}
        found: set[str] = set()
        for note in (*unit.own, *unit.changes.every):
            head = note.definition.partition("{")[0] if note.kind == "function" else ""
            lines = range(note.definition_line, note.definition_line + head.count("\n") + 1)
            if ";" in head and any((file_name(note.cell), line) in wrong for line in lines):
                found |= words(head)
        if self._guesses.learn(hidden=found):
            raise _Again

    def _find_declarations(self, unit: Unit, types: Types) -> None:
        """Another attempt where clang has read statements as declarations: `thing (*p)[3];` is one
        if `thing` is a type, which is a header's."""
        statements = [
            piece for piece in unit.reading.pieces
            if piece.kind is PieceKind.STATEMENT and piece.tokens[0].kind == "name"
        ]  # fmt: skip
        if not statements or not types.has_locals:
            return
        found = {
            piece.start for run in unit.runs for name, line in types.locals_of(run.entry)
            for piece in statements
            if piece.line <= line <= piece.last_line and any(t.text == name for t in piece.tokens)
        }  # fmt: skip
        if self._guesses.learn(declarations=found):
            self._pieces = self._cut(self._code)
            raise _Again

    def _find_labels(self, unit: Unit, module: Module) -> None:
        """Another attempt where `extern` has made a variable of what assembly of the text has."""
        if not (labels := module.labels):
            return
        found = {
            piece.start for piece in unit.reading.pieces
            if piece.kind is PieceKind.DECLARATION and piece.head.extern
            and any(declared.name in labels for declared in piece.declared)
        }  # fmt: skip
        if self._guesses.learn(elsewhere=found):
            raise _Again

    def _length(self, text: str) -> int:
        """The constant that a function returns, as clang compiles it."""
        output = self._clang.compile(text, self._notes.header)
        found = _LENGTH.search(output.text)
        if found is None:
            self._mend(output.complaints, self._pieces)
            own = [c for c in output.complaints if c.file == self._file]
            raise self._complaints.refused(own or output.complaints)
        return int(found[1])

    # -- the plan --------------------------------------------------------------------------------

    def _planned(self, unit: Unit) -> Plan:
        output = self._clang.compile(unit.text, self._notes.header, unit.has_state)
        if not output.text:
            self._find_hidden(unit, output.complaints)
            self._mend(output.complaints, unit.reading.pieces)
            raise self._complaints.refused(output.complaints, unit)
        module = parse(output.text, self._clang.asked.processor)
        types = Types(module.metadata)
        self._find_declarations(unit, types)
        self._find_labels(unit, module)
        zeros = module.share(lambda name: self._is_elsewhere(name, unit))
        value = self._value_type(unit, module, types)
        changes = unit.changes
        module.keep_lines(OWN, self._file)
        self._finish(module, unit)
        names = self._owned(unit, module)
        self._refuse_overloads(unit, names[0])
        for name in itertools.chain(*names.values()):
            type = types.variable(decode_name(name))
            if type is not None and type.bare.kind == "array":
                module.say_array(name, type.bare.sides)
        own = names[0]
        said = [name for name in own if name not in module.tentative]
        folders = self._clang.asked.folders
        found = LazyMapping(
            partial(learned, unit, self._notes, types, said, self._macros_of, folders)
        )
        told = [*included(unit, types, said, folders)]
        told += outdated(unit, self._notes)
        told += self._how_to_run(unit)
        told += self._marked(unit)
        told += old_objects(self._notes, changes.keys, self._known)
        once = self._with_debug(output.text, unit) if self._known.debug else module
        remakes = [
            Remake(
                cell, self._module(module, names[cell], cell).source, reasons(unit, cell),
                frozenset(
                    note.symbol for note in changes.remade[cell]
                    if note.key in changes.stale and note.kind == "variable" and not note.computed
                ),
            )
            for cell in sorted(changes.remade)
        ]  # fmt: skip
        warnings = self._complaints.warnings(output.complaints)
        return plan(
            self._source, self._module(module, own), self._once(unit, once, value), self._commands,
            warnings=(*warnings, *(Diagnostic(text, severity="note") for text in told)),
            notes=found,
            keep=self._symbols(unit, unit.kept) | frozenset(map(decode_name, zeros)),
            unchanged=self._symbols(unit, changes.unchanged),
            spelled=LazyMapping(partial(spelled, unit, own, found)),
            remakes=tuple(remakes),
            declared=bool(unit.owned) or self._notes.takes_place,
            opt_level=self._clang.asked.level,
        )  # fmt: skip

    def _refuse_overloads(self, unit: Unit, names: list[str]) -> None:
        """Refuse a function that clang names by its parameters: a name of C means one thing to
        later cells."""
        for name in set(names) - {note.symbol for note in unit.own}:
            plain = name[match.end() :][: int(match[1])] if (match := _MANGLED.match(name)) else ""
            for piece in unit.reading.pieces if plain else ():
                if any(declared.name == plain for declared in piece.declared):
                    words = f"{plain} is `overloadable`, and later cells could know but one of them"
                    raise self._complaints.at(words, piece.line, piece.column, _SELECT)

    def _how_to_run(self, unit: Unit) -> list[str]:
        """A message about a whole program: defining `main` does not run it."""
        for note in unit.own:
            if note.name == "main" and note.kind == "function" and note.is_defined:
                if not self._known.file and "run main" not in self._source:
                    arguments = ", with arguments %run main a b" if "," in note.text else ""
                    return [f"run it: %run main{arguments}"]
        return []

    def _marked(self, unit: Unit) -> list[str]:
        """A message about statements that mark a place to which later cells cannot go back: they
        are a function, which has ended then.  C11 7.13.2.1."""
        marks = sorted(_MARKS & words(" ".join(run.text for run in unit.runs)))
        if not marks or not _JUMPS.isdisjoint(words(self._code)):
            return []
        return [
            f"what {marks[0]} marks here ends with this cell: longjmp cannot come back to it "
            "later; call both in one function, or in one cell"
        ]

    @staticmethod
    def _symbols(unit: Unit, names: Collection[str]) -> frozenset[str]:
        """The symbols of names that the cell declares."""
        return frozenset(note.symbol for note in unit.own if note.name in names)

    def _value_type(self, unit: Unit, module: Module, types: Types) -> DataType | None:
        if unit.value is None or VALUE not in module.entities:
            return None
        found = value_type(types)
        if found is not None and not self._guesses.temporary:
            array = found.bare.kind == "array" and -1 not in found.bare.sides
            if array and any(t.text == "(" for t in unit.value.tokens):
                self._guesses.temporary = True  # copied before it is gone
                raise _Again
        return found

    def _is_elsewhere(self, name: str, unit: Unit) -> bool:
        """True if a cell has a symbol that is not made again now."""
        cell = self._known.cell_of(name)
        own = IDENTIFIER + name in unit.owned
        return not own and cell not in (0, self._known.replaces) and cell not in unit.changes.remade

    def _owned(self, unit: Unit, module: Module) -> dict[int, list[str]]:
        """The definitions of the module by the cell that they belong to; 0: this one."""
        every = unit.changes.remade
        remade = {note.symbol: note.cell for note in unit.changes.every}
        lent = {note.symbol for note in unit.wanted.values() if note.folded} - remade.keys()
        own = {note.symbol for note in unit.own}
        for name, entity in module.entities.items():
            plain = decode_name(name)
            if entity.kind == "variable" and not entity.is_declaration and plain not in own:
                owner = self._known.cell_of(plain)
                if owner in every:  # of a header that it includes
                    remade.setdefault(plain, owner)
        found: dict[int, list[str]] = {cell: [] for cell in (0, *every)}
        for name, entity in module.entities.items():
            theirs = entity.local or entity.is_declaration or name.startswith((OWN, "llvm."))
            if not theirs and decode_name(name) not in lent:
                found[remade.get(decode_name(name), 0)].append(name)
        return found

    @staticmethod
    def _module(module: Module, own: list[str], cell: int = 0) -> Plan:
        """The plan of a cell's module, 0: of the one that is read; an empty one where it has
        none."""
        roots = [*own]
        for name in ("llvm.global_ctors", "llvm.global_dtors", "llvm.used"):
            entity = module.entities.get(name)
            if entity is not None and not entity.symbols.isdisjoint(own):
                roots.append(name)
        assembly = module.assembly.get(cell, ())
        return module.plan(roots, assembly) if roots or assembly else NOTHING

    def _once(self, unit: Unit, module: Module, value: DataType | None) -> list[Once]:
        """The code that is run once: its statements, and the last expression."""

        def shown(found: TypedValue) -> TypedValue | None:
            return present(found, value, self._known, self._notes)

        return [
            replace(
                run, ir=module.plan([run.entry], entry=run.entry),
                present=shown if run.entry == VALUE else None,
            )
            for run in unit.runs if run.entry in module.entities
        ]  # fmt: skip

    def _agree(self, module: Module) -> None:
        """Let the session's words stand where it knows a name better than a C declaration says."""
        for name, entity in list(module.entities.items()):
            plain = decode_name(name)
            if entity.kind == "declaration" and "(...)" in entity.text:
                type = self._known.signature(plain)
                if type is not None and self._known.cell_of(plain) and not type.variadic:
                    arguments = ", ".join(map(str, type.parameters))
                    entity.text = f"declare {type.result} @{name}({arguments})"
            elif entity.external:
                variable = self._known.variable(plain)
                if variable is not None and self._known.cell_of(plain):
                    entity.put(*entity.type_place, str(variable[0]))


def _declares_type(complaint: Complaint, piece: Piece) -> bool:
    """True if clang complains of the last expression since it declares a type, as
    `(struct { int x; }){3}` does, and stands there several times."""
    if piece.kind is not PieceKind.EXPRESSION or not complaint.is_error:
        return False
    tags = any(token.text in TAGS for token in piece.tokens)
    again = complaint.message.startswith(("redefinition of ", "nested redefinition of "))
    return tags and (again or OWN in complaint.message)


def _is_header(file: str) -> bool:
    """True if clang calls a file so that is neither a cell nor our own text."""
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
