"""C programs stopped by gdb, and what it says about their frames.  Start from `observe`."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jitkernel.elf import read_object
from jitkernel.elf.dwarf import DebugInfo

REGISTERS = "rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags".split()
REGISTERS += [f"xmm{number}" for number in range(16)]

_SCRIPT = r"""
import gdb, json
SEEN = []
def number(register):
    if register.type.sizeof == 8:
        return int(register) & (1 << 64) - 1
    if register.type.sizeof < 8:
        return int(register)
    low, high = (int(register["v2_int64"][i]) & (1 << 64) - 1 for i in (0, 1))
    return low | high << 64
def leaves(path, value, out, depth=0):
    type = value.type.strip_typedefs().unqualified()
    code = type.code
    if value.is_optimized_out:
        out[path] = None
    elif code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        for field in type.fields():
            inner = path + "." + field.name if field.name else path
            leaves(inner, value[field], out, depth + 1)
    elif code == gdb.TYPE_CODE_ARRAY:
        low, high = type.range()
        for index in range(low, high + 1):
            leaves(path + "[%d]" % index, value[index], out, depth + 1)
    elif code == gdb.TYPE_CODE_FLT:
        out[path] = repr(float(value))
    elif type.sizeof > 8:
        out[path] = value.format_string(format="d")
    else:
        out[path] = str(int(value))
def stop():
    frame = gdb.newest_frame()
    frames, low = [], int(frame.read_register("rsp"))
    while frame is not None and frame.is_valid():
        older = frame.older()
        names = {}
        block = frame.block() if frame.function() is not None else None
        while block is not None:
            for symbol in block:
                if symbol.is_variable or symbol.is_argument or symbol.is_constant:
                    if symbol.name in names:
                        continue
                    out = names[symbol.name] = {"leaves": {}, "type": str(symbol.type)}
                    out["line"] = symbol.line
                    try:
                        value = symbol.value(frame)
                        if value.address is not None:
                            out["address"] = int(value.address)
                        leaves("", value, out["leaves"])
                    except (gdb.error, ValueError, TypeError) as error:
                        out["error"] = str(error)
            if block.function is not None:
                break
            block = block.superblock
        outer = frame
        while outer.type() == gdb.INLINE_FRAME:
            outer = outer.older()
        caller = outer.older()
        frames.append({
            "name": frame.name(), "pc": frame.pc(), "line": frame.find_sal().line,
            "registers": {r: number(frame.read_register(r)) for r in REGISTERS},
            "cfa": int(caller.read_register("rsp")) if caller else 0, "names": names,
            "inlined": frame.type() == gdb.INLINE_FRAME,
        })
        if frame.name() == "main":
            break
        frame = older
    high = frames[-1]["cfa"] + 64
    memory = [[low, bytes(gdb.selected_inferior().read_memory(low, high - low)).hex()]]
    for line in gdb.execute("info proc mappings", to_string=True).splitlines():
        words = line.split()
        if words and words[-1] == PROGRAM:
            start, end = int(words[0], 16), int(words[1], 16)
            memory.append([start, bytes(gdb.selected_inferior().read_memory(start, end - start)).hex()])
    SEEN.append({"frames": frames, "memory": memory})
gdb.execute("set pagination off")
gdb.execute("set backtrace past-main on")
for place in PLACES:
    gdb.Breakpoint(place)
gdb.execute("run", to_string=True)
while gdb.selected_inferior().pid and len(SEEN) < MOST:
    stop()
    gdb.execute("continue", to_string=True)
open(OUT, "w").write(json.dumps(SEEN))
"""


class Observed(NamedTuple):
    """A program's debug information where it runs, and its stops as gdb sees them."""

    info: DebugInfo
    stops: list[dict[str, Any]]
    code: bytes
    addresses: dict[int, int]


def compiled(source: str, folder: Path, compiler: str, *flags: str) -> bytes:
    """An object, by "clang" or "gcc"."""
    text, code = folder / "a.c", folder / "a.o"
    text.write_text(source)
    command = ["gcc"]
    if compiler == "clang":
        pytest.importorskip("ziglang")
        command = [sys.executable, "-m", "ziglang", "clang", "--target=x86_64-linux-gnu"]
    elif shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    subprocess.run(
        [*command, "-w", "-c", *flags, str(text), "-o", str(code)],
        check=True, env={**os.environ, "HOME": str(folder)}, timeout=100,
    )  # fmt: skip
    return code.read_bytes()


def observe(
    source: str, folder: Path, compiler: str, *flags: str,
    places: Sequence[str] = ("marker",), most: int = 12,
) -> Observed:  # fmt: skip
    """Compile, link, run and stop a program at each call of its function `marker`, or at other
    places, `most` times."""
    for name in ("gdb", "gcc"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    code = compiled(source, folder, compiler, *flags)
    made = folder / "a"
    subprocess.run(["gcc", "-no-pie", str(folder / "a.o"), "-o", str(made)], check=True)
    elf = read_object(code)
    placed = _symbols(made)
    addresses = {
        section: placed[name] - value
        for number, (_, info, _, section, value, _) in enumerate(elf.symbols)
        if info & 15 in (1, 2) and (name := elf.symbol_name(number)) in placed
    }
    script, out = folder / "stop.py", folder / "out.json"
    script.write_text(
        f"OUT = {str(out)!r}\nPROGRAM = {str(made)!r}\nREGISTERS = {REGISTERS!r}\n"
        f"PLACES, MOST = {list(places)!r}, {most}\n{_SCRIPT}"
    )
    subprocess.run(
        ["gdb", "-nx", "-batch", "-x", str(script), str(made)],
        check=True, capture_output=True, timeout=100, stdin=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder), "DEBUGINFOD_URLS": ""},
    )  # fmt: skip
    return Observed(DebugInfo(code, addresses), json.loads(out.read_text()), code, addresses)


