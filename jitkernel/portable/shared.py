"""Shared libraries, made of an object by a linker of the system.  Start from `shared_library`.

GNU ld, LLVM's lld or mold, whichever there is; zig brings an lld with it (`jitkernel[c]`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence

from jitkernel.children import ask
from jitkernel.elf import constants as c
from jitkernel.elf import read_object
from jitkernel.errors import LinkError
from jitkernel.files import scratch_folder
from jitkernel.linker.builder import Builder
from jitkernel.linker.x86_64 import BRANCH, PC32, REGISTERING, registering_stub

_TIMEOUT = 120  # seconds
_DSO = "__dso_handle"


def find_linker() -> list[str]:
    """The command of a linker that makes shared libraries.  Raises LinkError."""
    for name in ("ld", "ld.lld", "ld.gold", "mold"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    raise LinkError(
        "a shared library needs a linker, and there is none: install binutils (ld), lld or mold, "
        "or pip install 'jitkernel[c]'; a .o or a .a needs none"
    )


def shared_library(data: bytes, name: str, libraries: Sequence[str]) -> bytes:
    """The shared library `name` that an object becomes; `libraries` are files that it needs.

    Raises LinkError with the linker's words.
    """
    command = find_linker()
    with scratch_folder() as folder:
        source, made = os.path.join(folder, "code.o"), os.path.join(folder, "made.so")
        with open(source, "wb") as file:
            file.write(completed(data))
        words = [
            *command, "-shared", "--eh-frame-hdr", "-Bsymbolic", "-z", "noexecstack", "-soname",
            name, "-o", made, source, "--as-needed", *libraries,
        ]  # fmt: skip
        try:
            done = ask(words, _TIMEOUT)
        except OSError as error:
            raise LinkError(f"{command[0]} did not make the library: {error}") from None
        if done.status:
            told = done.errors.strip().replace(source, "the code")
            hint = ""
            if "recompile with -fPIC" in told or "relocation R_X86_64_32" in told:
                hint = (
                    "\nAn object that was linked in is not position independent: compile it with "
                    "-fPIC, or export a .o"
                )
            raise LinkError(f"{os.path.basename(command[-1])} refused: {told}{hint}")
        with open(made, "rb") as file:
            return file.read()


def completed(data: bytes) -> bytes:
    """An object with what crtbegin.o and libc's own archive would bring to a library of it."""
    builder = Builder()
    builder.add(read_object(data), "the code")
    asked = {n for n in (_DSO, *REGISTERING) if n in builder.globals}
    asked = {n for n in asked if not builder.globals[n].is_defined}
    if not asked:
        return data
    section = builder.add_section(".data.rel.ro", c.SHF_ALLOC | c.SHF_WRITE, bytes(8), 8)
    dso = builder.globals.get(_DSO) or builder.add_symbol(_DSO, c.STT_OBJECT, section)
    dso.info, dso.section, dso.value, dso.size = c.STT_OBJECT, section, 0, 8
    section.relocations.append((0, 1, dso, 0))  # R_X86_64_64: its own address, as libc has it
    for name in [n for n in REGISTERING if n in asked]:
        code, at = registering_stub(name, 0, 0)
        text = builder.add_section(
            f".text.{name}", c.SHF_ALLOC | c.SHF_EXECINSTR, bytearray(code), 16
        )
        text.relocations.append((at - 5, PC32, dso, -4))
        libc = REGISTERING[name][0]
        final = builder.globals.get(libc) or builder.add_symbol(libc, c.STB_GLOBAL << 4, 0)
        text.relocations.append((at, BRANCH, final, -4))
        entry = builder.globals[name]
        entry.info, entry.section, entry.value, entry.size = c.STT_FUNC, text, 0, len(code)
    return builder.write()
