"""GNU ld as the judge of what we link: the same object, at the same addresses, byte for byte.

ld is told the address of every section and of every name from outside.  Two things differ by
design and are therefore put into the object that ld gets, so that its own arithmetic still decides:

- where a function's address is taken, not called, we write its canonical entry: such relocations
  refer to a name of their own, `NAME.entry`, which is at the canonical entry;
- GOT slots lie where our symbols have them, ld's in a table of its own: such fields are compared by
  the slot that they lead to and by what is in it.

Two more are compared by their meaning: where ld relaxes `mov sym@GOTPCREL(%rip), %reg` to
`mov $sym, %reg`, we write `lea sym(%rip), %reg`; where a newer one relaxes
`push sym@GOTPCREL(%rip)` to `push $sym`, we leave the load.
"""

from __future__ import annotations

import io
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from toolchain import tool

from jitkernel.elf import ElfObject, read_object
from jitkernel.elf import constants as c
from jitkernel.linker import Image, Linker, Symbol, SymbolState
from jitkernel.linker.layout import arrange
from jitkernel.linker.x86_64 import TABLE

__all__ = ["Linked", "assert_like_ld", "link_like", "section_addresses"]

_HEADER, _SYMBOL, _RELA = 64, struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_GOT_LOADS = (41, 42)
_CALL, _JMP = b"\xff\x15", b"\xff\x25"
_PUSH, _PUSH_CONSTANT = b"\xff\x35", b"\x2e\x68"  # a prefix without effect keeps the length


def section_addresses(obj: ElfObject, image: Image) -> dict[int, int]:
    """By section index: where the image has it."""
    starts = {}
    if image.text is not None:
        starts["text"] = image.text.start
    if image.rodata is not None:
        starts["rodata"] = image.rodata.extent.start
    if image.data is not None:
        starts["data"] = image.data.extent.start
    places = arrange(obj).places
    return {
        i: starts[p[0]] + p[1]
        for i, p in enumerate(places)
        if p is not None and obj.section(i).size
    }


def _is_call(obj: ElfObject, section: int, offset: int, kind: int) -> bool:
    content = obj.content(section)
    if kind in (4, 31):
        return True
    if kind == 2:
        code = bool(obj.section(section).flags & c.SHF_EXECINSTR)
        return code and content[offset - 1] & 0xFE == 0xE8
    return kind in _GOT_LOADS and content[offset - 2 : offset] in (_CALL, _JMP)


@dataclass
class _Patched:
    """The object as ld gets it: unique section names, and `NAME.entry` for addresses taken."""

    data: bytes
    entries: dict[str, str]


