"""Modules whose every value has a home in memory and a name that a debugger can read.  Worker only.

LLVM keeps a value in a register for as long as it needs it, and computes it where that suits it.
To be debugged, a function gets an `alloca` for each argument and each value; the value is stored
there behind its definition, and each instruction reads its operands from there, by volatile
accesses: what a debugger changes counts, and nothing is computed on another line than its own.  A
`nop` stands for what would be no code, such as a jump to the block that comes next.

In DWARF a value is a variable that is called as LLVM prints it, `%x`, whose type is a base type
that is called as LLVM's is, `<4 x float>`; that of an `alloca` is `ptr to T`.  Each basic block is
a lexical block, within that of its immediate dominator: the lexical blocks that hold an address
have the variables of all blocks that have run when it is reached.  Of the innermost one only those
count whose line is before that of the address; a variable's is the last line so far, for languages
compute things in another order than they are written.  Artificial variables are no values: they let
a block without any be told from the one around it.

Start from `Body`; which functions get homes is `debugged`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from jitkernel.compiler import binding
from jitkernel.compiler.binding import lib
from jitkernel.ir.calls import find_calls
from jitkernel.ir.debug_info import fields, nodes, split_location
from jitkernel.ir.dominators import dominators
from jitkernel.ir.expansion import Expansion
from jitkernel.ir.instructions import Block, Instruction, successors
from jitkernel.ir.module import Entity, entities
from jitkernel.ir.names import escaped, mentions, renamed
from jitkernel.ir.signature import alignment
from jitkernel.ir.text import after_space, closing, has_word, type_at

#: Blocks deeper in the tree of dominators are in one lexical block with the one at this depth, and
#: lines alone say what is defined there: LLVM's time grows with the square of the depth, and
#: readers of DWARF recurse.
DEEPEST = 250
#: Values of more bytes have no homes: LLVM stores and loads them member by member.
LARGEST = 4096
_STACK_ALIGNMENT = 16  # of x86-64 at calls: what asks for more makes frames of another form
_NO_BYTES = ("void", "token", "label", "metadata", "x86_amx")
_NO_SIZE = ("vscale", "target")
_TAIL_CONVENTIONS = ("tailcc", "swifttailcc")
_PADS = ("landingpad", "catchpad", "cleanuppad")
# What reads no operand from its home, and is preceded by nothing.
_UNTOUCHED = frozenset(("phi", "va_arg", "callbr", "catchswitch", "catchret", "cleanupret", *_PADS))
_ALWAYS_CODE = frozenset(("ret", "unreachable", "invoke", "atomicrmw", "cmpxchg"))
_CALLS = ("call", "invoke")


class Value(NamedTuple):
    """An argument or an instruction's value: `shown` as LLVM prints it; `type` is the text of its
    type, and `of_type` LLVM's reference."""

    shown: str
    type: str
    of_type: int


class Home(NamedTuple):
    """The memory of a value: its name, the type, size and alignment of what it holds."""

    name: str
    type: str
    size: int
    align: int


class Step(NamedTuple):
    """An instruction, without its location, and that one's line.  A `final` one is a call that
    must reuse the frame, or what follows that."""

    read: Instruction
    line: int
    final: bool


class Metadata:
    """The nodes that are added to those of a module."""

    def __init__(self, known: Mapping[str, str]):
        self.known = known
        self._first = 1 + max(map(int, known), default=-1)
        self._added: list[str] = []
        self._once: dict[str, str] = {}

    def add(self, node: str) -> str:
        """Add a node; its number."""
        self._added.append(node)
        return f"!{self._first + len(self._added) - 1}"

    def once(self, node: str) -> str:
        """Add a node, unless there is such a one; its number."""
        if node not in self._once:
            self._once[node] = self.add(node)
        return self._once[node]

    def text(self) -> str:
        """The nodes that were added."""
        return "".join(f"!{n} = {node}\n" for n, node in enumerate(self._added, self._first))


