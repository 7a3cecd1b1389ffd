"""Variables of C that hide others of the same name, marked in a module's debug information.

When a module is optimised, blocks lose their places in the code, and some vanish: which one of two
variables of a name is seen at an address, in blocks one within the other, nobody knows then.
Start from `marked`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitkernel.ir.debug_info import fields, nodes
from jitkernel.ir.text import replaced

__all__ = ["MARK", "marked"]

#: Behind a name in DWARF: see `elf.dwarf.info.UNSURE`.
MARK = "?"
_KINDS = ("!DILocalVariable(", "!DIGlobalVariable(")


def marked(text: str) -> str:
    """Printed IR in whose debug information such variables have `MARK` behind their names."""
    every = nodes(text)
    declared: dict[tuple[str, str], list[str]] = {}  # by name and scope: the variables' numbers
    for number, node in every.items():
        if _KINDS[0] in node or _KINDS[1] in node:
            said = fields(node)
            if said.get("name"):
                declared.setdefault((said["name"], said.get("scope", "")), []).append(number)
    unsure: set[str] = set()
    for (name, scope), numbers in declared.items():
        scopes = _around(every, scope)
        around = [number for outer in scopes for number in declared.get((name, outer), ())]
        if around or len(numbers) > 1:  # clang has statics of blocks in the function itself
            unsure.update(numbers, around)
    edits = []
    for number in unsure:
        start = text.index(f"\n!{number} = ")
        at = text.index('name: "', start)
        edits.append((text.index('"', at + 7),) * 2 + (MARK,))
    return replaced(text, sorted(edits))


def _around(every: Mapping[str, str], scope: str) -> Iterator[str]:
    """The blocks and the function around a block."""
    for _ in range(len(every)):
        node = every.get(scope, "")
        if "!DILexicalBlock" not in node:
            return
        scope = fields(node).get("scope", "")
        yield scope
