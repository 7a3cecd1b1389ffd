"""The records of a *jitdump*, by which `perf inject --jit` names samples in code that has no file.

Linux, tools/perf/Documentation/jitdump-specification.txt; of what describes frames also
tools/perf/util/genelf.c, which says where perf puts that.  Start from `loaded`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from jitkernel.elf.constants import EM_X86_64

_MAGIC, _VERSION = 0x4A695444, 1
_HEADER, _RECORD = struct.Struct("<6I2Q"), struct.Struct("<2IQ")
_LOAD, _DEBUG_INFO, _UNWINDING_INFO = 0, 2, 4
_LOADED, _LINES, _LINE = struct.Struct("<2I4Q"), struct.Struct("<2Q"), struct.Struct("<Q2i")
_FRAMES, _WORD = struct.Struct("<3Q"), struct.Struct("<I")
#: `.eh_frame_hdr` of one FDE (Linux Standard Base): version, encodings, then as those say.
_INDEX = struct.Struct("<4BiI2i")
_PC_RELATIVE, _PLAIN, _FROM_HERE = 0x1B, 0x03, 0x3B  # DW_EH_PE_*, of 4 bytes


def header(process: int, now: int) -> bytes:
    """The head of the file of a process; times are nanoseconds of CLOCK_MONOTONIC."""
    return _HEADER.pack(_MAGIC, _VERSION, _HEADER.size, EM_X86_64, 0, process, now, 0)


def loaded(process: int, now: int, name: str, start: int, code: bytes, index: int) -> bytes:
    """From `now` on this code is there; `index` is its own."""
    head = _LOADED.pack(process, process, start, start, len(code), index)
    return _record(_LOAD, now, b"".join([head, _string(name), code]))


def lines(now: int, start: int, rows: Iterable[tuple[int, int]], file: str) -> bytes:
    """Addresses, and the lines of a file from which the code from there on comes; of the code that
    is loaded next."""
    path = _string(file)
    found = [_LINE.pack(at, line, 0) + path for at, line in rows]
    return _record(_DEBUG_INFO, now, _LINES.pack(start, len(found)) + b"".join(found))


def frames(now: int, size: int, cie: bytes, fde: bytes) -> bytes:
    """The records of call frame information of the code that is loaded next, of so many bytes; the
    FDE counts its addresses from itself, in 4 bytes."""
    after = -(-size // 8) * 8  # where perf puts them, from where the code begins
    own = bytearray(cie + fde + bytes(4))
    at = len(cie)
    _WORD.pack_into(own, at + 4, at + 4)
    struct.pack_into("<i", own, at + 8, -(after + at + 8))
    table = bytes(own) + bytes(-len(own) % 8)
    index = _INDEX.pack(
        1, _PC_RELATIVE, _PLAIN, _FROM_HERE, -(len(table) + 4), 1, -(after + len(table)),
        at - len(table),
    )  # fmt: skip
    head = _FRAMES.pack(len(table) + len(index), len(index), 0)
    return _record(_UNWINDING_INFO, now, b"".join([head, table, index]))


def _string(text: str) -> bytes:
    return os.fsencode(text) + b"\0"


def _record(kind: int, now: int, body: bytes) -> bytes:
    """A record; those of frames are multiples of 8 bytes."""
    padded = body + bytes(-len(body) % 8 if kind == _UNWINDING_INFO else 0)
    return _RECORD.pack(kind, _RECORD.size + len(padded), now) + padded
