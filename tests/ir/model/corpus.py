"""IR that clang makes of C, at several levels, as LLVM prints it; and what LLVM says of a text."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from llvmlite import binding

from jitkernel.ir.model import Module
from jitkernel.languages.c.clang import find_clang

HERE = Path(__file__).parent
SOURCES = [HERE / "programs.c", HERE.parents[1] / "data" / "walk.c"]
LEVELS = {
    "O0": ["-O0", "-Xclang", "-disable-O0-optnone"],
    "O0g": ["-O0", "-Xclang", "-disable-O0-optnone", "-g"],
    "O2": ["-O2"],
    "O2g": ["-O2", "-g"],
    "O1g": ["-O1", "-g", "-fno-discard-value-names"],
}


@cache
def compiled(source: Path, level: str) -> str:
    """What clang makes of a file, as LLVM prints it."""
    clang = find_clang()
    folders = [flag for folder in clang.include for flag in ("-isystem", folder)]
    command = [clang.program[0], "clang", "--target=x86_64-linux-gnu", *folders, *LEVELS[level]]
    done = subprocess.run(
        [*command, "-w", "-S", "-emit-llvm", "-o", "-", str(source)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return printed(done.stdout)


def folder() -> list[Path]:
    """The files that end with `.ll` in the folder that `JITKERNEL_CORPUS` names; skips without."""
    named = os.environ.get("JITKERNEL_CORPUS", "")
    if not named:
        pytest.skip("JITKERNEL_CORPUS names no folder of .ll files")
    files = sorted(Path(named).rglob("*.ll"))
    assert files
    return files


def parsed(text: str) -> binding.ModuleRef:
    """A module in a context of its own, verified."""
    module = binding.parse_assembly(text, context=binding.create_context())
    module.verify()
    return module


def printed(text: str) -> str:
    return str(parsed(text))


@cache
def _target() -> binding.TargetMachine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(opt=1)


def object_of(text: str) -> bytes:
    found: bytes = _target().emit_object(parsed(text))
    return found


def check_operands(text: str) -> None:
    """Of each instruction LLVM has the same type and the same operands' types."""
    theirs = parsed(text)
    ours = Module(text)
    for function in theirs.functions:
        if function.is_declaration:
            continue
        found = ours.functions[function.name].instructions
        expected = [i for block in function.blocks for i in block.instructions]
        assert [i.opcode for i in found] == [i.opcode for i in expected]
        for mine, other in zip(found, expected, strict=True):
            assert _name(mine.type) == _name(other.type), str(mine)
            operands = list(mine.operands)
            if mine.opcode == "phi":
                operands = operands[::2]  # blocks are none in LLVM
            elif mine.opcode == "switch":  # nor are the values of cases
                operands = [operands[0], operands[1], *operands[3::2]]
            elif mine.opcode == "shufflevector":  # nor is the mask
                operands = operands[:2]
            types = Counter(_name(o.type) for o in operands)
            there = Counter(_name(o.type) for o in other.operands)
            if mine.opcode == "alloca" and not operands:
                there.clear()  # the number 1, which is not written
            there.pop("metadata", None)
            assert types == there, str(mine)


def _name(type: object) -> str:
    """A type's text; named ones, which llvmlite writes with their bodies, by what they are."""
    text = str(type)
    return "named" if text.startswith("%") else text
