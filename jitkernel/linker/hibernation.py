"""Images whose code leaves memory until somebody calls it.  Start from `hibernate`.

What stays of the code is one 16-byte stub for each function that others know, which calls the
runtime's `jk_wake`; its address is the function's definition meanwhile, so that every branch and
every canonical entry leads there.  Constants and variables stay where they are: the program may
have pointers to them.  So do unwind records, which name no function meanwhile.

The code goes to the linker's `CodeTable` together with the sites of symbols in it and its base
relocations.  `wake` puts it where there is room and relocates it.  Code that cannot be moved like
that is linked again from its object, over the same constants and variables; that is the session's
business, like everything that is done with objects.
"""

from __future__ import annotations

import marshal
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.arena import Extent
from jitkernel.elf import ElfObject
from jitkernel.errors import LinkError, present
from jitkernel.linker.binding import Bindings, OutOfRange
from jitkernel.linker.rebasing import FIELD, IMMOVABLE, base_relocations
from jitkernel.linker.records import SITE, BaseRelocations, Image, Symbol, SymbolState
from jitkernel.linker.x86_64 import PC32, STUB_SIZE, TABLE, raise_stub
from jitkernel.rollback import RecordedDict, later, log_undo

if TYPE_CHECKING:
    from jitkernel.linker.linker import Linker

__all__ = ["CodeTable", "hibernate", "prepare", "reclaimable", "rewrite_stubs", "wake"]

_NO_FUNCTION = bytes(4)
_CODE = "create table code (number integer primary key, bytes blob)"


class CodeTable:
    """Bytes by image, on disk from `put` to `drop`: a table of a database without a name.

    It is a copy for speed: what the disk has no room for is made again from the image's object.
    """

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None
        self._at: RecordedDict[Image, int] = RecordedDict()

    def put(self, image: Image, data: bytes) -> bool:
        """Keep bytes for an image that has none here; False where the disk is full."""
        try:
            if self._db is None:
                self._db = _code_database()
            made = self._db.execute("insert into code (bytes) values (?)", (data,))
        except sqlite3.Error:
            return False
        number = present(made.lastrowid, "the number of a row")
        log_undo(self._delete, number)
        self._at[image] = number
        return True

    def get(self, image: Image) -> bytes | None:
        """The code that is kept for an image; None where there is nothing."""
        if self._db is None or (number := self._at.get(image)) is None:
            return None
        row = self._db.execute("select bytes from code where number = ?", (number,)).fetchone()
        return None if row is None else row[0]

    def drop(self, image: Image) -> None:
        """Forget what is kept for an image, if there is something."""
        number = self._at.pop(image, None)
        if number is not None:
            later(self._delete, number)  # the bytes may be wanted again until then

    def _delete(self, number: int) -> None:
        if self._db is not None:
            self._db.execute("delete from code where number = ?", (number,))

    @property
    def size(self) -> int:
        """Bytes on disk that are in use."""
        query = "select sum(length(bytes)) from code"
        return 0 if self._db is None else self._db.execute(query).fetchone()[0] or 0

    def close(self) -> None:
        """Give the disk's room back."""
        if self._db is not None:
            self._db.close()
            self._db = None


def _code_database() -> sqlite3.Connection:
    """An empty database of code: without a name, it is a file only where it grows."""
    db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode = memory", "cache_size = -512"):
        db.execute(f"pragma {setting}")
    db.execute(_CODE)
    return db


class _Saved(NamedTuple):
    """An image's code in the table: its alignment in bytes, the offsets of its functions, its
    sites by place in the image's `refs`, sites that lead into the code, and sites that lead from it
    to a fixed address.  Those of the first and the last kind count from where the code begins."""

    code: bytes
    align: int
    functions: tuple[int, ...]
    sites: list[tuple[int, bytes]]
    inward: bytes
    outward: bytes


def reclaimable(image: Image) -> int:
    """Bytes that hibernating an image frees; below 0 where its stubs are larger than its code."""
    text = image.text
    if text is None:
        return 0
    inside = sum(text.start <= at < text.start + text.size for _, at, _ in image.exports)
    return text.size - STUB_SIZE * inside


