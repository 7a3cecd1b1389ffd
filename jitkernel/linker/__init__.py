"""Objects to images in the arena, and the symbols that hold them together.  Start from `Linker`."""

from jitkernel.linker.image import Block, Image
from jitkernel.linker.linker import Linker
from jitkernel.linker.symbols import Symbol, SymbolKind, SymbolState

__all__ = ["Block", "Image", "Linker", "Symbol", "SymbolKind", "SymbolState"]
