"""What Python's own tools are told of a function that a cell defines: its signature and docstring.

`help`, `inspect.signature` and a notebook's `?` ask for both.  Start from `signature` and
`PerInstance`.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Sequence
from typing import Any

from jitkernel.ir.module import functions
from jitkernel.ir.names import decode_name
from jitkernel.ir.types import (
    ArrayType,
    FloatType,
    FunctionType,
    IntType,
    StructType,
    Type,
    VectorType,
    VoidType,
)
from jitkernel.values.datatype import DataType

_CLASSES = {
    **dict.fromkeys(("struct", "array", "vector"), tuple), "int": int, "bool": bool,
    "float": float, "complex": complex, "bytes": bytes,
}  # fmt: skip


class PerInstance:
    """A class's attribute that says one thing of the class and another of each instance."""

    def __init__(self, of_class: object, of_instance: Callable[[Any], object]):
        self._of_class, self._of_instance = of_class, of_instance

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is not None:
            return self._of_instance(instance)
        if self._of_class is None:
            raise AttributeError
        return self._of_class


def signature(type: FunctionType, names: list[str]) -> inspect.Signature:
    """The Python signature of a function type: in order, or by the names of all parameters."""
    kinds = [*map(annotation, type.parameters), annotation(type.result)]
    return signature_of(kinds, names, type.variadic)


def signature_of(kinds: Sequence[Any], names: Sequence[str], variadic: bool) -> inspect.Signature:
    """The same, from the classes of the arguments and of the result."""
    taken: set[str] = set()
    parameters = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if len(set(names)) < len(kinds) - 1 or not all(map(_is_name, names)):
        kind = inspect.Parameter.POSITIONAL_ONLY
    for number, each in enumerate(kinds[:-1]):
        name = names[number] if number < len(names) else ""
        if not _is_name(name) or name in taken:
            name = f"x{number + 1}"
        taken.add(name)
        parameters.append(inspect.Parameter(name, kind, annotation=each))
    if variadic:
        parameters.append(inspect.Parameter("more", inspect.Parameter.VAR_POSITIONAL))
    return inspect.Signature(parameters, return_annotation=kinds[-1])


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def annotation(type: Type | DataType) -> Any:
    """The class of Python's that a value of a type is."""
    match type:
        case VoidType():
            return None
        case IntType():
            return bool if type.bits == 1 else int
        case FloatType():
            return float
        case ArrayType() | VectorType() | StructType():
            return tuple
        case DataType():
            return _CLASSES.get(type.kind, inspect.Parameter.empty)
    return inspect.Parameter.empty


def parameter_names(module: str, function: str) -> list[str]:
    """The names of a function's parameters in the IR of its module, "" where one has none."""
    for found in functions(module, "define"):
        if found.name == function:
            return [*map(decode_name, found.parameter_names)]
    return []
