"""What the debug sections of a placed object say.  Start from `DebugInfo`.

DWARF 4 and 5 (dwarfstd.org), as clang, LLVM and GCC write them.  Entries are read by pyelftools,
which is imported when the first of them is asked for.
"""

from jitkernel.elf.dwarf.info import DebugInfo, Function, Inlined, Local
from jitkernel.elf.dwarf.lines import Row
from jitkernel.elf.dwarf.places import Place, Read, locate

__all__ = ["DebugInfo", "Function", "Inlined", "Local", "Place", "Read", "Row", "locate"]
