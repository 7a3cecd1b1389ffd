"""The kernel process: `python -m jitkernel.kernel -f CONNECTION_FILE`.

Order is everything here.  The compiler worker and the executor need as long to start as the
Jupyter libraries need to be imported, so they are started first and get ready meanwhile.
"""

from __future__ import annotations

import sys


def main() -> None:
    from jitkernel.kernel.early import start_session

    session = start_session(sys.argv[1:])

    from jitkernel.kernel.app import JITKernelApp

    JITKernelApp.launch(session)


if __name__ == "__main__":
    main()
