"""Functions that leave a session with all that they need: as files, and to other processes.

Start from `export.export` for files and from `travelling.PortableFunction` for handles that pickle;
`gathering.Gathering` finds out what a function needs.
"""

from __future__ import annotations

__all__ = ["FORMS"]

#: The files that `Session.export` writes, by ending: what each is, and the form of the modules that
#: it takes.
FORMS = {
    ".o": ("a relocatable object", "object"),
    ".a": ("a static archive", "object"),
    ".so": ("a shared library", "object"),
    ".h": ("a header for C", "object"),
    ".ll": ("LLVM IR", "text"),
    ".bc": ("LLVM bitcode", "bitcode"),
    ".py": ("a Python module", "object"),
}
