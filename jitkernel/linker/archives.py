"""Members of archives, pulled in as they are needed.  Start from `select` and `combine`.

A member is taken where it defines what is asked for and nobody has; then what that one asks for in
turn, until nothing more is found (as `ld` does with the archives of one `--start-group`).  A weak
reference takes nothing, and a common symbol takes only a member that gives it a value (gABI "Symbol
Table", STB_WEAK; `elf_link_add_archive_symbols` of GNU ld).

What is taken together becomes one object, so that one cell has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jitkernel.elf import ElfObject
from jitkernel.elf import constants as c
from jitkernel.elf.archive import Archive, read_archive
from jitkernel.elf.constants import COMMON
from jitkernel.errors import LinkError
from jitkernel.ir.names import CONTROL
from jitkernel.linker.builder import Builder
from jitkernel.linker.prepare import prepare
from jitkernel.linker.resolver import Resolver


class LinkedArchive(NamedTuple):
    """An archive that cells may take members from; `read` gives a file's bytes."""

    archive: Archive
    read: Callable[[str], bytes]


class Taken(NamedTuple):
    """A member that was taken: its object, and what it is called."""

    label: str
    object: ElfObject


def offered(archives: Iterable[LinkedArchive], names: Iterable[str]) -> list[str]:
    """Those of the names that one of the archives defines, thread-local variables as it has them:
    a cell that uses one asks for its control block."""
    indexes = [a.archive.index for a in archives]
    bare = dict.fromkeys([name.removeprefix(CONTROL) for name in names])
    return [name for name in bare if any(name in index for index in indexes)]


def select(
    archives: Sequence[LinkedArchive],
    wanted: Iterable[str],
    has: Callable[[str], bool],
    whole: Archive | None = None,
    data: bytes | None = None,
) -> list[Taken]:
    """The members that define what is wanted, and what those want, in the order of their finding.

    `has` says whether somebody defines a name already.  Of `whole` every member is taken that
    defines something new.  `data` are the bytes of the first archive, where somebody has just read
    them.  Raises LinkError for a member that is no object of this machine.
    """
    taken: dict[tuple[int, int], Taken] = {}
    defined: set[str] = set()
    common: set[str] = set()
    contents: dict[int, bytes] = {} if data is None else {0: data}
    queue = deque(wanted)

    def take(which: int, number: int, only: str = "") -> None:
        archive, read = archives[which]
        if which not in contents:
            contents[which] = unchanged(archives[which])
        obj = archive.object(contents[which], number, read)
        label = archive.label(number)
        if obj.machine != c.EM_X86_64:
            raise LinkError(f"{label} is for ELF machine {obj.machine}; this session runs x86-64")
        gives, asks = _gives_and_asks(obj)
        if only and gives.get(only, True):
            return  # another common symbol is none the better for it
        taken[which, number] = Taken(label, obj)
        defined.update(name for name, tentative in gives.items() if not tentative)
        common.update(name for name, tentative in gives.items() if tentative)
        queue.extend(asks)
        queue.extend(common)

    if whole is not None:
        which = next(i for i, a in enumerate(archives) if a.archive is whole)
        offers: dict[int, list[str]] = {}
        for name, number in whole.index.items():
            offers.setdefault(number, []).append(name)
        for number in sorted(offers):
            if not all(map(has, offers[number])):
                take(which, number)
    tried: set[str] = set()
    queue = deque(dict.fromkeys(queue))  # members of one archive ask for much the same
    while queue:
        name = queue.popleft()
        if name in defined or name in tried or (name not in common and has(name)):
            continue
        if name not in common:
            tried.add(name)
        for which, linked in enumerate(archives):
            found = linked.archive.index.get(name)
            if found is None or (which, found) in taken:
                continue
            tried.add(name)
            take(which, found, name if name in common else "")
            break
    return list(taken.values())


def _gives_and_asks(obj: ElfObject) -> tuple[dict[str, bool], list[str]]:
    """The names that a member defines, each with whether it is common, and those that it needs."""
    gives: dict[str, bool] = {}
    asks: list[str] = []
    for name, (_, info, _, section, _, _) in zip(
        obj.shared_names, obj.symbols[obj.locals :], strict=True
    ):
        if section:
            gives[name] = section in COMMON
        elif info >> 4 != c.STB_WEAK:
            asks.append(name)
    return gives, asks


def unchanged(linked: LinkedArchive) -> bytes:
    """The bytes of an archive's file.  Raises LinkError where it is another one by now."""
    archive, read = linked
    data = read(archive.path)
    now = read_archive(data, archive.path, read)
    if now.index != archive.index or now.members != archive.members:
        raise LinkError(
            f"{archive.path} has changed since it was linked; %link {archive.path} reads it again"
        )
    return data


def combine(taken: Sequence[Taken], resolver: Resolver) -> ElfObject:
    """One object of several members, ready to be placed.  Raises LinkError where two of them define
    the same name."""
    builder = Builder()
    for member in taken:
        builder.add(member.object, member.label, loaded=True)
    return prepare(builder, taken[0].label, resolver)
