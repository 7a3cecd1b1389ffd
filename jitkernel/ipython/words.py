"""The kernel's words where magics are written `%jit NAME`.  Start from `in_python`."""

from __future__ import annotations

import re

from jitkernel.kernel.magics import MAGICS
from jitkernel.regex import regex

_MAGIC = regex(r"(?<![\w%@.])(%{1,2})([a-z]\w*)")


def in_python(text: str) -> str:
    """`text` with its magics as a Python notebook has them; what is indented is source, and stays.

    `%evict @f` becomes `%jit evict @f`, `%%check` `%%jit check`; `%%llvm` is a magic here too.
    """
    return "\n".join(
        line if line[:1].isspace() else _MAGIC.sub(_written, line) for line in text.split("\n")
    )


def _written(match: re.Match[str]) -> str:
    marks, name = match[1], match[2]
    if name not in MAGICS:
        return match[0]
    from jitkernel.languages import names

    return match[0] if marks == "%%" and name in names() else f"{marks}jit {name}"
