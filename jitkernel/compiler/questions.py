"""The questions to a worker: a record for each kind of question, whose fields are what the worker's
function for it takes.  Start from `frame_of`, the bytes in which a question travels.

Nothing here imports `dataclasses`: see `records`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from jitkernel.compiler.records import Options, Part, Request
from jitkernel.compiler.wire import frame
from jitkernel.errors import CompileError

__all__ = ["Question", "frame_of", "label_of", "question_of"]

Question: TypeAlias = tuple[Any, ...]


class Compile(NamedTuple):
    """A module's object and summary."""

    request: Request


class Trace(NamedTuple):
    """Each pass's doing to a module."""

    request: Request


class Printed(NamedTuple):
    """A module's text at a stage: as its passes find it (`optimise`) or leave it (`emit`)."""

    request: Request
    stage: str


class Assembly(NamedTuple):
    """A module on another machine: assembly text in a `syntax`, or an object where that is ""."""

    request: Request
    triple: str
    cpu: str
    syntax: str


class Internalised(NamedTuple):
    """A module in which only the function `keep` can be seen, by the name `called`."""

    request: Request
    keep: str
    called: str


class Disassembled(NamedTuple):
    """The text of a module in bitcode, whose bytes are hexadecimal digits."""

    bitcode: str


class Merged(NamedTuple):
    """Modules as one, in each of the `forms`; `seen` are names that can be seen from outside."""

    parts: Sequence[Part]
    options: Options
    seen: frozenset[str]
    forms: Sequence[str]


class Intrinsic(NamedTuple):
    """The signature of an intrinsic that is called so: see `intrinsics.signature`."""

    name: str
    arguments: Sequence[Sequence[str]]
    constants: Sequence[str]
    results: Sequence[str]


class Contexts(NamedTuple):
    """An account of the worker's contexts, which it keeps from now on."""


class Release(NamedTuple):
    """Free the contexts of cells, and the one that is `shared`."""

    cells: Sequence[int]
    shared: bool


_RECORDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Compile, Trace, Printed, Assembly, Internalised, Disassembled, Merged,
        Intrinsic, Contexts, Release, Request, Part, Options,
    )
}  # fmt: skip
_WORDS = {
    Disassembled: "bitcode", Merged: "the cells as one module",
    Contexts: "its contexts", Release: "its contexts",
}  # fmt: skip


def label_of(question: Question) -> str:
    """The thing that is asked about, in words."""
    if isinstance(question, Intrinsic):
        return f"@{question.name}"
    words = _WORDS.get(type(question))
    return str(question[0].label) if words is None else words


def frame_of(question: Question) -> bytes:
    """The frame of a question.  Raises CompileError where a module's text is not Unicode."""
    request = getattr(question, "request", None)
    if request is not None and not request.source.isascii():
        try:
            request.source.encode()
        except UnicodeEncodeError as error:
            line = request.source.count("\n", 0, error.start) + 2 - request.first_line
            raise CompileError(f"line {line}: this is not text: {error.reason}") from None
    return frame((type(question).__name__, *question))


def question_of(header: Sequence[Any]) -> Any:
    """The question that a frame has."""
    return _read(header[0], header[1:])


def _read(kind: str, value: Any) -> Any:
    """The value of an annotation, of what JSON made of it."""
    if kind in _RECORDS:
        record = _RECORDS[kind]
        kinds = [getattr(how, "__forward_arg__", how) for how in record.__annotations__.values()]
        return record(*[_read(how, field) for how, field in zip(kinds, value, strict=True)])
    if kind == "Sequence[Part]":
        return [_read("Part", part) for part in value]
    return frozenset(value) if kind == "frozenset[str]" else value
