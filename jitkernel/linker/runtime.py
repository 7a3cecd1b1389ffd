"""The executor's runtime, linked at fixed addresses before any cell.  Start from `plan_runtime`."""

from __future__ import annotations

from jitkernel.errors import LinkError
from jitkernel.linker.content import Content
from jitkernel.linker.layout import arrange
from jitkernel.linker.plan import Extents, fill
from jitkernel.linker.resolution import Job, Resolution, local_targets
from jitkernel.linker.unwind import UnwindRegion

__all__ = ["plan_runtime"]


def plan_runtime(job: Job, unwind: UnwindRegion, control: int) -> tuple[Content, dict[str, int]]:
    """What the runtime's own regions will hold, and the addresses of what it exports.

    Its only import is `jk_control`, which is at `control`.  Raises LinkError where it does not fit
    or has writable data.
    """
    obj, names, arena = job.obj, job.names, job.bind.arena
    room = next(r for r in arena.regions if r.name == "runtime.text")
    layout = arrange(obj)._replace(frames=[])
    if "data" in layout.needs:
        raise LinkError("the runtime has writable data of its own")
    constants = room.start + (layout.needs.get("text", (0, 1))[0] + 255 & -256)
    if constants + layout.needs.get("rodata", (0, 1))[0] > room.stop:
        raise LinkError("the runtime is too large for its region")
    starts = {"text": room.start, "rodata": constants}
    targets = local_targets(obj, names, layout, starts)
    for index, name, _ in names.imports:
        if name != "jk_control":
            raise LinkError(f"the runtime asks for {name}")
        targets[index] = control
    exports: dict[str, int] = {}
    for e in names.exports:
        place = layout.places[e.section] if e.section < len(layout.places) else None
        address = e.value if place is None else starts[place[0]] + place[1] + e.value
        targets[e.number] = exports[e.name] = address
    extents = Extents(starts, None, None, None, (), ())
    resolution = Resolution(targets, {}, {}, {}, 0, None)
    return fill(job, layout, extents, resolution, {}, unwind), exports
