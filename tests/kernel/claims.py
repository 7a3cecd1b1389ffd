"""What the text of a lesson says of what its cells show.  Start from `broken` and `unfounded`.

A `shows` fence has patterns for the cell above it.  Besides, each number of a text, `6` or `six
bytes`, has to stand in a cell of its section or in what that shows, or in a `given` fence of the
lesson, which says where it is from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_UNITS = "bytes? bits? instructions? blocks? registers? calls? lines? cycles? phis? pages? spills?"
_SPELLED = re.compile(
    rf"\b({'|'.join(_WORDS[3:])})(?= (?:\w+ )?(?:{'|'.join(_UNITS.split())})\b)", re.I
)
_NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w/-]|\.\d)")
# What is no number of a text: code, addresses of links, markup, and references to other places.
_ELSEWHERE = re.compile(
    r"```.*?^```|`[^`]*`|\]\([^)]*\)|\{picture \w+\}|<[^>]*>|0x[0-9a-fA-F.]+"
    r"|\b(?:[Ll]essons?|[Ee]xercise|[Cc]hapters?|psABI|AVX|LLVM) [0-9A-Ce](?:[.0-9]*\d)?(?:[:,] )?"
    r"|^(?:\| |\s*)\d+[. ] ?(?=\D)|\b\d\. (?=[A-Z])|-O\d|%\d+",
    re.M | re.S,
)


def numbers(text: str) -> Iterator[str]:
    """The numbers of a text, as digits without commas."""
    plain = _ELSEWHERE.sub(" ", text)
    for match in _NUMBER.finditer(plain):
        yield match[0].replace(",", "")
    for match in _SPELLED.finditer(plain):
        yield str(_WORDS.index(match[1].lower()))


def stands(number: str, text: str) -> bool:
    """True if a number stands in a text, in whatever base."""
    found = {number}
    if number.isdigit():
        found |= {hex(int(number)), f"{int(number):x}h"}
    pattern = "|".join(rf"(?<![\d.]){re.escape(form)}(?!\d|\.\d)" for form in found)
    return re.search(pattern, text.replace(",", "")) is not None


def unfounded(parts: Sequence[Any], shown: Sequence[str]) -> list[str]:
    """The numbers of a lesson's texts for which nothing stands: `shown` has what the parts show."""
    given = "\n".join(part.body for part in parts if part.kind == "given")
    sections: list[tuple[list[str], list[str]]] = [([], [])]  # texts, what stands for them
    for part, output in zip(parts, shown, strict=True):
        if part.kind != "text":
            sections[-1][1].append(f"{part.body}\n{output}")
            continue
        first, *others = re.split(r"^(?=##+ )", part.body, flags=re.M)
        sections[-1][0].append(first)
        sections += [([other], []) for other in others]
    return [
        f"{number} in: {text.strip()[:60]!r}"
        for texts, cells in sections
        for text in texts
        for number in numbers(text)
        if not stands(number, "\n".join(cells)) and not stands(number, given)
    ]


def broken(claims: str, output: str, known: dict[str, float]) -> list[str]:
    """The lines of a `shows` fence that do not hold of an output; named numbers go into `known`."""
    wrong = []
    for line in claims.splitlines():
        if line.startswith("where "):
            if not eval(line[6:], {}, known):
                wrong.append(f"{line} of {known}")
            continue
        match = re.search(line.removeprefix("!"), output, re.S)
        if bool(match) == line.startswith("!"):
            wrong.append(line)
        elif match is not None:
            numbers = match.groupdict()
            known.update({k: float(v.replace(",", "")) for k, v in numbers.items()})
    return wrong
