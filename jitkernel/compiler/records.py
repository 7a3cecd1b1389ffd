"""What goes into a compile and what comes out of it.  Start from `Request` and `Compiled`.

Plain records, shared by the kernel process and the worker.  Nothing here knows LLVM, nor imports
`dataclasses`: what it needs is a megabyte, and milliseconds, of each worker's.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, starmap
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from jitkernel.errors import Diagnostic
from jitkernel.record import NamedTuple

if TYPE_CHECKING:
    from jitkernel.elf import ElfObject

#: One row per stretch of code: section name, offset of its first byte in that section, its line
#: and, where it was inlined, the lines of the calls, the innermost first; 0 where it is of none.
LineTable = tuple[tuple[str, int, tuple[int, ...]], ...]


#: What code is compiled for a debugger: of which each value has a home in memory, or which is
#: optimised; of that LLVM tells lines, frames, and where variables of C are, as far as it knows.
HOMES: Final = 1
FOLLOWED: Final = 2


class Options(NamedTuple):
    """The options of a compile; the worker keeps one TargetMachine for each value of this.

    `closed` lets LLVM take exported symbols for ones that nobody defines again; with `inline` it
    takes bodies and constants of theirs, and the object says of which (see `inlining`).  `internal`
    is for the session's own code (thunks, the runtime): no summary, and exports stay as they are
    written.
    `passes` takes the place of the level's own pipeline: pipeline names with commas between, see
    `passes.parse_passes`.  `keep_cpu` takes the CPU that functions name at their word also where it
    is what compilers write when nobody has chosen one: see `ir.attributes`.  `debug` asks for code
    that a debugger can follow, see `homes`: HOMES at -O0, whatever level and passes are asked for,
    FOLLOWED as they are.  `regalloc` is LLVM's register allocator, `greedy` or `fast`; empty: the
    level's, which is `fast` at -O0 and else `greedy`.
    """

    opt_level: int = 2
    cpu: str = "native"
    reloc: str = "static"
    code_model: str = "small"
    closed: bool = False
    ignore_optnone: bool = False
    internal: bool = False
    passes: str = ""
    keep_cpu: bool = False
    inline: bool = True
    debug: int = 0
    regalloc: str = ""

    def row(self) -> list[int | str]:
        """The form it travels in, and is stored in: `Options(*row)` is this again.  It ends
        behind the last option that is asked for, of those that came later than others."""
        values = self if self.regalloc else self[:11] if self.debug else self[:10]
        return [int(value) if isinstance(value, bool) else value for value in values]


class Lent(NamedTuple):
    """A definition of another module that LLVM may look into: the text of a module that has it
    (see `ir.bodies`), and functions in it that must not be taken for the C library's.

    `key` names the text; a worker that knows it is sent none.  A `telling` one is held wherever it
    is used: it is a constant, or its attributes say what it does.  `null_is_valid`: a function may
    use what is at address 0.
    """

    key: str
    name: str
    text: str
    nobuiltin: Sequence[str] = ()
    telling: bool = False
    null_is_valid: bool = False

    @property
    def number(self) -> int:
        """The number by which an object says that it holds this text, never 0."""
        return int(self.key[:15], 16) | 1


class Request(NamedTuple):
    """One module to compile.

    `source` may begin with lines that the user did not type (named types of earlier cells); the
    user's own first line is line `first_line` of it, and diagnostics count from there.
    `nobuiltin` names functions that must not be taken for the C library's.
    `context` says where LLVM puts it: `throwaway`, `shared` or `kept`; a kept context belongs to
    `cell` (0: to none, and goes).  See `context_pool`.  `bodies` are definitions of other modules
    that it may look into, and `near` those that the session defines: their addresses are in reach
    of code that has no indirection.  `marked`: its language has marked which lines of the cell
    instructions come from (see `ir.marks`), and code to be debugged is of those.
    """

    source: str
    options: Options = Options()
    label: str = "cell"
    nobuiltin: frozenset[str] = frozenset()
    first_line: int = 1
    context: str = "throwaway"
    cell: int = 0
    bodies: Sequence[Lent] = ()
    near: frozenset[str] = frozenset()
    marked: bool = False


#: A line of a request's k-th body, counted from 1, is k * BODY more in tables that have those.
BODY: Final = 1 << 20


def own_line(lines: Iterable[int]) -> int:
    """The line of a request's own text, of a row's in a table: of what came from elsewhere, the
    call's."""
    return next((line for line in lines if 0 < line < BODY), 0)


class Part(NamedTuple):
    """A module that becomes a part of another one.

    Of what it defines and can be seen from outside, `owned` stands; the rest gives way to what
    another part defines.  `renamed` are internal variables that get other names, and give way, too.
    """

    request: Request
    owned: frozenset[str]
    renamed: tuple[tuple[str, str], ...] = ()


