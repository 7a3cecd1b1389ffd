"""What the session knows of a symbol beyond its address: its type, spelled without names.

LLVM's pointers are opaque, so nothing but this comparison notices that a caller and a callee
disagree.  Named types are expanded: two cells may call the same structure by different names.
Start from `Signature` and `Variable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from jitkernel.compiler import FunctionInfo, VariableInfo
from jitkernel.compiler.expansion import Expansion
from jitkernel.languages.llvm.types import FunctionType, function_type

__all__ = ["Signature", "Variable", "expand", "same_type", "signature_of", "variable_of"]


class Signature(NamedTuple):
    """A function's type with everything that its calling convention depends on.

    `type` has named types expanded and decides equality; `shown` is as the user wrote it.
    """

    type: str
    convention: str
    attributes: str
    features: str
    shown: str

    def same(self, other: Signature) -> bool:
        """Whether a call compiled for one reaches the other rightly."""
        return self[:4] == other[:4]

    def __str__(self) -> str:
        words = [w for w in (self.convention, self.shown) if w]
        if self.attributes:
            words.append(f"[{self.attributes}]")
        if self.features:
            words.append(f"[{self.features}]")
        return " ".join(words)

    @property
    def function(self) -> FunctionType:
        """The type as a record, with the user's names."""
        return function_type(self.shown)


class Variable(NamedTuple):
    """A global variable's type."""

    type: str
    constant: bool
    shown: str

    def same(self, other: Variable) -> bool:
        """Whether code compiled for one may use the other's storage."""
        return self.type == other.type

    def __str__(self) -> str:
        return f"{'constant' if self.constant else 'global'} {self.shown}"


def same_type(one: Signature | Variable, other: Signature | Variable) -> bool:
    """Whether two of what symbols are known as agree."""
    if isinstance(one, Signature):
        return isinstance(other, Signature) and one.same(other)
    return isinstance(other, Variable) and one.same(other)


def expand(text: str, types: Mapping[str, str]) -> str:
    """`text` with every named type replaced by its body, at any depth; opaque ones stay.

    A digest of it where it would be too long: see `Expansion`.
    """
    return Expansion(types.get)(text) if "%" in text else text


_latest: tuple[Mapping[str, str], Expansion] = ({}, Expansion(lambda name: None))


def _expand(text: str, types: Mapping[str, str]) -> str:
    """The same for the types of a module, which never change: each is looked at once."""
    global _latest
    if "%" not in text:
        return text
    of, expansion = _latest
    if of is not types:
        _latest = types, (expansion := Expansion(types.get))
    return expansion(text)


@lru_cache(maxsize=1024)
def shared_signature(*parts: str) -> Signature:
    return Signature(*parts)


@lru_cache(maxsize=1024)
def shared_variable(type: str, constant: bool, shown: str) -> Variable:
    return Variable(type, constant, shown)


def signature_of(info: FunctionInfo, types: Mapping[str, str]) -> Signature:
    """The signature of a function that a module defines or declares; equal ones are one object."""
    type, attributes = info.type, info.attributes
    if "%" in type or "%" in attributes:
        return shared_signature(
            _expand(type, types), info.convention, _expand(attributes, types), info.features, type
        )
    return shared_signature(type, info.convention, attributes, info.features, type)


def variable_of(info: VariableInfo, types: Mapping[str, str]) -> Variable:
    """The type of a variable that a module defines or declares; equal ones are one object."""
    return shared_variable(_expand(info.type, types), info.constant, info.type)