def prepare(image: Image, obj: ElfObject) -> None:
    """Find out from an image's object what moving its code takes: before it hibernates."""
    image.rebase = base_relocations(obj, dict(image.pins))


def hibernate(linker: Linker, image: Image) -> dict[int, str]:
    """Take an image's code out of memory; the stubs, by address, with the names they stand for.

    Raises ArenaFull, with nothing changed, where there is no room for the stubs.
    """
    with linker.arena.rollback.atomic():
        text = _code(image)
        arena, base = linker.arena, linker.arena.base
        functions = _functions(image, text)
        stubs = arena.reserve("text", STUB_SIZE * len(functions)) if functions else None
        exports = list(image.exports)
        sites = _take_sites(image, text.start - base, text.size)
        rebase = image.rebase or IMMOVABLE
        if rebase is not IMMOVABLE and linker.swap.put(
            image,
            _serialise(
                linker, image, rebase, [exports[i][1] - text.start for i in functions], sites
            ),
        ):
            for field in _function_starts(linker, image):
                arena.save(base + field, 4)
                linker.bind.view[field : field + 4] = _NO_FUNCTION
            linker.unwind.changed()
        else:
            unwind = arena.zones["unwind"]
            _take_sites(image, unwind.start - base, unwind.stop - unwind.start)
            linker.release_code(image)
        found: dict[int, str] = {}
        handler = linker.fixed["jk_wake"]
        first = stubs.start if stubs is not None else 0
        for count, i in enumerate(functions):
            symbol, _, size = exports[i]
            at = first + STUB_SIZE * count
            arena.view[at - base : at - base + STUB_SIZE] = raise_stub(at, handler)
            exports[i] = (symbol, at, size)
            found[at] = symbol.name
        linker.put_code(image, stubs)
        _retarget(linker, image, exports)
        return found


