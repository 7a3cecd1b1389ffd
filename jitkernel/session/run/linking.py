"""Objects and archives of other compilers.  Start from `link_file`; `_provide` takes members later.

An archive that is linked stays one of the session's: whatever a later cell uses that nobody defines
and the archive does is taken from it then, before libraries and the executor's process are asked.
Members that are taken together are one cell, which belongs to the run that needed it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from jitkernel.collecting import lasting
from jitkernel.compiler.records import NO_TIMES, Compiled, Request, Summary
from jitkernel.elf.archive import Archive, foreign_object, is_archive, read_archive
from jitkernel.errors import JitError, LinkError
from jitkernel.files import absolute, read_bytes
from jitkernel.ir.names import CONTROL
from jitkernel.linker import SymbolState
from jitkernel.linker.archives import LinkedArchive, Taken, combine, offered, select
from jitkernel.linker.layout import ReadObject, is_special
from jitkernel.linker.prepare import prepared
from jitkernel.linker.records import NOWHERE
from jitkernel.session.program.cell import title
from jitkernel.session.run.definer import Definer
from jitkernel.session.run.host import Execution
from jitkernel.session.run.results import Result
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session.core import Core
    from jitkernel.session.program.program import Program

_NAMES = 6  # that are shown of many


def link_file(core: Core, path: str, whole: bool = False) -> Result:
    """Link the object or archive that is in a file; see `Session.link`."""
    data = read_bytes(path)
    if is_archive(data):
        with lasting():  # what is made of members
            return _link_archive(core, path, data, whole)
    if data[:4] == b"\x7fELF" and data[16:18] == b"\3\0":
        raise LinkError(f"{path} is a shared library: %lib {path} loads it")
    definer = Definer(core)
    obj = ReadObject.of(prepared(foreign_object(data, path), path, definer.program.linker.resolver))
    return definer.place_only(f"; %link {path}", *_compiled(path, obj), read=obj)


def read_again(core: Core, paths: Iterable[str]) -> list[str]:
    """Cells may take members of these archives again, as before the session was saved; what there
    is to say of those that cannot be read."""
    words: list[str] = []
    for path in paths:
        try:
            archive = read_archive(read_bytes(path), path, read_bytes)
        except JitError as error:
            words.append(f"cells take nothing more from {path}: {error}")
        else:
            core.program.state.archives[path] = LinkedArchive(archive, read_bytes)
            core.provide = _provide
    return words


def _compiled(label: str, read: ReadObject) -> tuple[Request, Compiled]:
    """An object that another compiler made, as if it were the answer to a request."""
    summary = Summary((), (), {}, ())
    return Request(f"; {label}", label=label), Compiled(read.object, summary, NO_TIMES)


def _link_archive(core: Core, path: str, data: bytes, whole: bool) -> Result:
    """Members wait where they read a variable that an archive has which is yet to come."""
    program = core.program
    full = absolute(path)
    linked = LinkedArchive(read_archive(data, full, read_bytes), read_bytes)
    others = [a for p, a in program.state.archives.items() if p != full]
    symbols = program.linker.symbols
    missing = [s.name for s in symbols.values() if s.state is SymbolState.MISSING and s.users]
    asked = [n for n in program.state.declared if n not in symbols]
    waits = ""
    for of in ([linked, *others], [linked], []):
        taken = select(
            [linked, *others], offered(of, [*missing, *asked]), lambda n: _has(program, n),
            linked.archive if whole else None, data,
        )  # fmt: skip
        try:
            return _add_archive(Definer(core), path, linked, taken, whole, waits)
        except LinkError as error:
            if whole or not error.undefined or not taken:
                raise
            waits = error.undefined
    raise LinkError(f"{path}: nothing could be linked")


def _add_archive(
    definer: Definer, path: str, linked: LinkedArchive, taken: Sequence[Taken], whole: bool,
    waits: str,
) -> Result:  # fmt: skip
    core, program = definer.core, definer.program
    full = linked.archive.path
    source = f"; %link {path}{' --whole' * whole}"
    number = definer.cell.number if taken else 0
    with definer, core.engine.arena.rollback.atomic():
        change = definer.change = core.history.begin(
            title(number, source) if number else source[2:], number
        )
        program.state.put("archive", full, linked, change.before)
        core.provide = _provide
        if taken:
            _place(definer, taken, path, source)
        core.history.keep(change)
    if taken:
        definer.say_status()
        definer.tee.result.cell = definer.cell
    definer.tee.note(_summary(definer, linked.archive, taken))
    if waits:
        definer.tee.note(
            f"members that read {program.called(waits)}, which nobody defines, wait for what has "
            "it: %link that too"
        )
    return definer.tee.result


def _place(
    definer: Definer, taken: Sequence[Taken], label: str, source: str,
    own: Collection[str] = frozenset(),
) -> None:  # fmt: skip
    """Place members as one cell; `own` are names that another one is about to define."""
    definer.core.number = definer.cell.number
    obj = ReadObject.of(combine(taken, definer.program.linker.resolver))
    early = any(name in own for _, name, _ in obj.names.imports)
    definer.place(*_compiled(label, obj), source, missing=early, read=obj)
    definer.construct()


def _summary(definer: Definer, archive: Archive, taken: Sequence[Taken]) -> str:
    """`libz.a: 15 members; 3 of them linked, with 12 functions and 2 variables, ...`."""
    name, members = os.path.basename(archive.path), len(archive.members)
    words = f"{name}: {counted(members, 'member')}"
    if taken:
        image = definer.cell.image
        exports = image.exports if image is not None else ()
        functions = sum(s.is_function for s, _, _ in exports)
        variables = len(exports) - functions
        words += (
            f", {len(taken)} linked: {counted(functions, 'function')}, "
            f"{counted(variables, 'variable')}"
        )
    else:
        words += ", none linked yet"
    symbols = definer.program.linker.symbols
    words += "; others are when a cell uses what they define" if len(taken) < members else ""
    from_libraries = [
        n for n in archive.index
        if (s := symbols.get(n)) is not None and s.state is SymbolState.FAR and s.users
    ]  # fmt: skip
    if from_libraries:
        few = cut_list(list(map(definer.program.called, from_libraries)), _NAMES)
        words += (
            f". {few} stay a library's, which cells use already; %link --whole takes the archive's"
        )
    return words


def _labels(taken: Sequence[Taken]) -> str:
    """`libz.a (inflate.o, inftrees.o and 2 more)`, for each archive."""
    found: dict[str, list[str]] = {}
    for member in taken:
        archive, _, name = member.label.partition("(")
        found.setdefault(archive, []).append(name.removesuffix(")"))
    return ", ".join(f"{archive} ({cut_list(names, _NAMES)})" for archive, names in found.items())


def _has(program: Program, name: str) -> bool:
    """True if no archive is asked for a name: the session defines it, or its runtime does."""
    symbol = program.named(name)
    if symbol is not None and symbol.state in (SymbolState.DEFINED, SymbolState.FIXED):
        return True
    return is_special(name) or program.linker.resolver.fixed(name) is not None


def _provide(execution: Execution, names: Iterable[str], own: Collection[str]) -> None:
    """Take from the session's archives what is used of these names and nobody defines, as a cell.

    `own` are names that are about to be defined.
    """
    program = execution.core.program
    archives = list(program.state.archives.values())
    about_to_be = {name.removeprefix(CONTROL) for name in own}
    wanted = [
        n for n in offered(archives, names)
        if n not in about_to_be
        and ((s := program.named(n)) is None or s.state in NOWHERE)
    ]  # fmt: skip
    if wanted and (
        taken := select(archives, wanted, lambda n: n in about_to_be or _has(program, n))
    ):
        _place_members(execution, taken, own)


def _place_members(execution: Execution, taken: Sequence[Taken], own: Collection[str]) -> None:
    """Place members as a cell that belongs to the change of an execution, or to one of its own."""
    core = execution.core
    fresh = Definer(core, execution.tee)
    labels = _labels(taken)
    source = f"; %link {labels}"
    with core.engine.arena.rollback.atomic():
        fresh.change = execution.change if execution.is_run else core.history.begin(source[2:])
        _place(fresh, taken, labels, source, own)
        if not execution.is_run:
            core.history.keep(fresh.change)
    execution.tee.note(f"cell {fresh.cell.number}: linked on demand: {labels}")
