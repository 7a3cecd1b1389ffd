"""The slab and its zones: hands out extents and takes them back.  Start from `Arena`."""

from jitkernel.arena.arena import Arena
from jitkernel.arena.freelist import Extent, FreeList
from jitkernel.arena.slab import Region
from jitkernel.arena.zone import Zone

__all__ = ["Arena", "Extent", "FreeList", "Region", "Zone"]
