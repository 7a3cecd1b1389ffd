"""Debugging information entries, read when they are asked for.  Start from `Entries`.

pyelftools reads an entry in 30 us; which ones there are is found by skipping over all of them, 2 us
each, by the sizes of their forms.  DWARF 5, 2.1 and 7.5.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from jitkernel.elf.cursor import Cursor

__all__ = ["Die", "Entries", "Ranges"]

#: Where something is: from addresses to addresses.
Ranges = tuple[tuple[int, int], ...]

#: Bytes of forms that have always as many, in the 32-bit format; DWARF 5, 7.5.6.
_FIXED = {
    "addr": 8, "data1": 1, "data2": 2, "data4": 4, "data8": 8, "data16": 16, "flag": 1,
    "flag_present": 0, "implicit_const": 0, "line_strp": 4, "ref1": 1, "ref2": 2, "ref4": 4,
    "ref8": 8, "ref_addr": 4, "ref_sig8": 8, "ref_sup4": 4, "ref_sup8": 8, "sec_offset": 4,
    "strp": 4, "strp_sup": 4, "strx1": 1, "strx2": 2, "strx3": 3, "strx4": 4, "addrx1": 1,
    "addrx2": 2, "addrx3": 3, "addrx4": 4, "GNU_ref_alt": 4, "GNU_strp_alt": 4,
}  # fmt: skip
_LEBS = (
    "udata", "sdata", "ref_udata", "strx", "addrx", "loclistx", "rnglistx", "GNU_addr_index",
    "GNU_str_index",
)  # fmt: skip
_BLOCKS = {"block1": 1, "block2": 2, "block4": 4}
_NEAR = ("ref1", "ref2", "ref4", "ref8", "ref_udata")
_SECTIONS = (
    "info", "aranges", "abbrev", "frame", "str", "loc", "ranges", "line", "pubtypes", "pubnames",
    "addr", "str_offsets", "line_str", "loclists", "rnglists", "sup", "types",
)  # fmt: skip


class Die:
    """An entry: `tag` without its `DW_TAG_`, attributes without their `DW_AT_`, and the entries
    below it where they were asked for; `scopes` are the ranges of those with code, once known."""

    __slots__ = ("attributes", "children", "entries", "offset", "raw", "scopes", "tag")

    def __init__(self, entries: Entries, raw: Any):
        self.entries, self.raw = entries, raw
        self.offset: int = raw.offset
        self.tag = str(raw.tag).removeprefix("DW_TAG_")
        self.attributes: dict[str, Any] = {
            str(name).removeprefix("DW_AT_"): value for name, value in raw.attributes.items()
        }
        self.children: list[Die] = []
        self.scopes: list[tuple[int, int, Die]] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def number(self, name: str, default: int = 0) -> int:
        """A constant, an address or an offset; `default` where there is none."""
        found = self.attributes.get(name)
        return found.value if found is not None and isinstance(found.value, int) else default

    def flag(self, name: str) -> bool:
        """True where a flag is set."""
        found = self.attributes.get(name)
        return found is not None and bool(found.value)

    def text(self, name: str) -> str:
        """A text; "" where there is none."""
        found = self.attributes.get(name)
        value = found.value if found is not None else b""
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""

    def block(self, name: str) -> bytes | None:
        """An expression, or a value in bytes."""
        found = self.attributes.get(name)
        if found is None or not isinstance(found.value, list | tuple | bytes):
            return None
        return bytes(found.value)

    def reference(self, name: str) -> int:
        """The offset of another entry; 0 where there is none."""
        found = self.attributes.get(name)
        if found is None:
            return 0
        form = found.form.removeprefix("DW_FORM_")
        if form in _NEAR:
            return int(found.raw_value) + int(self.raw.cu.cu_offset)
        return int(found.raw_value) if form == "ref_addr" else 0

    def meant(self) -> Iterator[Die]:
        """This entry and those that it is an instance of, or completes (DWARF 2.13.2, 3.3.8)."""
        found, seen = self, {self.offset}
        while True:
            yield found
            offset = found.reference("abstract_origin") or found.reference("specification")
            if not offset or offset in seen:
                return
            seen.add(offset)
            found = self.entries.die(offset)

    def having(self, name: str) -> Die:
        """Of these, the first that has an attribute; else this one."""
        return next((die for die in self.meant() if name in die.attributes), self)

    @property
    def name(self) -> str:
        """Its name; "" where it has none."""
        return self.having("name").text("name")

    @property
    def ranges(self) -> Ranges:
        """The place where its code is: none, one or several ranges of addresses.  DWARF 2.17."""
        low = self.attributes.get("low_pc")
        high = self.attributes.get("high_pc")
        if low is not None and high is not None:
            is_address = high.form.startswith(("DW_FORM_addr", "DW_FORM_GNU_addr"))
            stop = high.value if is_address else low.value + high.value
            return ((low.value, stop),) if stop > low.value else ()
        if "ranges" in self.attributes:
            return self.entries.range_list(self)
        return ()

    def expression(self, name: str, pc: int) -> bytes | None:
        """The location that an attribute gives at an address; None where there is none."""
        found = self.attributes.get(name)
        if found is None:
            return None
        if isinstance(found.value, list | tuple | bytes):
            return bytes(found.value)
        return self.entries.location(self, found.value, pc)


class Unit(NamedTuple):
    """A compile unit's interesting entries, by their offsets."""

    raw: Any
    functions: list[int]
    globals: list[int]
    types: list[int]


