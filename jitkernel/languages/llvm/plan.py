"""A cell's plan: what is compiled as one module, and what happens then, from top to bottom.

The whole cell is read before anything happens.  No session state is needed for it: a plan depends
on the cell's text alone.  Start from `parse_cell`; `assemble` makes the module's text from a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from jitkernel.errors import CompileError, Diagnostic
from jitkernel.ir.constants import truncated
from jitkernel.ir.expressions import Expr, parse_expression
from jitkernel.ir.module import entities, symbols_of
from jitkernel.ir.names import symbols_in
from jitkernel.ir.statements import Kind, Statement, call_behind, diagnostic, normalise, split
from jitkernel.ir.text import without_comments
from jitkernel.record import NamedTuple, field, record
from jitkernel.rollback import RecordedDict

if TYPE_CHECKING:
    from jitkernel.values.value import TypedValue


@record
class _Step:
    """One thing to do, on its line; `text` labels its value where it is not the cell's last."""

    line: int
    text: str


@record
class MagicAction(_Step):
    """`%name rest`."""

    name: str
    rest: str


@record
class ShellAction(_Step):
    """`!command`."""

    command: str


@record
class BlockAction(_Step):
    """The cell's instructions; they run as the body of one function."""

    statements: tuple[Statement, ...]
    last_line: int


@record
class RunAction(_Step):
    """A module that runs once, as another language than IR makes it of an expression.

    `module` defines the function `ENTRY`, without parameters, and no other that can be seen from
    outside.  It is compiled before any action, called when its turn comes, and freed; `present`
    makes the value to show of its own, where there is one.
    """

    module: Plan
    last_line: int
    present: Callable[[TypedValue], TypedValue | None] | None = None


class Declaration(Protocol):
    """A record in which a language keeps what it knows of a name."""

    def encode(self) -> str:
        """The text that a saved session has of it, and that the language finds where that is
        restored."""


Kept: TypeAlias = str | Declaration


class LanguageNote(NamedTuple):
    """A note for later cells of a language: what that keeps, the keys of the notes that this one
    needs, the number of the cell whose it is, and a word by which the language finds it among all.
    In a plan, "" is kept of what there is no more, and the cell is 0 for the one that leaves the
    note."""

    kept: Kept
    needs: frozenset[str] = frozenset()
    cell: int = 0
    group: str = ""


class Below(NamedTuple):
    """The key of what a cell says of a name of which another cell's note counts: it counts again
    when that one goes, or says it no more."""

    key: str
    cell: int


NoteKey: TypeAlias = str | Below


def name_of(key: NoteKey) -> str:
    """The key of what counts of the name that a note is of."""
    return key if isinstance(key, str) else key.key


#: Notes by `NoteKey`.
Said: TypeAlias = Mapping[Any, LanguageNote]


class Filed(RecordedDict[Any, RecordedDict[Any, Any]]):
    """Tables by name, none of which is empty."""

    def file(self, name: Any, key: Any, value: Any) -> None:
        """Have a value in a table; None: none."""
        if value is not None:
            self.setdefault(name, RecordedDict())[key] = value
        elif (table := self.get(name)) is not None:
            table.pop(key, None)
            if not table:
                del self[name]


class NoteTable(RecordedDict[str, Kept]):
    """The notes that count, by key, as they are at each moment.

    `of` has what each cell says, by its number and by key, and `below` that of it which does not
    count, by key and by cell; `groups` are the keys of what counts, by the notes' groups."""

    def __init__(self) -> None:
        self.of, self.below, self.groups = Filed(), Filed(), Filed()


@record
class Remake:
    """Another cell's module, made again because of what this cell changes; `told` says why.  `ir`
    is its text, None where that is the same but for what leaves the cell.  `begins` are its
    variables whose first values may be others now."""

    cell: int
    ir: str | None
    told: str
    begins: frozenset[str] = frozenset()


@record
class CallAction(_Step):
    """`@f(...)`, or `_5` alone."""

    expr: Expr


@record
class AssignAction(_Step):
    """`@name = expr`."""

    name: str
    expr: Expr


@record
class ShowAction(_Step):
    """`@name` alone."""

    name: str


@record
class InspectAction(_Step):
    """`name?` (level 1) or `name??` (level 2); `name` keeps its `@` or `%`."""

    name: str
    level: int


Action: TypeAlias = (
    MagicAction
    | ShellAction
    | BlockAction
    | RunAction
    | CallAction
    | AssignAction
    | ShowAction
    | InspectAction
)

#: The function that a cell's instructions, or the module of a `RunAction`, are run through.
ENTRY = "jk.block"


