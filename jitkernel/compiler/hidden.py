"""Functions of LLVM that llvmlite's library has and does not export.  Worker only.

llvmlite's own functions add some of LLVM's passes to a pass manager; all others LLVM reads from
text, as its `opt` does, by `PassBuilder::parsePassPipeline` (llvm/Passes/PassBuilder.h).  The
library as it is published keeps its table of symbols, which tells where that is.  Start from
`parse_pipeline`.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from ctypes import CFUNCTYPE, c_char_p, c_size_t, c_void_p
from functools import cache
from typing import Any

_SHT_SYMTAB = 2
_SECTION = struct.Struct("<IIQQQQIIQQ")  # gABI "Sections", Elf64_Shdr
_ENTRY, _VALUE = 24, 8  # bytes of an Elf64_Sym; where its value is
# Error PassBuilder::parsePassPipeline(ModulePassManager &, StringRef)
_PARSE = (
    b"_ZN4llvm11PassBuilder17parsePassPipelineE"
    b"RNS_11PassManagerINS_6ModuleENS_15AnalysisManagerIS2_JEEEJEEENS_9StringRefE"
)
_KNOWN = b"LLVMPY_CreatePassBuilder"
# The result, an Error, is not trivially copied: its place is handed over first (Itanium C++ ABI
# 3.1.3.1); a StringRef is two words in registers.
_PROTOTYPE = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p, c_char_p, c_size_t)


def parse_pipeline(file: str, known: Any, builder: int, passes: int, text: str) -> None:
    """Add the passes that a text names to a pass manager; `known` is LLVMPY_CreatePassBuilder as it
    was loaded from `file`.  Raises LookupError where it cannot be done, ValueError for the text."""
    error = c_void_p()
    raw = text.encode()
    at = ctypes.cast(known, c_void_p).value or 0
    _PROTOTYPE(at + _distance(file))(ctypes.addressof(error), builder, passes, raw, len(raw))
    if (error.value or 0) & ~1:  # the last bit: nobody has looked at it (llvm/Support/Error.h)
        raise ValueError(f"LLVM knows no passes {text}")


@cache
def _distance(file: str) -> int:
    """The bytes from LLVMPY_CreatePassBuilder to that function.  Raises LookupError."""
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as data:
        (table,) = struct.unpack_from("<Q", data, 40)  # e_shoff; e_shnum
        (count,) = struct.unpack_from("<H", data, 60)
        sections = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
        symbols = [section for section in sections if section[1] == _SHT_SYMTAB]
        if not symbols:
            raise LookupError("this library of llvmlite has no table of symbols: it was stripped")
        _, _, _, _, start, size, link, *_ = symbols[0]
        names = data[sections[link][4] : sections[link][4] + sections[link][5]]
        entries = data[start : start + size]
    return _value(entries, names, _PARSE) - _value(entries, names, _KNOWN)


def _value(entries: bytes, names: bytes, name: bytes) -> int:
    """A symbol's value, of a table of symbols.  Raises LookupError."""
    begin = names.find(b"\0" + name + b"\0") + 1
    spelled = struct.pack("<I", begin)
    at = entries.find(spelled) if begin else -1
    while at >= 0 and at % _ENTRY:
        at = entries.find(spelled, at + 1)
    if at < 0:
        raise LookupError(f"this library of llvmlite has no {name.decode()}")
    return int(struct.unpack_from("<Q", entries, at + _VALUE)[0])
