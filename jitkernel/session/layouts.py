"""Where LLVM puts the parts of types, for a whole session.  Start from `TypeLayouts`."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jitkernel.compiler import Layout
from jitkernel.compiler.expansion import is_digest
from jitkernel.errors import UsageError
from jitkernel.languages.llvm import scalar_layout
from jitkernel.languages.llvm.types import NamedType, Type
from jitkernel.session.signatures import expand

if TYPE_CHECKING:
    from jitkernel.session.engine import Engine

__all__ = ["TypeLayouts"]


class TypeLayouts:
    """Layouts by type, named types as `named` has them at that time; one for a whole session.

    This is all that a value keeps besides its bytes.  It keeps neither cell, run nor session alive:
    what was asked once is known for good, what is new is asked of the engine while there is one.
    """

    __slots__ = ("_engine", "_known", "_named")

    def __init__(self, engine: Engine, named: Mapping[str, str]):
        self._engine = weakref.ref(engine)
        self._known = engine.known_layouts
        self._named = named

    def __call__(self, type: Type) -> Layout:
        """The layout of a type.  Raises UsageError where nobody knows it (any more)."""
        found = scalar_layout(type)
        if found is not None:
            return found
        if isinstance(type, NamedType) and type.name not in self._named:
            raise UsageError(f"%{type.name} is a type that this session does not know")
        text = self.text(type)
        found = self._known.get(text)
        if found is not None:
            return found
        engine = self._engine()
        if engine is None or engine.closed:
            raise UsageError(f"the session is closed: nobody knows any more what {type} looks like")
        return engine.layout(text)

    def text(self, type: Type) -> str:
        """The type without names."""
        text = str(type)
        text = expand(text, self._named) if "%" in text else text
        if is_digest(text):
            shown = str(type)
            raise UsageError(
                f"{shown if len(shown) < 80 else 'this type'} has too many parts to be a value: "
                "use a pointer to it"
            )
        return text
