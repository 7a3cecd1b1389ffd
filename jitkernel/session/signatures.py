"""What the session knows of a symbol beyond its address: its type, spelled without names.

LLVM's pointers are opaque, so nothing but this comparison notices that a caller and a callee
disagree.  Named types are expanded: two cells may call the same structure by different names.
Start from `Signature` and `Variable`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from jitkernel.compiler import FunctionInfo, VariableInfo
from jitkernel.languages.llvm.quoting import decode_name
from jitkernel.languages.llvm.types import FunctionType, function_type

__all__ = ["Signature", "Variable", "expand", "same_type", "signature_of", "variable_of"]

_NAME = re.compile(r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)')


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
    """`text` with every named type replaced by its body, at any depth; opaque ones stay."""
    if "%" not in text:
        return text
    for _ in range(64):  # by-value nesting is finite: a type cannot contain itself
        replaced = _NAME.sub(lambda m: types.get(decode_name(m[0][1:]), m[0]), text)
        if replaced == text:
            break
        text = replaced
    return text


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
            expand(type, types), info.convention, expand(attributes, types), info.features, type
        )
    return shared_signature(type, info.convention, attributes, info.features, type)


def variable_of(info: VariableInfo, types: Mapping[str, str]) -> Variable:
    """The type of a variable that a module defines or declares; equal ones are one object."""
    return shared_variable(expand(info.type, types), info.constant, info.type)
