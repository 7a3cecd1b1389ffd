"""Functions that leave a session with all that they need: as files, and to other processes.

Start from `export.export` for files and from `travelling.PortableFunction` for handles that pickle;
`gathering.gather` finds out what a function needs.
"""

from __future__ import annotations

__all__ = ["ENDINGS"]

#: of the files that `Session.export` writes
ENDINGS = (".o", ".a", ".so", ".h", ".ll", ".bc", ".py")
