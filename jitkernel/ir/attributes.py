"""Attributes of functions: the values that some have, `optnone`, and the CPU that compilers write
when nobody has chosen one.

clang and others put `"target-cpu"="x86-64"` on every function: the machine of 2003, for which
vectors are half as wide or less.  Where it says no more than that, it is taken out of the text, so
that the session's CPU counts.  Start from `values`, `without_optnone` and
`drop_default_cpu`.
"""

from __future__ import annotations

import re

from jitkernel.ir.names import SKIP
from jitkernel.regex import regex

_OPTNONE = regex(r"^[ \t]*(?:attributes\b|define\b).*\boptnone\b.*$", re.M)
_DROPPED = regex(SKIP + r"|\boptnone\b|\bnoinline\b")
_CPU = regex(r' "(?:target-cpu|target-features|tune-cpu)"="[^"]*"')

_MARK = '"target-cpu"="x86-64"'
_LINE = regex(rf"^.*{_MARK}.*$", re.M)
_WORDS = regex(
    r'"target-cpu"="x86-64"|"tune-cpu"="(?:generic|x86-64)"|"target-features"="([^"\n]*)"'
)
_EMPTY = regex(r"^\s*attributes\b[^{]*\{\s*\}")
_NOTHING = '"default-cpu"'
# A word of a group: `"a"="b"`, `align=16`, `memory(argmem: read)`.
_MEMBER = regex(r'"[^"]*"(?:="[^"]*")?|[a-z_]\w*(?:=\d+)?(?:\((?:"[^"]*"|[^()"]|\([^()]*\))*\))?')
# What every x86-64 has (psABI, table 3.1), and what is said of its speed alone.
_BASELINE = frozenset("64bit cmov cx8 fxsr mmx sse sse2 x87 crc32 nopl".split())
_TUNING = frozenset(
    "idivq-to-divl macrofusion slow-3ops-lea slow-incdec vzeroupper false-deps-popcnt".split()
)


def values(text: str, name: str) -> list[str]:
    """The values of an attribute, which is written `"name"="value"`, wherever a text has it."""
    return [found.partition('"')[0] for found in text.split(f'"{name}"="')[1:]]


def optnone_at(source: str) -> int:
    """The offset of the first `optnone` of a text; -1 where there is none."""
    match = _OPTNONE.search(source)
    return match.start() + match[0].rindex("optnone") if match else -1


def without_optnone(source: str) -> str:
    """The text with blanks for `optnone` and for the `noinline` that it requires."""

    def blank(match: re.Match[str]) -> str:
        return " " * len(match[0]) if match[0][0] in "on" else match[0]

    return _OPTNONE.sub(lambda line: _DROPPED.sub(blank, line[0]), source)


def members(group: str) -> list[str]:
    """The attributes of a group, `{ nounwind "a"="b" }`."""
    return _MEMBER.findall(group)


def cpu(group: str) -> list[str]:
    """The attributes of a group that name a processor."""
    return _CPU.findall(group)


def without_cpu(group: str) -> str:
    """A group of attributes without those that name a processor."""
    return _CPU.sub("", group)


def drop_default_cpu(source: str) -> tuple[str, int]:
    """The text with blanks in place of what was not chosen, and where the first such word was;
    -1 where there is none."""
    if _MARK not in source:
        return source, -1
    first = -1

    def line(match: re.Match[str]) -> str:
        nonlocal first
        if any(_chosen(words) for words in _WORDS.findall(match[0])):
            return match[0]
        if first < 0:
            first = match.start() + match[0].index(_MARK)
        left = _WORDS.sub(lambda word: " " * len(word[0]), match[0])
        if _EMPTY.search(left):  # LLVM wants something in a group: a word that it does not know
            left = match[0].replace(_MARK, _NOTHING.ljust(len(_MARK)), 1)
            left = _WORDS.sub(lambda word: " " * len(word[0]), left)
        return left

    return _LINE.sub(line, source), first


def _chosen(features: str) -> bool:
    """True if a list of features says anything that the baseline does not."""
    for word in filter(None, features.split(",")):
        name = word[1:]
        if word[0] == "+" and name not in _BASELINE and name not in _TUNING:
            return True
        if word[0] == "-" and name in _BASELINE - {"crc32"}:
            return True
    return False
