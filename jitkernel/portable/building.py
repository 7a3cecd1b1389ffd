"""From what was gathered to one relocatable object.  Start from `build`, or from `pack` for a
function that travels.

Modules become one module and that one object; objects of other compilers are merged with it
(`linker.builder`).  Only what is exported can be seen in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from jitkernel.compiler.pool import CompilerPool
from jitkernel.elf import constants as c
from jitkernel.elf import read_object
from jitkernel.elf.constants import COMMON
from jitkernel.errors import LinkError, UsageError
from jitkernel.ir.expansion import is_digest
from jitkernel.ir.module import functions
from jitkernel.ir.names import ASK, bare
from jitkernel.linker import SymbolState
from jitkernel.linker.builder import Builder, SectionDraft
from jitkernel.linker.ifuncs import make_ordinary
from jitkernel.linker.layout import SPECIAL
from jitkernel.linker.thread_locals import emulate
from jitkernel.portable.content import Content
from jitkernel.portable.gathering import Gathered, Gathering
from jitkernel.recent import Recent
from jitkernel.session.program.signatures import Signature
from jitkernel.wording import cut_list

if TYPE_CHECKING:
    from jitkernel.portable.gathering import ExportSource
    from jitkernel.session.program.program import Program

_ADDRSIG = 0x6FFF4C03  # SHT_LLVM_ADDRSIG: it names symbols by their numbers
_NOBITS = c.SHT_NOBITS
_AGAIN = 8  # times; a name that only code mentions that the optimiser took away
_KEPT = 32  # functions of a session
_packed: WeakKeyDictionary[Program, Recent[Hashable, Content]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Built:
    """`made` are the forms that were asked for, by name (see `CompilerPool.merged`); the `object`
    is whole.  `needs` maps names that others must bring to the library that has them here, "" where
    nobody has."""

    gathered: Gathered
    made: Mapping[str, bytes]
    needs: Mapping[str, str]

    def refuse_missing(self, called: Callable[[str], str]) -> None:
        """Raise LinkError where nobody has a name, which is written as it is `called`."""
        if missing := [called(name) for name, library in self.needs.items() if not library]:
            raise LinkError(
                f"{cut_list(missing, 8)} would be missing: neither a cell nor a library defines "
                "that"
            )


def build(
    core: ExportSource,
    names: Iterable[str],
    present: bool = False,
    cpu: str = "",
    forms: Iterable[str] = (),
    called: Mapping[str, str] | None = None,
) -> Built:
    """One object of some names and of all that they need, and other `forms` of its modules.

    `called` gives exported names others in the object.  Raises UsageError, also where a function of
    Python's is called; LinkError, CompileError.
    """
    more: set[str] = set()
    for _ in range(_AGAIN):
        gathered = Gathering(core, names, present, cpu, more).run()
        wanted = tuple(dict.fromkeys(("object", *forms)))
        seen = gathered.seen | gathered.exports.keys()
        made = dict(zip(wanted, _compiled(core.engine.pool, gathered, seen, wanted), strict=True))
        made["object"], undefined = merge_objects(
            made["object"], gathered.objects, gathered.exports.keys(), called or {}
        )
        symbols = core.program.linker.symbols
        own = [n for n in undefined if n in symbols and symbols[n].state is SymbolState.DEFINED]
        if not set(own) - more:
            if ASK in undefined:
                _refuse_python(core, gathered, seen)
            return Built(gathered, made, _needs(core, undefined))
        more.update(own)
    raise LinkError(
        f"{cut_list([core.program.called(n) for n in own], 8)} could not be taken along"
    )


def _compiled(
    pool: CompilerPool, gathered: Gathered, seen: Iterable[str], forms: tuple[str, ...]
) -> list[bytes]:
    if not gathered.parts:
        return [b""] * len(forms)
    return pool.merged(gathered.parts, gathered.options, seen, forms)


def merge_objects(
    compiled: bytes,
    objects: Iterable[tuple[str, bytes, frozenset[str]]],
    exports: Collection[str],
    called: Mapping[str, str],
) -> tuple[bytes, list[str]]:
    """One object in which only the `exports` can be seen, and the names that it lacks.

    Of each of the `objects`, a label and bytes, stands what it owns.
    """
    builder = Builder()
    if compiled:
        builder.add(read_object(compiled), "the cells")
        emulate(builder, "the cells")
        make_ordinary(builder)
    for label, data, owned in objects:
        obj = read_object(data)
        for at, (spelled, info, other, where, _, _) in enumerate(obj.symbols):
            if info >> 4 != c.STB_LOCAL and where and obj.symbol_name(at) not in owned:
                obj.symbols[at] = (spelled, info, other, 0, 0, 0)
        builder.add(obj, label)
    builder.sections[:] = [s for s in builder.sections if s.type != _ADDRSIG]
    if not any(s.name == ".note.GNU-stack" for s in builder.sections):
        builder.add_section(".note.GNU-stack", 0, b"", 1)
    grouped = {symbol for symbol, _ in builder.groups.values()}
    undefined = []
    for name, draft in builder.globals.items():
        if not draft.is_defined:
            if draft.info >> 4 != c.STB_WEAK and name not in SPECIAL:
                undefined.append(name)
            continue
        if draft.section in COMMON:
            bss = SectionDraft(".bss", _NOBITS, c.SHF_ALLOC | c.SHF_WRITE, b"", draft.size,
                               draft.value or 1)  # fmt: skip
            builder.sections.append(bss)
            draft.section, draft.value = bss, 0
        if name not in exports:
            draft.info &= 15
            draft.other &= ~3
        else:
            draft.info = c.STB_GLOBAL << 4 | draft.info & 15
            draft.name = called.get(name, name)
    for draft in grouped:
        draft.info &= 15
    builder.groups.clear()
    for section in builder.sections:
        section.flags &= ~c.SHF_GROUP
    return builder.write(), undefined


def _refuse_python(core: ExportSource, gathered: Gathered, seen: Iterable[str]) -> None:
    """Say which functions of Python's would have to come along, each once, and no other."""
    (text,) = _compiled(core.engine.pool, gathered, seen, ("text",))
    needed = {f.name for f in functions(text.decode("utf-8", "surrogateescape"), "define")}
    names: list[str] = []
    for number in gathered.cells:
        cell = core.program.cells[number]
        if cell.image is not None and any(symbol.name == ASK for symbol in cell.image.refs):
            names += [name for name in cell.names if name in needed]
    asking = cut_list([core.program.called(n) for n in names], 8)
    leaving = cut_list([core.program.called(n) for n in gathered.exports], 8)
    what = "a function of Python's" if len(names) == 1 else "functions of Python's"
    alone = len(gathered.exports) == 1
    if set(names) == gathered.exports.keys():
        needs = "it is" if alone else "they are"
    else:
        needs = f"{'it needs' if alone else 'they need'} {asking},"
    raise UsageError(
        f"{leaving} cannot leave: {needs} {what}, which this process alone has; define "
        f"{asking} in a cell instead, in IR or C"
    )


