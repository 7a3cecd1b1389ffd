"""What a module's own debug information says of its lines.  Start from `Origins`.

`clang -g` and its like write locations of the C source behind instructions (`!dbg !12`).  A cell's
lines are those of its IR; the C file and line stand beside them.  LLVM's page on the metadata:
llvm.org/docs/SourceLevelDebugging.html.
"""

from __future__ import annotations

import re

from jitkernel.ir.names import SKIP

__all__ = ["Origins", "has_locations", "without_locations", "without_metadata"]

_OWN = re.compile(r"!llvm\.dbg\.cu\b|!DILocation\(")
_ATTACHED = r",?[ \t]*!dbg[ \t]+!(\d+|DILocation\([^()\n]*\))"
_AT = re.compile(_ATTACHED)
_ATTACHMENTS = re.compile(_ATTACHED + r"|,[ \t]*![A-Za-z_][\w.]*[ \t]+!\d+")
# What is to be read over comes first: strings, comments, variables with their own kind of !dbg.
_REMOVED = re.compile(
    rf"(?m)(?P<kept>^[ \t]*@[^\n]*|{SKIP})"
    r"|^[ \t]*(?:#dbg_\w+|(?:tail[ \t]+)?call[ \t]+void[ \t]+@llvm\.dbg\.\w+)\([^\n]*"
    r"|" + _ATTACHED + r"|(?<==)(?P<node>[ \t]*(?:distinct[ \t]+)?!)DILocation\([^\n]*"
)
_RECORD = re.compile(r"(?m)^[ \t]*#dbg_\w+\([^\n]*\n|^!\d+ = [^\n]*(?:\n|\Z)")
_NODE = re.compile(r"(?m)^!(\d+)[ \t]*=[ \t]*(?:distinct[ \t]+)?!(DI\w+\([^\n]*)")
_FIELD = re.compile(r"\b(line|scope|file|inlinedAt):[ \t]*!?(\d+)")
_FILE = re.compile(r'\bfilename:[ \t]*"([^"]*)"')
_DEPTH = 64  # of scopes and of inlining that are followed


def has_locations(source: str) -> bool:
    """Whether the text has debug information of its own."""
    return bool(_OWN.search(source))


def without_locations(source: str) -> str:
    """The text with no `!dbg` on functions and instructions and no debug records; lines stay.

    Loops name locations too (`!llvm.loop`), of functions that instructions no longer name: those
    become words.
    """

    def rest(match: re.Match[str]) -> str:
        return f'{match["node"]}{{!"location"}}' if match["node"] else match["kept"] or ""

    return _REMOVED.sub(rest, source)


def without_metadata(text: str) -> str:
    """Printed IR without debug records, metadata and what refers to it: its numbers change with
    every pass, whatever the pass did."""
    return _ATTACHMENTS.sub("", without_locations(_RECORD.sub("", text)))


class Origins:
    """Where the lines of a module's text come from: `Origins(text).line(12)`."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._nodes: dict[str, str] = {}
        if has_locations(source):
            self._nodes = {match[1]: match[2] for match in _NODE.finditer(source)}

    def line(self, number: int) -> str:
        """A line of the text, counted from 1, less what is attached to it, and with the place that
        its `!dbg` names as a comment: `%2 = load i32, ptr %0 ; get.c:19`.
        Empty where there is no such line."""
        if not 0 < number <= len(self._lines):
            return ""
        text = self._lines[number - 1]
        found = self.of(number)
        if not found:
            return text
        return f"{_ATTACHMENTS.sub('', text).rstrip()} ; {found}"

    def of(self, number: int) -> str:
        """`get.c:19`, or `get.c:6, inlined at get.c:12`; empty where nothing is said."""
        if not self._nodes:
            return ""
        text = self._lines[number - 1]
        match = _AT.search(text)
        if match is None and text.rstrip().endswith("["):  # a switch: it stands behind its table
            behind = (t for t in self._lines[number : number + 4096] if t.lstrip().startswith("]"))
            match = _AT.search(next(behind, ""))
        if match is None:
            return ""
        places = []
        node = self._nodes.get(match[1], match[1])
        for _ in range(_DEPTH):
            fields = dict(_FIELD.findall(node))
            name = self._file(fields.get("scope", ""))
            if node.startswith("DISubprogram"):  # a function's head
                name = self._file(match[1])
            if name and fields.get("line", "0") != "0":
                places.append(f"{name}:{fields['line']}")
            node = self._nodes.get(fields.get("inlinedAt", ""), "")
        return ", inlined at ".join(places)

    def _file(self, scope: str) -> str:
        """The name of the file that a scope is in, without folders."""
        for _ in range(_DEPTH):
            fields = dict(_FIELD.findall(self._nodes.get(scope, "")))
            if file := fields.get("file"):
                name = _FILE.search(self._nodes.get(file, ""))
                return name[1].rpartition("/")[2] if name else ""
            scope = fields.get("scope", "")
        return ""
