"""Calls of functions that take or give what IR passes in parts, or in memory.

Start from `ByValue`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.ir.types import PTR
from jitkernel.session.program.signatures import attributes_of
from jitkernel.values.conversion import from_python, to_bytes
from jitkernel.values.value import LanguageValue, TypedValue
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Prototype
    from jitkernel.session.program.signatures import Signature
    from jitkernel.session.run.host import SessionHost

__all__ = ["ByValue"]

_ALIGN = re.compile(r"\balign (\d+)")
_WORD = 8  # bytes: what is passed by value in registers, is so in parts of that size


class ByValue:
    """A call of a function that takes or gives what IR passes in parts, or in memory.

    System V ABI, AMD64 supplement, 3.2.3; which way each goes is read off the function's type in
    IR, where the compiler of its language has decided that.
    """

    def __init__(
        self, name: str, signature: Signature, said: Prototype, host: SessionHost,
        type_of: Callable[[int], str],
    ):  # fmt: skip
        self._type_of = type_of
        self._name, self._function, self._said, self._host = (
            name, signature.function, said, host,
        )  # fmt: skip
        self._attributes = attributes_of(signature.attributes)[1]
        self._result_at = 0

    def arguments(self, given: Sequence[Any]) -> list[TypedValue]:
        """Those that IR's function takes.  Raises UsageError."""
        types, host = self._said.parameters or (), self._host
        if len(given) < len(types) or (len(given) > len(types) and not self._function.variadic):
            raise UsageError(
                f"{host.called(self._name)} takes {counted(len(types), 'argument')} "
                f"({self._said.text}), {len(given)} given"
            )
        found: list[TypedValue] = []
        if self._attribute(0).startswith("sret") and self._said.result is not None:
            self._result_at = self._allocate(0, bytes(self._said.result.size))
            found.append(self._pointer(self._result_at))
        for number, thing in enumerate(given):
            what = f"argument {number + 1}"
            seen = types[number] if number < len(types) else None
            if seen is None or seen.is_scalar:
                fixed = self._function.parameters
                type = fixed[len(found)] if len(found) < len(fixed) else None
                called = partial(self._type_of, number)
                found.append(from_python(type, thing, host, what, called))
                continue
            data = to_bytes(seen, thing, host, what)
            if "byval" in self._attribute(len(found)):
                found.append(self._pointer(self._allocate(len(found), data)))
                continue
            words, at = seen.eightbytes(), 0
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
        seen = self._said.result
        if seen is None or not self._result_at:
            return LanguageValue(value, seen)
        return LanguageValue(value, seen, self._host.read(self._result_at, seen.size))

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
            f"{self._name} ({self._said.text}) is called in a way that Python does not "
            "know: give it pointers, or call it from a cell"
        )
