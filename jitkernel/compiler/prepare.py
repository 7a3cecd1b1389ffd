"""From a cell's text to the text that LLVM parses.  Start from `prepare`.

Puts the session's own target in front (LLVM needs the data layout before it reads the first type,
or it gives an `i64` the alignment 4), checks a target that the cell names itself, and rewrites the
few things that the C interface cannot change after parsing: aliases and `optnone`.  Lines keep
their numbers, less the `PREFIX_LINES` in front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from jitkernel.compiler.records import FunctionInfo, Options, Request, VariableInfo
from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.attributes import drop_default_cpu, optnone_at, without_optnone
from jitkernel.ir.module import alias_type, global_values, without_targets
from jitkernel.ir.names import decode_name, mentions
from jitkernel.ir.safepoints import KNOWN, strategies
from jitkernel.ir.text import replaced, split_at_commas

if TYPE_CHECKING:
    from jitkernel.compiler.binding import Machine

PREFIX_LINES = 2

_VENDORS = frozenset({"pc", "unknown", "w64", "none", "redhat", "suse", "debian"})
_ARCHITECTURES = {"amd64": "x86_64", "x86_64h": "x86_64", "arm64": "aarch64"}


class Prepared:
    """A module's `source` on its way.

    `aliases` are aliases and ifuncs, which the C interface cannot list.  `shifts` maps a line to
    the column after which `count` characters were put in; `near` are symbols of others whose places
    code may use as those of its own module; `pic` says that the code is to be
    position independent, and `loaded` that its object asks for what a loader does (see
    `without_loader`)."""

    def __init__(self, request: Request) -> None:
        self._request, self.source = request, request.source
        self.text = b""
        self.near = request.near
        self.pic = self.loaded = False
        self.warnings: list[Diagnostic] = []
        self.aliases: list[FunctionInfo | VariableInfo] = []
        self.shifts: dict[int, tuple[int, int]] = {}

    def note(self, index: int, message: str) -> None:
        """Say something of the character at `index`."""
        self.warnings.append(self._place(index, message, "note"))

    def refuse(self, index: int, message: str) -> NoReturn:
        """Raise CompileError, at that character."""
        raise CompileError([self._place(index, message, "error")])

    def _place(self, index: int, message: str, severity: str) -> Diagnostic:
        return place(self._request._replace(source=self.source), index, message, severity)


def prepare(request: Request, target: Machine) -> Prepared:
    """The text to parse; raises CompileError where the cell is for another machine."""
    ready, source, options = Prepared(request), request.source, request.options
    if "\0" in source:
        ready.refuse(source.index("\0"), "a NUL character")
    if "target" in source:
        _check_target(ready, target)
        if not options.keep_cpu:
            _choose_cpu(ready, options)
    for strategy, at in strategies(source):
        if strategy not in KNOWN:
            ready.refuse(
                at,
                f'LLVM has no code for the garbage collection strategy "{strategy}" here: there '
                f"are {', '.join(KNOWN)}; or leave `gc` out",
            )
    if "optnone" in source:
        _optnone(ready, options)
    if "thread_local" in source:
        _place_nowhere(ready)
    if "ifunc" in source or source.count("alias") > source.count("noalias"):
        _weaken_aliases(ready, options)
    ready.text = target.prefix + ready.source.encode("utf-8", "surrogatepass")
    return ready


def place(request: Request, index: int, message: str, severity: str = "error") -> Diagnostic:
    """A diagnostic about the character at `index` of a source."""
    source = request.source
    begin = source.rfind("\n", 0, index) + 1
    end = source.find("\n", index)
    text = source[begin : end if end >= 0 else None].replace("\0", "\N{SYMBOL FOR NULL}")
    line = source.count("\n", 0, index) + 2 - request.first_line
    if line < 1:
        return Diagnostic(message, severity=severity)
    return Diagnostic(message, line, index - begin + 1, text, "", severity)


def _parts(triple: str) -> tuple[str, str, str]:
    """Architecture, system and environment of a triple, "" where it does not say; the versions
    that some compilers write (`linux5.10.0-gnu2.31.0`) are left out."""
    architecture, *rest = triple.lower().split("-")
    architecture = _ARCHITECTURES.get(architecture, architecture)
    if len(rest) >= 3 or (rest and rest[0] in _VENDORS):
        rest = rest[1:]
    system = rest[0] if rest else ""
    environment = rest[1].rstrip("0123456789.") if len(rest) > 1 else ""
    return (
        "" if architecture == "unknown" else architecture,  # as llvmlite.ir writes it
        "" if system == "unknown" else system.rstrip("0123456789."),
        "" if environment in ("unknown", "elf") else environment,
    )


def _check_target(ready: Prepared, machine: Machine) -> None:
    """Accept or refuse `target` statements; blank them out, since ours stand in front."""
    triple = machine.triple
    blanked, found = without_targets(ready.source)
    for target in found:
        value, begin = target.string, target.start
        if target.spelled == "triple":
            theirs, ours = _parts(value), _parts(triple)
            if theirs[0] not in ("", ours[0]):
                ready.refuse(
                    begin,
                    f"this IR is for {theirs[0]} ({value}); this session runs on "
                    f"{ours[0]}. To see its code for that machine: %%asm --target {value}",
                )
            if any(
                mine and other and mine != other for mine, other in zip(ours, theirs, strict=True)
            ):
                ready.refuse(begin, f"this IR is for {value}; this session runs on {triple}")
        elif value and value != machine.layout:
            ready.note(
                begin, f"this data layout is not this machine's: replaced by {machine.layout}"
            )
    ready.source = blanked


def _choose_cpu(ready: Prepared, options: Options) -> None:
    """Take a CPU that nobody has chosen out, and say so."""
    dropped, index = drop_default_cpu(ready.source)
    if index >= 0:
        cpu = "this machine" if options.cpu == "native" else options.cpu
        ready.note(
            index,
            "target-cpu x86-64 is what compilers write by default: compiled for "
            f"{cpu} instead; %opt --keep-cpu above the code keeps it",
        )
    ready.source = dropped


def _optnone(ready: Prepared, options: Options) -> None:
    """Say what `optnone` does, or drop it with the `noinline` that it requires."""
    if options.ignore_optnone:
        ready.source = without_optnone(ready.source)
    elif (index := optnone_at(ready.source)) >= 0:
        ready.note(index, "optnone: no pass touches such a function; --ignore-optnone drops it")


def _place_nowhere(ready: Prepared) -> None:
    """Let code ask where each thread-local variable is, whatever model it was to have: the linker
    knows that form (general dynamic), and in it another cell may define the variable."""
    found = [value for value in global_values(ready.source) if "thread_local" in value.words]
    if found:
        ready.pic = ready.loaded = True
        ready.near -= {value.name for value in found}  # where they are now, they are no such ones
        edits = ((v.words_at, v.words_at + len(v.words), v.unplaced_words) for v in found)
        ready.source = replaced(ready.source, edits)


def _weaken_aliases(ready: Prepared, options: Options) -> None:
    """List the aliases and make them weak, as other exports are made after parsing."""
    source = ready.source
    aliases = [v for v in global_values(source) if v.kind in ("alias", "ifunc")]
    told = [(alias, split_at_commas(alias.rest)) for alias in aliases]
    told = [(alias, parts) for alias, parts in told if len(parts) > 1]
    # alias -> what it names, where that is simply another symbol
    targets = {a.name: simple for a, parts in told if (simple := _target(parts[1]))}
    edits = []
    done, line = 0, 1
    ready.loaded |= any(alias.kind == "ifunc" for alias in aliases)
    for alias, parts in told:
        words, rest = alias.words, alias.rest
        line += source.count("\n", done, alias.words_at)
        done = alias.words_at
        linkage, type_ = alias.linkage or "external", alias_type(parts[0])
        ready.aliases.append(
            FunctionInfo(alias.name, True, linkage, type_)
            if type_.endswith(")")
            else VariableInfo(alias.name, True, linkage, type_, False, "thread_local" in words)
        )
        if options.closed or options.internal or alias.kind == "ifunc":
            continue
        if parts[1].startswith("ptr") and (base := _base(alias.name, targets)):
            # LLVM refuses an alias of an alias that may be replaced: name what stands behind it.
            rest = rest.replace("@" + targets[alias.name], "@" + base, 1)
        if linkage == "external":
            ready.shifts[line] = (done - source.rfind("\n", 0, done), len("weak "))
            words = "weak " + words.replace("external", " " * len("external"))
        edits.append((done, alias.end, f"{words}{alias.kind}{rest}"))
    ready.source = replaced(source, edits)


def _target(text: str) -> str:
    """The symbol that an alias's value is, as it is written; "" where it is more than that."""
    name = text.removeprefix("ptr").strip()
    return name[1:] if mentions(name, "@") == {name[1:]} else ""


def _base(name: str, targets: dict[str, str]) -> str:
    """The last value that the alias `name` stands for, where that is another alias's target."""
    seen = {name}
    spelled = targets.get(name, "")
    while decode_name(spelled) in targets and decode_name(spelled) not in seen:
        seen.add(decode_name(spelled))
        spelled = targets[decode_name(spelled)]
    return spelled
