"""While much is made of which nothing is garbage, the garbage collector waits.

It would go through all that lives each time a quarter as much has been made.
Start from `without_collections`.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["without_collections"]


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """A block in which nothing is collected."""
    collects = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if collects:
            gc.enable()