def _needs(core: ExportSource, names: Iterable[str]) -> dict[str, str]:
    """The libraries that have names here."""
    names = [n for n in names if not n.startswith(("__start_", "__stop_"))]
    if not names:
        return {}
    services = core.engine.executor.services
    found = zip(names, services.lookup(names), strict=True)
    return {n: (services.file_at(a) or "its process") if a else "" for n, a in found}


def pack(core: ExportSource, name: str, present: bool) -> Content:
    """A function with all that it needs.

    What was packed is kept until one of its cells is another: a pool pickles a function for each
    task.  Raises UsageError, LinkError, CompileError.
    """
    name, entry = bare(name), f"{bare(name)}.travels"
    cells = sorted(Gathering(core, [name]).cells.items())
    key = name, tuple((number, cell.image, tuple(cell.names)) for number, cell in cells)
    known = _packed.setdefault(core.program, Recent(_KEPT))
    if not present and (found := known.get(key)) is not None:
        return found
    built = build(core, [name], present, forms=("bitcode",), called={name: entry})
    built.refuse_missing(core.program.called)
    signature = built.gathered.exports[name]
    if not isinstance(signature, Signature):
        raise UsageError(f"{core.program.called(name)} is a variable: functions travel")
    if is_digest(signature.type) or is_digest(signature.attributes):
        raise UsageError(f"{core.program.called(name)} passes a value of too many parts to travel")
    content = Content(
        name, entry, signature._replace(shown=signature.type), core.engine.pool.identity(),
        built.gathered.options, dict(built.needs), built.made["object"],
        b"" if built.gathered.objects else built.made["bitcode"], core.prototypes.declared(name),
    )  # fmt: skip
    if not built.gathered.present:
        known[key] = content
    return content
