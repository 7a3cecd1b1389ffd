"""What the functions of an object are, wherever they and what they use are placed.

Start from `digests`.  A function is its bytes and its relocations; of what these lead to, a name
stands for itself, and what only the object knows (strings, tables, functions of its own) is looked
at in the same way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from jitkernel.elf import constants as c
from jitkernel.elf import read_object
from jitkernel.elf.reader import ElfObject
from jitkernel.linker.instructions import decode
from jitkernel.regex import regex

#: Relocations relative to where they are: PC32, PLT32, GOTPCREL, GOTPC32, GOTPCRELX and
#: REX_GOTPCRELX (psABI 4.4.1).
_RELATIVE = frozenset((2, 4, 9, 26, 41, 42))
_MERGED, _STRINGS = 0x10, 0x20  # SHF_MERGE, SHF_STRINGS (gABI, "Section Attribute Flags")
_NUMBER = regex(r"(?:\.\d+)+\Z")  # by which LLVM tells names apart


class _Named(NamedTuple):
    """A function or a variable; `shared`: others know it, and may define it anew."""

    start: int
    size: int
    name: str
    shared: bool


def digests(data: bytes) -> dict[str, bytes]:
    """A digest of each function that an object defines for others, by name.  Raises LinkError."""
    return dict(_Digests(read_object(data)).functions())


class _Digests:
    """Of one object.  A part is a function, a variable, or a piece of a section without a name."""

    def __init__(self, obj: ElfObject):
        self._obj = obj
        self._around: list[tuple[int, int]] = []  # parts that are being read: there may be rings
        self._ring = 0  # the outermost of those that the part read last leads back to
        self._known: dict[tuple[int, int], bytes] = {}
        entries, count = obj.relocations, len(obj.sections)
        self._entries = {index: sorted(entries.get(index, ())) for index in range(count)}
        self._named: dict[int, list[_Named]] = {}
        for index, (_, info, _, section, value, size) in enumerate(obj.symbols):
            if info & 15 in (c.STT_FUNC, c.STT_OBJECT):
                named = _Named(value, size, obj.symbol_name(index), bool(info >> 4))
                self._named.setdefault(section, []).append(named)
        for found in self._named.values():
            found.sort()
        self._borders = self._referred_to()

    def functions(self) -> Iterator[tuple[str, bytes]]:
        for section, found in self._named.items():
            if 0 < section < len(self._obj.sections) and self._is_code(section):
                for start, size, name, shared in found:
                    if shared:
                        yield name, self._part(section, start, size)

    def _is_code(self, section: int) -> bool:
        return bool(self._obj.sections[section][2] & c.SHF_EXECINSTR)

    # -- what relocations lead to ----------------------------------------------------------------

    def _places(
        self, section: int, start: int, size: int
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Of each relocation in a part: its offset there, type, symbol, addend, and where in that
        symbol's section it leads to."""
        entries = self._entries[section]
        first, last = (bisect_left(entries, (at, -1, 0)) for at in (start, start + size))
        code = self._obj.content(section)[start : start + size] if self._is_code(section) else b""
        end = 0
        for offset, info, addend in entries[first:last]:
            at, kind, symbol = offset - start, info & 0xFFFF_FFFF, info >> 32
            into = self._obj.symbols[symbol][4] + addend
            if kind in _RELATIVE and not code:
                into -= at  # an entry of a table, counted from the table's beginning
            elif kind in _RELATIVE:
                try:
                    while end <= at:
                        end = decode(code, end).end
                except IndexError:
                    end = at + 4
                into += end - at
            yield at, kind, symbol, addend, into

    def _referred_to(self) -> dict[int, list[int]]:
        """By section: where what code refers to begins."""
        found: dict[int, set[int]] = {}
        for section, named in self._named.items():
            if 0 < section < len(self._obj.sections) and self._is_code(section):
                for start, size, _, _ in named:
                    for _, _, symbol, _, into in self._places(section, start, size):
                        if not self._obj.symbols[symbol][1] >> 4:
                            found.setdefault(self._obj.symbols[symbol][3], set()).add(into)
        return {section: sorted(offsets) for section, offsets in found.items()}

    # -- parts -----------------------------------------------------------------------------------

    def _part(self, section: int, start: int, size: int) -> bytes:
        key = section, start
        if key in self._known:
            return self._known[key]
        depth = len(self._around)
        if key in self._around:
            outer = self._around.index(key)
            self._ring = min(self._ring, outer)
            return b"ring %d" % (depth - outer)
        ring, self._ring = self._ring, depth
        self._around.append(key)
        content = self._obj.content(section)[start : start + size]
        found = blake2b(b"%d " % size + content, digest_size=16)
        for at, kind, symbol, addend, into in self._places(section, start, size):
            _, info, _, other, _, _ = self._obj.symbols[symbol]
            found.update(b" %d %d " % (at, kind))
            if info >> 4 or not 0 < other < len(self._obj.sections):
                name = self._obj.symbol_name(symbol)
                found.update(f"{name} {addend}".encode("utf-8", "surrogateescape"))
            else:
                found.update(self._at(other, into))
        self._around.pop()
        digest = found.digest()
        if self._ring >= depth:  # else it depends on where the ring was entered
            self._known[key] = digest
        self._ring = min(ring, self._ring)
        return digest

    def _at(self, section: int, offset: int) -> bytes:
        """The content of a section at an offset."""
        named = self._named.get(section, [])
        index = bisect_right(named, offset, key=lambda part: part.start) - 1
        if index >= 0 and offset < (found := named[index]).start + max(found.size, 1):
            # Of what others may define anew, the name counts.
            own = b"" if found.shared else self._part(section, found.start, found.size)
            name = found.name if found.shared else _NUMBER.sub("", found.name)
            text = f"{name}+{offset - found.start} "
            return text.encode("utf-8", "surrogateescape") + own
        stop = named[index + 1].start if index + 1 < len(named) else None
        return self._nameless(section, offset, stop)

    def _nameless(self, section: int, offset: int, stop: int | None) -> bytes:
        """A string, a constant, a table: up to what begins next."""
        _, _, flags, _, _, size, _, _, _, width = self._obj.sections[section]
        if not 0 <= offset < size:
            return b"outside %d" % (offset - size)
        stops = [size if stop is None else stop]
        borders = self._borders.get(section, [])
        if flags & _MERGED and flags & _STRINGS:
            end = self._obj.content(section).find(b"\0" * (width or 1), offset)
            stops += [end] * (end >= 0)
        elif flags & _MERGED and width:
            stops.append(offset + width)
        elif (next_ := bisect_right(borders, offset)) < len(borders):
            stops.append(borders[next_])
        return self._part(section, offset, max(min(stops) - offset, 0))