@record
class Plan:
    """All that a cell asks for.

    `magics` stand above all code and act before anything is compiled; `entities` are the statements
    of the module; `actions` follow once it is linked.  `defines`, `declares` and `uses` are symbol
    names; `uses` are those mentioned in entities and instructions; `local_names` those defined with
    private or internal linkage, which no other module can see; `types` the named types that the
    cell defines, with their bodies' text.

    `notes` are what the cell's language leaves for later cells, by key; `keep` are variables that
    it defines again and whose values stay, `unchanged` those whose types do; `remakes` the modules
    of other cells that its changes reach; `spelled` what the language has for the symbols that the
    cell defines.  `opt_level` is what it is compiled with unless it asks for another, None for the
    session's.  `translated`: it is none of IR, and has code, be it a declaration alone.
    """

    source: str
    cell_magic: str = ""
    magics: tuple[MagicAction | ShellAction, ...] = ()
    entities: tuple[Statement, ...] = ()
    actions: tuple[Action, ...] = ()
    defines: frozenset[str] = frozenset()
    declares: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    local_names: frozenset[str] = frozenset()
    types: dict[str, str] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    notes: Said = field(default_factory=dict)
    keep: frozenset[str] = frozenset()
    unchanged: frozenset[str] = frozenset()
    spelled: Mapping[str, str] = field(default_factory=dict)
    remakes: tuple[Remake, ...] = ()
    translated: bool = False
    opt_level: int | None = None

    @property
    def block(self) -> BlockAction | None:
        for action in self.actions:
            if isinstance(action, BlockAction):
                return action
        return None

    @property
    def has_code(self) -> bool:
        """True if there is more than magics, so that the cell is one of the session's."""
        # A language's notes may be made when they are first asked for: last.
        if self.entities or self.remakes or self.translated:
            return True
        for action in self.actions:
            if not isinstance(action, (MagicAction, ShellAction, InspectAction)):
                return True
        return bool(self.notes)


_MOST_TRUNCATIONS = 20  # told, of a cell's definitions and of its instructions
_CODE = (Kind.TYPE, Kind.METADATA, Kind.ENTITY)
_TEXT = attrgetter("text")


def parse_cell(source: str) -> Plan:
    """Reads a cell, whole.  Raises CompileError, with every complaint that reading finds."""
    source = normalise(source)
    statements = split(source)
    if statements and statements[0].kind is Kind.CELL_MAGIC:
        return Plan(source, cell_magic=statements[0].magic[0])
    magics: list[MagicAction | ShellAction] = []
    for s in statements:
        if s.kind not in (Kind.MAGIC, Kind.SHELL):
            break
        magics.append(_shell(source, s) if s.kind is Kind.SHELL else _magic(source, s))
    problems: list[Diagnostic] = []
    actions, instructions = _actions(source, statements[len(magics) :], problems)
    if problems:
        from jitkernel.ir.no_statement import most_telling  # only for errors

        raise CompileError(most_telling(problems))
    warnings = _behind_semicolons(source, statements) if ";" in source else []
    defines, declares, local_names = set[str](), set[str](), set[str]()
    uses = set[str]().union(*map(symbols_in, map(_TEXT, instructions)))
    types: dict[str, str] = {}
    code: list[Statement] = []
    for s in statements:
        if s.kind not in _CODE:
            continue
        code.append(s)
        if s.kind is not Kind.TYPE:
            uses |= symbols_in(s.text)
        if s.kind is Kind.ENTITY:
            for found in symbols_of(s.text):
                name = found.name
                (declares if found.is_declaration else defines).add(name)
                if found.is_local:
                    local_names.add(name)
        elif s.kind is Kind.TYPE:
            for found in entities(s.text, "type"):
                body = without_comments(s.text)[found.value :]
                types[found.name] = body.replace("\n", " ").strip()
    if not code and not instructions:  # magics and calls: most cells
        return Plan(source, magics=tuple(magics), actions=tuple(actions), warnings=tuple(warnings))
    if instructions:
        warnings = _truncations(instructions) + warnings
    warnings = _truncations(code) + warnings
    return Plan(
        source,
        magics=tuple(magics),
        entities=tuple(code),
        actions=tuple(actions),
        defines=frozenset(defines),
        declares=frozenset(declares),
        uses=frozenset(uses),
        local_names=frozenset(local_names),
        types=types,
        warnings=tuple(warnings),
    )


def _truncations(statements: Sequence[Statement]) -> list[Diagnostic]:
    """A warning for each constant that does not fit its type, up to a number."""
    found: list[Diagnostic] = []
    for statement in statements:
        for at, words, hint in truncated(statement.text):
            found.append(statement.diagnostic(words, hint, at, "warning"))
            if len(found) == _MOST_TRUNCATIONS:
                return found
    return found


