"""Everything that can be done with a session, again and again, and what each time leaves behind.

As a program: `python growing.py BEFORE STEPS FOLDER [NAME ...]` does each operation of `STEPS`
BEFORE times, STEPS times more, and prints a line of JSON for each: its name, bytes a time, and the
types of which more live objects came than one in ten times.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from elftools.elf.elffile import ELFFile
from live import bytes_now, types_now

from jitkernel import Session
from jitkernel.errors import JitError
from jitkernel.session.run.calls import Scratch
from jitkernel.session.run.results import Collector

BASE = r"""define i32 @f(i32 %n) {
  ret i32 %n
}
@g = global i32 1
@fmt = constant [7 x i8] c"hello\0A\00"
declare i32 @printf(ptr, ...)
define i32 @say(i32 %n) {
  %r = call i32 (ptr, ...) @printf(ptr @fmt)
  ret i32 %n
}
define { i8, [2 x i32] } @pair(i32 %n) {
  %r = insertvalue { i8, [2 x i32] } zeroinitializer, i32 %n, 1, 0
  ret { i8, [2 x i32] } %r
}
@big = global [100000 x i8] zeroinitializer"""


MAPPED = """declare void @llvm.experimental.stackmap(i64, i32, ...)
define void @mapped(i64 %x) {
  call void (i64, i32, ...) @llvm.experimental.stackmap(i64 7, i32 0, i64 %x)
  ret void
}"""


def function(name: str, number: int) -> str:
    return f"define i32 @{name}() {{\n  ret i32 {number}\n}}"


def strong(code: bytes) -> bytes:
    """An object as other compilers make them: what ours define gives way to what is there."""
    table = ELFFile(io.BytesIO(code)).get_section_by_name(".symtab")
    found = bytearray(code)
    for at in range(table["sh_offset"], table["sh_offset"] + table["sh_size"], 24):
        if found[at + 4] >> 4 == 2:  # STB_WEAK
            found[at + 4] = 1 << 4 | found[at + 4] & 15
    return bytes(found)


#: What runs as a cell, by what it is for.
CELLS: dict[str, Callable[[int], str]] = {
    "value": lambda i: f"@f({i})",
    "output": lambda i: f"@say({i})",
    "values": lambda i: f"@f({i})\n@f(_)\n@f(3)",
    "aggregate": lambda i: f"@pair({i})",
    "large value": lambda i: "@big",
    "assignment": lambda i: f"@g = {i}",
    "instructions": lambda i: f"%x = add i32 {i}, 1\n%y = call i32 @f(i32 %x)",
    "constants": lambda i: f"%x = fadd double {i}.1, 0.1",
    "string": lambda i: f'@puts("text {i}")',
    "fault": lambda i: "%v = load volatile i32, ptr null",
    "fault in a function": lambda i: (
        "define void @bad() {\n  store volatile i32 1, ptr null\n  ret void\n}\n@bad()"
    ),
    "wrong words": lambda i: f"%x = ad i32 {i}",
    "wrong types": lambda i: f"%x = call i64 @f(i32 {i})",
    "unknown name": lambda i: f"@nobody{i}(3)",
    "definition": lambda i: function("h", i),
    "new name and out": lambda i: function(f"h{i}", i),
    "missing": lambda i: (
        f"declare i32 @none{i % 50}()\ndefine i32 @u() {{\n  %r = call i32 @none{i % 50}()\n  ret i32 %r\n}}\n@u()"
    ),
    "named type": lambda i: f"%t = type {{ i32, [{i % 9 + 1} x i8] }}\n%x = add i32 {i}, 0",
    "type alone": lambda i: f"%t = type {{ i32, [{i % 9 + 1} x i8] }}",
    "type and string": lambda i: f'%t = type {{ i32 }}\n@puts("text {i}")',
    "private": lambda i: (
        '@.str = private constant [3 x i8] c"hi\\00"\ndefine ptr @m() {\n  ret ptr @.str\n}'
    ),
    "global": lambda i: f"@v = global [4 x i32] [i32 {i}, i32 1, i32 2, i32 3]",
    "made global": lambda i: f"@w = i32 {i}\n@w",
    "constructor": lambda i: (
        f"@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{{ i32, ptr, ptr }} {{ i32 1, ptr @c, ptr null }}]\ndefine void @c() {{\n  store i32 {i}, ptr @g\n  ret void\n}}"
    ),
    "Kaleidoscope": lambda i: f"def twice(x) x * 2\ntwice({i})",
}


def operations(s: Session, folder: Path) -> dict[str, Callable[[int], Any]]:
    """By name; a name that begins with a method's stands for that."""
    path, code = str(folder / "saved.jks"), folder / "code.o"
    code.write_bytes(strong(s.compile(function("linked", 3)).compiled.object))

    def cell(text: Callable[[int], str], language: str) -> Callable[[int], Any]:
        return lambda i: s.run(text(i), language)

    found: dict[str, Callable[[int], Any]] = {
        f"run: {name}": cell(text, "kaleidoscope" if name == "Kaleidoscope" else "llvm")
        for name, text in CELLS.items()
    }
    kinds = [CELLS[n] for n in CELLS if n not in ("new name and out", "Kaleidoscope")]
    found["run: mixed"] = cell(lambda i: kinds[i % len(kinds)](i), "llvm")
    found["run: new name and out"] = lambda i: (s.run(function(f"h{i}", i)), s.evict(f"h{i}"))

    def again(i: int) -> None:
        s.run(function("same", i), cell_id="a cell")

    def undone(i: int) -> None:
        s.run(f"@g = {i}\n" + function("un", i))
        s.undo()
        s.redo()
        s.undo()

    def watched(i: int) -> None:
        s.watch("g", call=len)
        s.call("f", i)
        s.watched()
        s.unwatch()

    def looked(i: int) -> None:
        s.frontend.look_after(0.0, repr)
        s.call("f", i)

    def restored(i: int) -> None:
        s.save(path)
        with Session.restore(path, capacity=64 << 20, spare=False) as other:
            other.run("@f(3)")

    def failed(i: int) -> None:
        with contextlib.suppress(JitError):
            s.evict("nobody")
        with contextlib.suppress(JitError):
            s.load("/no/such/library.so")

    def scratched(i: int) -> None:
        with Scratch(s.frontend.core, "a test") as scratch:
            scratch.allocate(i.to_bytes(8, "little"), 16)

    def callback(i: int) -> None:
        s.export_python("asked", abs, "i32 (i32)")
        s.call("asked", -i)

    def hot(i: int) -> None:
        s.on_hot("f", 5, str)
        s.undo()

    def edges(i: int) -> None:
        cell = s.inspect.cell_of("f")[0].number
        s.frontend.count_edges(cell, s.inspect.request(cell), ["f"], "@f(3)", "llvm")

    def client(i: int) -> None:
        s.frontend.begin_cell("a cell", gone=[f"cell {i}"])
        s.run("@f(3)")
        s.frontend.end_cell()

    def arrays(i: int) -> None:
        array = s.array(10)
        s.share(array)
        s.call("takes", array)
        s.call("takes", bytearray(8))

    def heard(i: int) -> None:
        before, s.sink = s.sink, Collector()
        s.call("say", i)
        s.sink = before

    s.run("define void @takes(ptr %p) {\n  ret void\n}")
    return found | {
        "sink": heard,
        "portable": lambda i: s.portable("f"),
        "export": lambda i: s.export(["f"], str(folder / "left.o")),
        "export_python": callback,
        "later": lambda i: s.later(abs, i),
        "serve": lambda i: s.serve(),
        "on_hot": hot,
        "count_edges": edges,
        "array share": arrays,
        "read write": lambda i: s.write(s["g"].address, s.read(s["g"].address, 4)),
        "run: a cell again": again,
        "start": lambda i: s.frontend.core.engine.ready(),
        "scratch": scratched,
        "run_many": lambda i: s.run_many([function("many", i), function("more", i)]),
        "call": lambda i: s.call("f", i),
        "call: strings": lambda i: s.call("puts", f"text {i}"),
        "time": lambda i: s.time("@f(1)", 1, 1),
        "time_beside": lambda i: s.frontend.time_beside([("@f(1)", None), ("@f(2)", None)], 1, 1),
        "value": lambda i: s.value(f"@f({i})"),
        "compile place": lambda i: s.place(s.compile(function("placed", i))),
        "link": lambda i: s.link(str(code)),
        "load": lambda i: s.load("libm.so.6"),
        "types symbols cells source find": lambda i: (
            dict(s.types), dict(s.symbols), s.cells, s.source(s.symbols["f"].cell), s.find("f"),
        ),
        "stack_maps": lambda i: (s.run(MAPPED), s.stack_maps),
        "describe memory memory_samples contexts": lambda i: (
            s.describe(4096), s.memory(), s.inspect.memory_samples(), s.contexts(), s._core.release_contexts(),
        ),
        "use_context": lambda i: (s.configure("context", "shared"), s.configure("context", "throwaway")),
        "undo redo": undone,
        "evict": lambda i: (s.run(function("ev", i)), s.evict("ev")),
        "gc": lambda i: (s.gc(), s.gc(dry_run=True)),
        "keep": lambda i: (s.keep("f"), s.keep("f", on=False)),
        "hibernate wake": lambda i: (s.hibernate("f"), s.wake("f")),
        "budget": lambda i: setattr(s, "budget", i % 2 and 1 << 20),
        "watch unwatch watched": watched,
        "look_after": looked,
        "chdir setenv": lambda i: (s.chdir("/tmp"), s.setenv("GROWING", str(i))),
        "check": lambda i: s.check(),
        "idle output_fds drain interrupt": lambda i: (
            s.frontend.idle(), s.frontend.output_fds(), s.frontend.drain(s._core.sink), s.interrupt(),
        ),
        "failures": failed,
        "respawn": lambda i: s.respawn() if i % 10 == 0 else None,
        "save restore close": lambda i: restored(i) if i % 10 == 0 else None,
        "reproduce": lambda i: s.reproduce(0.05) if i % 10 == 0 else None,
        "begin_cell end_cell": client,
        "reset begin": lambda i: (s.reset(), s.frontend.core.begin(), s.run(BASE)) if i % 10 == 0 else None,
    }  # fmt: skip


