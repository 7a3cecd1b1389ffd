"""`jitkernel doctor`: what this machine offers, what is missing, and the remedy for each.

Every check is a function that returns a `Finding`; none raises.  Works on machines where the
kernel itself does not.  Start from `CHECKS`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jitkernel._platform import platform_message


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: `state` is "ok", "note" (works, with less) or "missing" (does not work)."""

    state: Literal["ok", "note", "missing"]
    what: str
    remedy: str = ""


def check_platform() -> Finding:
    message = platform_message()
    if message:
        return Finding("missing", message.split(";")[1].strip(), message)
    python = f"Python {platform.python_version()} ({sys.executable})"
    return Finding("ok", f"Linux {platform.release()} on {platform.machine()}, {python}")


def check_cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        return Finding("note", "1 core", "compiling and running share it; 2 or more start faster")
    return Finding("ok", f"{cores} cores")


def check_memfd() -> Finding:
    from jitkernel.arena import Arena
    from jitkernel.errors import JitError

    try:
        Arena(64 << 20).close()
    except JitError as error:
        remedy = "or allow memfd_create in the container's seccomp profile"
        return Finding("missing", str(error), remedy)
    return Finding("ok", "executable memory files (memfd_create)")


def check_low_addresses() -> Finding:
    """The arena wants a gigabyte between 0x10000000 and 0x7f000000 in a fresh Python process."""
    command = [sys.executable, "-I", "-S", "-c", "print(open('/proc/self/maps').read(), end='')"]
    maps = subprocess.check_output(command, text=True, timeout=30)
    if taken := [line.split()[0] for line in maps.splitlines() if _overlaps(line)]:
        return Finding(
            "note",
            f"low addresses are partly taken: {taken[0]}",
            "use a position-independent Python build; else the arena takes a high base and refuses"
            " objects with 32-bit absolute relocations",
        )
    return Finding("ok", "low addresses are free (0x10000000 to 0x7f000000)")


def _overlaps(line: str) -> bool:
    first, last = (int(part, 16) for part in line.split()[0].split("-"))
    return first < 0x7F00_0000 and last > 0x1000_0000


def _version(package: str) -> str:
    """The version of a package, "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def check_llvmlite() -> Finding:
    found, remedy = _version("llvmlite"), "pip install 'llvmlite>=0.50,<0.51'"
    if not found:
        return Finding("missing", "llvmlite is not installed", remedy)
    if not found.startswith("0.50."):
        return Finding("note", f"llvmlite {found}: not a version that was tried", remedy)
    return Finding("ok", f"llvmlite {found}")


def check_clang() -> Finding:
    """C cells are optional: without a clang, all the rest is there."""
    from jitkernel.errors import JitError
    from jitkernel.kernel.settings import configured, sections
    from jitkernel.languages.c.clang import find_clang

    path = sections(configured())["Compiler"].clang
    try:
        clang = find_clang(path)
        made = clang.compile("int f(void) { return __clang_major__; }")
    except JitError as error:
        return Finding(
            "note", "no clang for C cells", str(error).replace("C cells need clang: ", "")
        )
    if "define " not in made.text:
        words = made.complaints[0].message if made.complaints else "it compiles nothing"
        return Finding("note", f"{clang.program[0]}: {words}", "pip install 'jitkernel[c]'")
    package = _version("ziglang")
    return Finding("ok", f"clang for C cells ({path or f'of ziglang {package}'})")


def check_syscall_file() -> Finding:
    """Look how a cell that waits for input is recognised: /proc/PID/syscall.  It needs
    what ptrace does, by which `%stack --after` stops a thread."""
    child = subprocess.Popen(["sleep", "5"])
    try:
        with open(f"/proc/{child.pid}/syscall") as file:
            file.read()
    except OSError as error:
        return Finding(
            "note",
            f"/proc/PID/syscall cannot be read ({error.strerror})",
            "cells that read stdin are not offered an input box; allow ptrace among one user's"
            " processes (sysctl kernel.yama.ptrace_scope=1, or --cap-add=SYS_PTRACE)",
        )
    finally:
        child.kill()
        child.wait()
    return Finding("ok", "/proc/PID/syscall can be read (input boxes for scanf and the like)")


def check_session() -> Finding:
    """The three processes, one cell, one call."""
    if platform_message():
        return Finding("missing", "not tried here", "see the first line")
    try:
        from jitkernel import Session

        with Session(capacity=64 << 20) as session:
            text = session.run(
                "define i32 @doctor(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}\n@doctor(7)"
            ).text
            emulated = session.inspect.engine.executor.emulated
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Finding(
            "missing",
            f"a cell did not run: {first}",
            "the lines above may say why; otherwise reinstall jitkernel",
        )
    if text != "i32 49":
        return Finding("missing", f"7 squared is {text}", "reinstall jitkernel and llvmlite")
    if emulated:
        return Finding(
            "note",
            "a cell runs; the processor is emulated, and is told of each change of code",
            "cells and calls take about ten times as long, and %stack --after and what undo saves"
            " itself by page tables are not had; a machine with an x86-64 processor has all",
        )
    return Finding("ok", "compiler worker and executor start, and a cell runs")


def check_kernelspec() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    from jitkernel.kernel.install import NAME

    try:
        spec = KernelSpecManager().get_kernel_spec(NAME)
    except NoSuchKernel:
        return Finding("missing", "Jupyter does not see the kernel", "jitkernel install --user")
    return Finding("ok", f"Jupyter sees the kernel ({spec.resource_dir})")


def _lab_remedy() -> str:
    """In a source tree `make lab` does it, in the environment that the other targets use."""
    tree = Path(__file__).resolve().parents[2]
    here = (tree / "Makefile").is_file() and Path(sys.prefix).resolve() == tree / ".venv"
    return f"{'make lab' if here else 'pip install jupyterlab'}, or: jitkernel console"


def check_lab() -> Finding:
    if found := _version("jupyterlab"):
        return Finding("ok", f"JupyterLab {found}")
    return Finding("note", "JupyterLab is not in this environment", _lab_remedy())


#: the functions above, in their order
CHECKS: tuple[Callable[[], Finding], ...] = tuple(
    check for name, check in list(globals().items()) if name.startswith("check_")
)


def examine() -> list[Finding]:
    """Every finding; a check that breaks is a finding too."""
    found = []
    for check in CHECKS:
        try:
            found.append(check())
        except Exception as error:
            found.append(Finding("note", f"{check.__name__}: {error}"))
    return found


def report(findings: list[Finding]) -> str:
    """One line a finding, its remedy beneath."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8}{finding.what}")
        if finding.remedy:
            lines.append(f"{'':<8}-> {finding.remedy}")
    missing = sum(f.state == "missing" for f in findings)
    lines.append("jitkernel can run here." if not missing else f"{missing} missing.")
    return "\n".join(lines)
