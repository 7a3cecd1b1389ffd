"""Machine code of an object that is not placed, decoded as if it were: what its relocations refer
to stands at addresses that are made up, and has names.  Start from `decoded`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from zlib import crc32

from jitkernel.elf import ElfObject
from jitkernel.elf.constants import SHN_LORESERVE
from jitkernel.languages.c.values import quoted
from jitkernel.linker.disassembly import Instruction, decode
from jitkernel.linker.x86_64 import TABLE
from jitkernel.regex import regex

_BASE = 1 << 28  # addresses count from there, so that decoding takes them for addresses
_APART = 1 << 18  # bytes before and behind a symbol that the object has not
_PAGE = 4096  # bytes before and behind a section: `a[i - 1]` counts from before an array
_LITERALS = regex(r"\.rodata\.(?:cst(\d+)|str(\d+)\.\d+)")
_JUMPS = ("call", "j", "loop")


def constant(section: str, offset: int, content: Callable[[], bytes], fixed: bool) -> str:
    """The words for what no symbol tells of, in a section that is only read, from `offset` on.

    A constant as it is written in assembly, `="abc"` or `=0x3ff8000000000000`, where the section's
    name says how long it is (gABI, SHF_MERGE and SHF_STRINGS, by the names that LLVM gives); else
    a place, and where its content is `fixed` a checksum of that: two that are not equal differ."""
    match = _LITERALS.fullmatch(section) if offset >= 0 else None
    if match is None:
        check = f"#{crc32(content()[max(offset, 0) :]):08x}" if fixed else ""
        return f"{section}{offset:+}{check}"
    left = content()[offset:]
    if match[1]:
        return f"={int.from_bytes(left[: int(match[1])], 'little'):#x}"
    wide = int(match[2])
    ends = (at for at in range(0, len(left), wide) if not any(left[at : at + wide]))
    return f"={quoted(left[: next(ends, len(left))])}"


def is_literal(section: str) -> bool:
    """True of a section whose name says how long each constant in it is."""
    return _LITERALS.fullmatch(section) is not None


def decoded(
    obj: ElfObject,
    section: int,
    value: int,
    size: int,
    called: Callable[[str], str],
    syntax: str,
    lines: Sequence[tuple[int, int]],
) -> list[Instruction]:
    """The instructions of `size` bytes of a section, from `value` on; `called` spells the name of
    a symbol, `lines` are offsets in the section with the cell's lines."""
    made = _MadeUp(obj, called)
    content = bytearray(obj.content(section))
    names: dict[int, str] = {}
    for at, info, addend in obj.relocations.get(section, ()):
        if value <= at < value + size:
            names[at] = made.relocate(content, made.sections[section], at, info, addend)
    start = made.sections[section] + value
    rows = [(made.sections[section] + at, line) for at, line in lines]
    code = bytes(content[value : value + size])
    found = decode(code, start, made.describe, syntax, rows)
    for number, i in enumerate(found):
        at = i.address - start + value
        there = [names[o] for o in range(at, at + len(i.code)) if o in names]
        if not there and not i.mnemonic.startswith(_JUMPS):
            found[number] = i._replace(target=0, refers="")  # a number that is no address
        elif not i.refers and there:
            found[number] = i._replace(refers=there[0])
    return found


class _MadeUp:
    """Addresses of an object's sections, and of the symbols that it has not and their GOT slots."""

    def __init__(self, obj: ElfObject, called: Callable[[str], str]):
        self._obj, self._called, self._end = obj, called, _BASE
        # What lies where: the first address that is said by it, where it begins, and its words.
        self._words: list[tuple[int, int, str]] = []
        self._slots: dict[int, int] = {}
        self._undefined: dict[int, int] = {}
        self.sections: list[int] = []
        for number, header in enumerate(obj.sections):
            self.sections.append(self._room(header[5], obj.section_name(number)))
        self._symbols = sorted(
            (self.sections[where] + at, long, called(obj.symbol_name(number)))
            for number, (_, info, _, where, at, long) in enumerate(obj.symbols)
            if 0 < where < SHN_LORESERVE and (long or info & 15 == 0) and obj.symbol_name(number)
        )

    def _room(self, size: int, words: str, around: int = _PAGE) -> int:
        at = self._end + around
        self._words.append((self._end, at, words))
        self._end = at + size + -size % _PAGE + around
        return at

    def relocate(self, content: bytearray, base: int, at: int, info: int, addend: int) -> str:
        """Fill a field; the words for what it refers to."""
        number, row = info >> 32, TABLE.get(info & 0xFFFFFFFF)
        name = self._called(self._obj.symbol_name(number))
        if row is not None and row.base in "SLG" and not row.got:
            target = self._slot(number, name) if row.base == "G" else self._address(number, name)
            moved = target + addend - (base + at if row.relative else 0)
            kept = moved & (1 << 8 * row.field) - 1
            content[at : at + row.field] = kept.to_bytes(row.field, "little")
        return name

    def _address(self, number: int, name: str) -> int:
        _, _, _, where, value, _ = self._obj.symbols[number]
        if 0 < where < SHN_LORESERVE:
            return self.sections[where] + value
        if number not in self._undefined:
            self._undefined[number] = self._room(0, name, _APART)
        return self._undefined[number]

    def _slot(self, number: int, name: str) -> int:
        if number not in self._slots:
            self._slots[number] = self._room(8, f"{name} in its GOT slot")
        return self._slots[number]

    def describe(self, address: int) -> str:
        """The words for what is at an address."""
        row = bisect_right(self._words, address, key=lambda word: word[0]) - 1
        if row < 0:
            return ""
        _, start, words = self._words[row]
        if row >= len(self.sections):
            return f"{words}{address - start:+}" if address != start else words
        if not is_literal(words):
            for at, size, name in self._symbols:
                if at <= address < at + max(size, 1):
                    return f"{name}+{address - at}" if address > at else name
        obj = self._obj
        fixed = words.startswith(".rodata") and row not in obj.relocations
        return constant(words, address - start, lambda: obj.content(row), fixed)
