"""Random functions of IR, each with an interpreter that knows every value at every step.

Start from `program`.  The text is of a kind that LLVM 14 reads as well as 22, nothing in it is
undefined, and each instruction has a line of its own.  Integers are Python's, unsigned; vectors,
structs and arrays are tuples.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

INTEGERS = (1, 3, 7, 8, 13, 16, 24, 32, 32, 32, 37, 48, 63, 64, 64)
FLOATS = ("float", "double")
_PREDICATES = {
    "eq": lambda x, y, w: x == y, "ne": lambda x, y, w: x != y,
    "ult": lambda x, y, w: x < y, "uge": lambda x, y, w: x >= y,
    "slt": lambda x, y, w: signed(x, w) < signed(y, w),
    "sgt": lambda x, y, w: signed(x, w) > signed(y, w),
    "sle": lambda x, y, w: signed(x, w) <= signed(y, w),
}  # fmt: skip
_FLOAT_PREDICATES = {
    "oeq": lambda x, y: x == y, "olt": lambda x, y: x < y, "oge": lambda x, y: x >= y,
    "une": lambda x, y: x != y, "ult": lambda x, y: not x >= y,
    "uno": lambda x, y: x != x or y != y, "ord": lambda x, y: x == x and y == y,
}  # fmt: skip


@dataclass(frozen=True)
class Type:
    """A type: `kind` is i, f, vector, struct or array; `bits` an integer's, `name` a float's."""

    kind: str
    bits: int = 0
    name: str = ""
    members: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.kind == "struct":
            return f"{{ {', '.join(map(str, self.members))} }}"
        if self.members:
            inside = f"{len(self.members)} x {self.members[0]}"
            return f"<{inside}>" if self.kind == "vector" else f"[{inside}]"
        return self.name or f"i{self.bits}"


def integer(bits: int) -> Type:
    return Type("i", bits)


def several(kind: str, count: int, of: Type) -> Type:
    return Type(kind, members=(of,) * count)


BIT, I64 = integer(1), integer(64)
FLOAT, DOUBLE = Type("f", name="float"), Type("f", name="double")
VECTORS = (
    several("vector", 4, integer(32)), several("vector", 2, I64), several("vector", 3, integer(16)),
    several("vector", 4, FLOAT), several("vector", 2, DOUBLE), several("vector", 8, integer(8)),
)  # fmt: skip
AGGREGATES = (
    Type("struct", members=(integer(32), I64)),
    Type("struct", members=(integer(8), FLOAT, several("vector", 2, integer(32)), BIT)),
    several("array", 3, integer(16)),
    Type("struct", members=(DOUBLE, several("array", 2, integer(24)))),
)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def rounded(value: float, type: Type) -> float:
    """A float of this type."""
    if type == DOUBLE or value != value or math.isinf(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def divided(x: float, y: float) -> float:
    """IEEE 754's x / y."""
    if y or y != y:
        return x / y
    return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * math.copysign(1, y)


def same(left: Any, right: Any) -> bool:
    """True if two values are the same; any NaN is as good as another."""
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or (left != left and right != right)


Env = dict[str, Any]
Run = Callable[[Env], Any]


@dataclass
class Block:
    """A block: phis are (line, name, what comes from each block before), steps (line, name, how to
    compute it); `end` is the line of the terminator, `leads` gives the next label or None, at the
    return of `result`.  `given` is the value of the invoke that leads here, if one does."""

    label: str
    given: tuple[int, str, Run] | None = None
    phis: list[tuple[int, str, dict[str, Run]]] = field(default_factory=list)
    steps: list[tuple[int, str, Run]] = field(default_factory=list)
    end: int = 0
    leads: Callable[[Env], str | None] = lambda env: None
    result: Run = lambda env: None
    to: list[str] = field(default_factory=list)


