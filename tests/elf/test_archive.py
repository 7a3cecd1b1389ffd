"""Reading archives: what `ar` makes of each kind; what is damaged, refused with the place."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import assemble, needs, tool

from jitkernel.elf.archive import read_archive
from jitkernel.errors import LinkError

pytestmark = needs("as", "ar")

_MEMBERS = {
    "a.o": ".globl one\none: ret",
    "b.o": ".globl two, three\ntwo: ret\nthree: ret",
    "a name of more than sixteen characters.o": ".globl four\nfour: ret",
    "odd.o": '.globl five\nfive: ret\n.section s,"a"\n.byte 1',
}


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, source in _MEMBERS.items():
        (tmp_path / name).write_bytes(assemble(source))
    return tmp_path


def _archive(folder: Path, flags: str, name: str = "lib.a"):
    tool("ar", flags, str(folder / name), *_MEMBERS)
    data = (folder / name).read_bytes()
    return read_archive(data, str(folder / name), _read), data


@pytest.mark.parametrize("flags", ["rcs", "rcS", "rcsT", "rcST"], ids=str)
def test_members_and_what_they_define(folder, flags):
    """With and without an index, thin and not: the same members, the same names."""
    archive, data = _archive(folder, flags)
    assert [m.name for m in archive.members] == list(_MEMBERS)
    names = list(_MEMBERS)
    assert {n: names[i] for n, i in archive.index.items()} == {
        "one": "a.o", "two": "b.o", "three": "b.o", "four": names[2], "five": "odd.o",
    }  # fmt: skip
    for number, name in enumerate(_MEMBERS):
        obj = archive.object(data, number, _read)
        assert obj.symbols and obj.data == (folder / name).read_bytes()


def test_an_index_of_64_bits(folder):
    archive, data = _archive(folder, "rcs")
    size = int(data[56:66])
    table = data[68 : 68 + size]
    count = struct.unpack_from(">I", table)[0]
    offsets = struct.unpack_from(f">{count}I", table, 4)
    names = table[4 * (count + 1) :]
    grown = 4 * (count + 1) + (len(names) & 1)
    offsets = [o + grown for o in offsets]
    wide = struct.pack(f">{count + 1}Q", count, *offsets) + names + b"\0" * (len(names) & 1)
    header = b"/SYM64/".ljust(48) + str(len(wide)).encode().ljust(10) + b"`\n"
    again = read_archive(data[:8] + header + wide + data[68 + size + (size & 1) :], "x.a", _read)
    assert again.index == archive.index


def test_names_as_bsd_writes_them(folder):
    content = (folder / "a.o").read_bytes()
    name = b"a name of more than sixteen.o\0\0\0"
    header = f"#1/{len(name)}".encode().ljust(48)
    header += str(len(name) + len(content)).encode().ljust(10) + b"`\n"
    archive = read_archive(b"!<arch>\n" + header + name + content, "x.a", _read)
    assert [m.name for m in archive.members] == ["a name of more than sixteen.o"]
    assert archive.index == {"one": 0}


def test_what_is_no_object_is_refused_when_it_is_asked_for(folder):
    inner, _ = _archive(folder, "rcs", "inner.a")
    (folder / "notes.txt").write_text("no object")
    (folder / "lto.o").write_bytes(b"BC\xc0\xde" + bytes(60))
    tool("ar", "rcs", "outer.a", "inner.a", "notes.txt", "lto.o")
    data = _read("outer.a")
    outer = read_archive(data, "outer.a", _read)
    assert outer.index == {}
    for number, words in enumerate(
        [r"outer.a\(inner.a\) is an archive in an archive", "not an ELF object", "LLVM bitcode"]
    ):
        with pytest.raises(LinkError, match=words):
            outer.object(data, number, _read)
    assert inner.label(0) == "inner.a(a.o)"


def test_a_thin_member_that_is_gone(folder):
    archive, data = _archive(folder, "rcsT")
    os.unlink("b.o")
    with pytest.raises(FileNotFoundError):
        archive.object(data, 1, _read)


@pytest.mark.parametrize("flags", ["rcs", "rcS"])
def test_a_truncated_archive_is_refused_or_has_fewer_members(folder, flags):
    whole, data = _archive(folder, flags)
    for size in range(0, len(data) - 1, 5):
        try:
            found = read_archive(data[:size], "x.a", _read)
        except LinkError:
            continue
        assert flags == "rcS" and len(found.members) < len(whole.members)


@pytest.mark.parametrize(
    "at, new, words",
    [
        (0, b"!<arsh>\n", "not an archive"),
        (8 + 58, b"xx", "no member's header at 0x8"),
        (8 + 48, b"12x4      ", "has '12x4' for a number"),
        (68, b"\xff\xff\xff\xff", "its index has 4294967295 names"),
        (72, b"\0\0\0\1", "its index says that a member at 0x1 defines one"),
    ],
)
def test_what_is_damaged_is_told_with_the_place(folder, at, new, words):
    _, data = _archive(folder, "rcs")
    with pytest.raises(LinkError, match=words):
        read_archive(data[:at] + new + data[at + len(new) :], "x.a", _read)