class Values:
    """The values of a module and what is known of them; names of them begin with `prefix`.

    `types` are the module's named ones, `layout` is its data layout.
    """

    def __init__(self, text: str, known: Mapping[str, Value], prefix: str, layout: str):
        self.known, self.prefix = known, prefix
        self.metadata = Metadata(nodes(text))
        self.types = {found.name: type_at(text, found.value) for found in entities(text, "type")}
        self._expanded = Expansion(self.types.get)
        self._sizes: dict[int, tuple[int, int] | None] = {}
        self._layout = layout

    def size(self, value: Value) -> tuple[int, int] | None:
        """Size and alignment of what a value needs, None where it has no bytes to be stored."""
        if value.of_type not in self._sizes:
            plain = self._expanded(value.type)
            found = None
            if plain not in _NO_BYTES and not has_word(plain, *_NO_SIZE):
                with binding.layout(self._layout) as data:
                    found = (
                        lib.ABISizeOfType(data, value.of_type),
                        min(lib.ABIAlignmentOfType(data, value.of_type), _STACK_ALIGNMENT),
                    )
            self._sizes[value.of_type] = found
        return self._sizes[value.of_type]


class Body:
    """One function's body with homes."""

    def __init__(self, values: Values, function: Entity, body: list[Block]):
        self._values, self._metadata, self._body = values, values.metadata, body
        head = function.source[closing(function.source, function.value) : function.body()[0]]
        self._scope = f"!{split_location(head)[1]}"
        node = fields(self._metadata.known[self._scope[1:]])
        self._file, self._line = f"!{node['file']}", int(node.get("line", 0))
        self._function = function
        self._steps = [[*self._read(block)] for block in body]
        self._edges = {  # from blocks whose invoke has a value: what lies on the way from it
            index: len(body) + count
            for count, index in enumerate(
                i for i, steps in enumerate(self._steps) if _is_invoke(steps[-1])
            )
        }
        self._arguments: list[tuple[str, Home]] = []
        self._homes: dict[str, Home] = {}
        self._declared: list[str] = []
        self._out: list[str] = []
        self._reads = 0
        self._lines: dict[str, list[int]] = {}  # of the variables in each lexical block
        self._declare()
        self._mark()

    def _read(self, block: Block) -> Iterator[Step]:
        final = False
        for start, stop in block.instructions:
            text, number = _located(self._function.source[start:stop])
            read = Instruction.read(text)
            final = final or _reuses_frame(read)
            line = fields(self._metadata.known.get(number, "")).get("line", "0")
            yield Step(read, int(line), final)

    @property
    def is_aligned(self) -> bool:
        """True if nothing on its stack asks for more than calls give."""
        return not any(
            step.read.opcode == "alloca" and alignment(step.read.text) > _STACK_ALIGNMENT
            for steps in self._steps
            for step in steps
        )

    # -- lexical blocks

    @cached_property
    def _ways(self) -> list[list[int]]:
        """The blocks that each block leads to, with those on the way from an invoke."""
        number = {block.label: index for index, block in enumerate(self._body)}
        ways = []
        for steps in self._steps:
            labels = [label for label, _ in successors(steps[-1].read.text)]
            ways.append([number[label] for label in labels if label in number])
        for index, edge in self._edges.items():
            ways.append([ways[index][0]])
            ways[index][0] = edge
        return ways

    @cached_property
    def _above(self) -> list[int]:
        """The immediate dominator of each block: its own number where it has none."""
        return [node if up < 0 else up for node, up in enumerate(dominators(self._ways))]

    @cached_property
    def _scopes(self) -> list[str]:
        """The lexical block of each basic block."""
        above = self._above
        lines = [next((s.line for s in steps if s.line), 0) for steps in self._steps]
        lines += [self._steps[index][-1].line for index in self._edges]
        found: dict[int, tuple[str, int]] = {}  # and how deep it is
        for node in range(len(above)):
            way = [node]
            while way[-1] not in found and above[way[-1]] != way[-1]:
                way.append(above[way[-1]])
            for at in reversed(way):
                if at in found:
                    continue
                scope, depth = found.get(above[at], (self._scope, 0))
                if depth < DEEPEST:
                    scope = self._metadata.add(
                        f"distinct !DILexicalBlock(scope: {scope}, file: {self._file}, "
                        f"line: {lines[at]})"
                    )
                found[at] = scope, depth + 1
        return [found[node][0] for node in range(len(above))]

    def _at(self, line: int, scope: str) -> str:
        """The words that are attached to an instruction of a line."""
        return f"!dbg {self._metadata.once(f'!DILocation(line: {line}, scope: {scope})')}"

    # -- which values have homes

    def _declare(self) -> None:
        parameters = self._function.parameters
        for number, name in enumerate(self._function.parameter_names, 1):
            text = parameters[number - 1]
            if not has_word(text, "swifterror"):
                parameter = Instruction(text, "", "", 0)
                home = self._home(name, parameter, self._line, f"arg: {number}, ", self._scope)
                if home:
                    self._arguments.append((name, home))
        latest: dict[str, int] = {}  # by lexical block: the last line so far
        for index, steps in enumerate(self._steps):
            is_switch = steps[-1].read.opcode == "catchswitch"  # which nothing may precede
            scope = self._scopes[self._edges.get(index, index)]
            for step in steps:
                read = step.read
                words = read.text[read.operands :].split(maxsplit=2)[:2]
                unfit = step.final or read.opcode == "callbr"
                unfit |= read.opcode == "phi" and is_switch
                if read.opcode == "alloca":
                    unfit |= not {"swifterror", "inalloca"}.isdisjoint(words)
                inside = scope if read.opcode == "invoke" else self._scopes[index]
                line = latest[inside] = max(latest.get(inside, 0), step.line)
                if read.result and not unfit:
                    self._home(read.result[1:], read, line, "", inside)

    def _home(
        self, name: str, read: Instruction, line: int, argument: str, scope: str
    ) -> Home | None:
        """Make a home for the value of an instruction or a parameter, if it can have one."""
        value = self._values.known.get(name)
        size = self._values.size(value) if value else None
        if value is None or size is None or size[0] > LARGEST:
            return None
        type_, note = value.type, ""
        if '"type 0x' in type_:  # of one without a name, this says where LLVM has it
            found = read.type(self._values.types) if read.opcode else type_at(read.text)
            type_ = str(found)
        if read.opcode == "alloca":
            note = f" to {type_at(read.text, after_space(read.text, read.operands))}"
        home = Home(f"%{self._values.prefix}h{name.rpartition('.')[2]}", type_, *size)
        self._homes[name] = home
        shown, described = escaped(_bytes(value.shown)), (type_ + note, home.size)
        self._variable(home, described, f'name: "{shown}", {argument}', line, scope)
        return home

    def _variable(
        self, home: Home, described: tuple[str, int], words: str, line: int, scope: str
    ) -> None:
        """Let there be a variable in a home; `described` are its type and that one's bytes."""
        type_, size = escaped(_bytes(described[0])), described[1] * 8
        of_type = self._metadata.once(
            f'!DIBasicType(name: "{type_}", size: {size}, encoding: DW_ATE_unsigned)'
        )
        variable = self._metadata.add(
            f"!DILocalVariable({words}scope: {scope}, file: {self._file}, line: {line}, "
            f"type: {of_type})"
        )
        at = self._at(line, scope).removeprefix("!dbg ")
        self._lines.setdefault(scope, []).append(line)
        self._declared += [
            f"  {home.name} = alloca {home.type}, align {home.align}",
            f"    #dbg_declare(ptr {home.name}, {variable}, !DIExpression(), {at})",
        ]

    def _mark(self) -> None:
        """Mark blocks without variables that are above those of the block around them: LLVM writes
        no lexical block that has none, and there a line says what is defined."""
        for index, steps in enumerate(self._steps):
            node, scope = index, self._scopes[index]
            while self._scopes[node] not in self._lines and self._above[node] != node:
                node = self._above[node]
            last = max(self._lines.get(self._scopes[node], ()), default=0)
            if node != index and any(step.line <= last for step in steps):
                home = Home(f"%{self._values.prefix}b{index}", "i8", 1, 1)
                label = escaped(_bytes(self._values.known[self._body[index].label].shown[1:]))
                words = f'name: "{label}", flags: DIFlagArtificial, '
                self._variable(home, ("label", 1), words, steps[0].line, scope)

    # -- the text

    def text(self) -> str:
        """The body between its braces."""
        for index, steps in enumerate(self._steps):
            self._out.append(f"{self._body[index].label}:")
            if not index:
                self._out += self._declared
                for argument, home in self._arguments:
                    self._store(argument, home, "")
            waiting: list[tuple[str, Home, str]] = []  # values of phis
            for step in steps:
                at = self._at(step.line, self._scopes[index])
                opcode = step.read.opcode
                if waiting and opcode not in ("phi", *_PADS):
                    self._stores(waiting)
                self._step(step, index, at)
                name = step.read.result[1:]
                if name in self._homes and opcode != "invoke":
                    waiting.append((name, self._homes[name], at))
                if opcode != "phi":
                    self._stores(waiting)
            if index in self._edges:
                self._edge(steps[-1], self._edges[index])
        return "\n".join(["", *self._out, ""])

    def _stores(self, waiting: list[tuple[str, Home, str]]) -> None:
        for name, home, at in waiting:
            self._store(name, home, f", {at}")
        waiting.clear()

    def _store(self, name: str, home: Home, at: str) -> None:
        self._out.append(
            f"  store volatile {home.type} %{name}, ptr {home.name}, align {home.align}{at}"
        )

    def _step(self, step: Step, index: int, at: str) -> None:
        read = step.read
        head, rest = read.text[: read.operands].strip(), read.text[read.operands :]
        names: dict[str, str] = {}
        if read.opcode == "phi":
            names = self._from_edges(index)
        elif not step.final and read.opcode not in _UNTOUCHED:
            is_intrinsic = _is_intrinsic(read)
            names = {} if is_intrinsic else self._loads(rest, at)
            touched = [*names, read.result[1:]]
            is_code = any(name in self._homes and self._homes[name].size for name in touched)
            if not is_code and (is_intrinsic or _may_be_no_code(read)):
                self._out.append(f'  call void asm sideeffect "nop", ""(), {at}')
        if _is_invoke(step):
            edge = self._edges[index]
            names[self._body[self._ways[edge][0]].label] = self._edge_label(edge)
        self._out.append(f"  {head}{renamed(rest, '%', names)}, {at}")

    def _loads(self, rest: str, at: str) -> dict[str, str]:
        """Read the operands of an instruction from their homes; their names by those of values."""
        names: dict[str, str] = {}
        found = mentions(rest, "%") & self._homes.keys()
        for name in sorted(found, key=lambda name: (len(name), name)):
            home, self._reads = self._homes[name], self._reads + 1
            names[name] = f"{self._values.prefix}u{self._reads}"
            self._out.append(
                f"  %{names[name]} = load volatile {home.type}, ptr {home.name}, "
                f"align {home.align}, {at}"
            )
        return names

    def _edge_label(self, edge: int) -> str:
        return f"{self._values.prefix}e{edge}"

    def _from_edges(self, index: int) -> dict[str, str]:
        """Other names for the blocks before one: those on the way from an invoke."""
        return {
            self._body[before].label: self._edge_label(edge)
            for before, edge in self._edges.items()
            if self._ways[edge][0] == index
        }

    def _edge(self, step: Step, edge: int) -> None:
        """The block on the way from an invoke: its value is stored there."""
        at, name = self._at(step.line, self._scopes[edge]), step.read.result[1:]
        self._out.append(f"{self._edge_label(edge)}:")
        if name in self._homes:
            self._store(name, self._homes[name], f", {at}")
        self._out.append(f"  br label %{self._body[self._ways[edge][0]].label}, {at}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _located(text: str) -> tuple[str, str]:
    """An instruction as LLVM prints it without its location, and the number of that node."""
    at = text.rfind(", !dbg !")
    if at < 0:
        return text, ""
    behind = text[at + len(", !dbg !") :]
    number = behind.partition(",")[0].strip()
    return text[:at] + behind[len(number) :], number


def _is_invoke(step: Step) -> bool:
    """True of an invoke that has a value."""
    return step.read.opcode == "invoke" and bool(step.read.result)


def _is_intrinsic(read: Instruction) -> bool:
    """True of a call of LLVM's own: some operands of those must be what they are."""
    if read.opcode not in _CALLS or "@llvm." not in read.text:
        return False
    call = next(iter(find_calls(read.text, intrinsics=True)), None)
    return call is not None and call.callee.startswith("llvm.")


def _reuses_frame(read: Instruction) -> bool:
    """True of a call behind which there may be nothing but the return."""
    if read.opcode != "call":
        return False
    words = read.text[: read.operands].split()
    if "tail" in words:
        convention = read.text[read.operands :].partition("(")[0]
        return has_word(convention, *_TAIL_CONVENTIONS)
    return "musttail" in words


def _may_be_no_code(read: Instruction) -> bool:
    """True of what LLVM may make no code of where it has no operands to read."""
    if read.opcode == "call":
        return has_word(read.text, "asm")
    if read.opcode == "store":
        return has_word(read.text, "undef", "poison")
    return read.opcode not in _ALWAYS_CODE
