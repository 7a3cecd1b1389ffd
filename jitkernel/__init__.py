"""Incremental JIT sessions: cells of LLVM IR compiled, linked and run one by one.

    from jitkernel import Session
    with Session() as s:
        s.run("define i32 @sq(i32 %x) { %r = mul i32 %x, %x  ret i32 %r }")
        assert s.call("sq", 7) == 49

Start from `Session`; `views` shows what is inside.  In a Python notebook: `%load_ext jitkernel`.
"""

from __future__ import annotations

from jitkernel._version import __version__

TYPE_CHECKING = False  # the module that has it is imported where nothing is collected
if TYPE_CHECKING:
    from typing import Any

    from jitkernel import grading, views
    from jitkernel.arena import Arena
    from jitkernel.session import Session

__all__ = ["Arena", "Session", "__version__", "errors", "grading", "views"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the compiler worker and the executor import parts of this package only.
    from importlib import import_module

    if name == "Session":
        from jitkernel._platform import platform_message

        if message := platform_message():
            raise ImportError(message)
    if name in ("Session", "Arena"):
        from jitkernel.collecting import lasting

        with lasting():
            return getattr(import_module(f"jitkernel.{name.lower()}"), name)
    if name in ("views", "errors", "grading"):
        return import_module(f"jitkernel.{name}")
    raise AttributeError(f"module 'jitkernel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jitkernel`: cells of languages, and `%jit`, in a Python notebook."""
    _extension().load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext jitkernel`: the magics go, the session stays."""
    _extension().unload(shell)


def _extension() -> Any:
    from importlib import import_module

    from jitkernel._platform import platform_message

    if message := platform_message():
        raise ImportError(message)
    return import_module("jitkernel.ipython.extension")
