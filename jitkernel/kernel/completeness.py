"""`is_complete_request`: may the text be run, does it go on, or is it wrong?  Start from `is_complete`.

The language decides; this only knows that a cell magic takes all lines up to an empty one.
"""

from __future__ import annotations

from jitkernel.kernel.magics import BY_NAME, cell_magic

__all__ = ["is_complete"]


def is_complete(code: str) -> dict[str, str]:
    """The content of an `is_complete_reply`."""
    call = cell_magic(code)
    if call is not None:
        if call.name not in BY_NAME:
            return {"status": "invalid"}
        if call.asks_help or (call.body.strip() and code.endswith("\n")):
            return {"status": "complete"}
        return {"status": "incomplete", "indent": ""}
    from jitkernel.languages.llvm import is_complete as judge

    status = judge(code)
    if status == "incomplete":
        return {"status": status, "indent": "  " if _open(code) else ""}
    return {"status": status}


def _open(code: str) -> bool:
    return code.count("{") > code.count("}")
