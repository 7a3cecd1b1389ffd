"""The executor's runtime, linked at fixed addresses before any cell.  Start from `load_runtime`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.elf import read_object
from jitkernel.errors import LinkError
from jitkernel.linker.layout import arrange, read_names
from jitkernel.linker.placing import Placing

if TYPE_CHECKING:
    from jitkernel.linker.linker import Linker

__all__ = ["load_runtime"]


def load_runtime(linker: Linker, data: bytes, control: int) -> dict[str, int]:
    """Put the runtime into its own regions; the addresses of what it exports.

    Its only import is `jk_control`, which is at `control`.  Raises LinkError where it does not fit
    or has writable data.
    """
    obj = read_object(data)
    room = next(r for r in linker.arena.regions if r.name == "runtime.text")
    names = read_names(obj)
    placing = Placing(linker, obj, names, 0)
    layout = placing.layout = arrange(obj)
    layout.frames.clear()
    if "data" in layout.needs:
        raise LinkError("the runtime has writable data of its own")
    constants = room.start + (layout.needs.get("text", (0, 1))[0] + 255 & -256)
    if constants + layout.needs.get("rodata", (0, 1))[0] > room.stop:
        raise LinkError("the runtime is too large for its region")
    placing.starts.update(text=room.start, rodata=constants)
    placing.copy()
    placing.find_locals()
    for index, name, _ in names.imports:
        if name != "jk_control":
            raise LinkError(f"the runtime asks for {name}")
        placing.targets[index] = control
    exports: dict[str, int] = {}
    for e in names.exports:
        place = layout.places[e.section] if e.section < len(layout.places) else None
        address = e.value if place is None else placing.starts[place[0]] + place[1] + e.value
        placing.targets[e.number] = exports[e.name] = address
    placing.relocate()
    return exports
