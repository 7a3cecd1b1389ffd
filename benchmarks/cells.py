"""Many live cells without compiling each: one compiled cell under many names.  Start from `Stamp`."""

from __future__ import annotations

from benchmarks.programs import tiny
from jitkernel import Session
from jitkernel.session.handles import CompiledCell

__all__ = ["Stamp"]

_NAME = "f00000000"


class Stamp:
    """Copies of one compiled cell whose function has another name of the same length."""

    def __init__(self, session: Session, source: str = ""):
        self.session = session
        self.cell = session.compile(source or tiny(_NAME))

    def name(self, i: int) -> str:
        """The name of copy `i`."""
        return f"f{i:08d}"

    def object(self, i: int) -> bytes:
        """The object of copy `i`."""
        return self.cell.object.replace(_NAME.encode(), self.name(i).encode())

    def copy(self, i: int) -> CompiledCell:
        """Copy `i` as `Session.place` takes it."""
        old, name = self.cell, self.name(i)
        functions = tuple(
            f._replace(name=name) if f.name == _NAME else f for f in old.compiled.summary.functions
        )
        compiled = old.compiled._replace(
            code=self.object(i),
            summary=old.compiled.summary._replace(functions=functions),
        )
        return CompiledCell(
            old.source.replace(_NAME, name), old.request._replace(source=old.request.source.replace(_NAME, name)),
            compiled, old.sizes, old.options,
        )  # fmt: skip

    def place(self, numbers: range) -> None:
        """Place copies as cells of the session."""
        for i in numbers:
            self.session.place(self.copy(i))
