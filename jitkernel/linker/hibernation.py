"""Images whose code leaves memory until somebody calls it.  Start from `hibernate`.

What stays of the code is one 16-byte stub for each function that others know, which calls the
runtime's `jk_wake`; its address is the function's definition meanwhile, so that every branch and
every canonical entry leads there.  Constants and variables stay where they are: the program may
have pointers to them.

The code comes back by being linked again from its object, wherever there is room: see `wake`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from jitkernel.arena import Arena, Extent
from jitkernel.errors import present
from jitkernel.linker.layout import ReadObject
from jitkernel.linker.plan import make_plan
from jitkernel.linker.records import SITE, Image, Symbol, SymbolState
from jitkernel.linker.resolution import Former, Job
from jitkernel.linker.x86_64 import STUB_SIZE, raise_stub

if TYPE_CHECKING:
    from jitkernel.linker.linker import Linker

T = TypeVar("T")


def reclaimable(image: Image) -> int:
    """Bytes that hibernating an image frees; below 0 where its stubs are larger than its code."""
    text = image.text
    if text is None:
        return 0
    return text.size - STUB_SIZE * _functions(image, text)


def hibernate(linker: Linker, image: Image) -> dict[int, str]:
    """Take an image's code out of memory; the stubs, by address, with the names they stand for.

    Raises ArenaFull, with nothing changed, where there is no room for the stubs.
    """
    with linker.arena.rollback.atomic():
        text = present(image.text, "the code of an image")
        exports, number = list(image.exports), _functions(image, text)
        stubs = linker.arena.reserve("text", STUB_SIZE * number) if number else None
        at = stubs.start if stubs is not None else 0
        for i, (symbol, address, size) in enumerate(exports):
            if text.start <= address < text.stop:
                exports[i] = symbol, at, size
                at += STUB_SIZE
        _forget_sites(linker.arena, image)
        linker.release_code(image, stubs)
        return _retarget(linker, image, exports, lambda: rewrite_stubs(linker, image))


def wake(linker: Linker, image: Image, data: bytes) -> None:
    """Link an image's code again, from the bytes of its object, over its constants and variables.

    Raises ArenaFull, or LinkError, with nothing changed.
    """
    with linker.arena.rollback.atomic():
        obj, names = ReadObject.of(data)
        former = Former(image.own, ("rodata", "data"), image=image)
        job = Job(
            obj, names, image.cell, linker.bind, linker.resolver, pins=dict(image.pins),
            former=former,
        )  # fmt: skip
        plan = make_plan(job, {}, linker.unwind)
        if image.rodata is not None:
            linker.arena.save(image.rodata.extent.start, image.rodata.extent.size)
        linker.release_code(image, plan.extents.text)
        if frames := plan.content.frames:
            image.unwind, image.extra = frames[0], tuple(frames[1:])
        own = plan.resolution.exports
        exports = [(s, own[s][1] if s in own else at, size) for s, at, size in image.exports]
        _retarget(linker, image, exports, lambda: linker.put_content(image, plan))


def _functions(image: Image, text: Extent) -> int:
    """The number of exports of an image that lie in its code."""
    return sum([text.start <= address < text.stop for _, address, _ in image.exports])


def _retarget(
    linker: Linker, image: Image, exports: list[tuple[Symbol, int, int]], write: Callable[[], T]
) -> T:
    """Give an image's functions new addresses, `write` what is there from now on, and let the users
    of those that are still its own follow: only then, for threads of the program may run."""
    before, image.exports = image.exports, tuple(exports)
    moved: list[tuple[Symbol, int]] = []
    for (symbol, address, size), (_, was, _) in zip(exports, before, strict=True):
        if address != was and symbol.image is image:
            moved.append((symbol, linker.bind.former_value(symbol.definition, symbol.stub)))
            symbol.definition = (SymbolState.DEFINED, address, size, image, symbol.kind, "")
    written = write()
    for symbol, value in moved:
        linker.bind.rebind(symbol, value)
    return written


def _forget_sites(arena: Arena, image: Image) -> None:
    """Forget the sites of an image that leave with its code: not what its object holds."""
    text, unwind = arena.zones["text"], arena.zones["unwind"]
    base = arena.base
    for symbol in image.refs:
        users = symbol.users
        if users is not None and (packed := users.get(image)):
            stay = b""
            for site in SITE.iter_unpack(packed):
                at = base + site[0]
                if not site[1] or not (
                    text.start <= at < text.stop or unwind.start <= at < unwind.stop
                ):
                    stay += SITE.pack(*site)
            users[image] = stay


def rewrite_stubs(linker: Linker, image: Image) -> dict[int, str]:
    """Write the stubs of a hibernated image again; what `hibernate` returned for it."""
    text = image.text
    if text is None:
        return {}
    found = {at: symbol.name for symbol, at, _ in image.exports if text.start <= at < text.stop}
    for at in found:
        linker.arena.write(at, raise_stub(at, linker.fixed["jk_wake"]))
    return found
