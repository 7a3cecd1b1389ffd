"""A header for C: prototypes of what is exported.  Start from `header`.

What a C cell has declared is declared as there, with the types and headers that this needs; for the
rest the nearest C types are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jitkernel.ir.names import written
from jitkernel.languages.c.notes import IDENTIFIER, Note, Notes
from jitkernel.portable.c_types import NoEquivalent, is_c_name, prototype, variable
from jitkernel.session.program.signatures import Signature, Variable

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = ["header"]

#: Words of C that C++ has others for.
_ONLY_C = {"restrict": "__restrict", "_Bool": "bool"}


def header(program: Program, exports: Mapping[str, Signature | Variable], file: str) -> str:
    """The text of a header that is called `file`."""
    guard = re.sub(r"[^A-Za-z0-9]", "_", file).upper()
    guard = f"JITKERNEL_{guard}"
    notes = Notes(program.state.notes.kept)
    from_c = [n for n in exports if IDENTIFIER + n in notes]
    lines = [
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>",
    ]  # fmt: skip
    if from_c:
        lines += [note.text for note in notes.directives() if note.kind in ("include", "header")]
    declared = _declared(notes, from_c)
    declared += [_line(name, info) for name, info in exports.items() if name not in from_c]
    only_c = [word for word in _ONLY_C if re.search(rf"\b{word}\b", "\n".join(declared))]
    lines += ["", "#ifdef __cplusplus", 'extern "C" {']
    lines += [*(f"#define {word} {_ONLY_C[word]}" for word in only_c), "#endif", "", *declared]
    lines += ["", "#ifdef __cplusplus", *(f"#undef {word}" for word in only_c), "}", "#endif"]
    lines += ["", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


def _declared(notes: Notes, names: Iterable[str]) -> list[str]:
    """The declarations of C cells under these names, after what they need."""
    keys = [IDENTIFIER + name for name in names]
    found: Iterable[Note] = notes.closure(keys).values()
    wanted = set(keys)
    texts = []
    for note in sorted(found, key=lambda note: note.place):
        if note.kind in ("include", "header", "pragma"):
            continue
        if note.kind in ("function", "variable") and note.key not in wanted:
            continue
        texts.append(note.text.rstrip())
    return texts


def _line(name: str, info: Signature | Variable) -> str:
    if not is_c_name(name):
        return f"/* {_comment(written(name))} is no name in C */"
    try:
        if isinstance(info, Variable):
            return variable(name, info) + ";"
        return prototype(name, info) + ";"
    except NoEquivalent as why:
        return f"/* {_comment(f'{written(name)}, {info}: {why}')} */"


def _comment(text: str) -> str:
    return text.replace("*/", "* /")