class Function(NamedTuple):
    """A function; `types` are those of all its values, by name, but for pointers and what landing
    pads give."""

    name: str
    parameters: list[tuple[str, Type]]
    blocks: dict[str, Block]
    types: dict[str, Type]

    def run(self, arguments: list[Any], trace: list[tuple[int, Env]] | None = None) -> int:
        """The result; `trace` gets the line of each step, and the values that are defined for
        certain before it: those of blocks that dominate its own, and of what stands above it."""
        env: Env = {
            name: value for (name, _), value in zip(self.parameters, arguments, strict=True)
        }
        visible = self.visible if trace is not None else {}
        label, before = next(iter(self.blocks)), ""

        def note(line: int, defined: set[str]) -> None:
            if trace is not None:
                found = {n: env[n] for n in defined if not isinstance(env[n], list)}
                trace.append((line, found))

        while True:
            block = self.blocks[label]
            defined = set(visible.get(label, ()))
            if block.given:
                env[block.given[1]] = block.given[2](env)
            values = [choose[before](env) for _, _, choose in block.phis]
            for (line, name, _), value in zip(block.phis, values, strict=True):
                note(line, defined)
                env[name] = value
                defined.add(name)
            for line, name, compute in block.steps:
                note(line, defined)
                value = compute(env)
                if name:
                    env[name] = value
                    defined.add(name)
            note(block.end, defined)
            before, following = label, block.leads(env)
            if following is None:
                return block.result(env)
            label = following

    def defined(self) -> dict[int, set[str]]:
        """By the line of each instruction the values that are defined for certain before it."""
        found = {}
        visible = self.visible
        for label, block in self.blocks.items():
            names = set(visible[label])  # with what was given
            for line, name, _ in (*block.phis, *block.steps):
                found[line] = set(names)
                names |= {name} - {""}
            found[block.end] = names
        return found

    @property
    def visible(self) -> dict[str, set[str]]:
        """The values that are defined where each block begins."""
        own = {name for name, _ in self.parameters}
        given = {
            label: {block.given[1]} if block.given else set[str]()
            for label, block in self.blocks.items()
        }
        defined = {
            label: given[label].union(name for _, name, _ in (*block.phis, *block.steps) if name)
            for label, block in self.blocks.items()
        }
        return {
            label: own.union(given[label], *(defined[above] for above in found - {label}))
            for label, found in self.dominators().items()
        }

    @property
    def lines(self) -> dict[str, int]:
        """The lines of the values, by name; not of parameters."""
        return {
            value[1]: value[0]
            for block in self.blocks.values()
            for value in (block.given, *block.phis, *block.steps)
            if value and value[1]
        }

    def dominators(self) -> dict[str, set[str]]:
        """By each block those without which there is no way from the entry to it."""
        reached = {label: self._reached(without=label) for label in self.blocks}
        return {
            label: {above for above in self.blocks if label not in reached[above]}
            for label in self.blocks
        }

    def _reached(self, without: str) -> set[str]:
        entry = next(iter(self.blocks))
        todo, seen = [entry] if entry != without else [], set()
        while todo:
            label = todo.pop()
            if label not in seen and label != without:
                seen.add(label)
                todo += self.blocks[label].to
        return seen


class Program(NamedTuple):
    """A module's `text`, whose last function but one, `name`, returns an i64; the last one, `entry`,
    calls it with `arguments` (type and value).  `trace` has the steps of that call, see
    `Function.run`."""

    text: str
    name: str
    entry: str
    functions: list[Function]
    arguments: list[tuple[str, Any]]
    result: int
    trace: list[tuple[int, Env]]


class Thrown(Exception):
    """An exception on its way through functions, with its number."""

    def __init__(self, number: int):
        self.number = number


#: What throws and catches in C++'s runtime, an exception being an i64.
THROWING = """@_ZTIl = external constant ptr
declare ptr @__cxa_allocate_exception(i64)
declare void @__cxa_throw(ptr, ptr, ptr)
declare ptr @__cxa_begin_catch(ptr)
declare void @__cxa_end_catch()
declare i32 @__gxx_personality_v0(...)
"""


def program(seed: int, throws: bool = False) -> Program:
    """The program of a seed; the functions of one that `throws` throw, clean up and catch: it needs
    `THROWING` in the same module."""
    rng = random.Random(f"throws {seed}" if throws else seed)
    lines: list[str] = []
    made: list[Function] = []
    for number in range(rng.choice((2, 3, 4) if throws else (1, 1, 2, 3))):
        personality = "__gxx_personality_v0" if throws else f"go{seed}"
        maker = _Maker(rng, lines, f"r{seed}_{number}", made, personality)
        maker.throws = throws
        made.append(maker.function())
    last = made[-1]
    arguments = [_constant(rng, type) for _, type in last.parameters]
    spelled = ", ".join(
        f"{type} {text}" for (_, type), (text, _) in zip(last.parameters, arguments, strict=True)
    )
    trace: list[tuple[int, Env]] = []
    try:
        result = last.run([value for _, value in arguments], trace)
    except Thrown as thrown:
        result = thrown.number ^ 77
    if throws:
        lines += [
            f"define i64 @go{seed}() personality ptr @__gxx_personality_v0 {{",
            f"  %r = invoke i64 @{last.name}({spelled}) to label %fine unwind label %pad",
            "fine:", "  ret i64 %r", "pad:", "  %e = landingpad { ptr, i32 } catch ptr null",
            "  %p = extractvalue { ptr, i32 } %e, 0", "  %c = call ptr @__cxa_begin_catch(ptr %p)",
            "  %v = load i64, ptr %c", "  call void @__cxa_end_catch()", "  %w = xor i64 %v, 77",
            "  ret i64 %w", "}",
        ]  # fmt: skip
    else:
        lines += [f"define i64 @go{seed}() {{", f"  %r = call i64 @{last.name}({spelled})"]
        lines += ["  ret i64 %r", "}"]
    told = [
        (str(type), value) for (_, type), (_, value) in zip(last.parameters, arguments, strict=True)
    ]
    text = "\n".join(lines) + "\n"
    return Program(text, last.name, f"go{seed}", made, told, result, trace)


