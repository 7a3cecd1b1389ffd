"""llvmlite's Python classes, for what is rarely asked and need not be quick.  Worker only.

Nothing that a compile needs imports this: see `binding`.
"""

from __future__ import annotations

import ctypes

__all__ = ["llvmlite"]


class _NoCallback(ctypes.c_void_p):
    """Stands for a callback type while llvmlite is imported."""

    def __init__(self, function: object) -> None:
        super().__init__(0)


# llvmlite makes two callbacks for an object cache that nobody here uses.  Real ones would put a
# page into this process that is writable and executable.
_CFUNCTYPE = ctypes.CFUNCTYPE
ctypes.CFUNCTYPE = lambda *types, **options: _NoCallback  # type: ignore[assignment]
try:
    import llvmlite.binding as llvmlite
finally:
    ctypes.CFUNCTYPE = _CFUNCTYPE
