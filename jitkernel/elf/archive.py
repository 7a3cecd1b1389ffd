"""Archives (`libfoo.a`): which members there are, which of them defines a name.

Start from `read_archive`.  The formats are those of ar(5): System V's with GNU's long names and
64-bit index, BSD's long names, and GNU's thin archives, whose members are files beside it.  What a
member is for, and when it is needed, is not decided here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from jitkernel.elf import constants as c
from jitkernel.elf.reader import ElfObject, read_object
from jitkernel.errors import LinkError

MAGIC: Final = b"!<arch>\n"
THIN_MAGIC: Final = b"!<thin>\n"
_HEADER: Final = 60  # name 16, date 12, owner 6, group 6, mode 8, size 10, end 2
_INDEX: Final = ("/", "/SYM64/")
_LTO: Final = b"\0__gnu_lto_slim\0"  # a symbol, where gcc has left out the code
_BSD_INDEX: Final = ("__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64")


class Member(NamedTuple):
    """One file of an archive: `size` bytes from `offset` on, or at `path` where that is given."""

    name: str
    offset: int
    size: int
    path: str


class Archive:
    """The members of an archive, and what they define.

    `index` maps a name to the number of the first member that defines it.  The bytes stay in the
    file: `content` is given them.
    """

    def __init__(self, path: str, members: list[Member], index: dict[str, int]):
        self.path, self.members, self.index = path, members, index

    def label(self, number: int) -> str:
        """A member's name in messages: `libz.a(inflate.o)`."""
        return f"{os.path.basename(self.path)}({self.members[number].name})"

    def object(self, data: bytes, number: int, read: Callable[[str], bytes]) -> ElfObject:
        """A member as an object; `data` are the archive's bytes, `read` reads another file.

        Raises LinkError, which names it and what to do.
        """
        content, at, size = _content(data, self.members[number], read)
        label = self.label(number)
        if is_archive(content[at : at + min(size, 8)]):
            raise LinkError(
                f"{label} is an archive in an archive; extract it (ar x {self.path}) and %link it"
            )
        return foreign_object(content, label, at, size)


def foreign_object(data: bytes, label: str, at: int = 0, size: int | None = None) -> ElfObject:
    """An object that another compiler made, in some bytes, called `label` in messages.

    Raises LinkError where it is none, or has no machine code.
    """
    if data[at : at + 4] in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b"):
        raise LinkError(f"{label} is LLVM bitcode: build it without -flto to link its code")
    try:
        obj = read_object(data, at, size)
    except LinkError as error:
        raise LinkError(f"{label}: {error}") from None
    if _LTO in obj.strings:
        raise LinkError(
            f"{label} has no machine code, only what gcc -flto left for a linker of its own; "
            "build it with -ffat-lto-objects, or without -flto"
        )
    return obj


def is_archive(data: bytes) -> bool:
    """True if a file is an archive, thin or not."""
    return data[:8] in (MAGIC, THIN_MAGIC)


def read_archive(data: bytes, path: str, read: Callable[[str], bytes]) -> Archive:
    """The archive in `data`, which is the file `path`; `read` gives the bytes of another file.

    An archive without an index (`ar cS`) gets one from its members' symbol tables, where those
    that are no objects have none.  Raises LinkError for what is no archive, or ends too early.
    """
    if not is_archive(data):
        raise LinkError(f"{path} is not an archive: it begins with {data[:8]!r}")
    thin = data[:8] == THIN_MAGIC
    members: list[Member] = []
    by_offset: dict[int, int] = {}
    names, index = b"", None
    at = 8
    while at + 1 < len(data):
        name, size = _header(data, at, path)
        start, begins = at + _HEADER, at
        special = name in _INDEX or name in ("//", "ARFILENAMES/")
        at = start + (size if special or not thin else 0)
        if at > len(data):
            raise LinkError(f"{path}: the member at {begins:#x} ends behind the file's end")
        at += at & 1
        if name in _INDEX:
            index = _read_index(data[start : start + size], name == "/SYM64/", path)
            continue
        if special:
            names = data[start : start + size]
            continue
        if name.startswith("#1/"):  # BSD: the name is in front of the content
            length = _number(name[3:], path, begins)
            if length > size:
                raise LinkError(f"{path}: the name of the member at {begins:#x} is too long")
            name = data[start : start + length].rstrip(b"\0").decode("utf-8", "surrogateescape")
            start, size = start + length, size - length
        elif name.startswith("/"):
            name = _long_name(names, name[1:].partition(":")[0], path, begins)
        else:
            name = name.removesuffix("/")
        if name in _BSD_INDEX:
            continue
        beside = os.path.join(os.path.dirname(path), name) if thin else ""
        by_offset[begins] = len(members)
        members.append(Member(os.path.basename(name) or name, 0 if thin else start, size, beside))
    found: dict[str, int] = {}
    if index is None:
        found = _make_index(data, members, read)
    else:
        for name, offset in index:
            if offset not in by_offset:
                raise LinkError(
                    f"{path}: its index says that a member at {offset:#x} defines {name}, and "
                    "there is none; ranlib makes the index again"
                )
            found.setdefault(name, by_offset[offset])
    return Archive(path, members, found)


