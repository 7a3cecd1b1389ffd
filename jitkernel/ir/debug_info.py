"""Debug information in a module's text: its own, and one that gives each instruction its line.

`clang -g` and its like write locations of the C source behind instructions (`!dbg !12`).  A cell's
lines are those of its IR; the C file and line stand beside them (`Origins`).

Debug information does not change code, so the line of an address in a cell can be had later:
compile its text once more `with_locations` and read the line table.

LLVM's page on the metadata: llvm.org/docs/SourceLevelDebugging.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jitkernel.ir.instructions import apart, blocks
from jitkernel.ir.module import functions
from jitkernel.ir.names import SKIP, decode_name
from jitkernel.ir.text import replaced
from jitkernel.regex import regex

_OWN = regex(r"!llvm\.dbg\.cu\b|!DILocation\(")
_ATTACHED = r",?[ \t]*!dbg[ \t]+!(\d+|DILocation\([^()\n]*\))"
_AT = regex(_ATTACHED)
_LOCATED = regex(r", !dbg !(\d+)")
_RECORD = regex(r"\n    #dbg_[^\n]*")
_ATTACHMENTS = regex(_ATTACHED + r"|,[ \t]*![A-Za-z_][\w.]*[ \t]+!\d+")
# What is to be read over comes first: strings, comments, variables with their own kind of !dbg.
_REMOVED = regex(
    rf"(?m)(?P<kept>^[ \t]*@[^\n]*|{SKIP})"
    r"|^[ \t]*(?:#dbg_\w+|(?:tail[ \t]+)?call[ \t]+void[ \t]+@llvm\.dbg\.\w+)\([^\n]*"
    r"|" + _ATTACHED + r"|(?<==)(?P<node>[ \t]*(?:distinct[ \t]+)?!)DILocation\([^\n]*"
)
_NODE = regex(r"\n!(\d+)[ \t]*=[ \t]*([^\n]*)")
_FIELD = regex(
    r'(\w+): (?:"((?:[^"\\]|\\.)*)"|!?(\{[^}]*\}|\w*\((?:[^()]|\([^()]*\))*\)|[^,()]*))(?:, |\)?$)'
)
_REFERENCE = regex(r"!(\d+)|(null)")
_DEPTH = 64  # of scopes and of inlining that are followed

_NUMBER = regex(r"!(\d+)")
_LOOP = regex(r"!llvm\.loop[ \t]+!(\d+)")
_LOOP_NODE = regex(r"(?m)^!(\d+)[ \t]*=[ \t]*distinct[ \t]+!\{!\1\b")
_FLAGS = ('i32 7, !"Dwarf Version", i32 4', 'i32 2, !"Debug Info Version", i32 3')


def split_location(text: str) -> tuple[str, str]:
    """A line without the `!dbg` that is attached to it, and the number of the node that it names;
    "" where it has none."""
    at = text.find("!dbg")
    if at < 0:
        return text, ""
    head, _, behind = text.partition(", !dbg !")
    number, comma, more = behind.partition(",")
    if number.isdecimal() and text.find("!dbg", at + 1) < 0:  # as LLVM prints an instruction
        return head + comma + more, number
    begin = len(text[:at].rstrip(" \t"))  # the search would try every blank of the line
    match = _AT.search(text, max(begin - 1, 0))
    if match is None:
        return text, ""
    rest = text[: match.start()] + text[match.end() :]
    return _AT.sub("", text) if "!dbg" in rest else rest, match[1]


def split_at_locations(text: str) -> list[str]:
    """The text of a body, as LLVM prints it, without its debug records: parts of it, and between
    two of them the number of the node that an instruction names as its location."""
    return _LOCATED.split(_RECORD.sub("", text) if "#dbg_" in text else text)


def has_locations(source: str) -> bool:
    """True if the text has debug information of its own."""
    return bool(_OWN.search(source))


def without_locations(source: str) -> str:
    """The text with no `!dbg` on functions and instructions and no debug records; lines stay.

    Loops name locations too (`!llvm.loop`), of functions that instructions no longer name: those
    become words.
    """

    def rest(match: re.Match[str]) -> str:
        return f'{match["node"]}{{!"location"}}' if match["node"] else match["kept"] or ""

    return _REMOVED.sub(rest, source)


def without_attachments(text: str) -> str:
    """An instruction of printed IR without the metadata that is attached to it."""
    return _ATTACHMENTS.sub("", text)


def nodes(text: str) -> dict[str, str]:
    """The nodes of metadata by their numbers, as LLVM prints them: each is a line."""
    return dict(_NODE.findall(f"\n{text}"))


def fields(node: str) -> dict[str, str]:
    """The words, numbers, texts and other nodes' numbers that a node has, by the names of its
    fields."""
    begin = node.find("(") + 1
    if '"' not in node and "{" not in node and node.find("(", begin) < 0:  # mostly
        parts = [part.partition(": ") for part in node[begin:].removesuffix(")").split(", ")]
        return {name: word.removeprefix("!") for name, colon, word in parts if colon}
    found = _FIELD.findall(node, begin)
    return {name: decode_name(f'"{text}"') if text else word for name, text, word in found}


def members(node: str) -> list[str]:
    """The numbers of the nodes that are in a list, "" for `null`."""
    return [number for number, _ in _REFERENCE.findall(node)]


class Origins:
    """The origins of the lines of a module's text: `Origins(text).line(12)`."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._nodes: dict[str, str] = {}
        if has_locations(source):
            self._nodes = nodes(source)

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
            said = fields(node)
            name = self._file(said.get("scope", ""))
            if "!DISubprogram(" in node:  # a function's head
                name = self._file(match[1])
            if name and said.get("line", "0") != "0":
                places.append(f"{name}:{said['line']}")
            node = self._nodes.get(said.get("inlinedAt", ""), "")
        return ", inlined at ".join(places)

    def _file(self, scope: str) -> str:
        """The name of the file that a scope is in, without folders."""
        for _ in range(_DEPTH):
            said = fields(self._nodes.get(scope, ""))
            if file := said.get("file"):
                return fields(self._nodes.get(file, "")).get("filename", "").rpartition("/")[2]
            scope = said.get("scope", "")
        return ""


