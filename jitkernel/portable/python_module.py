"""A Python module with a shared library in it, which needs ctypes alone.

Start from `python_module`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.types import Type, VoidType
from jitkernel.languages.prototypes import code_of_elements
from jitkernel.portable.header import NoEquivalent, check_callable
from jitkernel.session.program.signatures import Signature, Variable

if TYPE_CHECKING:
    from jitkernel.portable.gathering import ExportSource

_WIDTH = 96
_CODES = frozenset("i1 i8 i16 i32 i64 float double ptr".split())  # of what ctypes passes


def python_module(
    core: ExportSource, exports: Mapping[str, Signature | Variable], library: bytes
) -> str:
    """The text of a module with a function for each of `exports`.  Raises UsageError for what
    ctypes cannot call."""
    rows = []
    for name, info in exports.items():
        called = core.program.called(name)
        if not isinstance(info, Signature):
            raise UsageError(f"{called} is a variable: a Python module has functions alone")
        if not name.isidentifier():
            raise UsageError(f"{called} is no name in Python")
        said = core.prototypes.declared(name)
        try:
            if said.parameters is not None:
                raise NoEquivalent("it passes more than numbers and pointers")
            wanted = [p and (p.name, code_of_elements(p), p.constant) for p in said.pointees]
            rows.append(_row(name, info, wanted, said.is_unsigned))
        except NoEquivalent as why:
            raise UsageError(
                f"{called}, {said.text or info}: ctypes cannot call it: {why}"
            ) from None
    packed = base64.b85encode(zlib.compress(library, 9)).decode()
    lines = [packed[i : i + _WIDTH] for i in range(0, len(packed), _WIDTH)]
    template = files("jitkernel.portable").joinpath("module.py.txt").read_text("utf-8")
    return (
        template.replace("@NAMES@", repr(list(exports)))
        .replace("@FUNCTIONS@", "\n".join(rows))
        .replace("@LIBRARY@", "\n".join(f'    b"{line}"' for line in lines))
    )


def _row(name: str, signature: Signature, wanted: Sequence[object], unsigned: bool) -> str:
    check_callable(signature)
    function = signature.function
    if function.variadic:
        raise NoEquivalent("it takes any number of arguments")
    types = [_code(p) for p in function.parameters]
    returned = "void" if isinstance(function.result, VoidType) else _code(function.result)
    returned = returned.replace("i", "u") if unsigned else returned
    said = f", {wanted!r}" if any(wanted) else ""
    return f'{name} = _function("{name}", "{returned}", {types!r}, "{function}"{said})'


def _code(type: Type) -> str:
    if (code := str(type)) in _CODES:
        return code
    raise NoEquivalent(f"a value of type {type} is passed")
