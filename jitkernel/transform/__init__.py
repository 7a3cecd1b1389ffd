"""Passes and analyses written in Python by whoever sits at the notebook.

A pass gets a `Module` of `jitkernel.ir.model` (or each of its functions, or its text), and changes
it; it runs in a process of its own, with a time limit, in the kernel's Python environment.  Start
from `apply_pass`, which also measures what the pass does to the code that is alive, and from
`analyse`; `examples` has some of each.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.ir.model import Module as Module
    from jitkernel.transform.effect import Analysis, Effect, analyse, apply_pass
    from jitkernel.transform.process import Analysed, Transformed, analysed, transform

__all__ = [
    "Analysed", "Analysis", "Effect", "Transformed", "analyse", "analysed", "apply_pass",
    "transform",
]  # fmt: skip

_PLACES = {
    "Module": "jitkernel.ir.model",
    **dict.fromkeys(("Analysis", "Effect", "analyse", "apply_pass"), "jitkernel.transform.effect"),
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: a pass that imports an example need not wait for a session's modules.
    if name not in (*__all__, "Module"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "jitkernel.transform.process")), name)


def __dir__() -> list[str]:
    return [*__all__]
