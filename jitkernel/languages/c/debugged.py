"""The debug information of a module that clang has printed, for the part of it that is a cell's.

Start from `debug_metadata`.  Source: llvm.org/docs/SourceLevelDebugging.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitkernel.ir.debug_info import members
from jitkernel.ir.names import mentions
from jitkernel.reach import reached
from jitkernel.regex import regex

_FLAGS = ('i32 7, !"Dwarf Version", i32 4', 'i32 2, !"Debug Info Version", i32 3')
_LISTED = regex(r", (globals|retainedTypes): !(\d+)")


def debug_metadata(nodes: Mapping[str, str], text: str) -> list[str]:
    """The lines of metadata that a text of a module needs, of all `nodes` of it: types and
    variables that only other texts use are none of it."""
    units = {number: node for number, node in nodes.items() if "!DICompileUnit(" in node}
    listed: list[str] = []  # the variables of all texts
    changed = dict(nodes)
    for number, node in units.items():
        for kind, held in _LISTED.findall(node):
            listed += members(nodes.get(held, "")) if kind == "globals" else ()
        changed[number] = _LISTED.sub("", node)

    def leads(number: str) -> Iterable[str]:
        return mentions(changed.get(number, ""), "!")

    found = reached(mentions(text, "!"), leads)
    own = [number for number in listed if number in found]
    free = 1 + max(map(int, nodes), default=0)
    if own and len(units) == 1:
        (unit,) = units
        changed[unit] = f"{changed[unit].removesuffix(')')}, globals: !{free})"
        changed[str(free)] = f"!{{{', '.join(f'!{number}' for number in own)}}}"
        found[str(free)] = None
        free += 1
    lines = [f"!{n} = {changed[n]}" for n in sorted(filter(str.isdigit, found), key=int)
             if n in changed]  # fmt: skip
    used = [number for number in units if number in found]
    if used:
        lines += [f"!{free + at} = !{{{flag}}}" for at, flag in enumerate(_FLAGS)]
        flags = ", ".join(f"!{free + at}" for at in range(len(_FLAGS)))
        lines.append(f"!llvm.module.flags = !{{{flags}}}")
        lines.append(f"!llvm.dbg.cu = !{{{', '.join(f'!{number}' for number in used)}}}")
    return lines
