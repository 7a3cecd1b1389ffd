"""Makes relocatable objects: from LLVM IR with llvmlite, from assembly and C with system tools."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import llvmlite.binding as llvm
import pytest

__all__ = ["assemble", "compile_c", "compile_ir", "needs", "tool"]


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where one of the named programs is not installed."""
    missing = [n for n in names if shutil.which(n) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def tool(*command: str, data: bytes = b"") -> bytes:
    """Run a program; its standard output.  Fails the test with what it said."""
    done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=60)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.decode(errors='replace')}")
    return done.stdout


@functools.cache
def _machine(level: int, reloc: str, model: str) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    return target.create_target_machine(cpu="x86-64", opt=level, reloc=reloc, codemodel=model)


@functools.cache
def compile_ir(
    ir: str, level: int = 2, reloc: str = "static", model: str = "small", weak: bool = True
) -> bytes:
    """An object from LLVM IR.  `weak`: strong exports may be redefined, as in a session's cells."""
    machine = _machine(level, reloc, model)
    context = llvm.create_context()
    module = llvm.parse_assembly(ir, context)
    module.verify()
    if weak:
        for value in [*module.functions, *module.global_variables]:
            if not value.is_declaration and value.linkage == llvm.Linkage.external:
                value.linkage = llvm.Linkage.weak_any
    if level:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


@functools.cache
def assemble(source: str, *flags: str) -> bytes:
    """An object from assembly text."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "a.o"))
        tool("as", "--64", *flags, "-o", out, "-", data=source.encode())
        return Path(out).read_bytes()


@functools.cache
def compile_c(source: str, *flags: str) -> bytes:
    """An object from C text, made by gcc."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "a.o"))
        tool("gcc", "-c", "-x", "c", *flags, "-o", out, "-", data=source.encode())
        return Path(out).read_bytes()