class Entries:
    """All entries of an object with the debug `sections`."""

    def __init__(self, sections: Mapping[str, bytes]):
        from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

        given: dict[str, Any] = {"eh_frame_sec": None, "gnu_debugaltlink_sec": None}
        for name in _SECTIONS:
            data = sections.get(f".debug_{name}")
            given[f"debug_{name}_sec"] = data and DebugSectionDescriptor(
                io.BytesIO(data), f".debug_{name}", 0, len(data), 0
            )
        config = DwarfConfig(little_endian=True, machine_arch="x64", default_address_size=8)
        self._dwarf: Any = DWARFInfo(config=config, **given)
        self._data = sections.get(".debug_info", b"")
        self._inlines = False
        self._dies: dict[int, Die] = {}
        self._trees: dict[int, Die] = {}

    @cached_property
    def units(self) -> list[Unit]:
        """The compile units."""
        raws = list(self._dwarf.iter_CUs()) if self._data else []
        return [Unit(raw, *self._scan(raw)) for raw in raws]

    @property
    def inlines(self) -> bool:
        """True if a function is a part of another one anywhere."""
        return bool(self.units) and self._inlines

    def top(self, raw: Any) -> Die:
        """The first entry of a unit."""
        return self.die(raw.get_top_DIE().offset)

    def die(self, offset: int) -> Die:
        """The entry at an offset, without those below it."""
        if offset not in self._dies:
            self._dies[offset] = Die(self, self._dwarf.get_DIE_from_refaddr(offset))
        return self._dies[offset]

    def tree(self, offset: int) -> Die:
        """The entry at an offset, with all below it."""
        if offset in self._trees:
            return self._trees[offset]
        top = self.die(offset)
        raw, unit = top.raw, top.raw.cu
        open_ = [top] if raw.has_children and not top.children else []
        at = offset + raw.size
        while open_:
            raw = unit.get_DIE_from_refaddr(at)
            at += raw.size
            if raw.is_null():
                open_.pop()
                continue
            made = self._dies[raw.offset] = Die(self, raw)
            open_[-1].children.append(made)
            if raw.has_children:
                open_.append(made)
        self._trees[offset] = top
        return top

    def range_list(self, die: Die) -> Ranges:
        """The addresses that a list of ranges gives.  DWARF 2.17.3."""
        unit, lists = die.raw.cu, self._dwarf.range_lists()
        if lists is None:
            return ()
        base = self.top(unit).number("low_pc")
        found = []
        for entry in lists.get_range_list_at_offset(die.attributes["ranges"].value, cu=unit):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            elif entry.end_offset > entry.begin_offset:
                plus = 0 if entry.is_absolute else base
                found.append((entry.begin_offset + plus, entry.end_offset + plus))
        return tuple(sorted(found))

    def location(self, die: Die, offset: int, pc: int) -> bytes | None:
        """The expression that a list of locations has for an address.  DWARF 2.6.2."""
        lists = self._dwarf.location_lists()
        if lists is None:
            return None
        base = self.top(die.raw.cu).number("low_pc")
        default = None
        for entry in lists.get_location_list_at_offset(offset, die.raw):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            elif entry.begin_offset == entry.end_offset == -1:
                default = bytes(entry.loc_expr)
            else:
                at = pc - (0 if entry.is_absolute else base)
                if entry.begin_offset <= at < entry.end_offset:
                    return bytes(entry.loc_expr)
        return default

    def indexed(self, die: Die) -> Callable[[int], int]:
        """Addresses by their index in the unit's table (DW_OP_addrx)."""
        return lambda index: int(self._dwarf.get_addr(die.raw.cu, index))

    # -- which entries there are ---------------------------------------------------------------

    def _scan(self, raw: Any) -> tuple[list[int], list[int], list[int]]:
        """The offsets of functions, global variables and outermost types of a unit."""
        skips = _Skips(raw)
        data, at = self._data, int(raw.cu_die_offset)
        end = int(raw.cu_offset + raw.size)
        functions: list[int] = []
        variables: list[int] = []
        types: list[int] = []
        depth = 0
        while at < end:
            start, code = at, data[at]
            at += 1
            if code >= 0x80:
                cursor = Cursor(data, start)
                code, at = cursor.uleb(), cursor.at
            if not code:
                depth -= 1
                if depth <= 0:
                    break
                continue
            tag, has_children, size, forms = skips[code]
            if tag == "DW_TAG_subprogram":
                functions.append(start)
            elif tag == "DW_TAG_inlined_subroutine":
                self._inlines = True
            elif depth == 1:
                if tag == "DW_TAG_variable":
                    variables.append(start)
                elif tag.endswith(("_type", "_typedef")):
                    types.append(start)
            at += size
            for form in forms:
                at = _after(data, at, form)
            depth += has_children
        return functions, variables, types