def main(before: int, steps: int, folder: Path, names: list[str]) -> None:
    with Session(capacity=256 << 20, spare=False, opt_level=0) as s:
        s.sink = Collector()  # what the program prints is not part of the answer
        s.run(BASE)
        gc.collect()
        gc.freeze()  # what there is before is in no count, and takes no time
        for i in range(130):  # as many results and undo steps as are kept
            s.run(f"@f({i})")
        every = operations(s, folder)
        if "GROWING_LEAK" in os.environ:
            kept: list[list[int]] = []
            every["call"] = lambda i: kept.append([s.call("f", i)])
        if names == ["every fourth"]:
            names = list(every)[::4]
        for name, do in every.items():
            if names and name not in names:
                continue

            def rounds(first: int, many: int, do: Callable[[int], Any] = do) -> None:
                for i in range(first, first + many):
                    with contextlib.suppress(JitError):
                        do(i)
                s.gc(undo=True)  # what waits until enough of it has come
                s.frontend.idle()

            rounds(0, before)
            live = types_now()  # first: it takes room itself
            held = bytes_now()
            rounds(before, steps)
            grown = {k: n for k, n in (types_now() - live).items() if n > steps / 10}
            each = (bytes_now() - held) / steps
            print(json.dumps([name, round(each, 1), grown]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
