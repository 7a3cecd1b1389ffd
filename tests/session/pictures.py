"""All that a session is, as values that compare: what a restored one must have again."""

from __future__ import annotations

from typing import Any

from jitkernel import Session
from jitkernel.linker import Image, Symbol, SymbolState
from jitkernel.linker.records import sites


def picture(s: Session) -> dict[str, Any]:
    """Symbols, cells, bytes and addresses, without what only an undo holds, without thunks, and
    without the addresses that libraries have in one process."""
    program = s.inspect.program
    far = _far_words(s)
    read = lambda extent: _read(s, extent.start, extent.size, far)  # noqa: E731
    symbols = {n: y for n, y in program.linker.symbols.items() if _lasts(y)}
    return {
        "symbols": {n: _symbol(y) for n, y in symbols.items()},
        "cells": {
            n: (
                c.cell_id, c.state, c.options, c.times, c.libraries,
                [(b.extent, read(b.extent)) for b in c.strings],
                [(name, at, size, b.extent) for name, at, size, b in c.extras],
                None if c.image is None else _image(s, c.image, read),
            )
            for n, c in sorted(program.cells.items())
        },
        "ids": dict(program.state.ids),
        "types": dict(program.state.types),
        "declared": dict(program.state.declared),
        "handles": {n: h for n, h in program.handles.items() if n in program.cells},
        "groups": {n: i.cell for n, i in program.linker.groups.items()},
        "copies": {n: sorted(i.cell for i in have) for n, have in program.linker.copies.items()},
        "results": {n: (str(v.type), v.data) for n, v in s.results.items()},
        "last": s.results.last and (str(s.results.last.type), s.results.last.data),
        "number": s.number,
        "base": (s.inspect.engine.arena.base, s.inspect.engine.arena.capacity),
        "sources": {n: s.inspect.store.get(n) for n in program.cells},
        "unwind": program.linker.unwind.shared,
    }  # fmt: skip


def _lasts(symbol: Symbol) -> bool:
    own = any(image.cell for image in symbol.users or ())
    return own or symbol.state in (SymbolState.DEFINED, SymbolState.FAR, SymbolState.FIXED)


def _symbol(y: Symbol) -> tuple[Any, ...]:
    address = 0 if y.state is SymbolState.FAR else y.address
    users = {i.cell: packed for i, packed in (y.users or {}).items() if i.cell}
    return (
        y.name, y.kind, y.state, address, y.size, y.image.cell if y.image else 0, y.stub, y.slot,
        y.far_slot, y.why, y.info, users,
    )  # fmt: skip


def _image(s: Session, image: Image, read: Any) -> tuple[Any, ...]:
    extents = [e for e in (image.text, image.unwind, *image.extra) if e is not None]
    table = s.inspect.program.linker.symbols
    return (
        [(e, read(e)) for e in extents],
        [(b.extent, b.holders > 0, read(b.extent)) for b in image.blocks],
        [(y.name, at, size, y.image is image) for y, at, size in image.exports],
        [_symbol(y) for y in image.refs if table.get(y.name) is not y],
        sorted(y.name for y in image.refs),
        image.init, image.fini, image.dso, image.pins, image.groups, image.copies,
    )  # fmt: skip


def _far_words(s: Session) -> dict[int, int]:
    """Addresses of fields that hold where a library's symbol is, with their sizes."""
    found: dict[int, int] = {}
    for y in s.inspect.program.linker.symbols.values():
        if y.state is SymbolState.FAR:
            found |= {at: 8 for at in (y.slot, y.far_slot) if at}
            for packed in (y.users or {}).values():
                found |= {
                    s.inspect.engine.arena.base + site.offset: 8
                    for site in sites(packed)
                    if site.type == 1
                }
    return found


def _read(s: Session, start: int, size: int, far: dict[int, int]) -> bytes:
    data = bytearray(s.inspect.engine.arena.read(start, size))
    for at, width in far.items():
        if start <= at < start + size:
            data[at - start : at - start + width] = bytes(width)
    return bytes(data)
