"""A relocatable object that is put together, and several that become one (`ld -r`).

Start from `Builder`: `add` objects, change what is there, `write`.  Layouts: System V gABI, chapter
4 (object files); rules of what may be defined twice: gABI "Symbol Table", `ld` on common symbols.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from operator import sub

from jitkernel.elf import constants as c
from jitkernel.elf.constants import COMMON
from jitkernel.elf.reader import ElfObject, SymbolTuple
from jitkernel.elf.relocations import Columns, Relocations
from jitkernel.elf.writer import BuiltObject
from jitkernel.errors import LinkError, present
from jitkernel.ir.names import written
from jitkernel.linker.x86_64 import GOTPCRELX, REX_GOTPCRELX, TABLE

_TABLES = frozenset(
    (c.SHT_SYMTAB, c.SHT_STRTAB, c.SHT_RELA, c.SHT_REL, c.SHT_GROUP, c.SHT_SYMTAB_SHNDX)
)
_CODE = (c.STT_FUNC, c.STT_GNU_IFUNC)
#: What is more is damaged: bytes of a section, and what it may be aligned to.
_LARGEST, _MOST_ALIGNED = 1 << 31, 1 << 20
_TYPE, _WIDEST = 0xFFFF_FFFF, 8  # of a relocation; bytes of its field
#: bytes before a field that are written with it: opcode, ModRM, REX
_BEFORE = {GOTPCRELX: 2, REX_GOTPCRELX: 3}
_BEGUN = frozenset(_BEFORE)


class SectionDraft:
    """A section: `content` are its bytes, `size` their number where it has none (SHT_NOBITS).

    `relocations` are made of those that its object had when somebody asks for them: most sections
    go as they came.  `link` is the one that a section with SHF_LINK_ORDER belongs to.
    """

    __slots__ = (
        "_own", "_read", "align", "content", "entry_size", "flags", "link", "name", "size", "type",
    )  # fmt: skip

    def __init__(
        self, name: str, type: int, flags: int, content: bytes | bytearray, size: int, align: int,
        entry_size: int = 0,
    ):  # fmt: skip
        self.name, self.type, self.flags, self.content = name, type, flags, content
        self.size, self.align, self.entry_size = size, align, entry_size
        self.link: SectionDraft | None = None
        self._read: _Read | None = None
        self._own: list[Relocation] | None = None

    @property
    def relocations(self) -> list[Relocation]:
        """The fields to be written into its bytes; the list may be changed."""
        if self._own is None:
            self._own = []
            if self._read is not None:
                read, symbols = self._read[0], self._read[1].symbols
                self._own = [(at, i & _TYPE, symbols[i >> 32], more) for at, i, more in read]
                self._read = None
        return self._own

    @relocations.setter
    def relocations(self, relocations: list[Relocation]) -> None:
        self._own, self._read = relocations, None

    def references(self, kinds: frozenset[int]) -> list[Relocation]:
        """The relocations of some types, against symbols that are defined nowhere."""
        if self._own is not None:
            return [r for r in self._own if r[1] in kinds and r[2].section == 0]
        if self._read is None:
            return []
        columns, part = self._read[0].columns, self._read[1]
        first, shared = part.locals, part.shared
        asked = [n for n in columns.symbols_of(kinds) if n >= first]
        found = {n: shared[n - first] for n in asked if shared[n - first].section == 0}
        return [
            (at, kind, found[number], addend)
            for at, kind, number, addend in zip(*columns, strict=True)
            if number in found and kind in kinds
        ] if found else []  # fmt: skip

    def read(self, relocations: Relocations, part: _Part) -> None:
        """It has the relocations that it has in an object that was added."""
        self._read = relocations, part

    @property
    def is_related(self) -> bool:
        """True if it has relocations."""
        return bool(self._own if self._own is not None else self._read)

    def numbered(self, numbers: _SymbolTable) -> Relocations:
        """Its relocations as the object has them.  Raises LinkError where code or data refer to
        a symbol that has no number."""
        if self._own is None and self._read is not None:
            (offsets, types, symbols, addends), part = self._read[0].columns, self._read[1]
            found = list(map(numbers.of(part).__getitem__, symbols))
        else:
            get = numbers.index.get
            rows = self.relocations
            offsets, kinds, addends = (
                [r[0] for r in rows],
                [r[1] for r in rows],
                [r[3] for r in rows],
            )
            types = bytes(kinds) if max(kinds, default=0) < 256 else array("I", kinds)
            found = [get(symbol, -1) for _, _, symbol, _ in rows]
        if min(found, default=0) < 0:
            if self.flags & c.SHF_ALLOC:
                raise LinkError(f"section {self.name} refers to a symbol that is nowhere")
            found = [max(number, 0) for number in found]
        return Relocations(columns=Columns(offsets, types, found, addends))


@dataclass(slots=True, eq=False)
class SymbolDraft:
    """A symbol; `section` is a draft, or a reserved index (0 where it is not defined).

    `origin` is what defines it, for messages.
    """

    name: str
    info: int
    other: int
    section: SectionDraft | int
    value: int
    size: int
    origin: str = ""

    @property
    def is_defined(self) -> bool:
        """True if it is, if only as a common symbol."""
        return self.section != 0


#: offset in its section, relocation type, what it refers to, addend
Relocation = tuple[int, int, SymbolDraft, int]
_Read = tuple[Relocations, "_Part"]


class _Part:
    """An object that was added: `drafts` are its sections, `shared` its symbols from number
    `locals` on.  Those before are as the object has them, until somebody asks for `symbols`; those
    that are `gone` lie in sections that were left out."""

    def __init__(self, obj: ElfObject, drafts: list[SectionDraft | None], label: str):
        self.object, self.drafts, self.locals, self._label = obj, drafts, obj.locals, label
        self.shared: list[SymbolDraft] = []
        left = {n for n, draft in enumerate(drafts) if draft is None and n}
        self.gone = {n for n, s in enumerate(obj.symbols[: self.locals]) if s[3] in left}
        self.nowhere: SymbolDraft | None = None  # that all that are gone are
        self._local: list[SymbolDraft] | None = None

    @property
    def symbols(self) -> list[SymbolDraft]:
        """All symbols, by number."""
        if self._local is None:
            self._local = [*map(self._draft, range(self.locals))]
        return self._local + self.shared

    def symbol(self, number: int) -> SymbolDraft:
        """The symbol with a number."""
        at = number - self.locals
        return self.shared[at] if at >= 0 else self.symbols[number]

    def own(self, made: bool = False) -> list[SymbolDraft] | None:
        """Its local symbols; None where nobody has asked for them, unless they are to be `made`."""
        if made:
            self._local = self.symbols[: self.locals]
        if self._local is None:
            return None
        return [s for n, s in enumerate(self._local) if n and n not in self.gone]

    def _draft(self, number: int) -> SymbolDraft:
        if number in self.gone:
            return present(self.nowhere, "where what is gone is")
        _, info, other, section, value, size = self.object.symbols[number]
        name = "" if info & 15 == c.STT_SECTION else self.object.symbol_name(number)
        where = self.drafts[section] if 0 < section < c.SHN_LORESERVE else section
        return SymbolDraft(name, info, other, where or 0, value, size, self._label)


class _SymbolTable:
    """The symbols of the object that is written, in which sections have these numbers.

    `index` are the numbers of drafts.
    """

    def __init__(self, sections: Mapping[SectionDraft, int]):
        self._sections = sections
        self.rows: list[SymbolTuple] = [(0, 0, 0, 0, 0, 0)]
        self._strings, self._length = [b"\0"], 1
        self.index: dict[SymbolDraft, int] = {}
        self._of: dict[_Part, list[int]] = {}
        self._first: dict[_Part, int] = {}  # the number of the first local one

    @property
    def strings(self) -> bytes:
        """The names."""
        return b"".join(self._strings)

    def add(self, symbols: Iterable[SymbolDraft]) -> None:
        """Add symbols."""
        rows, index, sections, strings = self.rows, self.index, self._sections, self._strings
        for s in symbols:
            index[s] = len(rows)
            where = s.section if isinstance(s.section, int) else sections[s.section]
            rows.append((self._length if s.name else 0, s.info, s.other, where, s.value, s.size))
            if s.name:
                strings.append(s.name.encode("utf-8", "surrogateescape") + b"\0")
                self._length += len(strings[-1])

    def add_local(self, part: _Part) -> None:
        """Add the local symbols of an object that was added."""
        if (own := part.own()) is not None:
            self.add(own)
            return
        obj, gone, first = part.object, part.gone, self._length
        where = [0 if draft is None else self._sections[draft] for draft in part.drafts]
        self._first[part] = len(self.rows)
        self.rows += [
            (
                first + name if name else 0, info, other,
                where[section] if section < c.SHN_LORESERVE else section, value, size,
            )
            for n, (name, info, other, section, value, size)
            in enumerate(obj.symbols[: part.locals]) if n and n not in gone
        ]  # fmt: skip
        self._strings.append(obj.strings + b"\0")
        self._length += len(obj.strings) + 1

    def of(self, part: _Part) -> list[int]:
        """The numbers of an object's symbols; negative for those that are nowhere."""
        found = self._of.get(part)
        if found is None:
            get = self.index.get
            if (first := self._first.get(part)) is None:
                found = [get(symbol, -1) for symbol in part.symbols]
            else:
                number = count(first - 1)  # the object's own first one is none
                found = [
                    self.index[part.nowhere] if part.nowhere and n in part.gone else next(number)
                    for n in range(part.locals)
                ]
                found += [get(symbol, -1) for symbol in part.shared]
            found[: min(part.locals, 1)] = [0] * min(part.locals, 1)
            self._of[part] = found
        return found