def _unit(source: str, emission: str) -> tuple[list[str], int]:
    """Metadata of a compile unit that a module has not yet, and the next free number; those below
    it are the file's, the unit's and that of a type of functions."""
    flags = [flag for flag in _FLAGS if flag.split(",")[1].strip() not in source]  # set once
    first = 1 + max((int(n) for n in _NUMBER.findall(source)), default=0)
    number = first + len(flags)
    file, unit, type_ = (f"!{number + n}" for n in range(3))
    metadata = [
        f'{file} = !DIFile(filename: "cell.ll", directory: "")',
        f"{unit} = distinct !DICompileUnit(language: DW_LANG_C99, file: {file}, "
        f"emissionKind: {emission})",
        f"{type_} = !DISubroutineType(types: !{{null}})",
        f"!llvm.dbg.cu = !{{{unit}}}",
    ]
    for n, flag in enumerate(flags, first):
        metadata += [f"!{n} = !{{{flag}}}", f"!llvm.module.flags = !{{!{n}}}"]
    return metadata, number + 3


def with_locations(
    source: str,
    first_line: int = 1,
    line_of: Callable[[int], int] | None = None,
    emission: str = "LineTablesOnly",
) -> str:
    """`source` with `!dbg` on its instructions, lines counted from `first_line`; the lines stay
    where they are, and locations of its own go.  "" where the text is of a kind that this does not
    understand.

    `line_of` maps lines that are counted so to those that are written, see `marks.cell_lines`, 0
    for none; a head that is of none has the line of the first instruction that is of one;
    `emission` says what LLVM is to make of it (DebugEmissionKind of DICompileUnit).
    """
    if has_locations(source):
        source = without_locations(source)
    metadata, number = _unit(source, emission)
    file, unit, type_ = (f"!{number - 3 + n}" for n in range(3))
    edits = []
    counted, line = 0, 2 - first_line
    latches = [(found.start(), found[1]) for found in _LOOP.finditer(source)][::-1]
    begins: dict[str, tuple[str, int]] = {}  # of loops: scope, location of what leads back to them
    shared: set[str] = set()  # by several functions: a location is of one
    for function in functions(source, "define"):
        brace, end = function.body()
        if end < 0:
            return ""
        scope = f"!{number}"
        line += source.count("\n", counted, function.start)
        counted = function.start
        head, places = line, []
        for block in blocks(source, brace + 1, end - 1):
            for begin, stop in block.instructions:
                if source.startswith(("#dbg_", "uselistorder"), begin):
                    continue
                line += source.count("\n", counted, begin)
                counted = begin
                place = line_of(line) if line_of else line
                places += [(end, place) for _, end in apart(source, begin, stop)]
        if line_of:
            head = line_of(head) or next((place for _, place in places if place), 0)
        name = '"' + function.spelled.strip('"') + '"'
        metadata.append(
            f"{scope} = distinct !DISubprogram(name: {name}, scope: {file}, file: {file}, "
            f"line: {max(head, 1)}, scopeLine: {max(head, 1)}, type: {type_}, "
            f"spFlags: DISPFlagDefinition, unit: {unit})"
        )
        edits.append((brace, brace, f"!dbg {scope} "))
        for stop, place in places:
            number += 1
            edits.append((stop, stop, f", !dbg !{number}"))
            while latches and latches[-1][0] < stop:
                loop = latches.pop()[1]
                if begins.setdefault(loop, (scope, number))[0] != scope:
                    shared.add(loop)
            metadata.append(f"!{number} = !DILocation(line: {max(place, 0)}, scope: {scope})")
        number += 1
    if not edits:
        return ""
    # What LLVM puts in front of a loop is of the line that the loop says it begins at.
    edits += [
        (node.end(), node.end(), f", !{begins[node[1]][1]}")
        for node in _LOOP_NODE.finditer(source)
        if node[1] in begins and node[1] not in shared
    ] if begins else []  # fmt: skip
    edits.sort()  # metadata may stand in front of functions
    return replaced(source, edits) + "\n" + "\n".join(metadata) + "\n"
