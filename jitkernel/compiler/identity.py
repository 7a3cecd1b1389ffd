"""What the key of compiled code says of who compiles.  Start from `fingerprint`.

The worker knows (only it has LLVM); a kernel process that has just started and whose worker has
not yet answered knows what it was told the last time on this machine: `fingerprint` says whether
that still holds.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from pathlib import Path

from jitkernel._version import __version__

__all__ = ["fingerprint", "sources_digest"]

_CPU_FIELDS = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags")


@cache
def sources_digest() -> str:
    """A digest of our own text that has a say in what LLVM is given."""
    digest = sha256(__version__.encode())
    package = Path(__file__).parents[1]
    for path in sorted([*package.glob("compiler/*.py"), *package.glob("ir/*.py")]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(packages: str) -> str:
    """What must not have changed since a worker spoke: LLVM's file and the processor.

    `packages` is the folder that llvmlite is in.  "" where it cannot be told.
    """
    library = os.path.join(packages, "llvmlite", "binding", "libllvmlite.so")
    try:
        status = os.stat(library)
        file = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.read(file, 4096)  # one processor's lines; they are slow where there are many
        finally:
            os.close(file)
    except OSError:
        return ""
    fields = {
        name.strip(): value
        for name, _, value in (line.partition(b":") for line in text.splitlines())
        if name.strip() in _CPU_FIELDS
    }
    digest = sha256(repr((library, status.st_size, status.st_mtime_ns, status.st_ino)).encode())
    digest.update(repr(sorted(fields.items())).encode())
    return digest.hexdigest()
