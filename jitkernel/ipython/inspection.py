"""Shift-TAB in `%jit` lines and cells of languages: as in the kernel.  Start from `inspector`.

IPython looks names up in Python's namespace and has no hook for others, so the method of the
notebook's kernel that answers `inspect_request` is wrapped while the extension is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitkernel.ipython.completion import ours

if TYPE_CHECKING:
    from jitkernel.ipython.notebook import Notebook

_log = logging.getLogger("jitkernel")


def inspector(notebook: Notebook, others: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel's `do_inspect` for our magics and cells; `others` answers for the rest."""

    def do_inspect(code: str, cursor_pos: int, *options: Any, **more: Any) -> Any:
        level = options[0] if options else more.get("detail_level", 0)
        try:
            bundle = _bundle(notebook, code, cursor_pos, level)
        except Exception:  # whatever it is, the client waits for an answer
            _log.exception("inspection")
            bundle = None
        if bundle is None:
            return others(code, cursor_pos, *options, **more)
        return {"status": "ok", "found": bool(bundle), "data": bundle, "metadata": {}}

    return do_inspect


def _bundle(notebook: Notebook, code: str, position: int, level: int) -> dict[str, str] | None:
    """The view of what stands at a place, by MIME type, empty where nothing is known of it; None
    where the place is not ours."""
    from jitkernel.kernel.inspection import inspect_at

    before = code[:position]
    line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    found = ours(code, line, column)
    if found is None or (found[2] and found[1] == 0):
        return None
    view = inspect_at(notebook.frontend, found[0], found[1], level)
    return view._repr_mimebundle_() if view is not None else {}