def _patch(data: bytes, obj: ElfObject, linker: Linker) -> _Patched:
    out = bytearray(data)
    table = next(i for i, s in enumerate(obj.sections) if s[1] == c.SHT_SYMTAB)
    symbols, strings = bytearray(obj.content(table)), bytearray(obj.strings)
    entries: dict[str, str] = {}
    numbers: dict[int, int] = {}
    relas = [(i, s) for i, s in enumerate(obj.sections) if s[1] == c.SHT_RELA]
    for index, header in relas:
        section = obj.section(index)
        for n in range(section.size // 24):
            at = section.offset + 24 * n
            offset, info, addend = _RELA.unpack_from(data, at)
            number, kind = info >> 32, info & 0xFFFFFFFF
            name = obj.symbol_name(number)
            symbol = linker.symbols.get(name)
            if obj.symbol(number).info >> 4 == 0 or symbol is None or not symbol.is_function:
                continue
            if symbol.state is SymbolState.NULL or kind in (32, 33):
                continue
            if not obj.section(header[7]).flags & c.SHF_ALLOC:
                continue
            if _is_call(obj, header[7], offset, kind):
                continue
            if number not in numbers:
                entries[name] = f"{name}.entry"
                numbers[number] = len(symbols) // 24
                symbols += _SYMBOL.pack(len(strings), 0x10, 0, 0, 0, 0)
                strings += entries[name].encode("utf-8", "surrogateescape") + b"\0"
            _RELA.pack_into(out, at, offset, numbers[number] << 32 | kind, addend)
    for number, entry in enumerate(obj.symbols):
        if entry[3] in (c.SHN_COMMON, c.SHN_X86_64_LCOMMON):  # ours lie where we say
            _SYMBOL.pack_into(symbols, 24 * number, entry[0], entry[1] & 0xF0, entry[2], 0, 0, 0)
    names = bytearray(b"\0")
    for index, s in enumerate(obj.sections):
        section = obj.section(index)
        name, kind, flags = len(names), section.type, section.flags
        names += f"o{index}".encode() + b"\0"
        flags &= ~(0x10 | 0x20 | 0x200 | 0x80)  # merge, strings, group, link order
        if kind == c.SHT_GROUP:
            kind = 0
        header = [name, kind, flags, *s[3:]]
        if index == table:
            header[4], header[5] = len(out), len(symbols)
            out += symbols
        elif index == obj.section(table).link:
            header[4], header[5] = len(out), len(strings)
            out += strings
        struct.pack_into("<IIQQQQIIQQ", out, _headers(data) + 64 * index, *header)
    index = struct.unpack_from("<H", data, 62)[0]
    struct.pack_into("<QQ", out, _headers(data) + 64 * index + 24, len(out), len(names))
    if index == obj.section(table).link:  # LLVM has one table for both kinds of name
        raise NotImplementedError
    return _Patched(bytes(out + names), entries)


def _headers(data: bytes) -> int:
    return struct.unpack_from("<Q", data, 40)[0]


def _split_tables(data: bytes) -> bytes:
    """The object with a table of section names apart from that of symbol names."""
    obj = read_object(data)
    table = next(s for s in obj.sections if s[1] == c.SHT_SYMTAB)
    names = struct.unpack_from("<H", data, 62)[0]
    if names != table[6]:
        return data
    out, at = bytearray(data), _headers(data)
    headers = bytearray(out[at : at + 64 * len(obj.sections)])
    headers += headers[64 * names : 64 * names + 64]
    struct.pack_into("<H", out, 60, len(obj.sections) + 1)
    struct.pack_into("<H", out, 62, len(obj.sections))
    out += bytes(-len(out) % 8)
    struct.pack_into("<Q", out, 40, len(out))
    return bytes(out + headers)


def _address(linker: Linker, symbol: Symbol) -> int:
    """Where branches to a symbol, and uses of a variable, go."""
    return linker.entry(symbol) if symbol.is_function else linker.bind.value(symbol)


@dataclass
class Linked:
    """What ld made: the object it got, where its sections are (`s3` for section 3), the names it
    was told, the program."""

    obj: ElfObject
    where: dict[int, int]
    names: dict[str, int]
    elf: bytes


def link_like(
    data: bytes, linker: Linker, image: Image, *flags: str, extra: Mapping[str, int] | None = None
) -> Linked:
    """ld's program of the object `data`, at the addresses where `image` is.

    The first 48 bytes of the rodata zone must be free for ld's own table.  `extra` are more names
    for ld.
    """
    data = _split_tables(data)
    obj = read_object(data)
    where = section_addresses(obj, image)
    patched = _patch(data, obj, linker)
    got = linker.arena.zones["rodata"].start
    slots = linker.arena.zones["rodata"].stop - 0x10000
    names: dict[str, int] = dict(extra or {})
    for name, entry in patched.entries.items():
        names[entry] = linker.canonical(linker.symbols[name])
    commons = {obj.symbol_name(i) for i, s in enumerate(obj.symbols) if s[3] == c.SHN_COMMON}
    for number, s in enumerate(obj.symbols):
        name = obj.symbol_name(number)
        symbol = linker.symbols.get(name)
        if s[1] >> 4 and (s[3] == 0 or name in commons) and symbol is not None:
            if symbol.state is not SymbolState.NULL:
                names[name] = _address(linker, symbol)
    script = "".join(f'"{n}" = {a:#x};\n' for n, a in names.items()) + "SECTIONS {\n"
    for index, address in sorted(where.items(), key=lambda item: item[1]):
        script += f"  s{index} {address:#x} : {{ *(o{index}) }}\n"
    script += f"  .got {slots:#x} : {{ *(.got) }}\n  .got.plt {got:#x} : {{ *(.got.plt) }}\n"
    script += "  /DISCARD/ : { *(*) }\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, n) for n in ("in.o", "script", "out")]
        paths[0].write_bytes(patched.data)
        paths[1].write_text(script)
        tool(
            "ld", "-static", "-nostdlib", "-e", "0", "--no-warn-rwx-segments", "-z", "noexecstack",
            *flags, "-T", str(paths[1]), "-o", str(paths[2]), str(paths[0]),
        )  # fmt: skip
        return Linked(obj, where, names, paths[2].read_bytes())


def assert_like_ld(
    data: bytes, linker: Linker, image: Image, *flags: str, extra: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Every loaded section of `image` holds what ld makes of its object `data`.

    The first 48 bytes of the rodata zone must be free for ld's own table.  Returns how many fields
    were compared by relocation type; `extra` are more names for ld.
    """
    made = link_like(data, linker, image, *flags, extra=extra)
    obj, where, names = made.obj, made.where, made.names
    linked = ELFFile(io.BytesIO(made.elf))
    theirs = {s.name: (s["sh_addr"], s.data()) for s in linked.iter_sections()}
    counted: dict[str, int] = {}
    for index, address in where.items():
        ours = bytearray(linker.arena.read(address, obj.section(index).size))
        assert theirs[f"s{index}"][0] == address, obj.section_name(index)
        judged = bytearray(theirs[f"s{index}"][1])
        for entry in obj.relocations.get(index, ()):
            row = TABLE.get(entry[1] & 0xFFFFFFFF)
            if row is None:
                continue
            counted[row.name] = counted.get(row.name, 0) + 1
            if row.base == "G":
                value = _got_value(obj, linker, index, entry, where)
                if value is None:
                    value = names.get(obj.symbol_name(entry[1] >> 32))
                _compare_got(obj, linker, index, address, entry, value, ours, judged, theirs)
        if ours != judged:
            at = next(i for i, (a, b) in enumerate(zip(ours, judged, strict=True)) if a != b)
            raise AssertionError(
                f"{obj.section_name(index)}+{at:#x}: ours {ours[at - 4 : at + 8].hex(' ')}, "
                f"ld's {judged[at - 4 : at + 8].hex(' ')}"
            )
    return counted


def _got_value(
    obj: ElfObject,
    linker: Linker,
    index: int,
    entry: tuple[int, int, int],
    where: Mapping[int, int],
) -> int | None:
    """What the GOT slot that a field leads to holds; None for a name that has no symbol."""
    offset, info, _ = entry
    own = obj.symbol(info >> 32)
    if own.info >> 4 == 0:
        return where[own.section] + own.value
    symbol = linker.symbols.get(obj.symbol_name(info >> 32))
    if symbol is None:
        return None
    if symbol.state is SymbolState.FAR and not symbol.is_function:
        return symbol.address
    call = _is_call(obj, index, offset, info & 0xFFFFFFFF)
    return linker.entry(symbol) if call else linker.canonical(symbol)


def _compare_got(obj, linker, index, address, entry, value, ours, judged, theirs) -> None:
    """Compare a field that loads through the GOT by where it leads, then make both equal."""
    offset, info, addend = entry
    row = TABLE[info & 0xFFFFFFFF]
    name = obj.symbol_name(info >> 32)
    symbol = linker.symbols.get(name) if obj.symbol(info >> 32).info >> 4 else None
    first = max(offset - {41: 2, 42: 3}.get(row.number, 0), 0)
    span = slice(first, offset + row.field)
    if ours[span] == judged[span]:
        return

    def slot(content: bytearray) -> int:
        field = int.from_bytes(content[offset : offset + row.field], "little", signed=True)
        return field - addend + (address + offset if row.relative else linker.bind.got)

    def in_ld(at: int) -> int:
        start, content = theirs[".got"]
        return struct.unpack_from("<Q", content, at - start)[0]

    def in_ours(at: int) -> int:
        return struct.unpack("<Q", linker.arena.read(at, 8))[0]

    original = obj.content(index)[span]
    relaxed = row.number in _GOT_LOADS and ours[first:offset] != original[: offset - first]
    if relaxed and ours[offset - 2] == 0x8D and judged[offset - 2] == 0xC7:
        # lea V(%rip), %reg here, mov $V, %reg there: the register moves to the rm field.
        field = struct.unpack_from("<i", ours, offset)[0]
        constant = struct.unpack_from("<i", judged, offset)[0]
        assert field + address + offset + 4 == constant == value
        register = ours[offset - 1] >> 3 & 7
        assert judged[offset - 1] == 0xC0 | register
        if row.number == 42:
            assert judged[offset - 3] & 1 == ours[offset - 3] >> 2 & 1
    elif ours[first:offset] == _PUSH and judged[first:offset] == _PUSH_CONSTANT:
        assert struct.unpack_from("<i", judged, offset)[0] == value == in_ours(slot(ours))
        if symbol is not None:
            assert slot(ours) == symbol.slot
    else:
        assert not relaxed, f"{name} at {offset:#x}: {ours[span].hex()} {judged[span].hex()}"
        assert ours[first:offset] == judged[first:offset]
        held = in_ours(slot(ours))
        assert held == in_ld(slot(judged))
        assert value is None or held == value
        if symbol is not None:
            assert slot(ours) == symbol.slot
    judged[span] = ours[span]
