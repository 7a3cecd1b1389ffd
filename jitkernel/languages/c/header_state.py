"""What a header keeps for itself: `static int seed;`, or a `static` variable within its functions.

In C each file that includes the header has another copy.  A session is one program, whose cells
are pieces of one file: so there is one variable for all cells, a symbol that is called after the
header, with the cell of its `#include`.  Start from `share`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from jitkernel.ir.debug_info import fields
from jitkernel.ir.names import decode_name, quote_name
from jitkernel.languages.c.module import Module

__all__ = ["share"]

_DEBUG = re.compile(r"!dbg !(\d+)")
_ZERO = re.compile(r"\bglobal [^,]*? ?(?:zeroinitializer|0|null)(?:,|$)")


def share(module: Module, has: Callable[[str], bool]) -> list[str]:
    """Make one variable of the session's of each that is a header's own; `has` tells which somebody
    has: the module only declares those.  The names of those that it defines and that begin with
    zeros."""
    names: dict[str, str] = {}
    for name, entity in module.entities.items():
        if entity.kind == "variable" and entity.local and " constant " not in entity.text:
            if path := _path(module, entity.text):
                names[name] = quote_name(f"{path}:{decode_name(name)}")
    own = [new for new in names.values() if not has(decode_name(new))]
    module.publish(names, own)
    return [new for new in own if _ZERO.search(module.entities[new].text)]


def _path(module: Module, text: str) -> str:
    """The header that a variable's debug information names, "" for none."""
    match = _DEBUG.search(text)
    node = module.metadata.get(match[1], "") if match is not None else ""
    for field in ("var", "file"):
        node = module.metadata.get(fields(node).get(field, ""), "")
    name = decode_name(f'"{fields(node).get("filename", "")}"')
    if not name or name.startswith(("cell ", "session")):
        return ""
    return os.path.abspath(name)
