"""Places objects in the arena and keeps every reference to a symbol right.  Start from `Linker`.

An object is read, a `plan` is made of what placing it will do, and that is committed: bytes and
symbols, then the fields of others that refer to symbols which have moved (`binding`).  Whatever
fails is undone and leaves nothing.

The linker knows objects, images and symbols.  What a cell is, which object replaces which and what
may be freed is the session's business.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from jitkernel.arena import Arena, Extent
from jitkernel.elf import ElfObject, read_object
from jitkernel.elf import constants as c
from jitkernel.errors import LinkError
from jitkernel.ir.names import written
from jitkernel.linker.binding import Bindings, CopiedFields, OutOfRange
from jitkernel.linker.breakpoints import Breakpoints
from jitkernel.linker.content import Content, refusal
from jitkernel.linker.layout import ReadObject, arrange, initialisers
from jitkernel.linker.plan import Plan, make_plan, plan_runtime
from jitkernel.linker.records import (
    Block,
    Definition,
    Image,
    Symbol,
    SymbolKind,
    SymbolState,
    new_image,
    new_symbol,
    sites,
)
from jitkernel.linker.resolution import NEW, Former, Job
from jitkernel.linker.resolver import Resolver
from jitkernel.linker.unwind import UnwindRegion, split
from jitkernel.rollback import Recorded, RecordedDict, RecordedList, set_first

MISSING, DEFINED = SymbolState.MISSING, SymbolState.DEFINED
_I32, _U64 = struct.Struct("<i"), struct.Struct("<Q")
_BEFORE, _FIELD = 3, 8  # bytes: of a field's instruction before it; the largest field
_FAR = "; it is a library's, which is far from here: compile with -fPIC"


class Linker(Recorded):
    """All symbols of a session and the images that define and use them.

    `lookup` finds the addresses of names in the executor's process (0 where unknown); it is asked
    once for each new name, never for a name that the session defines.  `fixed` are symbols whose
    addresses never change: the runtime's.  `interposed` maps a C name to the fixed symbol that
    session code gets for it.
    """

    def __init__(
        self,
        arena: Arena,
        lookup: Callable[[Sequence[str]], Sequence[int]],
        fixed: Mapping[str, int] | None = None,
        interposed: Mapping[str, str] | None = None,
    ):
        self.arena = arena
        #: the runtime's addresses by name
        self.fixed = dict(fixed or {})
        self.bind = Bindings(arena, self.fixed)
        self.resolver = Resolver(self.bind, lookup, self.fixed, dict(interposed or {}))
        self.symbols = self.resolver.symbols
        self.unwind = UnwindRegion(arena)
        self.breakpoints = Breakpoints(arena)
        arena.rollback.repairs.append(self._repair)
        #: another number whenever an image comes or goes or a symbol moves; never one of before
        #: unless all is again as it was then
        self.generation = 0
        self._generations = count(1)
        #: is told of an image whose code is about to go
        self.on_unlink: Callable[[Image], object] = lambda image: None
        #: bytes of text that the images of cells take
        self.code = 0
        #: the stack maps of images that have gone, while threads may still be in their code, which
        #: stays so long: by the code, where each is and how large
        self.departed: RecordedDict[Extent, tuple[int, int]] = RecordedDict()
        #: by COMDAT group: the image that provides it, and those that would have it
        self.groups: RecordedDict[str, Image] = RecordedDict()
        self.copies: RecordedDict[str, RecordedList[Image]] = RecordedDict()

    # -- placing and taking out ------------------------------------------------------------------

    def place(
        self,
        data: bytes | ElfObject | ReadObject,
        cell: int = 0,
        *,
        kinds: Mapping[str, str] | None = None,
        weak: frozenset[str] | None = None,
        pins: Mapping[str, int] | None = None,
        former: Former = NEW,
        missing: bool = False,
    ) -> Image:
        """Link an object and make its definitions the session's.

        `kinds` says which imports are `function` and which `variable`; `weak` which exports give
        way to an existing definition (None: those the object binds weakly).  `pins` puts data
        symbols at given addresses; `former` is what it had before.  `missing` allows variables that
        nobody defines: whoever reads one meets a fault that names it.

        Raises LinkError or ArenaFull; then nothing of the object stays.
        """
        obj, names = data if isinstance(data, ReadObject) else ReadObject.of(data)
        if obj.machine != c.EM_X86_64:
            raise LinkError(
                f"the object is for ELF machine {obj.machine}; this session runs x86-64"
            )
        job = Job(
            obj, names, cell, self.bind, self.resolver, kinds or {}, weak, pins or {}, former,
            missing,
        )  # fmt: skip
        with self.arena.rollback.atomic():
            return self._commit(make_plan(job, self.groups, self.unwind))

    def _commit(self, plan: Plan) -> Image:
        """Do what was planned."""
        job, extents, resolution, content = plan.job, plan.extents, plan.resolution, plan.content
        text, own, frames = extents.text, extents.own.get, content.frames
        image = new_image(
            job.cell, text, own("rodata"), own("data"), frames[0] if frames else None,
            extents.adopted, tuple(frames[1:]),
            tuple([(s, at, size) for s, (_, at, size, _) in resolution.exports.items()]),
            tuple(content.uses), (), (), resolution.dso, tuple(job.pins.items()),
            plan.groups.provided, plan.groups.copies,
        )  # fmt: skip
        self.generation = next(self._generations)
        if text is not None and job.cell:
            self.code += text.size
        if resolution.stubs:
            image.extra += tuple([stub for stub, _ in resolution.stubs.values()])
        for block in extents.shared:
            block.holders += 1
        moved = self._define(plan, image)
        self.put_content(image, plan)
        if "rodata" in extents.starts:
            self._find_initialisers(plan, image)
        for symbol, was in moved:
            if symbol.users or symbol.stub or symbol.slot:
                self.bind.rebind(symbol, self.bind.former_value(was, symbol.stub))
        for group in plan.groups.provided:
            self.groups[group] = image
        for group in plan.groups.copies:
            self.copies.setdefault(group, RecordedList()).append(image)
        return image

    def _define(self, plan: Plan, image: Image) -> list[tuple[Symbol, Definition]]:
        """Point symbols at the image's definitions; those that had others, with these."""
        new, symbols = plan.resolution.new, self.symbols
        moved: list[tuple[Symbol, Definition]] = []
        uses = plan.content.uses
        for name, symbol in new.items():
            if symbol.state is not MISSING or symbol in uses:  # a name alone asks for nothing
                symbols[name] = symbol
        for symbol, definition in plan.resolution.changes.items():
            moved.append((symbol, symbol.definition))
            symbol.definition = definition
        for symbol, (state, address, size, kind) in plan.resolution.exports.items():
            if symbol.name in new:
                set_first(symbol, "image", image)
            else:
                moved.append((symbol, symbol.definition))
                symbol.definition = state, address, size, image, kind, ""
        return moved

    def put_content(self, image: Image, plan: Plan) -> None:
        """Write what was planned of an image's content, and note the sites in it."""
        content = plan.content
        self._write(plan.job, content)
        for symbol, packed in content.uses.items():
            if symbol.users is None:
                symbol.users = RecordedDict({image: bytes(packed)})
            else:
                symbol.users[image] = bytes(packed)
        if content.slots:
            slots = [s.slot for s in content.slots.values() if s.slot]
            image.extra += tuple([Extent("rodata", slot, 8) for slot in slots])

    def _write(self, job: Job, content: Content) -> None:
        """Write an object's bytes, and the fields that refer to symbols."""
        arena, view, base = self.arena, self.bind.view, self.bind.base
        for address, data in content.bytes:
            view[address - base : address - base + len(data)] = data
        for address, size in content.zeroed:
            arena.zero(address, size)
        for address, size, data in content.pinned:
            arena.save(address, size)
            if data:
                arena.write(address, data)
            else:
                arena.zero(address, size)
        for symbol, places in content.calls:
            entry_at = self.bind.entry(symbol) - base - 4
            for at in places:
                _I32.pack_into(view, at, entry_at - at)
        apply = self.bind.apply
        for target, at, type, opcode, modrm, rex, addend, section, entry in content.fixups:
            try:
                apply(target, at, type, opcode, modrm, rex, addend)
            except (OutOfRange, LinkError) as error:
                state = target.state if isinstance(target, Symbol) else None
                beyond = isinstance(error, OutOfRange)
                if beyond and state is MISSING and job.former.image is not None:
                    self.bind.write_unmapped(at, type, addend)  # it went while the code was away
                    continue
                hint = _FAR if beyond and state is SymbolState.FAR else ""
                raise refusal(job, section, entry, f"{error}{hint}") from None
        if content.frames:
            self.unwind.add(content.frames)

    def _find_initialisers(self, plan: Plan, image: Image) -> None:
        """Find what runs as the image comes and goes: its own functions, whoever redefines them."""
        arrays = initialisers(plan.job.obj, plan.layout, plan.extents.starts, self.arena)
        if arrays[0] or arrays[1]:
            own = {symbol.stub: address for symbol, address, _ in image.exports if symbol.stub}
            image.init, image.fini = (tuple(own.get(a, a) for a in array) for array in arrays)

    def place_unnamed(
        self, data: bytes, name: str, cell: int = 0, *, weak: frozenset[str] = frozenset(),
        kinds: Mapping[str, str] | None = None, missing: bool = False,
    ) -> tuple[Image, int]:  # fmt: skip
        """Link an object whose function `name` is reached by its address alone; that, too.

        Nobody else sees the name, whatever the session has under it.  Otherwise as `place`; raises
        LinkError where the object does not define the name.
        """
        obj, names = ReadObject.of(data)
        own = next((e for e in names.exports if e.name == name), None)
        if own is None:
            raise LinkError(f"{written(name)} is not defined in the object")
        known = [e for e in names.exports if e is not own and obj.symbols[e.number][1] >> 4]
        hidden = names._replace(exports=known, private=[*names.private, own.number])
        job = Job(
            obj, hidden, cell, self.bind, self.resolver, kinds or {}, weak, {}, NEW, missing
        )  # fmt: skip
        with self.arena.rollback.atomic():
            plan = make_plan(job, self.groups, self.unwind)
            places = plan.layout.places
            place = places[own.section] if own.section < len(places) else None
            if place is None or place[0] != "text":
                raise LinkError(f"{written(name)} is no function")
            return self._commit(plan), plan.extents.starts["text"] + place[1] + own.value

    def sizes(self, data: bytes) -> dict[str, int]:
        """The exact bytes per zone that an object takes when it is placed, before it is.

        COMDAT groups that another image provides and unwind records that are shared count not.
        """
        obj = read_object(data)
        layout = arrange(obj)
        sizes = {zone: size for zone, (size, _) in layout.needs.items()}
        for index in layout.frames:
            relocated = sorted(entry[0] for entry in obj.relocations.get(index, ()))
            taken = sum(
                length for at, length, _ in split(obj.content(index))
                if bisect_left(relocated, at) < bisect_left(relocated, at + length)
            )  # fmt: skip
            if taken:
                sizes["unwind"] = sizes.get("unwind", 0) + (taken + 7 & -8)
        return sizes

    def unlink(self, image: Image) -> list[Symbol]:
        """Take an image out: free its extents, forget its references and definitions.

        The symbols that it still defined and that others use lead to the executor's process where
        that has them; else they become missing (their callers reach a stub that raises) and are
        returned.  Whoever must not be left so asks `dependents` first.  Raises ArenaFull, with
        nothing changed, where there is no room for the stubs.
        """
        self.on_unlink(image)
        owned = [symbol for symbol, _, _ in image.exports if symbol.image is image]
        for symbol in owned:
            if symbol.users and symbol.is_function and not symbol.stub:
                if len(symbol.users) > 1 or image not in symbol.users:
                    self.bind.stub(symbol)
        self.forget_uses(image)
        was = [self.bind.former_value(symbol.definition, symbol.stub) for symbol in owned]
        for symbol in owned:
            symbol.state, symbol.address, symbol.image, symbol.size = MISSING, 0, None, 0
        wanted = [s for s in owned if s.users or s.stub]  # somebody may still come here
        found = set(self.resolver.find(wanted)) if wanted else set()
        orphans = [s for s in wanted if s.users and s not in found]
        for symbol, held in zip(owned, was, strict=True):
            if symbol.users or symbol.stub:
                self.bind.rebind(symbol, held)
            self.resolver.drop_if_unused(symbol)
        for group in image.groups:
            if self.groups.get(group) is image:
                del self.groups[group]
        for group in image.copies:
            holders = self.copies.get(group)
            if holders is not None and image in holders:
                holders.remove(image)
            if not holders:
                self.copies.pop(group, None)
        self.release(image)
        return orphans

    def forget_uses(self, image: Image) -> None:
        """Drop an image's references to symbols."""
        for symbol in image.refs:
            users = symbol.users
            if users is not None:
                users.pop(image, None)
                if not users:
                    symbol.users = None
                    self.resolver.drop_if_unused(symbol)
        image.refs = ()

    def release(self, image: Image) -> None:
        """Give an image's extents back, those of its blocks that nobody else holds too: it still
        tells which those were."""
        text, maps = image.text, [place for s, *place in image.exports if s.name == c.STACK_MAPS]
        for gone in [extent for extent in self.departed if extent not in self.arena.deferred]:
            del self.departed[gone]
        self.release_code(image)
        for block in image.blocks:
            self.release_block(block)
        if maps and text is not None and text in self.arena.deferred:
            self.departed[text] = (maps[0][0], maps[0][1])

    def release_code(self, image: Image, instead: Extent | None = None) -> None:
        """Give back what an image occupies apart from constants and variables; its code is at
        `instead` from now on."""
        self.put_code(image, instead)
        if image.unwind is not None:
            self.arena.free(image.unwind)
            image.unwind = None
        if image.extra:
            for extent in image.extra:
                self.arena.free(extent)
            image.extra = ()

    def put_code(self, image: Image, text: Extent | None) -> None:
        """An image's code is there from now on; where it was before, it is no more."""
        if image.text is not None:
            self.code -= image.text.size if image.cell else 0
            self.arena.free(image.text)
        self.generation = next(self._generations)
        image.text = text
        if text is not None and image.cell:
            self.code += text.size

    def retain_block(self, block: Block) -> None:
        """One holder more, until `release_block`."""
        block.holders += 1

    def release_block(self, block: Block) -> None:
        """One holder less; the extent goes back with the last."""
        block.holders -= 1
        if block.holders == 0:
            self.arena.free(block.extent)

    def dependents(self, image: Image) -> dict[Symbol, list[Image]]:
        """The others that use what the image still defines, by symbol."""
        found: dict[Symbol, list[Image]] = {}
        for symbol, _, _ in image.exports:
            if symbol.image is image and symbol.users:
                others = [user for user in symbol.users if user is not image]
                if others:
                    found[symbol] = others
        return found

    def known(self, name: str, kind: SymbolKind) -> Symbol | None:
        """The symbol called `name`, looked up where it is new; None where nobody has it."""
        symbol = self.symbols.get(name)
        if symbol is None:
            symbol = new_symbol(name, kind)
            with self.arena.rollback.atomic():
                if not self.resolver.find([symbol]):
                    return None
                self.symbols[name] = symbol
        return symbol

    def retain_symbol(self, symbol: Symbol) -> None:
        """Keep a symbol's canonical entry where it is, although nobody defines or uses it."""
        symbol.held += 1

    def release_symbol(self, symbol: Symbol) -> None:
        """The opposite of `retain_symbol`."""
        symbol.held -= 1
        self.resolver.drop_if_unused(symbol)

    # -- symbols that move -----------------------------------------------------------------------

    def redefine(self, symbol: Symbol, definition: Definition) -> None:
        """Point a symbol at an earlier definition again, all its users with it."""
        self.generation = next(self._generations)
        was = self.bind.former_value(symbol.definition, symbol.stub)
        symbol.definition = definition
        self.bind.rebind(symbol, was)

    def fail(self, symbol: Symbol, why: str) -> None:
        """Make calls of a symbol raise, for the reason given, until somebody defines it again."""
        self.redefine(symbol, (MISSING, 0, symbol.size, None, symbol.kind, why))

    def canonical(self, symbol: Symbol) -> int:
        """A symbol's address for every use that is not a call: a function's canonical entry."""
        with self.arena.rollback.atomic():
            return self.bind.value(symbol)

    def entry(self, symbol: Symbol) -> int:
        """The address a branch to a symbol goes to: its definition if near, else its stub."""
        if symbol.state is DEFINED:
            return symbol.address
        with self.arena.rollback.atomic():
            return self.bind.entry(symbol)

    def load_runtime(self, data: bytes, control: int) -> dict[str, int]:
        """Link the executor's runtime, before any cell; the addresses of what it exports."""
        job = Job(*ReadObject.of(data), 0, self.bind, self.resolver)
        content, exports = plan_runtime(job, self.unwind, control)
        self._write(job, content)
        self.fixed.update(exports)
        return exports

    # -- what failed -----------------------------------------------------------------------------

    def _repair(self, restored: list[object]) -> None:
        """Symbols, or records of unwind tables, are what they were before an operation failed: so
        is now what follows from them in the slab."""
        if any(r is self.unwind for r in restored):
            self.unwind.repair()
        for symbol in restored:
            if isinstance(symbol, Symbol) and (symbol.users or symbol.stub or symbol.slot):
                self.bind.rebind(symbol)

    # -- books -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Prove the arena's books, the unwind region, who uses what, and every site's bytes.

        Raises AssertionError.  Nothing is written, for threads of the program may run.  Takes time
        in proportion to the sites: for tests.
        """
        self.arena.check()
        self.unwind.check()
        refs: dict[Image, frozenset[Symbol]] = {}
        for name, symbol in self.symbols.items():
            if symbol.name != name:
                raise AssertionError(f"{symbol} is filed under {name}")
            if symbol.users is not None and not symbol.users:
                raise AssertionError(f"{symbol} has an empty table of users")
            if symbol.users is None and symbol.state is MISSING and not symbol.held:
                raise AssertionError(f"{symbol} is there for nobody")
            for image, packed in (symbol.users or {}).items():
                if image not in refs:
                    refs[image] = frozenset(image.refs)
                if symbol not in refs[image]:
                    raise AssertionError(f"{image} uses {symbol} without knowing")
                self._check_sites(symbol, image, packed)
            if symbol.stub:
                self._check_bytes(symbol, symbol.stub, self.bind.stub_code(symbol))
            if symbol.slot:
                value = self.bind.former_value(symbol.definition, symbol.stub)
                self._check_bytes(symbol, symbol.slot, _U64.pack(value))
            if symbol.far_slot and symbol.state is SymbolState.FAR:
                self._check_bytes(symbol, symbol.far_slot, _U64.pack(symbol.address))

    def _check_sites(self, symbol: Symbol, image: Image, packed: bytes) -> None:
        zone = self.arena.zones["data"]
        for offset, *rest in sites(packed):
            at = self.arena.base + offset
            if (symbol.state is MISSING and not symbol.is_function) or zone.start <= at < zone.stop:
                continue
            start = at - _BEFORE
            content = bytearray(self.arena.read(start, _BEFORE + _FIELD))
            try:
                copied = CopiedFields(self.arena, self.fixed, memoryview(content), start)
                copied.apply(symbol, _BEFORE, *rest)
            except OutOfRange as error:
                raise AssertionError(f"{image}: {symbol} is out of reach: {error}") from None
            self._check_bytes(symbol, start, content)

    def _check_bytes(self, symbol: Symbol, at: int, wanted: bytes | bytearray) -> None:
        if self.arena.read(at, len(wanted)) != wanted:
            raise AssertionError(f"what leads to {symbol} at {at:#x} is not up to date")
