"""Numbers and records of the System V gABI and the x86-64 psABI that are read and written."""

from __future__ import annotations

import struct
from typing import Final

# gABI 4: Elf64_Ehdr, Elf64_Shdr, Elf64_Sym, Elf64_Rela
HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
RELA: Final = struct.Struct("<QQq")
#: Of a table of relocations as words of 32 bits: the types, and the numbers of symbols.

# gABI 4, "ELF Header"
ET_REL: Final = 1
ET_EXEC: Final = 2
EM_X86_64: Final = 62

# gABI 4, "Sections"
SHT_PROGBITS: Final = 1
SHT_SYMTAB: Final = 2
SHT_STRTAB: Final = 3
SHT_RELA: Final = 4
SHT_NOTE: Final = 7
SHT_NOBITS: Final = 8
SHT_REL: Final = 9
SHT_INIT_ARRAY: Final = 14
SHT_FINI_ARRAY: Final = 15
SHT_PREINIT_ARRAY: Final = 16
SHT_GROUP: Final = 17
SHT_SYMTAB_SHNDX: Final = 18
SHT_CREL: Final = 0x4000_0014  # compact relocations, as LLVM writes them (-Wa,--crel)
SHT_X86_64_UNWIND: Final = 0x7000_0001
SHF_WRITE: Final = 1
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4
SHF_INFO_LINK: Final = 0x40
SHF_LINK_ORDER: Final = 0x80
SHF_GROUP: Final = 0x200
SHF_TLS: Final = 0x400
SHF_COMPRESSED: Final = 0x800
GRP_COMDAT: Final = 1

# Section indices as the reader gives them: those that are reserved lie above all that there can be
# (in the file's 16 bits they begin at 0xFF00, between the indices of a large object).
SHN_XINDEX: Final = 0xFFFF
SHN_LORESERVE: Final = 0xFFFF_FF00
SHN_X86_64_LCOMMON: Final = 0xFFFF_FF02
SHN_ABS: Final = 0xFFFF_FFF1
SHN_COMMON: Final = 0xFFFF_FFF2
COMMON: Final = (SHN_COMMON, SHN_X86_64_LCOMMON)  # where definitions are that have no place yet
RESERVED: Final = 0xFF00  # the first one in the file

# gABI 4, "Symbol Table"
STB_LOCAL: Final = 0
STB_GLOBAL: Final = 1
STB_WEAK: Final = 2
STT_NOTYPE: Final = 0
STT_OBJECT: Final = 1
STT_FUNC: Final = 2
STT_SECTION: Final = 3
STT_TLS: Final = 6
STT_GNU_IFUNC: Final = 10

#: A section whose relocations, of a type without a field, name the symbols whose bodies or values
#: the object has in its code.
HELD: Final = b".held"
#: The slots of functions that are chosen at the start: see `linker.ifuncs`.
IFUNC_SLOTS: Final = ".data.ifunc"

#: The labels that LLVM puts on a module's stack maps and fault maps, by which a program reads them.
STACK_MAPS: Final = "__LLVM_StackMaps"
TABLE_LABELS: Final = (STACK_MAPS, "__LLVM_FaultMaps")