class Builder:
    """Sections, symbols and groups of an object to be; `globals` are symbols by name.

    `groups` are COMDAT groups by name: the symbol that names it and its sections.
    """

    def __init__(self) -> None:
        self.sections: list[SectionDraft] = []
        self.globals: dict[str, SymbolDraft] = {}
        self.groups: dict[str, tuple[SymbolDraft, list[SectionDraft]]] = {}
        #: of symbols that objects have brought: STT_FUNC, ...
        self.kinds: set[int] = set()
        self._machine = c.EM_X86_64
        self._nowhere: SymbolDraft | None = None
        self._parts: list[_Part] = []
        self._added: list[SymbolDraft] = []
        self._all: list[SymbolDraft] | None = None

    def add(self, obj: ElfObject, label: str, loaded: bool = False) -> None:
        """Add an object, called `label` in messages; only what is `loaded` of it, if so asked.

        Of COMDAT groups of one name the first is taken.  Sections that are compressed, which hold
        debug information, are left out: their relocations are for what they hold.  Raises LinkError
        where a name has two strong definitions, and for relocations that cannot be.
        """
        self._machine = obj.machine
        signatures = [(obj.symbol_name(s), s, members) for s, members in obj.groups]
        dropped = {i for name, _, found in signatures if name in self.groups for i in found}
        drafts: list[SectionDraft | None] = []
        for index, (_, kind, flags, _, _, size, _, _, align, entry) in enumerate(obj.sections):
            left_out = kind in _TABLES or not kind or index in dropped
            left_out = left_out or bool(flags & c.SHF_COMPRESSED)
            if left_out or (loaded and not flags & c.SHF_ALLOC):
                drafts.append(None)
                continue
            name, content = obj.section_name(index), obj.content(index)
            if align & (align - 1) or align > _MOST_ALIGNED or size > _LARGEST:
                raise LinkError(
                    f"{label}: section {name} has {size} bytes aligned to {align}, which cannot be"
                )
            section = SectionDraft(name, kind, flags, content, size, align, entry)
            self.sections.append(section)
            drafts.append(section)
        for draft, (_, _, flags, _, _, _, link, _, _, _) in zip(drafts, obj.sections, strict=True):
            if draft is not None and flags & c.SHF_LINK_ORDER and link < len(drafts):
                draft.link = drafts[link]
        part = self._add_symbols(obj, drafts, label)
        symbols = len(obj.symbols)
        for index, table in obj.tables.items():
            draft = drafts[index]
            if draft is not None and len(table):
                offsets, types, numbers, _ = table.columns
                widest = _widest(types)
                if max(numbers) >= symbols or max(offsets) + widest > draft.size:
                    _check(obj, label, index, draft.size)
                if draft.flags & c.SHF_ALLOC:
                    _check_apart(table, widest, f"{label}: {draft.name}")
                draft.read(table, part)
        for name, signature, members in signatures:
            if name not in self.groups:
                kept = [d for i in members if i < len(drafts) and (d := drafts[i]) is not None]
                self.groups[name] = part.symbol(signature), kept

    def _add_symbols(self, obj: ElfObject, drafts: list[SectionDraft | None], label: str) -> _Part:
        """Add what the entries of its symbol table become."""
        part = _Part(obj, drafts, label)
        self._parts.append(part)
        if part.gone:
            part.nowhere = self._gone()
        self.kinds.update([info & 15 for info in {symbol[1] for symbol in obj.symbols}])
        known, first = self.globals, obj.locals
        before = len(known)
        names = obj.shared_names
        found = [*map(known.get, names)]
        for at, (symbol, (_, info, other, section, value, size)) in enumerate(
            zip(found, obj.symbols[first:], strict=True)
        ):
            if symbol is not None and section == 0 and not other & 3:  # most are of this kind
                if symbol.info >> 4 == c.STB_WEAK:
                    _refer(symbol, info)
                continue
            where: SectionDraft | int = section
            if 0 < section < c.SHN_LORESERVE:
                draft = drafts[section]
                if draft is None:  # in a group that another object has: that one's definition
                    value = size = 0
                where = draft or 0
            name = names[at]
            if symbol is None and (symbol := known.get(name)) is None:
                symbol = known[name] = SymbolDraft(name, info, other, where, value, size, label)
            else:
                _merge(symbol, info, other, where, value, size, label)
            found[at] = symbol
        part.shared += filter(None, found)  # all of them, now
        if self._all is not None:
            self._all += [*(part.own(made=True) or ()), *list(known.values())[before:]]
        return part

    @property
    def symbols(self) -> list[SymbolDraft]:
        """All symbols; the list may be changed."""
        if self._all is None:
            self._all = []
            for part in self._parts:
                self._all += part.own(made=True) or ()
            self._all += [*self._added, *self.globals.values()]
        return self._all

    @symbols.setter
    def symbols(self, symbols: list[SymbolDraft]) -> None:
        self._all = symbols

    def functions(self) -> Iterator[tuple[SectionDraft, int]]:
        """The functions that objects have brought: sections, and where in them."""
        for part in self._parts:
            for _, info, _, section, value, _ in part.object.symbols:
                if (
                    info & 15 in _CODE
                    and section < len(part.drafts)
                    and (d := part.drafts[section])
                ):
                    yield d, value

    def _gone(self) -> SymbolDraft:
        """The symbol for what refers into sections that were left out: it is not loaded."""
        if self._nowhere is None:
            section = SectionDraft(".dropped", c.SHT_PROGBITS, 0, b"", 0, 1)
            self.sections.append(section)
            self._nowhere = self.add_symbol("", c.STT_SECTION, section)
        return self._nowhere

    def add_section(
        self, name: str, flags: int, content: bytes | bytearray, align: int = 16,
        kind: int = c.SHT_PROGBITS,
    ) -> SectionDraft:  # fmt: skip
        """One more section, with bytes."""
        section = SectionDraft(name, kind, flags, content, len(content), align)
        self.sections.append(section)
        return section

    def add_symbol(
        self, name: str, kind: int, section: SectionDraft | int, value: int = 0, size: int = 0
    ) -> SymbolDraft:
        """One more symbol, which no other object sees."""
        symbol = SymbolDraft(name, kind, 0, section, value, size)
        (self._added if self._all is None else self._all).append(symbol)
        return symbol

    def global_symbol(self, name: str, binding: int = c.STB_GLOBAL) -> SymbolDraft:
        """The symbol that other objects know by a name; one that nobody defines, where it is
        new."""
        symbol = self.globals.get(name)
        if symbol is None:
            symbol = self.globals[name] = SymbolDraft(name, binding << 4, 0, 0, 0, 0)
            if self._all is not None:
                self._all.append(symbol)
        return symbol

    # -- writing ---------------------------------------------------------------------------------

    def write(self) -> bytes:
        """The bytes of the object."""
        return self.object().data

    def object(self) -> ElfObject:
        """The object, whose bytes are put together when somebody asks for them."""
        sections, groups = self.sections, [(s, m) for s, m in self.groups.values() if m]
        related = [s for s in sections if s.is_related]
        first = 1 + len(groups)
        numbers = dict(zip(sections, count(first), strict=False))
        relas = dict(zip(related, count(first + len(sections)), strict=False))
        table = first + len(sections) + len(related)  # that of symbols
        known = _SymbolTable(numbers)
        rest = self._all
        if rest is None:
            for part in self._parts:
                known.add_local(part)
            rest = [*self._added, *self.globals.values()]
        known.add([s for s in rest if s.info >> 4 == c.STB_LOCAL])
        local, shared = len(known.rows), [s for s in rest if s.info >> 4 != c.STB_LOCAL]
        known.add(shared)
        names = [s.name for s in shared]
        made = BuiltObject(self._machine, known.rows, local, known.strings, names)
        for signature, members in groups:
            of = [numbers[m] for m in members] + [relas[m] for m in members if m in relas]
            made.put_group(known.index[signature], of, table)
        for s in sections:
            flags = s.flags if s.link is not None else s.flags & ~c.SHF_LINK_ORDER
            link = numbers[s.link] if s.link is not None else 0
            size = s.size if s.type == c.SHT_NOBITS else len(s.content)
            head = 0, s.type, flags, 0, 0, size, link, 0, s.align, s.entry_size
            made.put(s.name, s.content, head)
        for s in related:
            flags, rows = c.SHF_INFO_LINK | (s.flags & c.SHF_GROUP), s.numbered(known)
            made.put_relocations(".rela" + s.name, rows, flags, table, numbers[s])
        made.end()
        return made


