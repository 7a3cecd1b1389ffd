"""Writes `jitkernel/session/keywords.py`: `python tools/make_keywords.py`, after a change in the
fields of `SessionSettings`.  What checkers of types know of keywords has to be written out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from jitkernel.setting import Setting, declared  # noqa: E402
from jitkernel.settings import SessionSettings  # noqa: E402

KEYWORDS = ROOT / "jitkernel" / "session" / "keywords.py"
HEAD = '''"""Settings as keywords of `Session` and of `Session.restore`, for checkers of types.

Written by `tools/make_keywords.py` from the fields of `SessionSettings`, which say what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypedDict
'''
#: What `Session.restore` has as a parameter of its own.
OWN = ("trust",)


def keywords() -> str:
    """The text of the file."""
    settings = declared(SessionSettings)
    again = [_line(told) for name, told in settings.items() if name not in OWN]
    more = [_line(settings[name]) for name in OWN]
    return "\n".join(
        [HEAD, *_class("Again", "TypedDict", "Session.restore", again)]
        + list(_class("Given", "Again", "Session", more))
    )


def _line(told: Setting) -> str:
    kind = "str | os.PathLike[str]" if told.takes_path else told.annotation
    return f"    {told.name}: {kind}".replace("'", '"')


def _class(name: str, base: str, function: str, lines: list[str]) -> Iterator[str]:
    yield f"\nclass {name}({base}, total=False):"
    yield f'    """The keywords of `{function}`."""\n'
    yield from lines
    yield ""


if __name__ == "__main__":
    KEYWORDS.write_text(keywords(), encoding="utf-8")
    print(f"{KEYWORDS}: {len(declared(SessionSettings))} settings")