def _header(data: bytes, at: int, path: str) -> tuple[str, int]:
    """A member's name as the header has it, and its size."""
    header = data[at : at + _HEADER]
    if len(header) < _HEADER or header[58:] != b"`\n":
        raise LinkError(f"{path}: there is no member's header at {at:#x}; the archive is damaged")
    name = header[:16].decode("utf-8", "surrogateescape").rstrip(" ")
    return name, _number(header[48:58].decode("latin-1"), path, at)


def _number(text: str, path: str, at: int) -> int:
    text = text.strip(" ")
    if not (text.isascii() and text.isdecimal()):
        raise LinkError(f"{path}: the header at {at:#x} has {text!r} for a number")
    return int(text)


def _long_name(names: bytes, where: str, path: str, at: int) -> str:
    """A name in the table of long ones: it ends with a slash and a new line."""
    offset = _number(where, path, at)
    if offset >= len(names):
        raise LinkError(f"{path}: the name of the member at {at:#x} is not in the archive's table")
    end = names.find(b"\n", offset)
    name = names[offset : end if end >= 0 else len(names)]
    return name.removesuffix(b"/").decode("utf-8", "surrogateescape")


def _read_index(table: bytes, wide: bool, path: str) -> list[tuple[str, int]]:
    """Names and the offsets of the members that define them, from the archive's index."""
    word = ">Q" if wide else ">I"
    size = struct.calcsize(word)
    try:
        count = struct.unpack_from(word, table)[0]
        if count > len(table):
            raise LinkError(f"{path}: its index has {count} names in {len(table)} bytes")
        offsets = struct.unpack_from(f">{count}{word[1]}", table, size)
    except struct.error:
        raise LinkError(f"{path}: its index ends too early; ranlib makes it again") from None
    names = table[size * (count + 1) :].split(b"\0", count)
    if len(names) < count:
        raise LinkError(f"{path}: its index ends too early; ranlib makes it again")
    texts = [name.decode("utf-8", "surrogateescape") for name in names[:count]]
    return list(zip(texts, offsets, strict=True))


def _make_index(data: bytes, members: list[Member], read: Callable[[str], bytes]) -> dict[str, int]:
    """The index of an archive that has none."""
    found: dict[str, int] = {}
    for number, member in enumerate(members):
        content, begin, size = _content(data, member, read)
        if content[begin : begin + 4] != b"\x7fELF":
            continue
        try:
            obj = read_object(content, begin, size)
        except LinkError as error:
            raise LinkError(f"{member.name}: {error}") from None
        for at, symbol in enumerate(obj.symbols):
            if symbol[1] >> 4 != c.STB_LOCAL and symbol[3]:
                found.setdefault(obj.symbol_name(at), number)
    return found


def _content(data: bytes, member: Member, read: Callable[[str], bytes]) -> tuple[bytes, int, int]:
    """The bytes that a member is in, where it begins there, and how many it has."""
    if member.path:
        found = read(member.path)
        return found, 0, len(found)
    return data, member.offset, member.size


def write_archive(members: Mapping[str, bytes]) -> bytes:
    """An archive of objects by name, with the index that linkers look names up in.

    Dates, owners and groups are 0, so that equal objects make equal archives.
    """
    long = bytearray()
    spelled: list[str] = []
    offsets: list[int] = []
    names: list[tuple[int, str]] = []
    at = 0
    for number, (name, data) in enumerate(members.items()):
        obj = read_object(data)
        for i, (_, info, _, section, _, _) in enumerate(obj.symbols):
            if info >> 4 != c.STB_LOCAL and section:
                names.append((number, obj.symbol_name(i)))
        raw = name.encode("utf-8", "surrogateescape")
        if len(raw) < 16:
            spelled.append(name + "/")
        else:
            spelled.append(f"/{len(long)}")
            long += raw + b"/\n"
        offsets.append(at)
        at += _HEADER + len(data) + len(data) % 2
    text = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for _, name in names)
    size = 4 + 4 * len(names) + len(text)
    first = len(MAGIC) + _HEADER + size + size % 2
    first += _HEADER + len(long) + len(long) % 2 if long else 0
    index = struct.pack(f">{len(names) + 1}I", len(names), *[first + offsets[n] for n, _ in names])
    out = [MAGIC, _written("/", index + text)]
    if long:
        out.append(_written("//", bytes(long)))
    out += [_written(s, data) for s, data in zip(spelled, members.values(), strict=True)]
    return b"".join(out)


def _written(name: str, data: bytes) -> bytes:
    """A member with its header."""
    head = name.encode("utf-8", "surrogateescape").ljust(16)
    head += b"0           0     0     644     " + b"%-10d`\n" % len(data)
    return head + data + b"\n" * (len(data) % 2)
