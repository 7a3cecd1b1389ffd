"""What LLVM made of what is undefined, told to who has written another language than IR.  Start
from `retold`.

The compiler's words (`compiler/undefined.py`) are of IR: values, passes, names with `@`.
"""

from __future__ import annotations

from jitkernel.regex import regex

_RULES = tuple(
    (regex(pattern), words)
    for pattern, words in (
        (r"^@(__\S+) (?=returns|is left)", "@this "),  # what runs once has no name of the user's
        (r'^@(?:"([^"]*)"|(\S+)) returns (?:undef|poison): ', r"\1\2 may return anything: "),
        (r'^@(?:"([^"]*)"|(\S+)) is left without a return: ', r"\1\2 may do anything: "),
        (r", and \S.* \([^()]*\) removed the rest$", ", and the optimiser removed the rest"),
        (r", and \S+ \S+ removed the rest$", ", and the optimiser removed the rest"),
        (r", and -O\d removed the rest$", ", and the optimiser removed the rest"),
        (r": LLVM takes it that this never runs$", ": the optimiser takes it that this never runs"),
        (r"\ba load through", "a read through"),
        (r"\ba store through", "a write through"),
        (r"\ban? (?:undef|poison) pointer", "a pointer that was never set"),
        (r"\ba shift of an i(\d+) by", r"a shift of \1 bits by"),
        (r" \(mustprogress\)", ""),
        (
            r"what nsw, nuw, exact or inbounds rules out happens in it",
            "it computes past the limits of a type or of an array",
        ),
    )
)


def retold(message: str) -> str:
    """A warning of the compiler's without words of IR; one about something else as it is."""
    for pattern, words in _RULES:
        message = pattern.sub(words, message)
    return message
