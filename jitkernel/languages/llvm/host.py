"""What an expression may ask of a session.  Start from `Host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jitkernel.ir.types import FunctionType, Type
from jitkernel.languages.llvm.values import Layouts, TypedValue

__all__ = ["Host"]


class Host(Protocol):
    """What an expression may ask of a session."""

    def signature(self, name: str) -> FunctionType | None:
        """The type of a function, the prelude's too; None for what is no known function."""

    def variable(self, name: str) -> tuple[Type, int, bool] | None:
        """Type, address and whether it is constant; None for what is no known variable."""

    def address(self, name: str) -> int | None:
        """Where a function (its canonical entry) or a variable stands; None where unknown."""

    def call(self, name: str, arguments: list[TypedValue]) -> TypedValue: ...

    def intrinsic(
        self,
        name: str,
        arguments: Sequence[Sequence[str]],
        constants: Sequence[str],
        results: Sequence[str],
    ) -> FunctionType | str:
        """The type of an intrinsic whose arguments may have these types, best first; "unknown", or
        "signature" where LLVM has none like that."""

    def call_intrinsic(
        self, name: str, type: FunctionType, arguments: Sequence[TypedValue | str]
    ) -> TypedValue:
        """Call an intrinsic; an argument that is text is a constant."""

    def load(self, type: Type, address: int) -> TypedValue: ...

    def allocate(self, data: bytes, align: int) -> int:
        """The address of a copy of `data` that the cell owns."""

    def result(self, number: int | None) -> TypedValue | None:
        """The last result, or that of a cell; None where there is none."""

    @property
    def layout(self) -> Layouts:
        """Layouts by type.  Values keep it: so it keeps alive nothing that belongs to one cell."""

    def nearest(self, name: str) -> str | None:
        """The known symbol closest to a name."""