class _Skips(dict[int, tuple[str, bool, int, list[str]]]):
    """By code of an abbreviation: tag, whether entries are below, and how far its attributes go:
    bytes, or, where that depends on what they are, their forms."""

    def __init__(self, raw: Any):
        super().__init__()
        self._table, self._long = raw.get_abbrev_table(), 8 if raw.dwarf_format() == 64 else 4

    def __missing__(self, code: int) -> tuple[str, bool, int, list[str]]:
        declared = self._table.get_abbrev(code)
        forms = [spec.form.removeprefix("DW_FORM_") for spec in declared["attr_spec"]]
        size = 0
        rest: list[str] = []
        for form in forms:
            if form in _FIXED and not rest:
                is_long = form in ("strp", "line_strp", "sec_offset", "ref_addr", "strp_sup")
                size += self._long if is_long else _FIXED[form]
            else:
                rest.append(form)
        self[code] = found = (str(declared["tag"]), bool(declared.has_children()), size, rest)
        return found


def _after(data: bytes, at: int, form: str) -> int:
    """The place where an attribute of a form ends."""
    if form in _FIXED:
        return at + _FIXED[form]
    if form in _LEBS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if form == "string":
        return data.index(0, at) + 1
    if form in _BLOCKS:
        size = _BLOCKS[form]
        return at + size + int.from_bytes(data[at : at + size], "little")
    if form in ("exprloc", "block"):
        cursor = Cursor(data, at)
        size = cursor.uleb()
        return cursor.at + size
    raise ValueError(f"an entry has an attribute of form DW_FORM_{form}, which is not known")
