"""What the languages of a program's functions and variables say of them, beside their types in IR.

Start from `Prototypes`.  It holds as long as the definition of a name, which changes with the types
that it mentions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.ir.names import written
from jitkernel.ir.types import PTR
from jitkernel.languages.llvm.conversion import from_python
from jitkernel.languages.llvm.values import TypedValue
from jitkernel.languages.shapes import Shaped, Shapes, to_bytes
from jitkernel.session.arrays import numpy
from jitkernel.session.declared_arrays import language_of
from jitkernel.session.program.names import NoteTexts
from jitkernel.session.program.signatures import attributes_of
from jitkernel.session.run.host import SessionGlance, SessionHost
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.languages.language import Pointee
    from jitkernel.linker import Image
    from jitkernel.session.core import Core
    from jitkernel.session.program.signatures import Signature

__all__ = ["ByValue", "Prototype", "Prototypes"]

_ALIGN = re.compile(r"\balign (\d+)")
_WORD = 8  # bytes: what is passed by value in registers, is so in parts of that size


class Prototype(NamedTuple):
    """What is said of a name: what its pointers lead to, by parameter, and `shapes`."""

    pointees: Sequence[Pointee | None] = ()
    shapes: Shapes = Shapes()


_NOTHING = Prototype()


class Prototypes:
    """The prototypes of a session's names, by the definitions that they have now."""

    def __init__(self, core: Core):
        self._core = core
        self._known: dict[str, tuple[Image, Prototype]] = {}
        self._given: dict[str, Prototype] = {}

    def given(self, name: str, shapes: Shapes) -> None:
        """A function has come from another session, and this with it."""
        self._given[name] = Prototype(shapes=shapes)

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
        program = self._core.program
        language = language_of(program, name, cell)
        if language is None:
            return _NOTHING
        texts = NoteTexts(program.notes.found, name, cell)
        said = language.shapes(name, _Glance(self._core, texts)) or Shapes()
        return Prototype(language.pointees(name, texts), said)

    def check(self, name: str, arguments: Sequence[Any]) -> Sequence[Pointee | None]:
        """What pointers lead to, by parameter: None, or nothing, where nothing is said.

        Raises UsageError for an array whose elements are others than a pointer's.  Only arrays that
        say what they hold are looked at, by `dtype`; plain bytes may be anything.
        """
        found = self.of(name).pointees
        for number, (thing, wanted) in enumerate(zip(arguments, found, strict=False), 1):
            if wanted is not None and (dtype := getattr(thing, "dtype", None)) is not None:
                _refuse_other(dtype, wanted, f"argument {number} of {written(name)}")
        return found


class _Glance(SessionGlance):
    """What a language may ask about a name, in a core whose lock is held."""

    def __init__(self, core: Core, notes: Mapping[str, str]):
        super().__init__(core)
        self.notes = notes  # and no copy


class ByValue:
    """A call of a function that takes or gives what IR passes in parts, or in memory.

    System V ABI, AMD64 supplement, 3.2.3; which way each goes is read off the function's type in
    IR, where the compiler of its language has decided that.
    """

    def __init__(self, name: str, signature: Signature, shapes: Shapes, host: SessionHost):
        self._name, self._function, self._shapes, self._host = (
            name, signature.function, shapes, host,
        )  # fmt: skip
        self._attributes = attributes_of(signature.attributes)[1]
        self._result_at = 0

    def arguments(self, given: Sequence[Any]) -> list[TypedValue]:
        """Those that IR's function takes.  Raises UsageError."""
        shapes, host = self._shapes.parameters or (), self._host
        if len(given) < len(shapes) or (len(given) > len(shapes) and not self._function.variadic):
            raise UsageError(
                f"{written(self._name)} takes {counted(len(shapes), 'argument')} "
                f"({self._shapes.text}), {len(given)} given"
            )
        found: list[TypedValue] = []
        if self._attribute(0).startswith("sret") and self._shapes.result is not None:
            self._result_at = self._allocate(0, bytes(self._shapes.result.size))
            found.append(self._pointer(self._result_at))
        for number, thing in enumerate(given):
            what = f"argument {number + 1}"
            shape = shapes[number] if number < len(shapes) else None
            if shape is None:
                fixed = self._function.parameters
                type = fixed[len(found)] if len(found) < len(fixed) else None
                found.append(from_python(type, thing, host, what))
                continue
            data = to_bytes(shape, thing, host, what)
            if "byval" in self._attribute(len(found)):
                found.append(self._pointer(self._allocate(len(found), data)))
                continue
            words, at = shape.words(), 0
            while at < len(data):
                if at // _WORD in words:  # or it is nothing but padding
                    found.append(part := self._part(len(found), data[at:]))
                    at += max(len(part.data), _WORD)
                else:
                    at += _WORD
        if len(found) < len(self._function.parameters):
            raise self._refusal()
        return found

    def result(self, value: TypedValue) -> TypedValue:
        """What the function gave, as its language sees it."""
        shape = self._shapes.result
        if shape is None or not self._result_at:
            return Shaped(value, shape)
        return Shaped(value, shape, self._host.read(self._result_at, shape.size))

    def _allocate(self, index: int, data: bytes) -> int:
        align = _ALIGN.search(self._attribute(index))
        return self._host.allocate(data, max(16, int(align[1]) if align is not None else 1))

    def _attribute(self, index: int) -> str:
        return self._attributes.get(index, "")

    def _pointer(self, address: int) -> TypedValue:
        return TypedValue(PTR, address.to_bytes(8, "little"), self._host.layout)

    def _part(self, index: int, data: bytes) -> TypedValue:
        if index >= len(self._function.parameters):
            raise self._refusal()
        type = self._function.parameters[index]
        size = self._host.layout(type).size
        return TypedValue(type, data[:size].ljust(size, b"\0"), self._host.layout)

    def _refusal(self) -> UsageError:
        return UsageError(
            f"{written(self._name)} ({self._shapes.text}) is called in a way that Python does not "
            "know: give it pointers, or call it from a cell"
        )


def _refuse_other(dtype: Any, wanted: Pointee, what: str) -> None:
    """Raises UsageError where numbers of a type are not what a pointer leads to; whether integers
    have a sign is the function's business."""
    kind, size = wanted.code[0], int(wanted.code[1:])
    given = getattr(dtype, "kind", kind)
    fits = given == kind or {given, kind} == {"i", "u"}
    if fits and getattr(dtype, "itemsize", size) == size and getattr(dtype, "isnative", True):
        return
    name = numpy().dtype(wanted.code).name
    raise UsageError(
        f"{what} is {wanted.text}, and an array of {dtype} is given: array.astype({name!r}) "
        "gives one that fits"
    )
