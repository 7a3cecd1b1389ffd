"""Where jitkernel runs, in one place: `platform_message`."""

from __future__ import annotations

import os
import sys


def platform_message() -> str:
    """The reason this machine cannot run sessions; empty where it can."""
    if sys.platform == "linux" and os.uname().machine in ("x86_64", "AMD64"):
        return ""
    import platform

    return (
        f"jitkernel runs on Linux x86-64; this is {platform.system()} {platform.machine()}."
        " Use a Linux container or virtual machine (Docker, Podman, Lima), or WSL on Windows."
    )
