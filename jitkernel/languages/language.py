"""What a cell language is: source text in, a plan out.  Start from `Language`.

A language turns a cell into the text of LLVM modules and says what is run: `plan` makes a `Plan` of
that, and everything after it (compiling, linking, redefinition, faults, undo) is common to all
languages.  A language keeps no state of its own between cells.  What a later cell has to know it
asks of the session (`Known`) and, beyond signatures, leaves there as a constant or as a note
(`Plan.notes`): so it follows redefinition, eviction, undo and restoring.

A package makes its language known with an entry point of the group `jitkernel.languages`, whose
object is a `Language`:

    [project.entry-points."jitkernel.languages"]
    forth = "my_package:LANGUAGE"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from jitkernel.errors import CompileError
from jitkernel.ir.names import renamed, shown
from jitkernel.ir.types import FunctionType, Type
from jitkernel.languages.llvm.plan import ENTRY, Kept, Plan, RunAction, parse_cell
from jitkernel.record import NamedTuple, field, record, replace
from jitkernel.regex import regex
from jitkernel.values.conversion import Host as ValueHost
from jitkernel.values.datatype import DataType
from jitkernel.values.ir import Layouts
from jitkernel.values.value import TypedValue

if TYPE_CHECKING:
    from jitkernel.languages.prototypes import Foreign, Prototype, Spelling

V = TypeVar("V")

#: Called when a session ends: what a language has started for cells to come.
at_close: list[Callable[[], object]] = []


class Names(Protocol):
    """The session's symbols, as far as they are known.  Names are without `@`."""

    def signature(self, name: str) -> FunctionType | None:
        """The type of a function, the C library's common ones too; None for what is none."""

    def variable(self, name: str) -> tuple[Type, int, bool] | None:
        """Type, address and constancy of a global variable; None for what is none."""

    def load(self, type: Type, address: int) -> TypedValue:
        """The value at such an address."""

    def nearest(self, name: str) -> str | None:
        """The known name closest to one that is not."""

    def hint(self, name: str) -> str:
        """Advice about a name that is not known; "" where nothing comes near."""


class StateView(Protocol):
    """The questions that a language may ask of a program's state, whatever the session is doing:
    each is a look-up, and nothing waits for a lock."""

    @property
    def notes(self) -> Mapping[str, Kept]:
        """Notes by keys, as cells of any language have left them (`Plan.notes`): a language begins
        its keys with its name."""

    @property
    def functions(self) -> Sequence[str]:
        """The names of the functions that cells have defined."""

    def signature(self, name: str) -> FunctionType | None:
        """The type of a function."""

    def cell_of(self, name: str) -> int:
        """The number of the cell that defines a name; 0 where none does."""

    def source(self, cell: int) -> str:
        """The source of a cell, "" where it is gone."""

    def setting(self, name: str) -> str:
        """A setting of the session, as text.  `processor` is what `cpu` means here, `machine` what
        this machine is: a name, and features as LLVM has them (`znver4 +avx,-amx-tile`)."""


class Known(Names, StateView, Protocol):
    """The questions that a language may ask of the session while it reads a cell."""

    @property
    def number(self) -> int:
        """The cell's number."""

    @property
    def replaces(self) -> int:
        """The number of the cell whose place in the notebook it takes; 0 where it takes none."""

    @property
    def position(self) -> int:
        """Its place in the notebook: the number that the notebook cell's first run had."""

    @property
    def opt_level(self) -> int | None:
        """The level that the cell asks for; None for the session's."""

    @property
    def sanitize(self) -> bool:
        """True if undefined behaviour is to be checked for."""

    @property
    def debug(self) -> bool:
        """True if what the cell runs once is compiled for a debugger, as `with_debug` is."""

    @property
    def file(self) -> str:
        """The path of the file that the cell is the text of, "" for none."""

    def users_of(self, name: str) -> list[int]:
        """The numbers of the cells whose code refers to a name."""

    def is_defined(self, name: str) -> bool:
        """True if a cell or a library has the name."""

    @property
    def layout(self) -> Layouts:
        """Sizes and places by type."""

    def describe(self, address: int) -> str:
        """The name of an address: `@table+8`, or what it lies in."""

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of the program's memory; fewer, or none, where there is no more."""

    def waiting(self, program: str) -> None:
        """To be called, twice a second or more often, while a compiler's process of the language's
        works for the cell: the user is told of what takes long."""

    def output(self, name: str, data: bytes) -> None:
        """Bytes for the cell's `stdout` or `stderr`, for a language that runs the cell itself."""


class Suggestion(NamedTuple):
    """One completion: the text, what it is ("function", "variable", "type", ...) and its type."""

    text: str
    kind: str
    signature: str = ""


class Completions(NamedTuple):
    """The texts that may stand from the offset `start` on in place of the word being typed."""

    start: int
    found: Sequence[Suggestion]