def _check(obj: ElfObject, label: str, section: int, size: int) -> None:
    """Raises LinkError for relocations of nothing, or against nothing."""
    offsets, types, numbers, _ = obj.tables[section].columns
    symbols, last = len(obj.symbols), size - _WIDEST
    doubtful = [n for n, offset in enumerate(offsets) if offset > last]
    if max(numbers) >= symbols:
        doubtful += [n for n, number in enumerate(numbers) if number >= symbols]
    for n in doubtful:
        offset, number, row = offsets[n], numbers[n], TABLE.get(types[n])
        if number < symbols and offset + (row.field if row is not None else 0) <= size:
            continue
        where = f"{label}: {obj.section_name(section)}+{offset:#x}"
        if number >= symbols:
            raise LinkError(f"{where}: a relocation against symbol {number} of {symbols}")
        raise LinkError(f"{where}: the section ends before the field of a relocation: {size} bytes")


def _widest(types: Iterable[int]) -> int:
    """The bytes of the widest field that relocations of some types have."""
    return max([row.field if (row := TABLE.get(kind)) is not None else 0 for kind in set(types)])


def _check_apart(relocations: Relocations, widest: int, where: str) -> None:
    """Each field is written for one relocation: psABI 4.4.1 knows no others for this machine."""
    columns = relocations.columns
    begins = columns.offsets.copy()
    for number in columns.numbers_of(_BEGUN):
        begins[number] -= _BEFORE[columns.types[number]]
    begins.sort()
    if min(map(sub, begins[1:], sorted(columns.offsets)), default=widest) >= widest:
        return
    end = -3
    for offset, info, _ in sorted(relocations):
        if (row := TABLE.get(info & _TYPE)) is None:
            continue
        if offset - _BEFORE.get(row.number, 0) < end:
            raise LinkError(f"{where}+{offset:#x}: two relocations of one field")
        end = offset + row.field


def _refer(known: SymbolDraft, info: int) -> None:
    """Let a symbol stand for one of its name that is not defined, too."""
    if known.section == 0 and known.info >> 4 == c.STB_WEAK and info >> 4 != c.STB_WEAK:
        known.info = info


def _merge(
    known: SymbolDraft, info: int, other: int, section: SectionDraft | int, value: int, size: int,
    origin: str,
) -> None:  # fmt: skip
    """Let a symbol stand for another one of its name as well."""
    if other & 3:  # gABI: the strictest
        known.other = known.other & ~3 | min(v for v in (known.other & 3, other & 3) if v)
    if section == 0:
        _refer(known, info)
        return
    if known.is_defined:
        weak, was_weak = info >> 4 == c.STB_WEAK, known.info >> 4 == c.STB_WEAK
        common, was_common = section in COMMON, known.section in COMMON
        if common and was_common:
            known.value, known.size = max(known.value, value), max(known.size, size)
            return
        if weak or (common and not was_weak):
            return
        if not was_weak and not was_common:
            raise LinkError(f"{written(known.name)} is defined in {known.origin} and in {origin}")
    known.info, known.section, known.origin = info, section, origin
    known.value, known.size = value, size
