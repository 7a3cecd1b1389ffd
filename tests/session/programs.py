"""Pieces of programs that several tests use, and what a session's whole state is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitkernel import Session, procfs
from tests.busy import soon

SQ = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"
CUBE = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  %q = mul i32 %r, %x\n  ret i32 %q\n}"


def constant(name: str, value: int) -> str:
    """A function that answers a number."""
    return f"define i32 @{name}() {{\n  ret i32 {value}\n}}"


def caller(name: str, of: str, plus: int = 0) -> str:
    """A function that calls another one without arguments and adds a number."""
    return (
        f"define i32 @{name}() {{\n  %a = call i32 @{of}()\n  %b = add i32 %a, {plus}\n"
        "  ret i32 %b\n}"
    )


# Takes LLVM about ten seconds: products of 4096 bits are written out.
SLOW = (
    "define i4096 @slow(i4096 %x) {\n  %a = mul i4096 %x, %x\n  %b = mul i4096 %a, %x\n"
    "  %c = mul i4096 %b, %x\n  %d = mul i4096 %c, %x\n  ret i4096 %d\n}"
)


@contextmanager
def interrupting(s: Session, after: float = 0.2, call: bool = False) -> Iterator[list[float]]:
    """Interrupts the session after a while, again and again until the block ends: the first time may
    come before there is anything to interrupt.  `call`: a call, and not what is compiled for it.
    Gives the times (monotonic) at which it did."""
    asked: list[float] = []
    done = threading.Event()

    def ask() -> None:
        pause = after
        while not done.wait(pause):
            if call and not s.inspect.engine.executor.serving:
                pause = 0.02
                continue
            asked.append(time.monotonic())
            s.interrupt()
            pause = 0.2

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield asked
    finally:
        done.set()
        thread.join()


@contextmanager
def interrupting_once(s: Session) -> Iterator[None]:
    """Interrupts the session once, when its program has computed for a while: what is pressed later
    ends what is then looked up."""
    s.inspect.engine.executor.services.lookup(["puts"])  # its process is there
    pid = s.inspect.engine.executor.pid
    used = procfs.processor_time(pid)
    computes = lambda: procfs.processor_time(pid) > used + 0.1  # noqa: E731
    with soon(lambda: computes() and s.interrupt() is None):
        yield


def state(s: Session) -> dict[str, Any]:
    """All that a failed cell must leave as it was: books, symbols, cells, types, data, results.

    Symbols of libraries are left out: looking one up is no change.
    """
    arena = s.inspect.engine.arena
    linker = s.inspect.program.linker
    live = {
        zone: dict(arena.zones[zone].list.live) for zone in ("text", "rodata", "unwind", "data")
    }
    far = {
        at
        for y in linker.symbols.values()
        if y.state.name in ("FAR", "FIXED")
        for at in (y.stub, y.slot, y.far_slot)
    }
    for extents in live.values():
        for at in far:
            extents.pop(at, None)
    for image in s.inspect.engine.thunks.images:
        if image.text is not None:
            live["text"].pop(image.text.start, None)
    return {
        "extents": {z: e for z, e in live.items() if z != "unwind"},
        "bytes": {
            zone: {at: arena.read(at, size) for at, size in live[zone].items()}
            for zone in ("text", "rodata", "data")
        },
        "symbols": {
            n: (y.state.name, y.kind.name, y.address, y.stub, y.slot, y.size, str(y.info), y.held,
                y.image.cell if y.image else 0, sorted(i.cell for i in y.users or ()))
            for n, y in linker.symbols.items()
            if y.state.name not in ("FAR", "FIXED")
        },
        "cells": {n: (c.cell_id, c.state, c.names) for n, c in s.inspect.program.cells.items()},
        "ids": dict(s.inspect.program.state.ids),
        "types": dict(s.inspect.program.state.types),
        "results": dict(s.results),
        "last": s.results.last,
    }  # fmt: skip


def text_of(value: str) -> str:
    """IR text of a C string constant's initialiser."""
    data = value.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return f'[{len(data)} x i8] c"{body}"'


#: Cells of every language, with every kind of variable that there is: language and source.
EVERYTHING: Sequence[tuple[str, str]] = (
    ("c", "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#define N 4\n#define M 4"),
    ("c", "typedef struct { char c; double d; struct { short s; int bits : 3; } in[2]; } pt;"),
    ("c", "union u { int i; char *s; long l; };\nenum colour { RED = 3, GREEN };"),
    ("c", "static int helper(int x) { return x * N; }\n"
          "int f(int x) { static int calls = 2; calls++; puts(\"f\"); return helper(x) + calls; }\n"
          "int pick(int x) { switch (x) { case 1: return 55; case 2: puts(\"two\"); return 3;"
          " case 3: return 99; case 4: puts(\"four\"); return 1; case 5: return 8; } return -1; }\n"
          "double g(double x) { return x * 1.5 + 2.25; }"),
    ("c", "pt table[N], *end = table + N, one = {'a', 0.5, {{1, 2}, {3, -1}}};\n"
          "char *names[] = {\"one\", \"two\", 0}, word[8] = \"word\"; unsigned u = 4000000000u;\n"
          "long double ld = 1.25L; _Bool yes = 1; const int limit = 7; union u uu; long w;\n"
          "int (*fp)(int) = f; FILE *out; void *heap, *in; _Thread_local int tl = 4;"),
    ("c", "heap = malloc(10); out = stdout; in = &table[1].d; w = (long)in; uu.s = names[1]; tl++;"),
    ("c", "f(3)"),
    ("c", "memset(&one, 0xff, sizeof one); one = (pt){'b', 1.0, {{1, 2}, {3, -1}}};"),
    ("llvm", "%pair = type { i32, i32 }\n@pair = global %pair zeroinitializer\n"
             "@ends = global ptr getelementptr(%pair, ptr @pair, i32 1)\n"
             "define i24 @odd(i24 %x) {\n  %r = mul i24 %x, 3\n  ret i24 %r\n}"),
    ("llvm", "@n = i64 5\n@text = ptr \"abc\"\n@v = <4 x float> <float 1.0, float 2.0, float 3.0, "
             "float 4.0>"),
    ("kaleidoscope", "def twice(x) x * 2"),
)  # fmt: skip


def run_cells(session: Session, cells: Sequence[tuple[str, str]]) -> None:
    """Run cells of a notebook, one after another."""
    for number, (language, source) in enumerate(cells):
        session.run(source, language, cell_id=f"cell {number}")