class Host(Names, ValueHost, Protocol):
    """The questions that an expression of a call line or an assignment may ask besides."""

    def address(self, name: str) -> int | None:
        """The address of a function (its canonical entry) or a variable; None where unknown."""

    def call(self, name: str, arguments: list[TypedValue]) -> TypedValue: ...

    def intrinsic(
        self,
        name: str,
        arguments: Sequence[Sequence[str]],
        constants: Sequence[str],
        results: Sequence[str],
    ) -> FunctionType | str:
        """The type of an intrinsic whose arguments may have these types, best first; "unknown", or
        "signature" where LLVM has none like that."""

    def call_intrinsic(
        self, name: str, type: FunctionType, arguments: Sequence[TypedValue | str]
    ) -> TypedValue:
        """Call an intrinsic; an argument that is text is a constant."""

    def result(self, number: int | None) -> TypedValue | None:
        """The last result, or that of a cell; None where there is none."""


@record
class Completeness:
    """`indent` is what a console puts at the beginning of the next line."""

    status: Literal["complete", "incomplete", "invalid"]
    indent: str = ""


def _word_at(source: str, position: int) -> str:
    """The word around a position."""
    for match in re.finditer(r"[A-Za-z_]\w*", source):
        if match.start() <= position <= match.end():
            return match[0]
    return ""


_CONSTANT = r'-?(?:0|[1-9]\d*)(?:\.\d+)?|"[^"\\\n]*"'
_PLAIN_CALL = regex(
    rf"\s*([A-Za-z_]\w*)\s*\(\s*((?:{_CONSTANT})(?:\s*,\s*(?:{_CONSTANT}))*)?\s*\)\s*;?\s*"
)


def plain_call(source: str, notes: Mapping[str, Kept]) -> str:
    """`f(7)` as `@f(7)`, which means the same where constants are written alike."""
    match = _PLAIN_CALL.fullmatch(source)
    return f"@{match[1]}({match[2] or ''})" if match else ""


@record
class Language:
    """A language by its functions; `name` and `read` are enough.

    `read(source, known)` gives the plan of a cell, or raises CompileError with lines and columns
    of the source.  `is_complete` tells a console whether Enter runs the cell.  `keywords` (word to
    kind and meaning) are completed and explained; so are the functions of the session that cells
    of this language can call, `callable_here`.  `symbol_at` names the symbol or the keyword at an
    offset of the source, "" where there is none.  A language that knows better than these what may
    stand at an offset, and what stands there, says so with `complete` (None: it does not know) and
    `inspect`; both may be asked while a cell runs.  `show` writes a value as this language does, ""
    to leave it to the IR form.  `symbol_of(name, notes)` is what the linker calls a name of this
    language where that is another name, "" else.  `call_line(source, notes)` is the call line of IR
    that a source amounts to, "" where it is more than that.  `prototype(name, known)` says what a
    variable or a function of this language is to Python where IR does not tell, else None;
    `declaration(name, known)` is IR that declares what cells have declared in this language and
    somebody else defines, "" where they have not.  `spelled(name, known)` is how this language
    writes what a cell of it defines, None where it writes it as IR does; `called(symbol, notes)` is
    what it calls a symbol of a cell that has left these notes, `literal(value)` writes what Python
    has for a variable's value, and is None where IR does.  `declares(note)` is what the text of a
    note declares, wherever that stood and however it was spaced, "" for nothing.
    `foreign(name, type, number, known)` is a cell that defines a function which hands its arguments
    to Python's function of that number, None where `type` is none of this language.
    `types(texts, known)` are the types of expressions, and of names of types, whole: pointers lead
    where they lead; None of what is neither.
    `with_debug(cell, known)` is the module of what an earlier cell defines with debug information
    of this language's own, whose file is `cell 3`.  The rest
    describes files and editors, see Jupyter's `language_info`; `lexer` is the name that Pygments
    has for it, `cell_lexer` the one for notebooks in it, which follows a cell's `%%` line (the same
    where there is none); `editor_mode` is JupyterLab's mode for it, where that has another name.
    """

    name: str
    read: Callable[[str, Known], Plan]
    display_name: str = ""
    version: str = ""
    file_extension: str = ".txt"
    mimetype: str = "text/plain"
    lexer: str = "text"
    cell_lexer: str = ""
    editor_mode: str = ""
    help_url: str = ""
    is_complete: Callable[[str], Completeness] = lambda source: Completeness("complete")
    keywords: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    callable_here: Callable[[FunctionType], bool] = lambda type: True
    symbol_at: Callable[[str, int], str] = _word_at
    complete: Callable[[str, int, StateView], Completions | None] | None = None
    inspect: Callable[[str, int, StateView], str] | None = None
    show: Callable[[TypedValue], str] = lambda value: ""
    symbol_of: Callable[[str, Mapping[str, Kept]], str] = lambda name, notes: ""
    call_line: Callable[[str, Mapping[str, Kept]], str] = plain_call
    prototype: Callable[[str, StateView], Prototype | None] = lambda name, known: None
    declares: Callable[[Kept], str] = lambda kept: kept if isinstance(kept, str) else ""
    declaration: Callable[[str, StateView], str] = lambda name, known: ""
    check: Callable[[Callable[[str], str], Callable[[str], bool]], None] = (
        lambda setting, is_defined: None
    )
    spelled: Callable[[str, StateView], Spelling | None] = lambda name, known: None
    literal: Callable[[Any], str] | None = None
    called: Callable[[str, Mapping[str, Kept]], str] = lambda symbol, notes: shown(symbol)
    foreign: Callable[[str, str, int, StateView], Foreign | None] = lambda *asked: None
    superseded: Callable[[Collection[str], Known], Plan] | None = None
    types: Callable[[Sequence[str], StateView], list[DataType | None]] = lambda texts, known: (
        [None] * len(texts)
    )
    with_debug: Callable[[int, Known], str] | None = None


