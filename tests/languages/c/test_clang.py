"""clang as a child process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

from jitkernel import Session
from jitkernel.languages.c.flags import harmless

# The owner starts what never ends, and gives it one second.
_OWNER = """
import sys
from jitkernel.languages.c.clang import _ask, nothing

_ask([sys.executable, "-c", sys.argv[1]], "", 1.0, nothing)
"""
_ENDLESS = """
import os
with open({!r}, "w") as file:
    print(os.getpid(), file=file)
while True:
    pass
"""


def test_it_ends_by_itself_where_its_owner_was_killed(tmp_path):
    path = tmp_path / "told"
    os.mkfifo(path)
    program = textwrap.dedent(_ENDLESS.format(str(path)))
    with subprocess.Popen([sys.executable, "-c", _OWNER, program]) as owner:
        child = os.pidfd_open(int(path.read_text()))
        owner.kill()
    ended = bool(select.select([child], [], [], 60)[0])
    if not ended:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os.close(child)
    assert ended


def test_a_restored_session_finds_the_headers_of_its_cells(tmp_path):
    """The folders come back, and what runs code does not."""
    pytest.importorskip("ziglang")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "own.h").write_text("typedef struct { int n; } own;\n#define MOST 3\n")
    flags = f"-I {tmp_path}/in -DLEAST=1"
    with Session(clang_flags=flags) as s:
        s.run('#include "own.h"', "c")
        s.run("own o = {MOST - LEAST};", "c")
        s.save(tmp_path / "a.jks")
        s.settings.clang_flags = f"{flags} -load nowhere.so"  # as of a stranger's
        s.save(tmp_path / "b.jks")
    for file in ("a.jks", "b.jks"):
        with Session.restore(tmp_path / file, clang_flags="") as s:
            assert s.settings.clang_flags == flags
            assert s.run("o.n + (int)sizeof(own) + LEAST", "c").value == 7
    with Session.restore(tmp_path / "b.jks", trust=True) as s:
        assert s.settings.clang_flags.endswith("-load nowhere.so")
    with Session.restore(tmp_path / "a.jks", clang_flags=f"{flags} -DMORE") as s:
        assert s.settings.clang_flags.endswith("-DMORE")


def test_flags_that_are_a_strangers():
    assert harmless("-Wall -std=gnu23 -D 'A=\"b c\"' -I x -isystem y") == (
        "-Wall -std=gnu23 -D 'A=\"b c\"' -I x -isystem y"
    )
    assert harmless("-load a.so -fplugin=b.so -fpass-plugin=c.so -o x -plugin d -mllvm e") == ""
    assert harmless("-I") == harmless("'") == ""
