"""The slab and its zones: hands out extents and takes them back.  Start from `Arena`."""

from jitkernel.arena.arena import Arena, Region, Zone
from jitkernel.arena.freelist import Extent, FreeList

__all__ = ["Arena", "Extent", "FreeList", "Region", "Zone"]
