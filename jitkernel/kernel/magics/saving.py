"""Magics that write the session, or functions of it, to a file, and bring a session back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from jitkernel.errors import UsageError
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.portable import FORMS
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session import Session


@magic(
    "save",
    Argument("file", "the file; one that is there must be a session's", completes="file"),
    example="%save work.jks",
)
def save(context: Frontend, arguments: Any) -> None:
    """Write the session to a file: sources, code, symbols, the values of globals."""
    session, path = context.session, os.path.expanduser(arguments.file)
    size = session.save(path)
    cells = counted(len(session.cells), "cell")
    context.print(f"{cells} saved to {arguments.file}, {size} bytes")


@magic(
    "export",
    Argument("names", "functions and variables", "*", completes="symbol"),
    Argument(
        "-o --output",
        f"the file, which ends in {' '.join(FORMS)}",
        completes="file",
        value="FILE",
    ),
    Argument("--first", "variables begin with their first values, not the present ones", "flag"),
    Argument("--cpu", "the processor that runs it, such as x86-64-v3", completes="cpu"),
    example="%export dot -o libdot.so",
)
def export(context: Frontend, arguments: Any) -> None:
    """Write functions to a file with all that they need, for programs that have no session:
    an object, an archive, a shared library, a header, IR, bitcode, a Python module."""
    if not arguments.names or not arguments.output:
        raise UsageError("%export needs names and a file: %export dot -o libdot.so")
    path = os.path.expanduser(arguments.output)
    kind: Literal["first", "present"] = "first" if arguments.first else "present"
    done = context.session.export(arguments.names, path, globals=kind, cpu=arguments.cpu or "")
    context.print(str(done))


@magic(
    "restore",
    Argument("file", "what %save wrote", "?", completes="file"),
    Argument("--last", "the session that this notebook had before", "flag"),
    Argument("--rebuild", "compile what a damaged file still has; globals begin anew", "flag"),
    Argument("--trust", "run what the file brings: its libraries, its constructors", "flag"),
    alone=True,
    example="%restore work.jks",
)
def restore(context: Frontend, arguments: Any) -> None:
    """Go on with a session that was saved; the present one ends, and undo begins anew."""
    from jitkernel.kernel.last_session import last_session

    path = os.path.expanduser(arguments.file or "")
    if arguments.last:
        path = last_session()
        if not path:
            raise UsageError(
                "no session is kept: c.Session.autosave = True in jitkernel_config.py keeps one "
                "after each cell"
            )
    elif not path:
        raise UsageError("%restore needs a FILE, or --last")
    session = _restored(context, path, arguments.rebuild, arguments.trust)
    context.change_session(session)
    context.print(f"restored {session.restored}")


def _restored(context: Frontend, path: str, rebuild: bool, trust: bool) -> Session:
    """The session of a file; it goes on where the present one saves to, where that saves after each
    cell.  What the file would run is asked about, where somebody can be."""
    from jitkernel.session import Session
    from jitkernel.session.settings import saved_settings
    from jitkernel.setting import declared
    from jitkernel.settings import SessionSettings

    old = context.session
    names = declared(SessionSettings).keys() - saved_settings()
    settings: dict[str, Any] = {name: getattr(old.settings, name) for name in names}
    home, autosave = settings.pop("store_path"), settings.pop("autosave")
    settings |= {"rebuild": rebuild, "trust": trust}
    session = Session.restore(path, **settings)
    if session.frontend.core.withheld and _trusted(context, path, session):
        session.close()
        settings["trust"] = True
        session = Session.restore(path, **settings)
    if autosave and home:
        session.close()  # it is whole: now nothing is lost when the old one goes
        old.close()
        session = Session.restore(path, store_path=home, autosave=True, **settings)
    return session


def _trusted(context: Frontend, path: str, session: Session) -> bool:
    """True if the user wants a file's libraries; nobody does who cannot be asked."""
    names = ", ".join(session.frontend.core.withheld)
    try:
        return context.confirm(
            f"{path} names libraries, which run code when they are loaded: {names}\nLoad them?",
        )
    except BaseException:
        session.close()
        raise