@record
class Once:
    """A module that is run once and freed: its text, the function to call (without parameters),
    the text that labels its value, and its lines in the cell.  `present` makes the cell's value of
    what the function gives, while the module is still there.  Who has read the module has its plan,
    in which the function is `ENTRY`."""

    ir: str | Plan
    entry: str
    text: str
    line: int = 1
    last_line: int = 1
    present: Callable[[TypedValue], TypedValue | None] | None = None


@record
class Commands:
    """A cell apart: `%magic` and `name?` lines above and below the code, each part on its lines."""

    before: str
    code: str
    after: str


_COMMAND = regex(r"%[A-Za-z_]|\?{1,2}\S+$|[^\s()]+\?{1,2}$")
#: The plan of no code.
NOTHING = Plan("")


def split_commands(source: str) -> Commands:
    """Takes the magics off a cell's beginning and end.  Lines keep their numbers."""
    lines = source.split("\n")
    begin, end = 0, len(lines)
    while begin < end and (not lines[begin].strip() or _COMMAND.match(lines[begin])):
        begin += 1
    while end > begin and (not lines[end - 1].strip() or _COMMAND.match(lines[end - 1])):
        end -= 1
    lines[:begin] = [line.strip() for line in lines[:begin]]  # a form feed is blank, too
    lines[end:] = [line.rstrip() for line in lines[end:]]
    return Commands(
        "\n".join(lines[:begin]),
        "\n" * begin + "\n".join(lines[begin:end]),
        "\n" * end + "\n".join(lines[end:]),
    )


class LazyMapping(Mapping[str, V]):
    """A mapping that is made when somebody first looks into it: the session does while LLVM works,
    where what a plan has of them is for when that is done."""

    def __init__(self, make: Callable[[], Mapping[str, V]]):
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, V]:
        return self._make()

    def __getitem__(self, key: str) -> V:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def plan(
    source: str, ir: str | Plan = "", once: Sequence[Once] = (), commands: Commands | None = None,
    declared: bool = False, **more: Any,
) -> Plan:  # fmt: skip
    """The plan of a cell whose definitions are the module `ir`, its text or its own plan, and which
    then runs each of `once`; it has no code, and yet `declared` something.  What `more` it asks for
    is said as in a plan.

    A comment `; line 3` of its own line in the IR says that the instructions below it come from
    line 3 of the cell: faults are then told in the user's own source.
    """
    before = _read(commands.before if commands else "")
    after = _read(commands.after if commands else "")
    runs = tuple(
        [RunAction(o.line, _label(o.text), _module(o), o.last_line, o.present) for o in once]
    )
    found = _read(ir)
    more["warnings"] = (*found.warnings, *more.get("warnings", ()))
    return replace(
        found,
        source=source,
        magics=before.magics,
        actions=(*before.actions, *runs, *after.magics, *after.actions),
        translated=found is not NOTHING or bool(once) or declared,
        **more,
    )


def _read(text: str | Plan) -> Plan:
    """The plan of a part of a cell: mostly nothing stands before or behind its code."""
    if isinstance(text, Plan):
        return text
    return parse_cell(text) if text.strip() else NOTHING


def _module(once: Once) -> Plan:
    if isinstance(once.ir, Plan):
        return once.ir
    spelled = (once.entry, f'"{once.entry}"')
    found = parse_cell(renamed(once.ir, "@", dict.fromkeys(spelled, ENTRY)))
    others = sorted(found.defines - found.local_names - {ENTRY})
    if ENTRY not in found.defines or others or found.actions:
        extra = f"; make @{others[0]} internal" if others else ""
        raise CompileError(f"what runs once defines the function @{once.entry} alone{extra}")
    return found


def _label(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
