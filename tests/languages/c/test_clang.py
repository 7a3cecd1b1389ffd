"""clang as a child process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap

# The owner starts what never ends, and gives it one second.
_OWNER = """
import sys
from jitkernel.languages.c.clang import _child

_child([sys.executable, "-c", sys.argv[1]], "", 1.0)
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
