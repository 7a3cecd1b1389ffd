"""Thread-local variables of objects, each thread's made when it first asks (emulated TLS).

A session is no program that a loader could have given a place in every thread's block.  Code for
shared libraries (-fPIC) asks a function where its variable is, though: `__tls_get_addr`, with the
address of two words (ELF Handling For Thread-Local Storage, 4.1: general and local dynamic).  Such
calls become calls of libgcc's `__emutls_get_address`, which makes a thread's copy when it first
asks, with its initial value, and frees it when the thread ends.  Its argument is the variable's
control block, `__emutls_v.NAME`, as clang's -femulated-tls has it: both kinds of object share them.

Code for programs (initial and local exec) counts on a place in the block: see `thread_offsets`.
Objects of IR and C cells are compiled for shared libraries.  Start from `emulate`.
"""

from __future__ import annotations

import struct
from typing import Final

from jitkernel.elf import constants as c
from jitkernel.elf.constants import COMMON
from jitkernel.errors import LinkError
from jitkernel.ir.names import CONTROL, written
from jitkernel.linker import x86_64
from jitkernel.linker.builder import Builder, Relocation, SectionDraft, SymbolDraft
from jitkernel.linker.thread_offsets import KINDS, Offsets
from jitkernel.linker.x86_64 import BRANCH, PC32

NO_CONSTANT: Final = "is thread-local: its address is no constant, each thread has another"

_ABSOLUTE = 1  # R_X86_64_64
_DTPOFF64, _TLSGD, _TLSLD, _DTPOFF32 = 17, 19, 20, 21
_BASE: Final = "_TLS_MODULE_BASE_"  # the begin of what this object has
_ASK: Final = "__tls_get_addr"
_GET: Final = "__emutls_get_address"
# For what is not all of its control block.  The two words are those that __tls_get_addr is given:
# push 8(%rdi); mov (%rdi), %rdi; call __emutls_get_address; pop %rdx; add %rdx, %rax; ret
# For a weak variable that nobody defines: test %rdi, %rdi; je to pop %rax; xor %eax, %eax; ret
_HELPER: Final = bytes.fromhex("ff7708 488b3f 4885ff 740b e800000000 5a 4801d0 c3 90 58 31c0 c3")
_HELPER_CALL: Final = 12
#: a function's one argument, as a symbol and an offset from it, and the function
_Way = tuple[SymbolDraft, int, SymbolDraft]


def emulate(builder: Builder, label: str) -> None:
    """Replace an object's thread-local storage; `label` is of the object, and one of its own.

    Raises LinkError for code that is not made for a shared library.
    """
    sections = [s for s in builder.sections if s.flags & c.SHF_TLS]
    if sections or c.STT_TLS in builder.kinds:
        symbols = [s for s in builder.symbols if s.info & 15 == c.STT_TLS]
        _Emulation(builder, sections, symbols, label).run()


