"""Functions that have come from other processes: a session for them, and their code in it.

Start from `call`.  There is one session for all of a process, made when the first of them is
called; each content is linked into it once.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.records import NO_TIMES, Compiled, FunctionInfo, Part, Request, Summary
from jitkernel.elf import read_object
from jitkernel.errors import JitError, LinkError
from jitkernel.ir.names import written
from jitkernel.linker.prepare import prepared
from jitkernel.portable.building import merge_objects
from jitkernel.portable.content import Content

if TYPE_CHECKING:
    from jitkernel.session.settings import CellOptions


class _Process:
    """A process's functions that were called: by digest, their contents, which else would be
    fetched for each task, with their names in its session."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.session: Any = None
        self.linked: dict[str, tuple[str, Content]] = {}


_here = _Process()


def _forked() -> None:
    """A forked process has no session yet: that of its parent is not its own."""
    global _here
    _here = _Process()


os.register_at_fork(after_in_child=_forked)


def process_session() -> Any:
    """The session of this process for functions that arrive, a `Session`; made at the first call.

    Close it and the next call makes another one.
    """
    here = _here
    with here.lock:
        if here.session is None or here.session.closed:
            if here.session is None:
                atexit.register(_close)
            here.linked.clear()
            # By name: whoever makes a session may be on his way to this module.
            here.session = import_module("jitkernel.session").Session(spare=False)
        return here.session


def _close() -> None:
    if _here.session is not None:
        _here.session.close()


def call(content: Content, arguments: Sequence[Any]) -> Any:
    """Call a function in this process's session, linked now where it is not; raises what
    `Session.call` raises."""
    here, session = _here, process_session()
    if content.digest not in here.linked:
        with here.lock:
            if content.digest not in here.linked:
                here.linked[content.digest] = _link(session, content), content
    return session.call(here.linked[content.digest][0], *arguments)


def _link(session: Any, content: Content) -> str:
    core = session._core
    core.begin()
    code, name = _code(core.engine.pool, content), f"{content.name}.{content.digest[:12]}"
    _bring_libraries(session, content)
    called, _ = merge_objects(code, (), {content.entry}, {content.entry: name})
    label = f"{content.called} of another process"
    ready = prepared(read_object(called), label, core.program.linker.resolver).data
    s = content.signature
    info = FunctionInfo(name, True, "external", s.type, s.convention, s.attributes, s.features)
    summary = Summary((info,), (), {}, ())
    session.place(_cell(label, ready, summary))
    core.prototypes.given(name, content.prototype)
    return name


def _cell(label: str, code: bytes, summary: Summary) -> Any:
    """An object as a cell that was compiled."""
    place = import_module("jitkernel.session.handles").CompiledCell
    options: CellOptions = import_module("jitkernel.session.settings").CellOptions()
    return place(
        f"; %link {label}", Request(f"; {label}", label=label), Compiled(code, summary, NO_TIMES),
        {}, options,
    )  # fmt: skip


def _code(pool: Any, content: Content) -> bytes:
    """The object, compiled anew where this processor lacks what it was compiled for."""
    here, there = pool.identity(), content.made_by
    cpu, features = there.resolve(content.options.cpu)
    if here.triple == there.triple and (
        cpu in (here.cpu, "x86-64") or (features and _has(features) <= _has(here.features))
    ):
        return content.object
    if not content.bitcode:
        raise LinkError(
            f"{content.called} was compiled for {cpu}, this processor is {here.cpu}, and "
            "what other compilers have made cannot be compiled again"
        )
    options = content.options._replace(cpu="native")
    request = Request(pool.disassembled(content.bitcode), options)
    part = Part(request, frozenset((content.name,)))
    (made,) = pool.merged([part], options, [content.name], ("object",))
    return merge_objects(made, (), {content.name}, {content.name: content.entry})[0]


def _has(features: str) -> set[str]:
    return {word for word in features.split(",") if word.startswith("+")}


def _bring_libraries(session: Any, content: Content) -> None:
    """Load the libraries that the function needs and that this process lacks."""
    names = list(content.needs)
    lookup = session._core.engine.executor.services.lookup
    lacking = [n for n, found in zip(names, lookup(names), strict=True) if not found]
    for library in dict.fromkeys(content.needs[n] for n in lacking):
        for path in (library, os.path.basename(library)):
            try:
                session.load(path)
                break
            except JitError:
                continue
    still = [n for n, found in zip(lacking, lookup(lacking), strict=True) if not found]
    if still:
        where = os.path.basename(content.needs[still[0]])
        raise LinkError(f"{content.called} needs {written(still[0])}, from {where}")
