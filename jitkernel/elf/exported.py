"""Names of functions in a shared library's file, for addresses in it.  Start from `name_at`."""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import lru_cache


def name_at(path: str, offset: int) -> str:
    """`qsort_r+0x1f, libc.so.6` for an address `offset` bytes behind where a library is loaded;
    `libc.so.6+0x1f` where no exported function is there (System V gABI, "Symbol Table")."""
    file = os.path.basename(path)
    functions = _functions(path)
    at = bisect_right(functions, (offset, 1 << 64, "")) - 1
    if at >= 0:
        start, size, name = functions[at]
        if offset < start + max(size, 1):
            return f"{name}+{offset - start:#x}, {file}"
    return f"{file}+{offset:#x}"


@lru_cache(maxsize=64)
def _functions(path: str) -> list[tuple[int, int, str]]:
    """The distances of a library's exported functions from its first byte in memory on, their
    sizes and names, ascending; none where it cannot be read."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            table = elf.get_section_by_name(".dynsym")
            loads = [s["p_vaddr"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
            if not isinstance(table, SymbolTableSection) or not loads:
                return []
            first = min(loads) & ~0xFFF
            return sorted(
                (s["st_value"] - first, s["st_size"], s.name) for s in table.iter_symbols()
                if s["st_info"]["type"] in ("STT_FUNC", "STT_LOOS") and s["st_value"]
            )  # fmt: skip
    except (OSError, ELFError):
        return []
