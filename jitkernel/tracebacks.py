"""How IPython shows an error: the user's frames and the sentence, none of this package's frames.

IPython asks an exception for `_render_traceback_`, and nothing else does: a plain program sees
Python's own traceback.  `%debug` has all frames.  Start from `rendered`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from types import TracebackType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def rendered(error: BaseException) -> list[str]:
    """The lines of an error for IPython's `_render_traceback_`."""
    module = sys.modules.get("IPython")
    shell: Any = module.get_ipython() if module is not None else None
    stand_in = _stand_in(error)
    if shell is not None:
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(error), stand_in, of_user(error.__traceback__)
        )
        return lines
    return [f"{type(error).__name__}: {stand_in}"]


def shortened(error: BaseException) -> BaseException:
    """An error of another's class (KeyboardInterrupt) that went through a session, to be shown as
    those of sessions are; the same error."""
    if "IPython" in sys.modules:
        error._render_traceback_ = partial(rendered, error)  # type: ignore[attr-defined]
    return error


def of_user(frames: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package."""
    kept = []
    while frames is not None:
        if not frames.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(frames)
        frames = frames.tb_next
    chain = None
    for each in reversed(kept):
        chain = TracebackType(chain, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return chain


def _stand_in(error: BaseException) -> BaseException:
    """An exception with the words of `error`, and of what came before it that alone which happened
    in the user's code."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    words = str(error)
    if not words and before is not None:  # KeyboardInterrupt: where it stopped what
        words = str(before)
    words = words.removeprefix(f"{type(error).__name__}: ")
    found = type(error).__new__(type(error), *([words] if words else ()))
    found.args = (words,) if words else ()
    if before is not None and of_user(before.__traceback__) is not None:
        found.__context__ = before
    return found
