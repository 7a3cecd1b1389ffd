"""The kernel process: `python -m jitkernel.kernel -f CONNECTION_FILE`.

Order is everything here.  The compiler worker needs as long to start as the Jupyter libraries need
to be imported, so it is started first and gets ready meanwhile.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

# The kernelspec sets these for this process: what it keeps of each cell lies in one heap then, and
# its mappings do not grow with the session.  They are not meant for the programs started from here.
_OWN = ("PYTHONMALLOC", "MALLOC_MMAP_MAX_")


def main() -> None:
    # The last of all: Python would look through everything several times for cycles, before the
    # process ends that has it all.  That is most of what a shutdown takes.
    atexit.register(gc.freeze)
    for name in _OWN:
        os.environ.pop(name, None)

    from jitkernel.kernel.early import EarlySession

    session = EarlySession(sys.argv[1:])

    from jitkernel.kernel.app import JITKernelApp

    JITKernelApp.launch(session)


if __name__ == "__main__":
    main()