def _symbols(program: Path) -> dict[str, int]:
    said = subprocess.run(["nm", str(program)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in said.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


# -- programs --------------------------------------------------------------------------------------

HEAD = """
enum color { RED, GREEN = 5, BLUE = -3 };
struct point { int x; double y; };
struct mixed { unsigned a : 3; int b : 9; long c : 40; char name[6]; enum color color;
               union { int i; float f; struct { short lo, hi; }; }; struct point points[2]; };
typedef unsigned char byte; typedef struct point point_t; typedef int row[3];
int seen; static long kept = 77; const double ratio = 2.5; struct mixed shared = {1, -2, 3, "ab", BLUE};
__attribute__((noinline)) void marker(void) { seen++; }
"""
_TYPES = {
    "char": "{}", "signed char": "-{}", "byte": "{}", "short": "-{}", "unsigned short": "{}",
    "int": "-{}", "unsigned": "{}u", "long": "-{}L", "unsigned long": "{}ul", "_Bool": "{} & 1",
    "float": "{}.5f", "double": "-{}.25", "enum color": "GREEN", "point_t": "{{ {}, 1.5 }}",
    "struct mixed": '{{ {} & 7, -{}, {}, "xyz", RED, {{ {} }}, {{ {{ 1, 2 }}, {{ 3, 4 }} }} }}',
    "row": "{{ 1, -{}, 3 }}", "const char *": '"text"', "int *": "&seen", "__int128": "-{}",
    "struct point *": "0", "long double": "{}.75L", "volatile int": "{}",
}  # fmt: skip
_BY_VALUE = [t for t in _TYPES if t not in ("row", "volatile int")]


def program(seed: int) -> str:
    """A random program of some functions that call each other and `marker` within blocks."""
    pick = random.Random(seed)

    def value(type: str) -> str:
        return (
            _TYPES[type]
            .replace("{}", str(pick.randrange(1, 100)))
            .replace("{{", "{")
            .replace("}}", "}")
        )

    def block(depth: int, names: list[str]) -> list[str]:
        lines = []
        for name in pick.sample("abcdefgh", pick.randrange(1, 4)):
            type = pick.choice([*_TYPES])
            static = "static " if pick.random() < 0.15 else ""
            lines.append(f"{static}{type} {name} = {value(type)};")
            lines.append(f"used = &{name};")
        if pick.random() < 0.6:
            lines.append("marker();")
        kind = pick.random()
        if depth and kind < 0.7:
            inner = block(depth - 1, names)
            head = pick.choice(["", "if (seen >= 0)", "for (int i = 0; i < 2; i++)"])
            lines += [f"{head} {{", *inner, "}"]
        if depth and kind > 0.5:
            lines += ["{", *block(depth - 1, names), "}"]
        return lines

    text = [HEAD, "void *used;"]
    calls: list[str] = []
    for number in range(3):
        types = pick.sample(_BY_VALUE, pick.randrange(1, 5))
        arguments = ", ".join(f"{type} p{i}" for i, type in enumerate(types))
        body = block(3, [])
        given = ", ".join(
            f"({t}){value(t)}" if value(t)[0] == "{" else f"{value(t)}" for t in types
        )
        text.append(f"int f{number}({arguments}) {{")
        text += ["  " + line for line in body]
        text += [f"  {calls[-1]}" if calls else "  marker();", "  return 0;", "}"]
        calls.append(f"f{number}({given});")
    return "\n".join([*text, "int main(void) {", "int n = 4;", "int vla[n];", *calls, "}"])


def inlining(seed: int) -> str:
    """A random program whose functions are parts of others at -O2."""
    pick = random.Random(seed)
    lines = [HEAD, "volatile int input = 7; volatile double real = 1.25;"]
    for number in range(4):
        kind = pick.choice(["static inline", "static", "__attribute__((noinline)) static"])
        callee = f"f{number - 1}(a + {pick.randrange(9)}, b * 2, q)" if number else "input"
        lines.append(
            f"{kind} long f{number}(int a, long b, struct point *q) {{ int c = a * {number + 2}; "
            f"struct point s = {{ c, b }}; const int k = {pick.randrange(99)}; double d = real + c; "
            f"long e = input; if (e > {pick.randrange(9)}) {{ long g = e * b; marker(); "
            f"e += g + q->x; }} marker(); e += {callee}; marker(); return e + s.x + k + (long)d; }}"
        )
    lines.append("int main(int argc, char **argv) { struct point z = { argc, 2 }; int i = input;")
    lines.append("for (int j = 0; j < 2; j++) i += f3(i + j, j, &z); return (i & 1) + z.x; }")
    return "\n".join(lines)
