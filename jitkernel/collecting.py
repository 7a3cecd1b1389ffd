"""When Python's garbage collector runs.  Start from `without_collections`."""

from __future__ import annotations

import gc


class without_collections:
    """A block in which nothing is collected.

    The collector goes through all that lives each time a quarter as much has been made, also where
    nothing of it is garbage.
    """

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        if self._collects:
            gc.enable()


class lasting(without_collections):
    """The same where what is made stays: it counts as old at once, without being gone through."""

    def __exit__(self, *exception: object) -> None:
        if self._collects and not gc.get_freeze_count():  # else somebody has frozen what he has
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        super().__exit__()
