"""The kernel process: `python -m jitkernel.kernel -f CONNECTION_FILE`.

Order is everything here.  The compiler worker needs as long to start as the Jupyter libraries need
to be imported, so it is started first and gets ready meanwhile.
"""

from __future__ import annotations

import sys


def main() -> None:
    from jitkernel.kernel.early import EarlySession

    session = EarlySession(sys.argv[1:])

    from jitkernel.kernel.app import JITKernelApp

    JITKernelApp.launch(session)


if __name__ == "__main__":
    main()
