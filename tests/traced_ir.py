"""Random functions of IR in which each instruction and each value is printed: what another
interpreter, or a native program, says of them.  Start from `by_lli`."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import random_ir
from random_ir import Env, Function, Program, Type

_HELPERS = """@jk.line = constant [8 x i8] c"L %lld\\0A\\00"
@jk.part = constant [8 x i8] c"V %llx\\0A\\00"
declare i32 @printf(ptr, ...)
define void @jk.at(i64 %line) {
  %r = call i32 (ptr, ...) @printf(ptr @jk.line, i64 %line)
  ret void
}
define void @jk.is(i64 %bits) {
  %r = call i32 (ptr, ...) @printf(ptr @jk.part, i64 %bits)
  ret void
}
"""


def instrumented(program: Program) -> str:
    """The program's text with calls around each instruction of the function that is traced: `jk.at`
    with its line in front, `jk.is` with each scalar of its value behind."""
    lines = program.text.split("\n")
    function = next(f for f in program.functions if f.name == program.name)
    parts = _Parts()
    calls: dict[int, list[str]] = {}  # in front of a line
    behind: dict[int, list[str]] = {}
    first = next(
        n for n, row in enumerate(lines, 1) if f"@{function.name}(" in row and row[0] == "d"
    )
    entry = behind.setdefault(first + 1, [])
    for name, type in function.parameters:
        entry += parts.of(name, type)
    for block in function.blocks.values():
        phis = [line for line, _, _ in block.phis]
        start = max(phis) if phis else lines.index(f"{block.label}:", first - 1) + 1
        if block.given:
            name = block.given[1]
            behind.setdefault(start, []).extend(parts.of(name, function.types[name]))
        for line, name, _ in block.phis:
            behind.setdefault(start, []).append(_at(line))
            behind[start] += parts.of(name, function.types[name])
        for line, name, _ in block.steps:
            pad = " landingpad " in lines[line - 1]
            (behind if pad else calls).setdefault(line, []).append(_at(line))
            if name in function.types:
                behind.setdefault(line, []).extend(parts.of(name, function.types[name]))
        calls.setdefault(block.end, []).append(_at(block.end))
    made = []
    for number, row in enumerate(lines, 1):
        made += [*calls.get(number, ()), row, *behind.get(number, ())]
    return "\n".join(made)


def _at(line: int) -> str:
    return f"  call void @jk.at(i64 {line})"


class _Parts:
    """Makes the instructions that print a value's scalars."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, name: str, type: Type) -> list[str]:
        def new() -> str:
            self.count += 1
            return f"%jk.{self.count}"

        if type.members:
            found = []
            for index, member in enumerate(type.members):
                part = new()
                vector = type.kind == "vector"
                opcode = "extractelement" if vector else "extractvalue"
                found.append(f"  {part} = {opcode} {type} {name}, {'i32 ' * vector}{index}")
                found += self.of(part, member)
            return found
        found, bits = [], type.bits
        if type.kind == "f":
            bits, part = 32 if type.name == "float" else 64, new()
            found.append(f"  {part} = bitcast {type} {name} to i{bits}")
            name = part
        if bits < 64:
            part = new()
            found.append(f"  {part} = zext i{bits} {name} to i64")
            name = part
        return [*found, f"  call void @jk.is(i64 {name})"]


def by_lli(programs: Sequence[Program], folder: Path) -> list[list[tuple[int, Env]]]:
    """The traces of programs by LLVM's interpreter, as `Program.trace` has them."""
    if not shutil.which("lli"):
        pytest.skip("there is no lli")
    lines = [_HELPERS, *(instrumented(p) for p in programs), "define i32 @main() {"]
    for number, each in enumerate(programs):
        lines += [f"  %r{number} = call i64 @{each.entry}()", "  call void @jk.at(i64 -1)"]
    path = folder / "traced.ll"
    path.write_text("\n".join([*lines, "  ret i32 0", "}"]))
    told = subprocess.run(["lli", "--version"], capture_output=True, text=True).stdout
    opaque = ["-opaque-pointers"] if "LLVM version 14" in told else []
    done = subprocess.run(
        ["lli", "-force-interpreter", *opaque, str(path)], capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[:500]
    return [*traces(programs, done.stdout.decode())]


def natively(programs: Sequence[Program], folder: Path) -> list[list[tuple[int, Env]]]:
    """The same by a program of the machine's, without optimisation, which can throw."""
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    path, code, made = (folder / name for name in ("traced.ll", "traced.o", "traced"))
    lines = [random_ir.THROWING, _HELPERS, *(instrumented(p) for p in programs)]
    lines.append("define i32 @main() {")
    for number, each in enumerate(programs):
        lines += [f"  %r{number} = call i64 @{each.entry}()", "  call void @jk.at(i64 -1)"]
    path.write_text("\n".join([*lines, "  ret i32 0", "}"]))
    clang = [sys.executable, "-m", "ziglang", "clang", "--target=x86_64-linux-gnu", "-w"]
    for command in (
        [*clang, "-O0", "-c", str(path), "-o", str(code)],
        ["g++", "-no-pie", str(code), "-o", str(made)],
    ):
        done = subprocess.run(
            command, capture_output=True, timeout=600, env={**os.environ, "HOME": str(folder)}
        )
        assert done.returncode == 0, done.stderr[:1000]
    done = subprocess.run([str(made)], capture_output=True, timeout=100, check=True)
    return [*traces(programs, done.stdout.decode())]


def without_pointers(program: Program) -> list[tuple[int, Env]]:
    """The trace that `random_ir` has made, of what the others tell: no pointers, and nothing that
    landing pads give."""
    types = next(f.types for f in program.functions if f.name == program.name)
    return [(line, {n: v for n, v in env.items() if n in types}) for line, env in program.trace]


def traces(programs: Sequence[Program], printed: str) -> Iterator[list[tuple[int, Env]]]:
    """The traces that programs have printed, one after another."""
    words = [line.split() for line in printed.splitlines()]
    at = 0
    for program in programs:
        function = next(f for f in program.functions if f.name == program.name)
        stop = words.index(["L", "-1"], at)
        yield _trace(function, words[at:stop])
        at = stop + 1


def _trace(function: Function, words: list[list[str]]) -> list[tuple[int, Env]]:
    defined = function.defined()
    here = {
        line: name for block in function.blocks.values()
        for line, name, _ in (*block.phis, *block.steps) if name in function.types
    }  # fmt: skip
    given = {b.given[0]: b.given[1] for b in function.blocks.values() if b.given}
    env: Env = {}
    found = []
    at = 0

    def take(name: str) -> None:
        nonlocal at
        env[name], at = _value(function.types[name], words, at)

    for name, _ in function.parameters:
        take(name)
    before = 0
    while at < len(words):
        if words[at][0] == "V":  # of the invoke that has led here
            take(given[before])
            continue
        line = before = int(words[at][1])
        at += 1
        names = defined[line] & function.types.keys()
        found.append((line, {name: env[name] for name in names}))
        if line in here and at < len(words):  # else it has thrown
            take(here[line])
    return found


def _value(type: Type, words: list[list[str]], at: int) -> tuple[Any, int]:
    if type.members:
        parts = []
        for member in type.members:
            part, at = _value(member, words, at)
            parts.append(part)
        return tuple(parts), at
    kind, word = words[at]
    assert kind == "V"
    bits = int(word, 16)
    if type.kind == "f":
        code, size = ("f", 4) if type.name == "float" else ("d", 8)
        return struct.unpack(f"<{code}", bits.to_bytes(size, "little"))[0], at + 1
    return bits, at + 1
