"""What the languages of a program's functions and variables say of them, beside their types in IR.

Start from `Prototypes`.  It holds as long as the definition of a name, which changes with the types
that it mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from jitkernel.compiler.records import Request
from jitkernel.errors import UsageError
from jitkernel.languages import find
from jitkernel.languages.prototypes import Prototype, code_of_elements
from jitkernel.session.array_types import (
    elements_of,
    named,
    refuse_other_members,
    refuse_other_shape,
)
from jitkernel.session.program.names import NotesSeen
from jitkernel.session.program.signatures import described
from jitkernel.session.run.host import SessionView
from jitkernel.values.conversion import PLAIN

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Spelling
    from jitkernel.linker import Image
    from jitkernel.session.core import Core
    from jitkernel.values.datatype import DataType

_NOTHING = Prototype()
_LISTS = (list, tuple, range)


class Prototypes:
    """The prototypes of a session's names, by the definitions that they have now."""

    def __init__(self, core: Core):
        self._core = core
        # The definition that each was said of; where that has no language, the notes' version.
        self._known: dict[str, tuple[Image | None, int, Prototype]] = {}
        self._given: dict[str, Prototype] = {}
        self._wholes: dict[str, tuple[Image | None, int, DataType | None]] = {}

    def given(self, name: str, prototype: Prototype) -> None:
        """A function has come from another session, and this with it."""
        self._given[name] = prototype

    def of(self, name: str) -> Prototype:
        """The declaration of a name; nothing where it is none of such a language."""
        program = self._core.program
        symbol = program.named(name)
        image = symbol.image if symbol is not None else None
        if image is not None and (brought := self._given.get(name)) is not None:
            return brought
        notes = program.state.notes
        known = name in program.state.declared or (symbol is not None and symbol.info is not None)
        if not notes.found or not known:
            return _NOTHING
        of, version, found = self._known.get(name, (None, -1, _NOTHING))
        if of is not image or version not in (0, notes.version):
            cell = image.cell if image is not None else 0
            found = self._ask(name, cell, "prototype") or _NOTHING
            version = 0 if notes.language_of(cell) or not self._is_foreign(cell) else notes.version
            self._known[name] = image, version, found
        return found

    def declared(self, name: str) -> Prototype:
        """The same, with the declaration also where IR tells all the rest."""
        said = self.of(name)
        if not said.text and (spelling := self.spelling(name)) is not None:
            said = said._replace(text=spelling.text)
        return said

    def is_settled(self, name: str) -> bool:
        """True if what was said of a name holds as long as its definition."""
        return name not in self._known or not self._known[name][1]

    def wholes(self, names: Sequence[str]) -> dict[str, DataType]:
        """The types of variables as their languages have them, where those say more than IR:
        pointers lead where they lead.  Languages are asked once for all that is not known."""
        program = self._core.program
        notes, wanted = program.state.notes, dict[str, list[str]]()
        found: dict[str, DataType] = {}
        for name in names:
            symbol = program.named(name)
            image = symbol.image if symbol is not None else None
            of, version, known = self._wholes.get(name, (None, -1, None))
            if of is not None and of is image and version == notes.version:
                found |= {name: known} if known is not None else {}
            elif image is not None and (language := notes.language_of(image.cell)):
                wanted.setdefault(language, []).append(name)
        for language, asked in wanted.items():
            texts = [program.called(name) for name in asked]
            told = self._core.foreign.run(find(language).types, texts, SessionView(self._core))
            for name, type in zip(asked, told, strict=True):
                symbol = program.named(name)
                image = symbol.image if symbol is not None else None
                self._wholes[name] = image, notes.version, type
                found |= {name: type} if type is not None else {}
        return found

    def type_called(self, text: str) -> DataType | None:
        """The type that has a name in one of the languages of the cells, such as `struct s`; None
        where none has."""
        view = SessionView(self._core)
        every = sorted(self._core.program.state.notes.languages)
        return next(filter(None, (find(one).types([text], view)[0] for one in every)), None)

    def _ask(self, name: str, cell: int, what: Literal["prototype", "spelled"]) -> Any:
        """The view of a cell's language; of an object or a library (0), what those that declare the
        name do."""
        notes = self._core.program.state.notes
        view = SessionView(self._core)
        if language := notes.language_of(cell):
            view.notes = NotesSeen(notes.found, name, cell)
            return getattr(find(language), what)(name, view)
        languages = sorted(notes.languages) if self._is_foreign(cell) else ()
        every = (getattr(find(one), what)(name, view) for one in languages)
        return next(filter(None, every), None)

    def _is_foreign(self, cell: int) -> bool:
        """True if a cell is an object that was linked; 0: a library is none of the session's."""
        record = self._core.store.get(cell) if cell else None
        return record is None or record.is_linked

    def spelling(self, name: str) -> Spelling | None:
        """The form that the language of a name's definition gives it; None where that is as IR
        does."""
        program = self._core.program
        symbol, notes = program.named(name), program.state.notes
        if not notes.found or (symbol is None and name not in program.state.declared):
            return None
        cell = symbol.cell if symbol is not None else 0
        if notes.language_of(cell):
            name = program.called(name, cell)  # a label may have given the symbol's
        spelling: Spelling | None = self._ask(name, cell, "spelled")
        return spelling

    def _argument(self, name: str, number: int) -> str:
        return f"argument {number} of {self._core.program.called(name)}"

    def declare(self, name: str) -> None:
        """Learn the type of what an object or a library has, where a language declares it."""
        core = self._core
        for language in sorted(core.program.state.notes.languages):
            if text := find(language).declaration(name, SessionView(core)):
                request = Request(text, label=f"the declaration of {name}")
                summary = core.engine.pool.compile(request).summary
                with core.engine.arena.rollback.atomic():
                    for said, info, _ in described(summary):
                        core.program.state.put("declared", said, info)
                return

    def check(self, name: str, arguments: Sequence[Any]) -> Sequence[DataType | None]:
        """The types that pointers lead to, by parameter: None, or nothing, where nothing is said.

        Raises UsageError for an array whose elements are others than a pointer's.  Only what says
        what it holds is looked at, numpy's arrays, `array`, ctypes and text; plain bytes may be
        anything.
        """
        said = self.of(name)
        found = said.pointees
        for number, thing in enumerate(arguments, 1):
            wanted = found[number - 1] if number <= len(found) else None
            if thing.__class__ in _LISTS and wanted is not None:
                _refuse_list(thing, wanted, self._argument(name, number))
            if isinstance(thing, str) and wanted is not None:
                _refuse_text(wanted, self._argument(name, number))
            if thing.__class__ in PLAIN:
                continue
            if wanted is not None:
                held = elements_of(thing)
                if held is not None and not _fits(held[0], wanted):
                    _refuse_other(thing, str(held[1]), wanted, self._argument(name, number))
            records = getattr(dtype := getattr(thing, "dtype", None), "names", None)
            if records or _sides(thing) > 1:
                if (of := said.pointed(number - 1)) is not None:
                    if records and of.kind == "struct":
                        refuse_other_members(dtype, of, self._argument(name, number))
                    elif of.kind == "array":
                        refuse_other_shape(thing, of, self._argument(name, number))
        return found


