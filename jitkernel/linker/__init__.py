"""Objects to images in the arena, and the symbols that hold them together.  Start from `Linker`."""

from jitkernel.linker.linker import Linker
from jitkernel.linker.records import (
    Block,
    Image,
    Symbol,
    SymbolKind,
    SymbolState,
    new_image,
    new_symbol,
)
from jitkernel.linker.resolution import Former

__all__ = [
    "Block",
    "Former",
    "Image",
    "Linker",
    "Symbol",
    "SymbolKind",
    "SymbolState",
    "new_image",
    "new_symbol",
]
