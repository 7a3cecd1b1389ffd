"""What is said of an argument that is plainly of the wrong type.

The annotations of a function say what it takes.  They are not looked at while all is well: what has
failed with an error of Python's asks `blamed` whether an argument is the reason, so that nothing
gets slower.  What keeps an argument for later asks `check` at once.
"""

from __future__ import annotations

import builtins
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from jitkernel.errors import WrongArgument
from jitkernel.record import NamedTuple

if TYPE_CHECKING:
    import ast

_SHOWN = 60  # characters of a value in a message


class _Kind(NamedTuple):
    """The values that a parameter takes: in words, one for each alternative, and as a test."""

    words: Sequence[str]
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping))


_TEXT = _Kind(["text"], lambda value: isinstance(value, str))
_BYTES = _Kind(["bytes"], lambda value: isinstance(value, (bytes, bytearray, memoryview)))
_ANYTHING = _Kind(["anything"], lambda value: True)
#: Values of these classes are no object of ours, nor do they behave like one.
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    list,
    tuple,
    dict,
    set,
    object,
)
_KINDS = {
    "Any": _ANYTHING,
    "object": _ANYTHING,
    "bool": _ANYTHING,  # everything is true or false
    "str": _TEXT,
    "int": _Kind(["a whole number"], _is_number),
    "float": _Kind(["a number"], lambda value: hasattr(value, "__float__") or _is_number(value)),
    "bytes": _BYTES,
    "bytearray": _BYTES,
    "memoryview": _BYTES,
    "Path": _Kind(["a path"], lambda value: isinstance(value, (str, os.PathLike))),
    "Source": _Kind(
        ["text, bitcode or a module"],
        lambda value: isinstance(value, (str, bytes)) or type(value) not in _PLAIN,
    ),
    "Sequence": _Kind(["a sequence"], _is_sequence),
    "Iterable": _Kind(["a sequence"], _is_sequence),
    "Mapping": _Kind(["a mapping"], lambda value: isinstance(value, Mapping)),
    "Callable": _Kind(["a function"], callable),
    "Handle": _Kind(["a handle"], lambda value: type(value) not in _PLAIN),
}  # fmt: skip


@cache
def _kind(annotation: str) -> _Kind:
    """The values that an annotation allows."""
    if plain := _KINDS.get(annotation):
        return plain
    import ast  # most settings are plain

    return _read(ast.parse(annotation, mode="eval").body)


def _read(node: ast.expr) -> _Kind:
    import ast

    match node:
        case ast.BinOp(left, _, right):
            one, other = _read(left), _read(right)
            words = list(dict.fromkeys([*one.words, *other.words]))
            return _Kind(words, lambda value: one.fits(value) or other.fits(value))
        case ast.Constant(constant):
            return _Kind([repr(constant)], lambda value: value is constant)
        case ast.Subscript(ast.Name("Literal"), choices):
            found = ast.literal_eval(choices)
            listed = found if isinstance(found, tuple) else (found,)
            return _Kind([*map(repr, listed)], lambda value: value in listed)
        case ast.Subscript(ast.Name("Sequence" | "Iterable"), element):
            each = _read(element)
            return _Kind(
                [f"a sequence of {' or '.join(each.words)}"],
                lambda value: _is_sequence(value) and all(map(each.fits, value)),
            )
        case ast.Subscript(ast.Name("Mapping"), ast.Tuple([left, right])):
            key, item = _read(left), _read(right)
            return _Kind(
                [f"a mapping of {' or '.join(key.words)} to {' or '.join(item.words)}"],
                lambda value: (
                    isinstance(value, Mapping)
                    and all(key.fits(k) and item.fits(v) for k, v in value.items())
                ),
            )
        case ast.Subscript(head):
            return _read(head)
        case ast.Name(name):
            return _KINDS.get(name) or _of_class(name)
    return _Kind(["something else"], lambda value: True)


def _of_class(name: str) -> _Kind:
    words, own = [f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"], getattr(builtins, name, None)
    if isinstance(own, type):
        return _Kind(words, lambda value: isinstance(value, own))
    return _Kind(words, lambda value: type(value) not in _PLAIN)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def check(function: str, parameter: str, annotation: str, value: Any) -> None:
    """Raise WrongArgument where a value is none that a parameter's annotation, as text, allows."""
    kind = _kind(annotation)
    if not kind.fits(value):
        *most, last = kind.words
        wanted = f"{', '.join(most)} or {last}" if most else last
        raise WrongArgument(f"{function}: {parameter} is {wanted}, and {_shown(value)} is given")


def blamed(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> WrongArgument | None:
    """The error for a call that has failed: of the first argument that its annotation does not
    allow; None where all may be as they are."""
    import inspect  # not needed while all is well

    try:
        signature = inspect.signature(function)
        bound = signature.bind(*arguments, **named).arguments
    except TypeError:  # too many or too few: Python has said it
        return None
    try:
        for name, value in bound.items():
            parameter = signature.parameters[name]
            if not isinstance(parameter.annotation, str):
                continue
            several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            for one in value if several else (value,):
                check(function.__name__, name, parameter.annotation, one)
    except WrongArgument as wrong:
        return wrong
    return None