class _Emulation:
    def __init__(
        self,
        builder: Builder,
        sections: list[SectionDraft],
        symbols: list[SymbolDraft],
        label: str,
    ):
        self._builder, self._sections, self._symbols = builder, sections, symbols
        self._label = label
        # What code finds by its distance from the block's begin lies in the block.
        self._in_block = {
            symbol
            for s in builder.sections
            for _, kind, symbol, _ in s.relocations
            if kind in (_DTPOFF32, _DTPOFF64) and s.flags & c.SHF_ALLOC
        }
        self._offsets: dict[SectionDraft, int] = {}
        self._pairs_at: dict[tuple[SymbolDraft, int], int] = {}
        self._offsets_of = Offsets(builder, self._place_of, lambda: self._global(_GET))
        self._pairs: SectionDraft | None = None
        self._block: SymbolDraft | None = None
        self._controls: dict[SymbolDraft, SymbolDraft] = {}
        self._groups = {
            s: name for name, (_, members) in builder.groups.items() for s in members
        }  # fmt: skip
        self._done: set[int] = set()  # where a section's calls of `__tls_get_addr` were

    def run(self) -> None:
        builder = self._builder
        self._image = self._lay_out()
        self._data = builder.add_section(".data.tls", c.SHF_ALLOC | c.SHF_WRITE, bytearray(), 16)
        self._place_exports()
        for section in list(builder.sections):
            if section.flags & c.SHF_ALLOC:
                self._rewrite(section)
            else:  # what a debugger is told of them
                section.relocations = [
                    r for r in section.relocations if r[1] not in (_DTPOFF32, _DTPOFF64)
                ]
        for draft in filter(None, (self._data, self._pairs)):
            draft.size = len(draft.content)
        gone = {id(s) for s in self._sections}
        builder.sections = [s for s in builder.sections if id(s) not in gone]
        left = [*self._symbols, *filter(None, (builder.globals.pop(_ASK, None),))]
        left += [s for s in builder.symbols if id(s.section) in gone]
        leaving = {id(s) for s in left}
        builder.symbols = [s for s in builder.symbols if id(s) not in leaving]
        for name, (signature, members) in list(builder.groups.items()):
            members[:] = [s for s in members if id(s) not in gone]
            if id(signature) in leaving:
                del builder.groups[name]
                for section in members:
                    section.flags &= ~c.SHF_GROUP

    def _lay_out(self) -> SymbolDraft:
        """The initial values of all of them, as constants."""
        image = bytearray()
        section = self._builder.add_section(".rodata.tls", c.SHF_ALLOC, image, 16)
        for tls in sorted(self._sections, key=lambda s: s.type == c.SHT_NOBITS):
            image += bytes(-len(image) % max(tls.align, 1))
            self._offsets[tls] = len(image)
            for offset, kind, symbol, addend in tls.relocations:
                section.relocations.append((offset + len(image), kind, symbol, addend))
            image += tls.content or bytes(tls.size)
            section.align = max(section.align, tls.align)
        section.size = len(image)
        return self._builder.add_symbol("", c.STT_SECTION, section)

    def _global(self, name: str, binding: int = c.STB_GLOBAL) -> SymbolDraft:
        """A name that another object may define."""
        return self._builder.global_symbol(name, binding)

    def _control(
        self, name: str, size: int, align: int, value: int, binding: int, group: str = ""
    ) -> SymbolDraft:
        """A control block: size, alignment, what libgcc knows it by, the initial value.  That of a
        variable in a COMDAT group belongs to the group: of several objects', one is taken."""
        symbol = self._global(CONTROL + name)
        if symbol.is_defined:
            return symbol
        data = self._data
        if group:
            flags = c.SHF_ALLOC | c.SHF_WRITE | c.SHF_GROUP
            data = self._builder.add_section(".data.tls", flags, bytearray(), 16)
            signature, members = self._builder.groups[group]
            if signature.name == name:  # which is to go
                self._builder.groups[group] = symbol, members
            members.append(data)
        at = len(data.content)
        data.content += struct.pack("<4Q", size, align, 0, 0)
        data.size = len(data.content)
        if value >= 0:
            data.relocations.append((at + 24, _ABSOLUTE, self._image, value))
        symbol.info, symbol.section = binding << 4 | c.STT_OBJECT, data
        symbol.value, symbol.size = at, 32
        return symbol

    def _place_of(self, symbol: SymbolDraft) -> tuple[SymbolDraft, int]:
        """A variable's control block, and its offset in what that is of."""
        binding, section = symbol.info >> 4, symbol.section
        if symbol.name == _BASE:
            return self._whole(), 0
        if section == 0:
            return self._global(CONTROL + symbol.name, binding), 0
        if isinstance(section, int):
            if section not in COMMON:
                raise LinkError(f"{written(symbol.name)} is thread-local and in no section")
            return self._control(symbol.name, symbol.size, symbol.value, -1, c.STB_WEAK), 0
        size = symbol.size if binding != c.STB_LOCAL else 0  # that of a part may be the whole's
        if section not in self._offsets or symbol.value + size > section.size:
            raise LinkError(
                f"{self._label}: {written(symbol.name)} is thread-local, and {section.name} has no "
                f"such variable at {symbol.value:#x}"
            )
        offset = self._offsets[section] + symbol.value
        if self._is_alone(symbol):
            if symbol not in self._controls:
                value = -1 if section.type == c.SHT_NOBITS else offset
                align = max(section.align, 1)
                group = self._groups.get(section, "")
                self._controls[symbol] = self._control(
                    symbol.name, symbol.size, align, value, binding, group
                )
            return self._controls[symbol], 0
        return self._whole(), offset

    def _is_alone(self, symbol: SymbolDraft) -> bool:
        """True if a variable has a control block of its own, by which other objects find it."""
        return symbol.info >> 4 != c.STB_LOCAL and symbol not in self._in_block

    def _place_exports(self) -> None:
        """Give those that other objects may see control blocks; two names of one variable share it.

        Raises LinkError for a name of a part of another variable.
        """
        found: dict[SectionDraft, list[SymbolDraft]] = {}
        for symbol in self._symbols:
            if isinstance(symbol.section, SectionDraft) and symbol.size:
                found.setdefault(symbol.section, []).append(symbol)
            elif symbol.is_defined and symbol.info >> 4 != c.STB_LOCAL:
                self._place_of(symbol)
        for symbols in found.values():
            symbols.sort(key=lambda s: (s.value, -s.size))
            first, end = symbols[0], -1
            for symbol in symbols:
                if symbol.value >= end:
                    first, end = symbol, symbol.value + symbol.size
                    alone = self._is_alone(symbol)
                elif self._is_alone(symbol) != alone or (alone and symbol.value != first.value):
                    raise LinkError(
                        f"{self._label}: {written(symbol.name)} is thread-local and part of "
                        f"{written(first.name)}: name that, and count from there"
                    )
                if symbol.info >> 4 != c.STB_LOCAL:
                    control, _ = self._place_of(first)
                if alone and symbol is not first:
                    other = self._global(CONTROL + symbol.name)
                    if not other.is_defined:
                        other.info = symbol.info & ~15 | c.STT_OBJECT
                        other.section = control.section
                        other.value, other.size = control.value, control.size
                        self._controls[symbol] = other

    def _whole(self) -> SymbolDraft:
        """The control block of all those that are found by their offsets."""
        if self._block is None:
            image = self._image.section
            size, align = (image.size, image.align) if not isinstance(image, int) else (0, 1)
            self._block = self._control(f".{self._label}", size, align, 0, c.STB_GLOBAL)
        return self._block

    def _way(self, control: SymbolDraft, offset: int) -> _Way:
        """The code that finds a variable, and its operand."""
        if not offset and (control.is_defined or control.info >> 4 != c.STB_WEAK):
            return control, 0, self._global(_GET)
        if self._pairs is None:
            self._pairs = self._builder.add_section(".rodata.pairs", c.SHF_ALLOC, bytearray(), 16)
            code = c.SHF_ALLOC | c.SHF_EXECINSTR
            helper = self._builder.add_section(".text.tls", code, bytearray(_HELPER))
            helper.relocations.append((_HELPER_CALL, BRANCH, self._global(_GET), -4))
            self._pairs_symbol = self._builder.add_symbol("", c.STT_SECTION, self._pairs)
            self._helper = self._builder.add_symbol("", c.STT_SECTION, helper)
        at = self._pairs_at.get((control, offset))
        if at is None:
            at = self._pairs_at[control, offset] = len(self._pairs.content)
            self._pairs.content += struct.pack("<Qq", 0, offset)
            self._pairs.relocations.append((at, _ABSOLUTE, control, 0))
        return self._pairs_symbol, at, self._helper

    def _rewrite(self, section: SectionDraft) -> None:
        """The code that asks where a variable is."""
        found: dict[int, Relocation] = {}
        counted: list[Relocation] = []
        code: bytearray | None = None
        self._done.clear()
        for entry in sorted(section.relocations, key=lambda r: r[0]):
            offset, kind, symbol, addend = entry
            if kind not in (_TLSGD, _TLSLD, _DTPOFF32, _DTPOFF64):
                if kind in KINDS and section.flags & c.SHF_EXECINSTR:
                    counted.append(entry)
                elif kind in x86_64.REFUSED or symbol.info & 15 == c.STT_TLS:
                    raise self._refusal(section, entry)
                found.setdefault(offset, entry)
                continue
            if code is None:
                code = section.content = bytearray(section.content)
            if kind in (_DTPOFF32, _DTPOFF64):
                control, at = self._place_of(symbol)
                if control is not self._block:
                    raise self._refusal(section, entry)
                word = "<i" if kind == _DTPOFF32 else "<q"
                struct.pack_into(word, code, offset, at + addend)
                continue
            if kind == _TLSGD:
                known = self._general(code, offset, self._way(*self._place_of(symbol)), found)
            else:
                known = self._local(code, offset, self._way(self._whole(), 0), found)
            if not known:
                raise self._refusal(section, entry)
        if code is not None:
            asked = [r for r in found.values() if r[2].name == _ASK and r[0] not in self._done]
            if asked:
                raise self._refusal(section, asked[0])
            section.relocations = [r for r in found.values() if r[2].name != _ASK]
        if counted:
            numbers = {id(entry): n for n, entry in enumerate(section.relocations)}
            for entry in counted:
                if not self._offsets_of.replace(section, numbers[id(entry)]):
                    raise self._refusal(section, entry)
            section.relocations = [r for r in section.relocations if r[1]]

    def _general(self, code: bytearray, at: int, way: _Way, found: dict[int, Relocation]) -> bool:
        """General dynamic: `lea x@tlsgd(%rip), %rdi; call __tls_get_addr`, 16 bytes."""
        calls = (b"\x66\x66\x48\xe8", b"\x66\x48\xff\x15")
        if code[at - 4 : at] != b"\x66\x48\x8d\x3d" or bytes(code[at + 4 : at + 8]) not in calls:
            return False
        code[at - 4 : at + 12] = b"\x48\x8d\x3d\0\0\0\0\xe8\0\0\0\0\x0f\x1f\x40\0"
        self._call(found, at - 1, way, at + 4, at + 8)
        return True

    def _local(self, code: bytearray, at: int, way: _Way, found: dict[int, Relocation]) -> bool:
        """Local dynamic: the same for the block's begin, without what pads it."""
        if code[at - 3 : at] != b"\x48\x8d\x3d":
            return False
        if code[at + 4] == 0xE8:
            self._call(found, at, way, at + 5, at + 5)
        elif code[at + 4 : at + 6] == b"\xff\x15":
            code[at + 4 : at + 10] = b"\xe8\0\0\0\0\x90"
            self._call(found, at, way, at + 5, at + 6)
        else:
            return False
        return True

    def _call(
        self, found: dict[int, Relocation], at: int, way: _Way, call: int, instead: int
    ) -> None:
        """The fields of a rewritten sequence; the call's was at `instead`."""
        given, offset, function = way
        found[at] = (at, PC32, given, offset - 4)
        found[call] = (call, BRANCH, function, -4)
        self._done.add(instead)

    def _refusal(self, section: SectionDraft, entry: Relocation) -> LinkError:
        offset, kind, symbol, _ = entry
        name = written(symbol.name) if symbol.name else "a variable"
        why = "this way to reach a thread-local variable is not known"
        if kind in x86_64.REFUSED:
            why = x86_64.refusal_of(kind)
        elif kind in x86_64.TABLE and not section.flags & c.SHF_EXECINSTR:
            why = f"it {NO_CONSTANT}"
        return LinkError(
            f"{self._label}: {section.name}+{offset:#x}: {x86_64.type_name(kind)} against {name}: "
            f"{why}"
        )
