"""Give each instruction of a module its line, as debug information.  Start from `with_locations`.

Debug information does not change code, so the line of an address in a cell can be had later:
compile its text once more with this and read the line table.  Locations that the text brings
itself are those of another text, a C file's: ours take their place.
"""

from __future__ import annotations

import re

from jitkernel.compiler.debug_info import has_locations, without_locations
from jitkernel.ir.module import functions
from jitkernel.ir.names import NAME

__all__ = ["with_locations"]

_NUMBER = re.compile(r"!(\d+)")
_LABEL = re.compile(r"\s*(?:" + NAME + r"):(?=\s|$)")
_TOKENS = re.compile(r'"[^"]*"|;|[(\[{<>}\])]')
_GOES_ON = re.compile(r"\s*(?:cleanup\b|catch\b|filter\b|to\s+label\b|unwind\b|,)")
_NOT_CODE = re.compile(r"\s*(?:uselistorder|#dbg_)")
_FLAGS = ('i32 7, !"Dwarf Version", i32 4', 'i32 2, !"Debug Info Version", i32 3')


def with_locations(source: str, first_line: int = 1) -> str:
    """`source` with `!dbg` on its instructions, lines counted from `first_line`; the lines stay
    where they are.  "" where the text is of a kind that this does not understand."""
    if has_locations(source):
        source = without_locations(source)
    number = 1 + max((int(n) for n in _NUMBER.findall(source)), default=0)
    file, unit, type_ = f"!{number}", f"!{number + 1}", f"!{number + 2}"
    metadata = [
        f'{file} = !DIFile(filename: "cell.ll", directory: "")',
        f"{unit} = distinct !DICompileUnit(language: DW_LANG_C99, file: {file}, "
        "emissionKind: LineTablesOnly)",
        f"{type_} = !DISubroutineType(types: !{{null}})",
        f"!llvm.dbg.cu = !{{{unit}}}",
    ]
    number += 3
    for flag in _FLAGS:
        if flag.split(",")[1].strip() in source:  # a flag may be set once
            continue
        metadata.append(f"!{number} = !{{{flag}}}")
        metadata.append(f"!llvm.module.flags = !{{!{number}}}")
        number += 1
    pieces: list[str] = []
    done = 0
    for function in functions(source, "define"):
        brace, end = function.body()
        if end < 0:
            return ""
        scope = f"!{number}"
        number += 1
        line = source.count("\n", 0, function.start) + 2 - first_line
        name = '"' + function.spelled.strip('"') + '"'
        metadata.append(
            f"{scope} = distinct !DISubprogram(name: {name}, scope: {file}, file: {file}, "
            f"line: {max(line, 1)}, scopeLine: {max(line, 1)}, type: {type_}, "
            f"spFlags: DISPFlagDefinition, unit: {unit})"
        )
        body_line = source.count("\n", 0, brace) + 2 - first_line
        body, number = _body_with_locations(
            source[brace + 1 : end - 1], body_line, scope, number, metadata
        )
        pieces += [source[done:brace], f"!dbg {scope} {{", body]
        done = end - 1
    if not pieces:
        return ""
    return "".join(pieces) + source[done:] + "\n" + "\n".join(metadata) + "\n"


def _body_with_locations(
    body: str, line: int, scope: str, number: int, metadata: list[str]
) -> tuple[str, int]:
    """The body's text with a location at the end of each instruction, and the next number."""
    lines = body.split("\n")
    depth = 0
    begun = -1  # index of the line where the instruction in hand began
    ends: dict[int, tuple[int, int]] = {}  # line index -> (where its text ends, where it began)
    last = -1
    comma = False  # whether the last line of code ends in the middle
    for index, text in enumerate(lines):
        start = 0
        if depth == 0 and (label := _LABEL.match(text)):
            start = label.end()
        code_end, depth_after = _scan(text, start, depth)
        if not text[start:code_end].strip():
            depth = depth_after
            continue
        goes_on = depth > 0 or (
            begun >= 0 and start == 0 and (comma or _GOES_ON.match(text) is not None)
        )
        comma = text[:code_end].rstrip().endswith((",", "="))
        if not goes_on:
            begun = -1 if _NOT_CODE.match(text, start) else index
        elif last >= 0:
            ends.pop(last, None)
        if begun >= 0:
            ends[index] = (code_end, begun)
            last = index
        depth = depth_after
    for index, (code_end, began) in ends.items():
        text = lines[index]
        code = text[:code_end].rstrip()
        lines[index] = f"{code}, !dbg !{number}{text[len(code) :]}"
        at = max(line + began, 0)
        metadata.append(f"!{number} = !DILocation(line: {at}, scope: {scope})")
        number += 1
    return "\n".join(lines), number


def _scan(text: str, start: int, depth: int) -> tuple[int, int]:
    """Where the code of a line ends (before its comment), and the bracket depth there."""
    for match in _TOKENS.finditer(text, start):
        token = match[0]
        if token == ";":
            return match.start(), depth
        if token in "([{<":
            depth += 1
        elif token[0] != '"':
            depth -= 1
    return len(text), depth