class FunctionInfo(NamedTuple):
    """A function that the module defines or declares, as written: the parts of its signature.

    `type` is LLVM's own text, `i32 (i32, ptr, ...)`.  `convention` is "" for C, else `fastcc`,
    `cc 99`...  `attributes` are those that change how values are passed, canonical:
    `signext|0:signext,1:sret(%pt)` (result before the bar, parameters by number after it).
    `features` says what wide vectors rely on, "" where none are passed.
    """

    name: str
    defined: bool
    linkage: str
    type: str
    convention: str = ""
    attributes: str = ""
    features: str = ""


class VariableInfo(NamedTuple):
    """A global variable that the module defines or declares; a thread-local one, unless it is the
    module's own, by the name of its control block."""

    name: str
    defined: bool
    linkage: str
    type: str
    constant: bool = False
    thread_local: bool = False


class CallInfo(NamedTuple):
    """A direct call whose function type is not the callee's: `type` is the call's, `line` its line
    in the cell (0 where unknown)."""

    callee: str
    type: str
    line: int = 0


class Summary(NamedTuple):
    """A summary of what a module offers and asks for.

    `types` maps each named type that the text defines, or that a signature or a variable mentions,
    at any depth, to its body: `{"pt": "{ i32, %inner }"}` (names without `%`, as LLVM prints
    bodies).
    """

    functions: tuple[FunctionInfo, ...]
    variables: tuple[VariableInfo, ...]
    types: dict[str, str]
    calls: tuple[CallInfo, ...]

    @staticmethod
    def of(rows: list[Any]) -> Summary:
        """From the lists that the worker sends."""
        functions, variables, types, calls = rows
        return Summary(
            tuple(starmap(FunctionInfo, functions)),
            tuple(starmap(VariableInfo, variables)),
            types,
            tuple(starmap(CallInfo, calls)),
        )

    @property
    def names(self) -> Iterator[str]:
        """All that it speaks of, functions first."""
        return map(itemgetter(0), chain(self.functions, self.variables))

    def defined(self, linkages: Container[str] | None = None) -> list[str]:
        """The names of definitions, of those with one of some linkages, functions first."""
        every: Iterator[FunctionInfo | VariableInfo] = chain(self.functions, self.variables)
        found: list[str] = []
        for entity in every:
            if entity.defined and (linkages is None or entity.linkage in linkages):
                found.append(entity.name)
        return found


#: What `Compiled.times` is where nothing was compiled.
NO_TIMES: Final = dict.fromkeys(("parse", "verify", "optimise", "emit"), 0)


class Compiled(NamedTuple):
    """The object of one module.  `times` are nanoseconds: parse, verify, optimise, emit; where
    it is `cached`, found in the object cache, those of the compile that made it."""

    code: bytes | ElfObject
    summary: Summary
    times: dict[str, int]
    warnings: tuple[Diagnostic, ...] = ()
    cached: bool = False

    @property
    def object(self) -> bytes:
        """The object's bytes."""
        return self.code if isinstance(self.code, bytes) else self.code.data


class ContextCost(NamedTuple):
    """The memory that one cell's compile left in its worker: bytes of LLVM's heap, and of resident
    memory (whole pages).  `live` contexts there were then."""

    cell: int
    context: str
    heap: int
    resident: int
    live: int


class ContextAccount(NamedTuple):
    """The contexts of all workers.  `costs` are the latest, in order; `lost` contexts went with
    workers that were replaced (the code made in them stays)."""

    live: int = 0
    kept: tuple[int, ...] = ()
    lost: int = 0
    costs: tuple[ContextCost, ...] = ()


class Identity(NamedTuple):
    """The compiler's identity: what a module's code depends on besides its text and its options.

    `cpu` and `features` are this machine's, which `native` stands for.
    """

    llvm: str
    llvmlite: str
    triple: str
    cpu: str
    features: str

    def resolve(self, cpu: str) -> tuple[str, str]:
        """CPU name and features that a compile for `cpu` uses."""
        return (self.cpu, self.features) if cpu in ("native", self.cpu) else (cpu, "")


class WorkerMemory(NamedTuple):
    """One worker process, in bytes, and its history.

    `uss` is what only it maps (LLVM's own file counts where no other process has it), `rss` what
    is resident, `anonymous` what is no file's.
    """

    pid: int
    role: str
    uss: int
    rss: int
    anonymous: int
    compiles: int


def diagnostics_of(rows: Iterable[list[Any]]) -> tuple[Diagnostic, ...]:
    """From the lists that the worker sends."""
    return tuple([Diagnostic(*row) for row in rows])
