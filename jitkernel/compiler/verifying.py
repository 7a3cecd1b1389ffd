"""Whether what a pass left is well formed, judged from the text that LLVM logged.  Worker only.

Of a small module the log has all of it, which LLVM's verifier is shown again: `verified`.  Of a
large one it has only the functions that a pass ran on, for printing everything after each step
would take minutes.  Those are verified one by one, among the types and variables that they name:
`verified_alone`.  What they name besides is declared from its use, and metadata that stands
elsewhere is left out; LLVM does both itself when it is told that IR may be incomplete.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jitkernel.compiler import binding
from jitkernel.compiler.binding import LLVMError
from jitkernel.ir.module import global_values
from jitkernel.ir.names import NAME

__all__ = ["Surroundings", "surroundings", "verified", "verified_alone"]

_NAMED = re.compile(f"@({NAME})")
_ALWAYS = re.compile(rf"^(?:%{NAME} = type |\$|@\d+ = |target )[^\n]*$", re.M)
# Records of debug information, and the line that the log puts above a loop's function.
_NOT_IR = re.compile(r"^ +#dbg_[^\n]*\n|^ \(loop: [^\n]*\n", re.M)


class Surroundings(NamedTuple):
    """What a function of a module may rely on: lines that always go with it (types, comdats, the
    target), and the lines of variables by name."""

    always: str
    variables: dict[str, str]


def surroundings(module: str) -> Surroundings:
    """The surroundings that the printed text of a whole module gives."""
    variables = {
        value.spelled: value.text
        for value in global_values(module)
        # An alias would need its aliasee.
        if not value.spelled.isdigit() and value.kind in ("global", "constant")
    }
    return Surroundings("\n".join(_ALWAYS.findall(module)), variables)


def verified(text: bytes) -> bool:
    """Whether a module that LLVM printed is well formed."""
    return _verdict(text) is True


def verified_alone(text: bytes, around: Surroundings) -> bool | None:
    """Whether functions that LLVM printed without their module are well formed; None where LLVM
    cannot read them alone.

    From the first call on, this process reads incomplete modules as if they were whole.
    """
    binding.set_option("-allow-incomplete-ir")
    body = _NOT_IR.sub("", text.decode("utf-8", "surrogateescape"))
    names = dict.fromkeys(_NAMED.findall(body))
    lines = [around.variables[name] for name in names if name in around.variables]
    whole = "\n".join([around.always, *lines, body])
    return _verdict(whole.encode("utf-8", "surrogateescape"))


def _verdict(text: bytes) -> bool | None:
    """True, False where the verifier refuses, None where the parser does."""
    try:
        with binding.parsed(text.replace(b"\0", b"")) as module:
            binding.verify(module)
    except LLVMError as error:
        return None if error.stage == "parse" else False
    return True