def _behind_semicolons(source: str, statements: Sequence[Statement]) -> list[Diagnostic]:
    """A warning for each call that was meant as a second one of its line, and is a comment."""
    found = []
    for statement in statements:
        if call := statement.kind is Kind.CALL and call_behind(source, statement.stop):
            words = f"{call} did not run: a ; begins a comment"
            hint = "each call has a line of its own"
            found.append(diagnostic(source, statement.stop, words, hint, "warning"))
    return found


def _magic(source: str, statement: Statement) -> MagicAction:
    return MagicAction(statement.line, statement.text, *statement.magic)


def _shell(source: str, statement: Statement) -> ShellAction:
    return ShellAction(statement.line, statement.text, statement.text[1:].strip())


def _inspect(source: str, statement: Statement) -> InspectAction:
    text = statement.text.partition(";")[0] if '"' not in statement.text else statement.text
    text = text.strip()
    level = 2 if text.startswith("??") or text.endswith("??") else 1
    return InspectAction(statement.line, statement.text, text.strip("? \t"), level)


def _call(source: str, statement: Statement) -> CallAction:
    expr = parse_expression(source, statement.start, statement.stop)
    return CallAction(statement.line, _one_line(statement.text), expr)


def _show(source: str, statement: Statement) -> ShowAction:
    return ShowAction(statement.line, statement.text, statement.named[0])


def _assign(source: str, statement: Statement) -> AssignAction:
    name, value = statement.named
    expr = parse_expression(source, statement.start + value, statement.stop)
    return AssignAction(statement.line, _one_line(statement.text), name, expr)


_READERS: dict[Kind, Callable[[str, Statement], Action]] = {
    Kind.MAGIC: _magic,
    Kind.SHELL: _shell,
    Kind.INSPECT: _inspect,
    Kind.CALL: _call,
    Kind.RESULT: _call,
    Kind.SHOW: _show,
    Kind.ASSIGN: _assign,
}


def _actions(
    source: str, statements: tuple[Statement, ...], problems: list[Diagnostic]
) -> tuple[list[Action], list[Statement]]:
    """The steps of a cell, and the instructions of its block."""
    actions: list[Action] = []
    block: list[Statement] = []
    block_at = -1
    for statement in statements:
        kind = statement.kind
        try:
            if kind in (Kind.INSTRUCTION, Kind.LABEL):
                if block and block_at != len(actions) - 1:
                    raise _apart(statement, block, actions[block_at + 1])
                if not block:
                    block_at = len(actions)
                    actions.append(BlockAction(statement.line, "", (), statement.line))
                block.append(statement)
            elif kind in _READERS:
                actions.append(_READERS[kind](source, statement))
        except CompileError as error:
            problems.extend(error.diagnostics)
    if block:
        _refuse_inside(block, statements, problems)
        text = source[block[0].start : block[-1].stop]
        actions[block_at] = BlockAction(block[0].line, text, tuple(block), block[-1].last_line)
    return actions, block


def _refuse_inside(
    block: list[Statement], statements: tuple[Statement, ...], problems: list[Diagnostic]
) -> None:
    for statement in statements:
        if statement.kind in _CODE and block[0].start < statement.start < block[-1].start:
            words = (
                f"this {statement.kind.value} stands among the instructions of lines "
                f"{block[0].line} to {block[-1].last_line}"
            )
            hint = "the cell's instructions are one block: move it above them"
            problems.append(statement.diagnostic(words, hint))


def _apart(statement: Statement, block: list[Statement], between: Action) -> CompileError:
    words = (
        f"the cell's instructions are one block: lines {block[0].line} to "
        f"{block[-1].last_line} hold it, and line {between.line} is no instruction"
    )
    hint = "move this line up to the others, or into a cell of its own"
    return CompileError([statement.diagnostic(words, hint)])


def _one_line(text: str) -> str:
    """A statement as a label: on one line, at most 60 characters."""
    text = " ".join(without_comments(text).split()) if "\n" in text else text
    return text if len(text) <= 60 else text[:57] + "..."


def progress(plan: Plan, last: Action, ended: bool = False) -> str:
    """The statements that ran when `last` was the last of them, and did not end, or just `ended`:
    one sentence, empty where all are in its line.  Effects of those that ran stand."""
    actions = list(plan.actions)
    at = next((i for i, a in enumerate(actions) if a is last), -1)
    if at < 0 or _lines(actions) == _lines([last]):
        return ""
    here = "" if ended else _lines([last])
    parts = actions[: at + ended], actions[at + 1 :]
    ran, left = (_lines(part) if part else here for part in parts)
    words = [f"{ran} ran"] if ran != here else []
    words += [f"{here} did not end"] if here else []
    words += [f"{left} did not run"] if left != here else []
    return ", ".join(words)


def _lines(actions: list[Action]) -> str:
    first = actions[0].line
    last = actions[-1]
    end = last.last_line if isinstance(last, (BlockAction, RunAction)) else last.line
    return f"line {first}" if first == end else f"lines {first} to {end}"
