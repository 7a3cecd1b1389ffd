"""What the languages of a program's functions and variables say of them, beside their types in IR.

Start from `Prototypes`.  It holds as long as the definition of a name, which changes with the types
that it mentions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.languages import find
from jitkernel.languages.llvm.conversion import PLAIN
from jitkernel.languages.prototypes import Prototype
from jitkernel.session.element_types import Elements, elements_of, named, refuse_other_members
from jitkernel.session.program.names import NoteTexts
from jitkernel.session.run.host import SessionGlance

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Pointee
    from jitkernel.linker import Image
    from jitkernel.session.core import Core

__all__ = ["Prototypes"]

_NOTHING = Prototype()


class Prototypes:
    """The prototypes of a session's names, by the definitions that they have now."""

    def __init__(self, core: Core):
        self._core = core
        self._known: dict[str, tuple[Image, Prototype]] = {}
        self._given: dict[str, Prototype] = {}

    def given(self, name: str, prototype: Prototype) -> None:
        """A function has come from another session, and this with it."""
        self._given[name] = prototype

    def of(self, name: str) -> Prototype:
        """What is said of a name; nothing where it is none of such a language."""
        program = self._core.program
        symbol = program.named(name)
        image = symbol.image if symbol is not None else None
        if image is None:
            return _NOTHING
        if (brought := self._given.get(name)) is not None:
            return brought
        if not program.notes.found:
            return _NOTHING
        known, found = self._known.get(name, (None, _NOTHING))
        if known is not image:
            found = self._ask(name, image.cell)
            self._known[name] = image, found
        return found

    def _ask(self, name: str, cell: int) -> Prototype:
        notes = self._core.program.notes
        if not (language := notes.language_of(cell)):
            return _NOTHING
        glance = _Glance(self._core, NoteTexts(notes.found, name, cell))
        return find(language).prototype(name, glance) or _NOTHING

    def check(self, name: str, arguments: Sequence[Any]) -> Sequence[Pointee | None]:
        """What pointers lead to, by parameter: None, or nothing, where nothing is said.

        Raises UsageError for an array whose elements are others than a pointer's.  Only what says
        what it holds is looked at, numpy's arrays, `array` and ctypes; plain bytes may be anything.
        """
        said = self.of(name)
        found = said.pointees
        for number, thing in enumerate(arguments, 1):
            if thing.__class__ in PLAIN:
                continue
            what = f"argument {number} of {written(name)}"
            dtype = getattr(thing, "dtype", None)
            if (wanted := found[number - 1] if number <= len(found) else None) is not None:
                if dtype is not None:
                    _refuse_other(dtype, wanted, what)
                elif (held := elements_of(thing)) is not None:
                    _refuse_other(held, wanted, what)
            elif getattr(dtype, "names", None):
                if (shape := said.pointed(number - 1)) is not None:
                    refuse_other_members(dtype, shape, what)
        return found


class _Glance(SessionGlance):
    """What a language may ask about a name, in a core whose lock is held."""

    def __init__(self, core: Core, notes: Mapping[str, str]):
        super().__init__(core)
        self.notes = notes  # and no copy


def _refuse_other(held: Any, wanted: Pointee, what: str) -> None:
    """Raises UsageError where numbers of a type are not what a pointer leads to; whether integers
    have a sign is the function's business."""
    kind, size = wanted.code[0], int(wanted.code[1:])
    given = getattr(held, "kind", kind)
    fits = given == kind or {given, kind} == {"i", "u"}
    if fits and getattr(held, "itemsize", size) == size and getattr(held, "isnative", True):
        return
    name = named(kind, size)
    if wanted.text.endswith("**"):
        remedy = "addresses fit (uint64), such as array.ctypes.data of what session.array gives"
    elif isinstance(held, Elements):
        remedy = f"one of {name} fits"
    else:
        remedy = f"array.astype({name!r}) gives one that fits"
    raise UsageError(f"{what} is {wanted.text}, and an array of {held} is given: {remedy}")
