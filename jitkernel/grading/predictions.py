"""What a reader expects, noted before it is measured and compared with it then.

In a Python notebook `predict("faster", 10)` and, where it was measured, `answer("faster", ratio)`;
`%predict` and `%answer` elsewhere.  Start from `predict`.
"""

from __future__ import annotations

from jitkernel.grading import progress
from jitkernel.regex import regex

#: A number of a guess: `about 1,000 times`, `30%`, `2x`; none of `0x2a`, `rsp+8` and the like.
_NUMBER = regex(r"(?<![^\s])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=x?%?(?:[,;.]?\s|$))")
#: By name: what this process's reader expects.
_expected: dict[str, str] = {}


def predict(name: str, guess: object = ...) -> str:
    """Note what you expect, a number or words; in place of `...`, or `____`, nothing yet."""
    text = "" if guess is ... else str(guess).strip("_ ")
    if not text:
        _expected.pop(name, None)
        return f"{name}: write what you expect in place of the gap, and run this again"
    _expected[name] = text
    return f"{name}: you expect {_shown(text)}"


def answer(name: str, found: object) -> str:
    """Compare what has come out with what was expected; right and close is progress."""
    guess, text = _expected.get(name), str(found)
    if not guess:
        return f"{name}: {_shown(text)}; without a prediction"
    verdict = _compared(guess, text)
    note = progress.passed(name) if verdict.startswith(("right", "close")) else ""
    return f"{name}: {_shown(text)}; you expected {_shown(guess)}: {verdict}\n{note}".rstrip("\n")


def _compared(guess: str, found: str) -> str:
    numbers = [text.replace(",", "") for text in _NUMBER.findall(guess)]
    try:
        is_now, (expected,) = float(found.replace(",", "").rstrip("%x ")), map(float, numbers)
    except ValueError:
        return "right" if guess.casefold() == found.casefold() else "it is something else"
    if expected == is_now:
        return "right"
    if expected * is_now <= 0:
        return f"off by {abs(is_now - expected):.3g}"
    ratio = is_now / expected
    if 0.8 < ratio < 1.25:
        return f"close, {abs(ratio - 1):.0%} off"
    return (
        f"it is {ratio:.2g} times that" if ratio > 1 else f"it is that divided by {1 / ratio:.2g}"
    )


def _shown(text: str) -> str:
    """A number with four digits that count; other words as they are."""
    try:
        value = float(text)
    except ValueError:
        return text
    if value.is_integer():
        return text.removesuffix(".0")  # Python's mark of a float, which no reader asked for
    return f"{value:.4g}"
