"""Objects in the program's heap that have the layout of a struct before it was changed.

What is in the heap has no type: only variables that lead there tell that it is such an object.
Start from `old_objects`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jitkernel.ir.types import PointerType
from jitkernel.languages.c.notes import Note, Notes, key_name
from jitkernel.languages.language import Known

__all__ = ["old_objects"]

_WORD = 8
_LOWEST = 1 << 16  # no address is below: vm.mmap_min_addr
_MOST = 1 << 16  # bytes of a variable that are looked at


def old_objects(notes: Notes, changed: Collection[str], known: Known) -> list[str]:
    """Messages to the user where these keys are those of declarations that change; `notes` are as
    they were before."""
    types = {
        note.key: note for key in changed
        if (note := notes.get(key)) is not None
        and note.kind in ("tag", "typedef") and note.is_laid_out
    }  # fmt: skip
    if not types:
        return []
    reached = notes.affected(types)[0]
    names = [
        note.name for note in notes
        if note.kind == "variable" and note.key in reached and _leads_to_heap(note, known)
    ]  # fmt: skip
    if not names:
        return []
    what = ", ".join(sorted(key_name(key) for key in types))
    return [
        f"{', '.join(names)} lead{'s' * (len(names) == 1)} to memory from malloc that has the "
        f"layout of {what} from before: it is read as the new one from now on; allocate it again"
    ]


def _leads_to_heap(note: Note, known: Known) -> bool:
    variable = known.variable(note.symbol)
    if variable is None:
        return False
    type, address, _ = variable
    size = _WORD if isinstance(type, PointerType) else min(known.layout(type).size, _MOST)
    return any(_is_heap(known, word) for word in _words(known, address, size))


def _is_heap(known: Known, word: int) -> bool:
    there = word >= _LOWEST and known.read_memory(word, 1)
    return bool(there) and known.describe(word).endswith("(heap)")


def _words(known: Known, address: int, size: int) -> Iterator[int]:
    data = known.read_memory(address, size)
    for at in range(0, len(data) - _WORD + 1, _WORD):
        yield int.from_bytes(data[at : at + _WORD], "little")