def wake(linker: Linker, image: Image) -> bool:
    """Bring an image's code back, to wherever there is room; False where it is to be linked again.

    Raises ArenaFull, or LinkError, with nothing changed.
    """
    with linker.arena.rollback.atomic():
        data = linker.swap.get(image)
        if data is None:
            return False
        saved = _Saved(*marshal.loads(data))
        text = linker.arena.reserve("text", len(saved.code), saved.align)
        _bring_back(linker, image, saved, text)
        stubs, exports = image.text, list(image.exports)
        if stubs is not None:
            for i, (symbol, address, length) in enumerate(exports):
                if stubs.start <= address < stubs.start + stubs.size:
                    offset = saved.functions[(address - stubs.start) // STUB_SIZE]
                    exports[i] = symbol, text.start + offset, length
        linker.put_code(image, text)
        linker.unwind.changed()
        linker.swap.drop(image)
        _retarget(linker, image, exports)
        return True


def _functions(image: Image, text: Extent) -> list[int]:
    """The exports of an image that lie in its code, by their place among them."""
    return [
        i for i, (_, address, _) in enumerate(image.exports)
        if text.start <= address < text.start + text.size
    ]  # fmt: skip


def _bring_back(linker: Linker, image: Image, saved: _Saved, text: Extent) -> None:
    """Write saved code to an extent, relocated.

    Raises ArenaFull, or LinkError, with no site of the image's changed.
    """
    bind, low = linker.bind, text.start - linker.arena.base
    bind.view[low : low + len(saved.code)] = saved.code
    uses: list[tuple[Symbol, bytes]] = []
    try:
        for index, packed in saved.sites:
            symbol = image.refs[index]
            uses.append((symbol, _apply(bind, symbol, packed, low)))
        _apply(bind, 0, saved.outward, low)
        _apply(bind, text.start, saved.inward, 0)
    except OutOfRange as error:
        raise LinkError(f"cell {image.cell} cannot come back: {error}") from None
    for symbol, packed in uses:
        present(symbol.users, f"the users of {symbol}")[image] += packed


def _code(image: Image) -> Extent:
    return present(image.text, f"the code of {image}")


def _retarget(linker: Linker, image: Image, exports: list[tuple[Symbol, int, int]]) -> None:
    """Give an image's functions new addresses, and the users of those that are still its own."""
    before, image.exports = image.exports, tuple(exports)
    for (symbol, address, size), (_, was, _) in zip(exports, before, strict=True):
        if address != was and symbol.image is image:
            linker.redefine(symbol, (SymbolState.DEFINED, address, size, image, symbol.kind, ""))


def _take_sites(image: Image, low: int, size: int) -> list[tuple[int, bytes]]:
    """Take the sites that lie in `size` bytes at offset `low` of the slab from an image's symbols:
    by place in `refs`, with offsets that count from `low`."""
    found: list[tuple[int, bytes]] = []
    for index, symbol in enumerate(image.refs):
        users = symbol.users
        if users is not None and (packed := users.get(image)):
            stay, leave = bytearray(), bytearray()
            for offset, *rest in SITE.iter_unpack(packed):
                if 0 <= offset - low < size:
                    leave += SITE.pack(offset - low, *rest)
                else:
                    stay += SITE.pack(offset, *rest)
            if leave:
                users[image] = bytes(stay)
                found.append((index, bytes(leave)))
    return found


def _serialise(
    linker: Linker,
    image: Image,
    rebase: BaseRelocations,
    functions: list[int],
    sites: list[tuple[int, bytes]],
) -> bytes:
    """An image's code with what it takes to relocate it, for the table."""
    text = _code(image)
    arena, base = linker.arena, linker.arena.base
    view, low = arena.view, text.start - base
    fields = [(at, PC32) for at in _function_starts(linker, image)]
    outward: list[bytes] = []
    for in_constants, type, offset in FIELD.iter_unpack(rebase.fields):
        if not in_constants:
            target = _field_target(view, base, low + offset, type)
            outward.append(SITE.pack(offset, type, 0, 0, 0, target))
        elif image.rodata is not None:
            fields.append((image.rodata.extent.start - base + offset, type))
    inward = [
        SITE.pack(at, type, 0, 0, 0, _field_target(view, base, at, type) - text.start)
        for at, type in fields
    ]
    saved = _Saved(
        arena.read(text.start, text.size), rebase.align, tuple(functions), sites,
        b"".join(inward), b"".join(outward),
    )  # fmt: skip
    return marshal.dumps(tuple(saved))


def _function_starts(linker: Linker, image: Image) -> Iterator[int]:
    """The fields of an image's FDEs that hold the address of a function, as offsets."""
    for extent in (image.unwind, *image.extra):
        if extent is not None and extent.zone == "unwind":
            yield from linker.unwind.function_starts(extent)


def _field_target(view: memoryview, base: int, at: int, type: int) -> int:
    """The address that a field at offset `at` of the slab refers to, its addend included."""
    row = TABLE[type]
    value = int.from_bytes(view[at : at + row.field], "little", signed=row.relative)
    return value + base + at if row.relative else value


def _apply(bind: Bindings, target: Symbol | int, packed: bytes, low: int) -> bytes:
    """Write sites whose offsets count from offset `low` of the slab; the same from its start."""
    found = bytearray()
    for offset, type, opcode, modrm, rex, addend in SITE.iter_unpack(packed):
        at = low + offset
        if not low:  # a field of constants or unwind records, which stay
            bind.arena.save(bind.base + at, TABLE[type].field)
        try:
            bind.apply(target, at, type, opcode, modrm, rex, addend)
        except OutOfRange:
            if isinstance(target, int) or target.state is not SymbolState.MISSING:
                raise
            bind.write_unmapped(at, type, addend)
        found += SITE.pack(at, type, opcode, modrm, rex, addend)
    return bytes(found)


def rewrite_stubs(linker: Linker, image: Image) -> dict[int, str]:
    """Write the stubs of a hibernated image again; what `hibernate` returned for it."""
    text = image.text
    if text is None:
        return {}
    found = {at: symbol.name for symbol, at, _ in image.exports if text.start <= at < text.stop}
    for at in found:
        linker.arena.write(at, raise_stub(at, linker.fixed["jk_wake"]))
    return found
