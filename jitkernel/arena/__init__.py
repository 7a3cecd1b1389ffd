"""The slab and its zones: hands out extents and takes them back.  Start from `Arena`."""

from jitkernel.arena.arena import Arena
from jitkernel.arena.freelist import Extent, FreeList
from jitkernel.arena.zone import Region, Zone

__all__ = ["Arena", "Extent", "FreeList", "Region", "Zone"]
