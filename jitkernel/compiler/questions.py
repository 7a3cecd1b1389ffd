"""Questions to a worker: the function of its own that answers, by module and name, and what that is
given.  Start from `question`, which the kernel process asks, and `read`, which the worker does.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from jitkernel.compiler.records import Lent, Options, Part, Request
from jitkernel.compiler.wire import frame
from jitkernel.errors import CompileError
from jitkernel.record import NamedTuple


class Question(NamedTuple):
    """A question as it travels, the thing that it is about, in words, the function that answers,
    and the module, if any."""

    data: bytes
    label: str
    function: str
    request: Request | None = None

    def known_to(self, keys: Container[str]) -> Question:
        """The same for a worker that knows the texts of some bodies, by their keys."""
        request = self.request
        if request is None or not request.bodies:
            return self
        bodies = [b._replace(text="") if b.key in keys else b for b in request.bodies]
        if bodies == list(request.bodies):
            return self
        short = question(self.function, request._replace(bodies=bodies))
        return self._replace(data=short.data)


def question(function: str, *given: Any, label: str = "") -> Question:
    """The question that a function of the worker's answers (`products:printed`), from what it is
    given.  Raises CompileError where a module's text is not Unicode."""
    request = given[0] if given and isinstance(given[0], Request) else None
    if request is not None and not request.source.isascii():
        try:
            request.source.encode()
        except UnicodeEncodeError as error:
            line = request.source.count("\n", 0, error.start) + 2 - request.first_line
            raise CompileError(f"line {line}: this is not text: {error.reason}") from None
    return Question(
        frame([function, *given]), request.label if request else label, function, request
    )


_RECORDS: dict[str, Any] = {kind.__name__: kind for kind in (Request, Part, Options, Lent)}


def read(annotations: dict[str, Any], values: Sequence[Any]) -> list[Any]:
    """The values of fields or parameters, by their annotations, of what JSON made of them."""
    kinds = [getattr(how, "__forward_arg__", how) for how in annotations.values()]
    return [_read(kind, value) for kind, value in zip(kinds, values, strict=False)]


def _read(kind: str, value: Any) -> Any:
    if record := _RECORDS.get(kind):
        return record(*read(record.__annotations__, value))
    if kind.startswith("Sequence[") and kind[9:-1] in _RECORDS:
        return [_read(kind[9:-1], part) for part in value]
    return frozenset(value) if kind == "frozenset[str]" else value
