"""Machine code of an object with the names of what its operands lead to, which its relocations tell
of: where it stands in memory, or decoded as if it stood somewhere.  Start from `NamedCode`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

from jitkernel.elf import ElfObject
from jitkernel.elf.constants import SHF_EXECINSTR, SHF_WRITE, SHN_LORESERVE
from jitkernel.languages.c.values import quoted
from jitkernel.linker.disassembly import Instruction, decode
from jitkernel.linker.x86_64 import TABLE, Relocation
from jitkernel.regex import regex

_BASE = 1 << 28  # where code is taken to be that has no place, so that decoding sees addresses
_ELSEWHERE = 1 << 29  # and where what it leads to is
_PAGE = 4096  # bytes before an object that are told as of it: `a[i - 1]`
_LITERALS = regex(r"\.rodata\.(?:cst(\d+)|str(\d+)\.\d+)")
_JUMPS = ("call", "j", "loop")
_PLACE = itemgetter(0)
#: A field in a section: where, what is made of it, the number of its symbol, and the addend.
_Field = tuple[int, Relocation | None, int, int]
_LONGEST = 40  # letters of a string that is not compared


class Stretch(NamedTuple):
    """The bytes between two places of a section of an object."""

    of: NamedCode
    section: int
    start: int
    stop: int

    @property
    def is_fixed(self) -> bool:
        """True of data that nothing changes."""
        return self.of.is_fixed(self.section)


class NamedCode:
    """The code of an object; `called` spells the name of a symbol.

    `meant`, for who compares: what a symbol's name means that others may see.  Strings are told
    whole, and behind the name of a constant stands `#` and a checksum of what it has, so that two
    that are not equal differ.
    """

    def __init__(
        self,
        obj: ElfObject,
        called: Callable[[str], str],
        meant: Callable[[str], Stretch | None] | None = None,
    ):
        self._obj, self._called, self._meant = obj, called, meant
        self._named = cache(self._named_in)
        self._begins = cache(self._begins_in)
        self._relocated = cache(self._relocations_in)
        self._checksum = cache(self._checksum_of)
        self.content = cache(self._content_of)

    def decode(
        self,
        section: int,
        value: int,
        size: int,
        syntax: str,
        lines: Sequence[tuple[int, int]] = (),
    ) -> list[Instruction]:
        """The instructions of `size` bytes of a section, from `value` on, as if they stood
        somewhere; `lines` are offsets in the section with the cell's lines."""
        content = bytearray(self._obj.content(section)[value : value + size])
        for at, row, _, _ in self._fields(section, value, value + size):
            if row is not None and _is_address(row):
                moved = _ELSEWHERE - row.relative * (_BASE + at)
                kept = moved & (1 << 8 * row.field) - 1
                content[at - value : at - value + row.field] = kept.to_bytes(row.field, "little")

        def describe(address: int) -> str:
            return self.named(section, address - _BASE)

        rows = [(_BASE + at, line) for at, line in lines]
        found = decode(bytes(content), _BASE + value, describe, syntax, rows)
        return self.refer(found, section, value)

    def refer(self, found: Sequence[Instruction], section: int, value: int) -> list[Instruction]:
        """Instructions that are decoded, of a section from `value` on, with what their operands
        lead to, and nothing of numbers that are no addresses."""
        if not found:
            return []
        size = found[-1].address + len(found[-1].code) - found[0].address
        fields = {field[0]: field for field in self._fields(section, value, value + size)}
        made = []
        for i in found:
            at = i.address - found[0].address + value
            there = next((o for o in range(at, at + len(i.code)) if o in fields), -1)
            if there < 0:
                is_jump = i.mnemonic.startswith(_JUMPS)
                made.append(i if is_jump or not i.target else i._replace(target=0, refers=""))
                continue
            _, row, number, addend = fields[there]
            target, name = i.target, self._called(self._obj.symbol_name(number))
            if row is None or not _is_address(row):
                made.append(i._replace(refers=i.refers or name))
                continue
            if row.base != "G":
                held = i.code[there - at : there - at + row.field]
                target = int.from_bytes(held, "little", signed=row.relative)
                if row.relative:
                    target += i.address + len(i.code)
                    addend += at + len(i.code) - there
            _, info, _, where, begin, _ = self._obj.symbols[number]
            if row.base == "G":
                words = i.refers or f"{name} in its GOT slot"
            elif info < 16 and 0 < where < SHN_LORESERVE:
                words = self.words(where, begin + addend, "*" in i.operands or ",%" in i.operands)
            else:
                words = f"{name}{addend:+}" if addend else i.refers or name
                words += self._checksum(self._other(number))
            made.append(i._replace(target=target, refers=words))
        return made

    def _fields(self, section: int, start: int, stop: int) -> list[_Field]:
        """The fields between two places of a section, by place."""
        found = self._relocated(section)
        return found[bisect_left(found, start, key=_PLACE) : bisect_left(found, stop, key=_PLACE)]

    # -- what stands in an object ----------------------------------------------------------------

    def words(self, section: int, offset: int, is_array: bool = False) -> str:
        """The words for a place in a section, which may be one before its beginning; of an array
        it is not known which element is meant, nor whether it is the next one's `a[i - 1]`."""
        words, whole = self._place(section, offset, is_array)
        return words + self._checksum(whole)

    def _place(
        self, section: int, offset: int, is_array: bool = False
    ) -> tuple[str, Stretch | None]:
        """The words for a place, and all that may be meant by it, where they do not tell that."""
        header, name = self._obj.section(section), self._obj.section_name(section)
        match = _LITERALS.fullmatch(name)
        if match is not None and 0 <= offset < header.size:
            text = self._literal(self._obj.content(section)[offset:], match[1], match[2])
            return f"={text}", None
        symbols = self._named(section)
        at = bisect_right(symbols, offset, key=_PLACE) - 1
        words, start, stop = f"{name}{offset:+}", max(offset, 0), header.size
        for begin, size, called in symbols[max(at, 0) : at + 2]:
            if begin - _PAGE <= offset < begin + max(size, 1):
                words = f"{called}{offset - begin:+}" if offset != begin else called
                start, stop = begin, begin + size
                break
        else:
            stop = min((mark for mark in self._begins(section) if mark > start), default=stop)
        if is_array and start < offset:
            stop = min(
                (end for begin, size, _ in symbols if (end := begin + size) > stop), default=stop
            )
        return words, Stretch(self, section, start, stop)

    @cached_property
    def defined(self) -> Mapping[str, Stretch]:
        """The stretches of this object by the names of symbols."""
        return {
            self._obj.symbol_name(number): Stretch(self, where, value, value + size)
            for number, (_, _, _, where, value, size) in enumerate(self._obj.symbols)
            if 0 < where < SHN_LORESERVE
        }

    def _other(self, number: int) -> Stretch | None:
        """The stretch that a symbol means, wherever it is defined."""
        return self._meant(self._obj.symbol_name(number)) if self._meant is not None else None

    def named(self, section: int, offset: int) -> str:
        """The symbol that a place in a section is of, "" for none."""
        for begin, size, called in self._named(section):
            if begin <= offset < begin + max(size, 1):
                return f"{called}+{offset - begin}" if offset > begin else called
        return ""

    def _named_in(self, section: int) -> list[tuple[int, int, str]]:
        """The symbols of a section, by place: that, bytes and name."""
        return sorted(
            (value, size, self._called(name))
            for number, (_, info, _, where, value, size) in enumerate(self._obj.symbols)
            if where == section
            and (size or info & 15 == 0)
            and (name := self._obj.symbol_name(number))
        )

    def _literal(self, content: bytes, size: str | None, wide: str) -> str:
        """A constant as it is written in assembly, `"abc"` or `0x3ff8000000000000`, where the
        section's name says how long it is (gABI, SHF_MERGE and SHF_STRINGS, by the names that LLVM
        gives)."""
        if size:
            return f"{int.from_bytes(content[: int(size)], 'little'):#x}"
        step = int(wide)
        ends = (at for at in range(0, len(content), step) if not any(content[at : at + step]))
        text = quoted(content[: next(ends, len(content))])
        return text if self._meant is not None or len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

    def is_fixed(self, section: int) -> bool:
        """True of a section of data that nothing changes."""
        flags, name = self._obj.section(section).flags, self._obj.section_name(section)
        is_data = not flags & SHF_EXECINSTR
        return is_data and (not flags & SHF_WRITE or name.startswith(".data.rel.ro"))

    def _checksum_of(self, whole: Stretch | None) -> str:
        """`#` and a checksum of a constant and of all constants that it leads to, which may lead
        back to it; "" for what may change, or where nothing is compared."""
        if self._meant is None or whole is None or not whole.is_fixed:
            return ""
        every, numbers, check = [whole], {whole: 0}, 0
        for each in every:
            content, led = each.of.content(*each[1:])
            told = []
            for words, there in led:
                if there is not None and there.is_fixed:
                    if numbers.setdefault(there, len(every)) == len(every):
                        every.append(there)
                    words += f"#{numbers[there]}"
                told.append(words)
            check = crc32(repr((content, told)).encode(), check)
        return f"#{check:08x}"

    def _content_of(
        self, section: int, start: int, stop: int
    ) -> tuple[bytes, list[tuple[str, Stretch | None]]]:
        """The bytes between two places of a section, without its pointers, and what those lead to:
        the words for that; of those into functions, the order of the places."""
        content = bytearray(self._obj.content(section)[start:stop])
        led: list[tuple[str | int, Stretch | None]] = []
        for at, row, number, addend in self._fields(section, start, stop):
            width = row.field if row is not None else 0
            content[at - start : at - start + width] = bytes(width)
            _, info, _, where, value, _ = self._obj.symbols[number]
            place = value + addend - (at - start if row is not None and row.relative else 0)
            if info >= 16 or not 0 < where < SHN_LORESERVE:
                name = self._called(self._obj.symbol_name(number))
                led.append((f"{name}{addend:+}", self._other(number)))
            elif not self._obj.section(where).flags & SHF_EXECINSTR:
                led.append(self._place(where, place))
            else:
                name = self.named(where, place)
                led.append((place if "+" in name or not name else name, None))
        places = sorted({place for place, _ in led if isinstance(place, int)})
        order = {place: f"{at}" for at, place in enumerate(places)}
        told = [(order[w] if isinstance(w, int) else w, there) for w, there in led]
        return bytes(content), told

    def _relocations_in(self, section: int) -> list[_Field]:
        return sorted(
            (at, TABLE.get(info & 0xFFFFFFFF), info >> 32, addend)
            for at, info, addend in self._obj.relocations.get(section, ())
        )

    def _begins_in(self, section: int) -> set[int]:
        """The places in a section where something begins: a symbol, or what code refers to."""
        symbols, obj = self._obj.symbols, self._obj
        code = [n for n in obj.relocations if obj.section(n).flags & SHF_EXECINSTR]
        return {begin for begin, _, _ in self._named(section)} | {
            symbols[number][4] + addend + (4 if row is not None and row.relative else 0)
            for where in code
            for _, row, number, addend in self._relocated(where)
            if symbols[number][3] == section
        }


def _is_address(row: Relocation) -> bool:
    """True of a field whose number is an address, or a distance to one."""
    return row.base in "SLG" and not row.got
