"""Every header of a Debian system's libraries that a compiler takes alone is a cell, and a session
goes on behind it: each in a session of its own, and all of them in one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jitkernel import Session

ziglang = pytest.importorskip("ziglang")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(2 * 3600),
    pytest.mark.skipif(not shutil.which("dpkg"), reason="no Debian"),
]

PACKAGES = ("libc6-dev", "zlib1g-dev", "libsqlite3-dev", "libssl-dev", "libgmp-dev", "libpng-dev")
FOLDER = re.compile(r"/usr/include/(?:x86_64-linux-gnu/)?(.+\.h)$")


def headers():
    """The headers that clang takes alone, as `#include` names them."""
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True).stdout
    names = {match[1] for line in listed.split() if (match := FOLDER.match(line))}
    return sorted(filter(is_alone, names))


def is_alone(name):
    """Whether a header is a translation unit of its own."""
    folder = Path(ziglang.__file__).parent
    command = [folder / "zig", "clang", "-isystem", folder / "lib/include", "-fsyntax-only", "-w"]
    text = f"#include <{name}>\n".encode()
    return not subprocess.run([*command, "-xc", "-"], input=text, capture_output=True).returncode


def refused(session, name):
    """What goes wrong with a cell of one header, and behind it."""
    try:
        session.run(f"#include <{name}>", "c")
        return [] if session.run("1+1", "c").value == 2 else [f"{name}: 1+1"]
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {error}"[:300]]


def test_each_header_alone_and_all_in_one_session():
    names = headers()
    assert len(names) > 400, names
    wrong = []
    for name in names:
        with Session() as session:
            wrong += refused(session, name)
    with Session() as session:
        for name in names:
            wrong += [f"with all before: {text}" for text in refused(session, name)]
        session.check()
    print(f"{len(names)} headers")
    assert wrong == []