def _fits(held: DataType, wanted: DataType) -> bool:
    """True if numbers of a type are what a pointer leads to; whether integers have a sign is the
    function's business."""
    code, given = code_of_elements(wanted), held.code
    if given[:1] in ("i", "u") and code[0] in "iu":
        return given[1:] == code[1:]
    return given == code


def _refuse_list(thing: Any, wanted: DataType, what: str) -> None:
    """Raises UsageError: its elements do not lie anywhere as C's do."""
    given = f"{what} is {wanted.name}, and a Python {type(thing).__name__} is given"
    if wanted.name.endswith("**"):
        raise UsageError(f"{given}: an array of addresses (uint64) fits")
    name = named(code_of_elements(wanted))
    raise UsageError(f"{given}: numpy.array(a, {name!r}) makes one of it that fits")


def _refuse_text(wanted: DataType, what: str) -> None:
    """Raises UsageError where a pointer does not lead to bytes, which text is."""
    if (code := code_of_elements(wanted)).endswith("1"):
        return
    wide = code == "i4" and "wchar_t" in wanted.name
    remedy = "; ctypes.create_unicode_buffer(text) fits" if wide else ""
    raise UsageError(
        f"{what} is {wanted.name}, and a Python str is given: text is UTF-8 bytes, for char *"
        f"{remedy}"
    )


def _refuse_other(thing: Any, held: str, wanted: DataType, what: str) -> None:
    """Raises UsageError for numbers that are not what a pointer leads to."""
    name = named(code_of_elements(wanted))
    if wanted.name.endswith("**"):
        remedy = "addresses fit (uint64), such as array.ctypes.data of what session.array gives"
    elif hasattr(thing, "dtype"):
        remedy = f"array.astype({name!r}) gives one that fits"
    else:
        remedy = f"one of {name} fits"
    raise UsageError(f"{what} is {wanted.name}, and an array of {held} is given: {remedy}")


def _sides(thing: object) -> int:
    """The dimensions of an array; 0 of what is none, or a view of memory that was released."""
    try:
        return len(getattr(thing, "shape", ()))
    except ValueError:
        return 0
