"""What the text of a lesson says of what its cells show.  Start from `broken` and `unfounded`.

A `shows` fence has patterns for the cell above it.  Each number of a text has to stand in a `shows`
of its section, or in a `given` fence of the lesson, which says where it is from.  Allowed without
are numbers of the question: those that stand in a cell's code and count nothing that cells show
(`6 bytes`, `six instructions`) unless they are large (`1,000 calls`); the limits of an exercise's
rules; and those of `_ELSEWHERE`, which are no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6}
_TENS = {"twenty": 20, "thirty": 30, "fifty": 50, **_SCALES}
_COUNTS = dict(zip(_WORDS, range(13), strict=True)) | _TENS
# What cells count and measure: a number with one of these is of an output, wherever it stands.
_COUNTABLE = (
    "byte bit instruction block register call line cycle phi page spill reload time load store jump "
    "branch pass stub slot second guard site shape row frame thread value version iteration round "
    "turn element comparison addition multiplication operation symbol hole edge interval range loop "
    "word miss hit alloca compile constant context zone extent relocation"
).split()
_UNITS = rf"(?:(?P<unit>{'|'.join(_COUNTABLE)})(?:e?s)?|(?P<short>[nuµm]s|[KMG]iB|%|percent))(?!\w)"
_SPELLED = re.compile(
    rf"\b(?P<word>{'|'.join([*_WORDS[2:], *_TENS])})(?:[ -](?P<scale>{'|'.join(_SCALES)}))?[ -]"
    rf"(?:\w+ )?{_UNITS}",
    re.I,
)
_ANSWERED = re.compile(rf"(?<![\w-])({'|'.join(map(str.capitalize, _WORDS[2:]))})[:.] ")
_COUNTED = re.compile(rf"[ -]?(?:\w+ )?{_UNITS}")
_NUMBER = re.compile(r"(?<![\w.,/-])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w/-]|\.\d)")
_LARGE = 100  # a size that the code has, as of a loop, and not one that it shows by chance
_IN_CODE = re.compile(r"(?<!`)`(-?\d+(?:,\d{3})*(?:\.\d+)?)`(?!`)")  # a number alone is no code
# What is no number of a text: code, addresses of links, markup, and references to other places.
_ELSEWHERE = re.compile(
    r"```.*?^```|`[^`]*`|\]\([^)]*\)|\{picture \w+\}|<[^>]*>|0x[0-9a-fA-F.]+"
    r"|\b(?:[Ll]essons?|[Ee]xercise|[Cc]hapters?|psABI|AVX|LLVM) [0-9A-Ce](?:[.0-9]*\d)?(?:[:,] )?"
    r"|^\| \d+ (?=\|)|^(?:#+|\s*) ?\d+\. |(?<=[.:?] )\d\. (?=[A-Z])|-O\d|%\d+",
    re.M | re.S,
)


class Number(NamedTuple):
    """A number of a text, as digits without commas, and the `unit` of what cells count, or ""."""

    digits: str
    unit: str

    @property
    def of_code(self) -> bool:
        """True if it is the question's where it stands in code: that is no chance then."""
        return not self.unit or float(self.digits) >= _LARGE


def numbers(text: str) -> Iterator[Number]:
    """The numbers of a text."""
    plain = _ELSEWHERE.sub(" ", _IN_CODE.sub(r" \1 ", text))
    for match in _NUMBER.finditer(plain):
        counted = _COUNTED.match(plain, match.end())
        yield Number(match[0].replace(",", ""), _unit(counted) if counted else "")
    for match in _SPELLED.finditer(plain):
        scale = _SCALES[match["scale"].lower()] if match["scale"] else 1
        yield Number(str(_COUNTS[match["word"].lower()] * scale), _unit(match))
    for match in _ANSWERED.finditer(plain):
        yield Number(str(_COUNTS[match[1].lower()]), "")


def _unit(match: re.Match[str]) -> str:
    return match["unit"] or match["short"]


def stands(number: str, text: str) -> bool:
    """True if a number stands in a text, in whatever base."""
    found = {number}
    if number.isdigit():
        found |= {hex(int(number)), f"{int(number):x}h"}
    pattern = "|".join(rf"(?<![\d.]){re.escape(form)}(?!\d|\.\d)" for form in found)
    return re.search(pattern, text.replace(",", "")) is not None


def unfounded(parts: Sequence[Any]) -> list[str]:
    """The numbers of a lesson's texts that nothing vouches for: no `shows` of their section, which
    is held to what the cell shows, no `given`; for one that counts nothing, no code either."""
    given = {number for line in _given(parts) for number in numbers(line)}
    sections: list[_Section] = [_Section([], [], [])]
    for part in parts:
        if part.kind == "text":
            first, *others = re.split(r"^(?=##+ )", part.body, flags=re.M)
            sections[-1].texts.append(first)
            sections += [_Section([other], [], []) for other in others]
        elif part.kind == "shows":
            sections[-1].shows.append(part.body)
        elif part.kind == "exercise":  # `%check` holds an answer to its rules
            sections[-1].shows.extend(re.findall(r"^; must: .*", part.body, re.M))
        elif part.kind != "given":
            sections[-1].code.append(part.body)
    return [
        f"{' '.join(number)} in: {text.strip()[:60]!r}"
        for section in sections
        for text in section.texts
        for number in numbers(text)
        if number not in given
        and not stands(number.digits, "\n".join(section.shows))
        and not (number.of_code and stands(number.digits, "\n".join(section.code)))
    ]


def unused(parts: Sequence[Any]) -> list[str]:
    """The lines of `given` fences that no number of a text needs."""
    said = {number for p in parts if p.kind == "text" for number in numbers(p.body)}
    return [line for line in _given(parts) if said.isdisjoint(numbers(line))]


def _given(parts: Sequence[Any]) -> list[str]:
    """What stands before the colon of each line of the `given` fences."""
    lines = [line for part in parts if part.kind == "given" for line in part.body.splitlines()]
    return [line.partition(":")[0] for line in lines]


class _Section(NamedTuple):
    """What stands between two headings."""

    texts: list[str]
    shows: list[str]
    code: list[str]


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
