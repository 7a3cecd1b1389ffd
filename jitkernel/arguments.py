"""What is said of an argument that is plainly of the wrong type.

The annotations of a function say what it takes.  They are not looked at while all is well: what has
failed with an error of Python's asks `blamed` whether an argument is the reason, so that nothing
gets slower.  What keeps an argument for later asks `check` at once.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from jitkernel.errors import WrongArgument

__all__ = ["blamed", "check"]

_SHOWN = 60  # characters of a value in a message


class _Kind(NamedTuple):
    words: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping))


_TEXT = _Kind("text", lambda value: isinstance(value, str))
_BYTES = _Kind("bytes", lambda value: isinstance(value, (bytes, bytearray, memoryview)))
_ANYTHING = _Kind("anything", lambda value: True)
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
    "int": _Kind("a whole number", _is_number),
    "float": _Kind("a number", lambda value: hasattr(value, "__float__") or _is_number(value)),
    "bytes": _BYTES,
    "bytearray": _BYTES,
    "memoryview": _BYTES,
    "Path": _Kind("a path", lambda value: isinstance(value, (str, os.PathLike))),
    "Source": _Kind(
        "text, bitcode or a module",
        lambda value: isinstance(value, (str, bytes)) or type(value) not in _PLAIN,
    ),
    "Sequence": _Kind("a sequence", _is_sequence),
    "Iterable": _Kind("a sequence", _is_sequence),
    "Mapping": _Kind("a mapping", lambda value: isinstance(value, Mapping)),
    "Callable": _Kind("a function", callable),
    "Handle": _Kind("a handle", lambda value: type(value) not in _PLAIN),
}  # fmt: skip


@cache
def _parsed(annotation: str) -> ast.expr:
    return ast.parse(annotation, mode="eval").body


def _kind(name: str) -> _Kind:
    if name in _KINDS:
        return _KINDS[name]
    words, own = f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}", getattr(builtins, name, None)
    if isinstance(own, type):
        return _Kind(words, lambda value: isinstance(value, own))
    return _Kind(words, lambda value: type(value) not in _PLAIN)


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from _alternatives(node.left)
        yield from _alternatives(node.right)
    else:
        yield node


def _fits(node: ast.expr, value: Any) -> bool:
    match node:
        case ast.BinOp():
            return any(_fits(part, value) for part in _alternatives(node))
        case ast.Constant():
            return bool(value is node.value)
        case ast.Subscript(ast.Name("Literal"), choices):
            return value in _literals(choices)
        case ast.Subscript(ast.Name("Sequence" | "Iterable"), element):
            return _is_sequence(value) and all(_fits(element, one) for one in value)
        case ast.Subscript(ast.Name("Mapping"), ast.Tuple([key, element])):
            return isinstance(value, Mapping) and all(
                _fits(key, k) and _fits(element, v) for k, v in value.items()
            )
        case ast.Subscript(head):
            return _fits(head, value)
        case ast.Name(name):
            return _kind(name).fits(value)
    return True


def _words(node: ast.expr) -> list[str]:
    match node:
        case ast.BinOp():
            return list(dict.fromkeys(w for part in _alternatives(node) for w in _words(part)))
        case ast.Constant():
            return [repr(node.value)]
        case ast.Subscript(ast.Name("Literal"), choices):
            return [repr(choice) for choice in _literals(choices)]
        case ast.Subscript(ast.Name("Sequence" | "Iterable"), element):
            return [f"a sequence of {' or '.join(_words(element))}"]
        case ast.Subscript(ast.Name("Mapping"), ast.Tuple([key, element])):
            return [f"a mapping of {' or '.join(_words(key))} to {' or '.join(_words(element))}"]
        case ast.Subscript(head):
            return _words(head)
        case ast.Name(name):
            return [_kind(name).words]
    return ["something else"]


def _literals(choices: ast.expr) -> tuple[Any, ...]:
    found = ast.literal_eval(choices)
    return found if isinstance(found, tuple) else (found,)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def check(function: str, parameter: str, annotation: str, value: Any) -> None:
    """Raise WrongArgument where a value is none that a parameter's annotation, as text, allows."""
    node = _parsed(annotation)
    if not _fits(node, value):
        *most, last = _words(node)
        wanted = f"{', '.join(most)} or {last}" if most else last
        raise WrongArgument(f"{function}: {parameter} is {wanted}, and {_shown(value)} is given")


def blamed(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
) -> WrongArgument | None:
    """The error for a call that has failed: of the first argument that its annotation does not
    allow; None where all may be as they are."""
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
