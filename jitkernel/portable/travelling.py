"""Functions that pickle, and that run where they arrive.  Start from `PortableFunction`.

A pickled function is a program: unpickle what comes from those whose programs you would run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jitkernel.errors import JitError
from jitkernel.portable.content import (
    VERSION,
    Content,
    contents,
    digest_of,
    other_form,
    read_content,
)  # fmt: skip


class PortableFunction:
    """A function with all that it needs, apart from the session that it comes from.

    Calling it links it into this process's own session (`process_session`), once for equal ones,
    and calls it there, with the checks of `Session.call`.  Its variables are that session's: each
    process has its own.  A pickle has its code; see the module on whom to trust.
    """

    __slots__ = ("__weakref__", "_content", "_digest", "is_named", "name")

    def __init__(self, name: str, digest: str, content: Content | None):
        self.name, self._digest, self._content = name, digest, content
        self.is_named = False  # whether it pickles as its name, for whoever gets that can ask

    @property
    def content(self) -> Content:
        """The content that it is made of.  Raises JitError where that cannot be had."""
        if self._content is None:
            self._content = contents.get(self._digest)
        if self._content is None:
            from jitkernel.portable.on_dask import fetch

            self._content = known(fetch(self._digest, self.name), self._digest)
        return self._content

    def __call__(self, *arguments: Any) -> Any:
        """Call it with Python values.  Raises what `Session.call` raises."""
        from jitkernel.portable.arrival import call

        return call(self.content, arguments)

    @property
    def signature(self) -> str:
        """Its type, as IR text."""
        return str(self.content.signature)

    @property
    def digest(self) -> str:
        """The digest that equal functions have in common."""
        return self._digest

    @property
    def __name__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PortableFunction) and other._digest == self._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"<{self.content.called} of another process>"

    def __dask_tokenize__(self) -> str:
        return self._digest

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        encoded = None
        if not self.is_named:
            try:
                encoded = self.content.encoded
            except JitError:
                if "distributed" not in sys.modules:
                    raise
                from jitkernel.portable.on_dask import may_be_message

                if not may_be_message():
                    raise  # else the receiver is told when he calls it
        return arrive, (VERSION, self.name, self._digest, encoded)


def portable(content: Content) -> PortableFunction:
    """A function of its content."""
    found = contents.setdefault(content.digest, content)
    return PortableFunction(content.name, content.digest, found)


def arrive(version: Any, name: Any, digest: Any, content: Any) -> PortableFunction:
    """Unpickle a function.  Raises JitError where it was not made here, or is damaged."""
    if not isinstance(name, str) or not isinstance(digest, str):
        raise JitError("this is no function that a session has packed: it has no name")
    if content is None:  # of Dask's scheduler: an error here would end the worker, and not the task
        return PortableFunction(name, digest, contents.get(digest))
    if version != VERSION:
        raise JitError(f"this function was {other_form(version)}")
    if not isinstance(content, bytes):
        raise JitError("this is no function that a session has packed: its code is no bytes")
    found = contents.get(digest)
    if found is None or found.encoded != content:
        found = known(content, digest)
    if found.name != name:
        raise JitError(f"this is no function that a session has packed: {name!r} is another one")
    function = PortableFunction(name, digest, found)
    if "distributed" in sys.modules:
        from jitkernel.portable.on_dask import arrived

        arrived(function, found)
    return function


def known(data: bytes, digest: str) -> Content:
    """A content that has arrived, checked, and kept for as long as somebody has it."""
    if digest_of(data) != digest:
        raise JitError("this function was damaged on its way: its code is not what was sent")
    content = read_content(data)
    return contents.setdefault(digest, content)