def _constant(rng: random.Random, type: Type) -> tuple[str, Any]:
    """A constant's text and value."""
    if type.kind == "i":
        bits = type.bits
        value = rng.choice((rng.getrandbits(bits), rng.randrange(1 << min(bits, 4))))
        return str(signed(value, bits)), value
    if type.kind == "f":
        number = rng.randrange(-256, 256) / 4
        return f"{number:.6e}", number
    parts = [_constant(rng, member) for member in type.members]
    inside = ", ".join(f"{m} {text}" for m, (text, _) in zip(type.members, parts, strict=True))
    around = {"vector": "<{}>", "struct": "{{ {} }}", "array": "[{}]"}[type.kind]
    return around.format(inside), tuple(value for _, value in parts)


class _Maker:
    """Makes one function; `values` are those that can be used where it writes."""

    def __init__(
        self, rng: random.Random, lines: list[str], name: str, callees: list[Function], any: str
    ):
        self.rng, self.lines, self.name, self.callees = rng, lines, name, list(callees)
        self.personality = f" personality ptr @{any}"  # mostly nothing is ever thrown
        self.throws = False
        self.blocks: dict[str, Block] = {}
        self.values: dict[str, Type] = {}
        self.types: dict[str, Type] = {}
        self.cells: list[tuple[str, Type]] = []
        self.count = 0

    def new(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def label(self) -> str:
        return self.new("b")[1:]

    def begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.blocks[label] = self.block = Block(label)

    def emit(self, text: str, name: str, type: Type | None, run: Run) -> str:
        self.lines.append(f"  {f'{name} = ' if name else ''}{text}")
        self.block.steps.append((len(self.lines), name, run))
        if name and type:
            self.values[name] = self.types[name] = type
        return name

    def operand(self, type: Type) -> tuple[str, Run]:
        found = [name for name, other in self.values.items() if other == type]
        if found and self.rng.random() < 0.85:
            name = self.rng.choice(found[-6:])
            return name, lambda env: env[name]
        text, value = _constant(self.rng, type)
        return text, lambda env: value

    def type(self) -> Type:
        chance = self.rng.random()
        if chance < 0.6:
            return integer(self.rng.choice(INTEGERS))
        if chance < 0.75:
            return self.rng.choice((FLOAT, DOUBLE))
        return self.rng.choice(VECTORS if chance < 0.9 else AGGREGATES)

    def known(self) -> Type:
        return self.rng.choice([*self.values.values(), self.type()])

    # -- a function

    def function(self) -> Function:
        rng = self.rng
        parameters = [(f"%a{i}", self.type()) for i in range(rng.randrange(1, 5))]
        self.values.update(parameters)
        told = ", ".join(f"{type} {name}" for name, type in parameters)
        ends = self.personality if self.callees else ""
        self.lines.append(f"define i64 @{self.name}({told}){ends} {{")
        self.begin("entry")
        for _ in range(rng.randrange(0, 3)):
            self.cell(self.type())
        self.region(rng.randrange(1, 4), 0)
        self.fold()
        self.lines.append("}")
        self.types.update(parameters)
        return Function(self.name, parameters, self.blocks, self.types)

    def cell(self, type: Type) -> None:
        pointer = self.new("p")
        self.emit(f"alloca {type}", pointer, None, lambda env: [None])
        self.cells.append((pointer, type))
        self.store(pointer, type)

    def store(self, pointer: str, type: Type) -> None:
        text, read = self.operand(type)

        def run(env: Env) -> None:
            env[pointer][0] = read(env)

        self.emit(f"store {type} {text}, ptr {pointer}", "", None, run)

    def region(self, parts: int, depth: int) -> None:
        for _ in range(parts):
            for _ in range(self.rng.randrange(1, 6)):
                self.some()
            if self.throws and self.rng.random() < 0.25:
                self.throw()
            chance = self.rng.random()
            if depth < 3 and chance < 0.3:
                self.branch(depth)
            elif depth < 3 and chance < 0.45:
                self.switch(depth)
            elif depth < 2 and chance < 0.75:
                self.loop(depth)

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")
        self.block.end, self.block.to = len(self.lines), [label]
        self.block.leads = lambda env: label

    def arms(self, labels: list[str], depth: int) -> None:
        """Blocks that meet again, where phis choose of their values."""
        join, rng = self.label(), self.rng
        types = [self.known() for _ in range(rng.randrange(1, 4))]
        before = dict(self.values)
        ways: list[tuple[str, list[tuple[str, Run]]]] = []
        for label in labels:
            self.values = dict(before)
            self.begin(label)
            self.region(rng.randrange(1, 3), depth + 1)
            ways.append((self.block.label, [self.operand(type) for type in types]))
            self.jump(join)
        self.values = before
        self.begin(join)
        for index, type in enumerate(types):
            name = self.new()
            inside = ", ".join(f"[ {values[index][0]}, %{label} ]" for label, values in ways)
            self.phi(name, type, inside, {label: values[index][1] for label, values in ways})

    def phi(self, name: str, type: Type, inside: str, choose: dict[str, Run]) -> None:
        self.lines.append(f"  {name} = phi {type} {inside}")
        self.block.phis.append((len(self.lines), name, choose))
        self.values[name] = self.types[name] = type

    def branch(self, depth: int) -> None:
        text, read = self.operand(BIT)
        first, second = self.label(), self.label()
        self.lines.append(f"  br i1 {_truth(text)}, label %{first}, label %{second}")
        self.block.end, self.block.to = len(self.lines), [first, second]
        self.block.leads = lambda env: first if read(env) else second
        self.arms([first, second], depth)

    def switch(self, depth: int) -> None:
        type = integer(self.rng.choice((3, 7, 8, 32, 64)))
        name, (text, read) = self.new(), self.operand(type)
        few = type.bits > 3 and self.rng.random() < 0.8
        mask = 3 if few else (1 << type.bits) - 1
        self.emit(f"and {type} {text}, {signed(mask, type.bits)}", name, type,
                  lambda env: read(env) & mask)  # fmt: skip
        labels = [self.label() for _ in range(self.rng.randrange(2, 5))]
        cases = dict(enumerate(labels[1:]))
        told = " ".join(f"{type} {value}, label %{label}" for value, label in cases.items())
        self.lines.append(f"  switch {type} {name}, label %{labels[0]} [ {told} ]")
        self.block.end, self.block.to = len(self.lines), labels
        self.block.leads = lambda env: cases.get(env[name], labels[0])
        self.arms(labels, depth)

    def loop(self, depth: int) -> None:
        rng = self.rng
        head, out = self.label(), self.label()
        counter, following = self.new("i"), self.new("i")
        kept = integer(rng.choice((8, 16, 32, 64)))
        carried = [(self.new(), self.known()) for _ in range(rng.randrange(0, 4))]
        first = [self.operand(type) for _, type in carried]
        before, outside = self.block.label, dict(self.values)
        self.jump(head)
        self.begin(head)
        at = len(self.lines)
        self.lines += [""] * (1 + len(carried))
        self.values[counter] = self.types[counter] = kept
        self.values.update(carried)
        self.types.update(carried)
        start = self.block
        self.region(rng.randrange(1, 3), depth + 1)
        last = [self.operand(type) for _, type in carried]
        most, mask = rng.randrange(1, 4), (1 << kept.bits) - 1
        self.emit(f"add {kept} {counter}, 1", following, kept, lambda env: env[counter] + 1 & mask)
        done = self.new()
        self.emit(f"icmp ult {kept} {following}, {most}", done, BIT,
                  lambda env: int(env[following] < most))  # fmt: skip
        self.lines.append(f"  br i1 {done}, label %{head}, label %{out}")
        self.block.end, self.block.to = len(self.lines), [head, out]
        self.block.leads = lambda env: head if env[done] else out
        back = self.block.label
        ways = [(counter, kept, ("0", lambda env: 0), (following, lambda env: env[following]))]
        ways += [(n, t, a, b) for (n, t), a, b in zip(carried, first, last, strict=True)]
        for index, (name, type, (one, read), (other, again)) in enumerate(ways):
            self.lines[at + index] = (
                f"  {name} = phi {type} [ {one}, %{before} ], [ {other}, %{back} ]"
            )
            start.phis.append((at + index + 1, name, {before: read, back: again}))
        # What the loop's first block has, and what it leaves with, is there behind it.
        stays = {name for _, name, _ in (*start.phis, *start.steps)} | {following, done}
        now = self.values
        self.begin(out)
        self.values = {n: t for n, t in now.items() if n in outside or n in stays}

    def fold(self) -> None:
        """Return a number that depends on some of the values."""
        total = self.emit("add i64 0, 1", self.new("t"), I64, lambda env: 1)
        for name in self.rng.sample(sorted(self.values), min(6, len(self.values))):
            total = self.mixed(total, self.number(*self.scalar(name)))
        self.lines.append(f"  ret i64 {total}")
        self.block.end, self.block.result = len(self.lines), lambda env: env[total]

    def mixed(self, total: str, wide: str) -> str:
        mask = (1 << 64) - 1
        scaled = self.emit(f"mul i64 {total}, 31", self.new("t"), I64,
                           lambda env: env[total] * 31 & mask)  # fmt: skip
        return self.emit(f"xor i64 {scaled}, {wide}", self.new("t"), I64,
                         lambda env: env[scaled] ^ env[wide])  # fmt: skip

    def scalar(self, name: str) -> tuple[str, Type]:
        type = self.values[name]
        while type.members:
            name, type = self.member(name, type)
        return name, type

    def number(self, name: str, type: Type) -> str:
        if type == I64:
            return name
        if type.kind == "f":
            name, type = self.compared(name, type), BIT
        wide = self.new()
        return self.emit(f"zext {type} {name} to i64", wide, I64, lambda env: env[name])

    def compared(self, name: str, type: Type) -> str:
        predicate = self.rng.choice(list(_FLOAT_PREDICATES))
        holds = _FLOAT_PREDICATES[predicate]
        text, read = self.operand(type)
        return self.emit(f"fcmp {predicate} {type} {name}, {text}", self.new(), BIT,
                         lambda env: int(holds(env[name], read(env))))  # fmt: skip

    # -- instructions

    def some(self) -> None:
        """One instruction or a few."""
        self.rng.choice((
            self.binary, self.binary, self.binary, self.shift, self.divide, self.compare,
            self.choose, self.convert, self.convert, self.floats, self.floats, self.from_float,
            self.elements, self.shuffle, self.memory, self.call, self.aggregate, self.negate,
        ))()  # fmt: skip

    def shaped(self, of: Type) -> Type:
        """The type, or sometimes a vector of such."""
        found = [v for v in VECTORS if v.members[0] == of]
        return self.rng.choice(found) if found and self.rng.random() < 0.3 else of

    def one_of(self, fits: Callable[[Type], bool], other: Type) -> Type:
        """The type of a value that there is, if one fits, mostly."""
        found = [type for type in self.values.values() if fits(type)]
        return self.rng.choice(found[-8:]) if found and self.rng.random() < 0.8 else other

    def whole(self, least: int = 1) -> Type:
        other = integer(self.rng.choice([bits for bits in INTEGERS if bits >= least]))
        return self.one_of(lambda type: type.bits >= least, other)

    def real(self) -> Type:
        return self.one_of(lambda type: type.kind == "f", self.rng.choice((FLOAT, DOUBLE)))

    def bits(self) -> Type:
        if self.rng.random() < 0.2:
            return self.one_of(
                lambda type: type in VECTORS and type.members[0].bits > 0, VECTORS[0]
            )
        return self.whole()

    def binary(self) -> None:
        name, type = self.rng.choice(("add", "sub", "mul", "and", "or", "xor")), self.bits()
        compute = {
            "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
            "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
        }[name]  # fmt: skip
        self.two(name, type, lambda x, y, w: compute(x, y) & (1 << w) - 1)

    def two(self, opcode: str, type: Type, compute: Callable[[int, int, int], int]) -> None:
        (left, x), (right, y) = self.operand(type), self.operand(type)
        width = (type.members or (type,))[0].bits

        def run(env: Env) -> Any:
            a, b = x(env), y(env)
            if type.members:
                return tuple(compute(p, q, width) for p, q in zip(a, b, strict=True))
            return compute(a, b, width)

        self.emit(f"{opcode} {type} {left}, {right}", self.new(), type, run)

    def shift(self) -> None:
        type = self.whole()
        text, read = self.operand(type)
        by, w = self.rng.randrange(type.bits), type.bits
        opcode = self.rng.choice(("shl", "lshr", "ashr"))
        compute = {
            "shl": lambda x: x << by, "lshr": lambda x: x >> by, "ashr": lambda x: signed(x, w) >> by,
        }[opcode]  # fmt: skip
        shown = signed(by, w) if w > 1 else by
        self.emit(f"{opcode} {type} {text}, {shown}", self.new(), type,
                  lambda env: compute(read(env)) & (1 << w) - 1)  # fmt: skip

    def divide(self) -> None:
        type = self.whole(3)
        w, most = type.bits, (1 << type.bits - 1) - 1
        (text, x), (other, y) = self.operand(type), self.operand(type)
        small, divisor = self.new(), self.new()
        self.emit(f"and {type} {other}, {most}", small, type, lambda env: y(env) & most)
        self.emit(f"or {type} {small}, 1", divisor, type, lambda env: env[small] | 1)
        opcode = self.rng.choice(("udiv", "urem", "sdiv", "srem"))

        def run(env: Env) -> int:
            a, b = x(env), env[divisor]
            if opcode[0] == "s":
                a = signed(a, w)
            quotient = abs(a) // b * (-1 if a < 0 else 1)
            return (quotient if opcode.endswith("div") else a - quotient * b) & (1 << w) - 1

        self.emit(f"{opcode} {type} {text}, {divisor}", self.new(), type, run)

    def compare(self) -> None:
        type, predicate = self.bits(), self.rng.choice(list(_PREDICATES))
        holds = _PREDICATES[predicate]
        (left, x), (right, y) = self.operand(type), self.operand(type)
        width = (type.members or (type,))[0].bits

        def run(env: Env) -> Any:
            a, b = x(env), y(env)
            if type.members:
                return tuple(int(holds(p, q, width)) for p, q in zip(a, b, strict=True))
            return int(holds(a, b, width))

        result = several("vector", len(type.members), BIT) if type.members else BIT
        self.emit(f"icmp {predicate} {type} {left}, {right}", self.new(), result, run)

    def choose(self) -> None:
        type = self.known()
        masks = [  # a mask chooses member by member
            n for n, t in self.values.items()
            if t.kind == type.kind == "vector" and t == several("vector", len(type.members), BIT)
        ]  # fmt: skip
        (left, x), (right, y) = self.operand(type), self.operand(type)
        if masks:
            mask = self.rng.choice(masks)
            self.emit(
                f"select {self.values[mask]} {mask}, {type} {left}, {type} {right}", self.new(), type,
                lambda env: tuple(p if m else q for m, p, q in zip(env[mask], x(env), y(env), strict=True)),
            )  # fmt: skip
            return
        text, read = self.operand(BIT)
        self.emit(f"select i1 {_truth(text)}, {type} {left}, {type} {right}", self.new(), type,
                  lambda env: x(env) if read(env) else y(env))  # fmt: skip

    def convert(self) -> None:
        source = self.whole()
        bits = self.rng.choice([bits for bits in INTEGERS if bits != source.bits])
        opcode = "trunc" if bits < source.bits else self.rng.choice(("zext", "sext"))
        target = integer(bits)
        text, read = self.operand(source)
        mask = (1 << target.bits) - 1

        def run(env: Env) -> int:
            value = read(env)
            return (signed(value, source.bits) if opcode == "sext" else value) & mask

        self.emit(f"{opcode} {source} {text} to {target}", self.new(), target, run)

    def floats(self) -> None:
        of = self.real()
        type = self.shaped(of)
        opcode = self.rng.choice(("fadd", "fsub", "fmul", "fdiv"))
        compute = {
            "fadd": lambda x, y: x + y, "fsub": lambda x, y: x - y, "fmul": lambda x, y: x * y,
            "fdiv": divided,
        }[opcode]  # fmt: skip
        (left, x), (right, y) = self.operand(type), self.operand(type)

        def run(env: Env) -> Any:
            a, b = x(env), y(env)
            if type.members:
                return tuple(rounded(compute(p, q), of) for p, q in zip(a, b, strict=True))
            return rounded(compute(a, b), of)

        self.emit(f"{opcode} {type} {left}, {right}", self.new(), type, run)

    def negate(self) -> None:
        type = self.real()
        text, read = self.operand(type)
        self.emit(f"fneg {type} {text}", self.new(), type, lambda env: -read(env))

    def from_float(self) -> None:
        """Between floats and integers, where the number fits."""
        type = self.real()
        whole = integer(self.rng.choice((16, 24, 32, 37, 48)))
        chance = self.rng.random()
        if chance < 0.3:
            text, x = self.operand(whole)
            opcode = self.rng.choice(("sitofp", "uitofp"))
            self.emit(
                f"{opcode} {whole} {text} to {type}", self.new(), type,
                lambda env: rounded(
                    float(signed(x(env), whole.bits) if opcode[0] == "s" else x(env)), type
                ),
            )  # fmt: skip
            return
        if chance < 0.5:
            other, opcode = (DOUBLE, "fpext") if type == FLOAT else (FLOAT, "fptrunc")
            text, x = self.operand(type)
            self.emit(f"{opcode} {type} {text} to {other}", self.new(), other,
                      lambda env: rounded(x(env), other))  # fmt: skip
            return
        text, x = self.operand(type)
        low, high, fits, some = self.new(), self.new(), self.new(), self.new()
        self.emit(
            f"fcmp ogt {type} {text}, -1.000000e+03", low, BIT, lambda env: int(x(env) > -1e3)
        )
        self.emit(f"fcmp olt {type} {text}, 1.000000e+03", high, BIT, lambda env: int(x(env) < 1e3))
        self.emit(f"and i1 {low}, {high}", fits, BIT, lambda env: env[low] & env[high])
        self.emit(f"select i1 {fits}, {type} {text}, {type} 2.500000e+00", some, type,
                  lambda env: x(env) if env[fits] else 2.5)  # fmt: skip
        self.emit(f"fptosi {type} {some} to {whole}", self.new(), whole,
                  lambda env: int(env[some]) & (1 << whole.bits) - 1)  # fmt: skip

    def elements(self) -> None:
        type = self.one_of(VECTORS.__contains__, self.rng.choice(VECTORS))
        (text, x), index = self.operand(type), self.rng.randrange(len(type.members))
        of = type.members[0]
        if self.rng.random() < 0.5:
            self.emit(f"extractelement {type} {text}, i32 {index}", self.new(), of,
                      lambda env: x(env)[index])  # fmt: skip
            return
        element, y = self.operand(of)
        self.emit(
            f"insertelement {type} {text}, {of} {element}, i32 {index}", self.new(), type,
            lambda env: (*x(env)[:index], y(env), *x(env)[index + 1 :]),
        )  # fmt: skip

    def shuffle(self) -> None:
        type = self.one_of(VECTORS.__contains__, self.rng.choice(VECTORS))
        count = len(type.members)
        (left, x), (right, y) = self.operand(type), self.operand(type)
        mask = [self.rng.randrange(2 * count) for _ in range(count)]
        shown = ", ".join(f"i32 {at}" for at in mask)
        self.emit(
            f"shufflevector {type} {left}, {type} {right}, <{count} x i32> <{shown}>",
            self.new(), type,
            lambda env: tuple((x(env) + y(env))[at] for at in mask),
        )  # fmt: skip

    def member(self, name: str, type: Type) -> tuple[str, Type]:
        index = self.rng.randrange(len(type.members))
        of, new = type.members[index], self.new()
        vector = type.kind == "vector"
        opcode = "extractelement" if vector else "extractvalue"
        self.emit(f"{opcode} {type} {name}, {'i32 ' * vector}{index}", new, of,
                  lambda env: env[name][index])  # fmt: skip
        return new, of

    def aggregate(self) -> None:
        type = self.one_of(AGGREGATES.__contains__, self.rng.choice(AGGREGATES))
        (text, x), index = self.operand(type), self.rng.randrange(len(type.members))
        of = type.members[index]
        element, y = self.operand(of)
        new = self.emit(
            f"insertvalue {type} {text}, {of} {element}, {index}", self.new(), type,
            lambda env: (*x(env)[:index], y(env), *x(env)[index + 1 :]),
        )  # fmt: skip
        if self.rng.random() < 0.5:
            self.member(new, type)

    def memory(self) -> None:
        if not self.cells:
            return
        pointer, type = self.rng.choice(self.cells)
        if self.rng.random() < 0.5:
            self.store(pointer, type)
            return
        self.emit(f"load {type}, ptr {pointer}", self.new(), type, lambda env: env[pointer][0])

    def call(self) -> None:
        if not self.callees:
            return
        callee = self.rng.choice(self.callees)
        given = [(type, *self.operand(type)) for _, type in callee.parameters]
        told = ", ".join(f"{type} {text}" for type, text, _ in given)
        name = self.new()

        def run(env: Env) -> int:
            return callee.run([read(env) for _, _, read in given])

        if self.rng.random() < (0.2 if self.throws else 0.6):
            self.emit(f"call i64 @{callee.name}({told})", name, I64, run)
            return
        normal, pad, thrown = self.label(), self.label(), self.new()
        self.lines.append(
            f"  {name} = invoke i64 @{callee.name}({told}) to label %{normal} unwind label %{pad}"
        )
        line = self.block.end = len(self.lines)
        self.block.to = [normal, pad]

        def leads(env: Env) -> str:
            try:
                env[name] = run(env)
            except Thrown as found:
                env[thrown] = found.number
                return pad
            return normal

        self.block.leads = leads
        before = dict(self.values)
        self.begin(pad)
        caught = self.landed(thrown)
        if not caught:
            self.lines.append(f"  resume {{ ptr, i32 }} {thrown}")
            self.block.end, self.block.leads = len(self.lines), lambda env: _raise(env[thrown])
        last = self.block
        self.values = dict(before)
        self.begin(normal)
        self.block.given = line, name, lambda env: env[name]
        self.values[name] = self.types[name] = I64
        if caught:
            join, met = self.label(), self.new()
            last_end = self.lines.pop(last.end - 1)  # its place was kept
            self.lines.insert(last.end - 1, last_end.replace("%?", f"%{join}"))
            last.to, last.leads = [join], lambda env: join
            self.jump(join)
            self.values = before
            self.begin(join)
            ways = f"[ {name}, %{normal} ], [ {caught}, %{last.label} ]"
            choose: dict[str, Run] = {
                normal: lambda env: env[name], last.label: lambda env: env[caught],
            }  # fmt: skip
            self.phi(met, I64, ways, choose)

    def landed(self, thrown: str) -> str:
        """Clean up, or catch: the name of the number that was caught, "" where it is thrown on."""
        catches = self.throws and self.rng.random() < 0.6
        how = "catch ptr null" if catches else "cleanup"
        self.emit(f"landingpad {{ ptr, i32 }} {how}", thrown, None, lambda env: env[thrown])
        if catches:
            pointer, begun, number = self.new("p"), self.new("p"), self.new()
            self.emit(f"extractvalue {{ ptr, i32 }} {thrown}, 0", pointer, None, lambda env: [])
            self.emit(f"call ptr @__cxa_begin_catch(ptr {pointer})", begun, None, lambda env: [])
            self.emit(f"load i64, ptr {begun}", number, I64, lambda env: env[thrown])
            self.emit("call void @__cxa_end_catch()", "", None, lambda env: None)
        for _ in range(self.rng.randrange(3) if self.throws else 0):
            self.rng.choice((self.binary, self.compare, self.convert, self.floats, self.memory))()
        if not catches:
            return ""
        self.lines.append("  br label %?")
        self.block.end = len(self.lines)
        return number

    def throw(self) -> None:
        """Throw, sometimes."""
        type = integer(self.rng.choice((3, 8)))
        name, which, few = self.new(), self.new(), self.rng.randrange(2, 4)
        text, read = self.operand(type)
        self.emit(f"and {type} {text}, 3", name, type, lambda env: read(env) & 3)
        self.emit(f"icmp ult {type} {name}, {signed(few, type.bits)}", which, BIT,
                  lambda env: int(env[name] < few))  # fmt: skip
        stays, goes = self.label(), self.label()
        self.lines.append(f"  br i1 {which}, label %{stays}, label %{goes}")
        self.block.end, self.block.to = len(self.lines), [stays, goes]
        self.block.leads = lambda env: stays if env[which] else goes
        before, pointer = dict(self.values), self.new("p")
        number, value = self.operand(I64)
        self.begin(goes)
        self.emit("call ptr @__cxa_allocate_exception(i64 8)", pointer, None, lambda env: [])
        self.emit(f"store i64 {number}, ptr {pointer}", "", None, lambda env: None)
        self.emit(f"call void @__cxa_throw(ptr {pointer}, ptr @_ZTIl, ptr null)", "", None,
                  lambda env: _raise(value(env)))  # fmt: skip
        self.lines.append("  unreachable")
        self.block.end = len(self.lines)
        self.values = before
        self.begin(stays)


def _raise(number: int) -> None:
    raise Thrown(number)


def _truth(text: str) -> str:
    return {"0": "false", "-1": "true"}.get(text, text)
