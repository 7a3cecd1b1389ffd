"""From Kaleidoscope's syntax tree to LLVM IR.  Start from `generate`.

`llvmlite.ir` builds the text of a module in plain Python; LLVM itself is not loaded here.  Every
value is a `double`.  What can be assigned to is an `alloca`, which the optimiser (`mem2reg`) turns
into registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from lark import Token
from lark.visitors import Interpreter
from llvmlite import ir

from jitkernel.errors import CompileError
from jitkernel.languages.kaleidoscope.syntax import HABITS, Node, Prototype
from jitkernel.regex import regex

DOUBLE = ir.DoubleType()
ZERO, ONE = ir.FormattedConstant(DOUBLE, "0.0"), ir.FormattedConstant(DOUBLE, "1.0")
# What the tutorial's C++ program offers to its language: each module that uses it has its own.
SUPPLIED = {
    "putchard": """declare i32 @putchar(i32)
define internal double @putchard(double %x) {
  %c = fptosi double %x to i32
  %n = call i32 @putchar(i32 %c)
  ret double 0.0
}""",
    "printd": """declare i32 @printf(ptr, ...)
@printd.format = internal constant [4 x i8] c"%f\\0A\\00"
define internal double @printd(double %x) {
  %n = call i32 (ptr, ...) @printf(ptr @printd.format, double %x)
  ret double 0.0
}""",
}

# What `llvmlite` writes otherwise than LLVM: lines on the target, and quotes around plain names.
_HEADER = 'target datalayout = ""\n\n'
_QUOTED = regex(r'([@%])"([A-Za-z$._][\w$.]*)"')
_EXPONENT = regex(r"e\d+|x[\da-fA-F]+")  # of `1e5` and `0x10`, which are two expressions

Find: TypeAlias = Callable[[str, Token], int | None]  # a known function's number of parameters
Complain: TypeAlias = Callable[..., CompileError]


def generate(
    items: Iterable[Node], own: Mapping[str, int], find: Find, complain: Complain, entry: str = ""
) -> str:
    """The text of a module with these items; an expression at the top becomes the function `entry`.

    `own` are the cell's functions with their numbers of parameters.  `complain(at, message, hint)`
    makes the CompileError to raise for a mistake.
    """
    module = _Module(own, find, complain)
    for item in items:
        match item.children:
            case [Prototype() as head]:
                module.function(head.name, len(head.parameters))
            case [Prototype() as head, body]:
                module.define(head, body)
            case [body]:
                at = Token("NAME", entry, line=body.meta.line, column=body.meta.column)
                module.define(Prototype(at, entry, ()), body)
    text = _QUOTED.sub(r"\1\2", str(module.module).partition(_HEADER)[2])
    for name in module.supplied:
        module_text = SUPPLIED[name].replace("\\", r"\\")
        text = re.sub(rf"declare double @{name}\(.*", module_text, text)
    return text.replace("double*", "ptr")


class _Module:
    """One module, its functions by name."""

    def __init__(self, own: Mapping[str, int], find: Find, complain: Complain):
        self.module = ir.Module()
        self.own, self.find, self.complain = own, find, complain
        self.supplied = set[str]()

    def function(self, name: str, parameters: int) -> ir.Function:
        """The function of that name, declared where it is not there yet."""
        found = self.module.globals.get(name)
        type = ir.FunctionType(DOUBLE, [DOUBLE] * parameters)
        return found or ir.Function(self.module, type, name)

    def define(self, head: Prototype, body: Node) -> None:
        function = _Function(self, self.function(head.name, len(head.parameters)), head.parameters)
        function.mark(head.at)
        function.builder.ret(function.visit(body))

    def callee(self, at: Token, name: str, given: int) -> ir.Function:
        """The function that a call with so many arguments calls."""
        count = self.own[name] if name in self.own else self.find(name, at)
        if count is None and name in SUPPLIED:
            count = 1
            self.supplied.add(name)
        if count is None:
            what, hint = ("function", "") if at == name else ("operator", f"def {name}(x) ...")
            raise self.complain(at, f"there is no {what} `{at}`", HABITS.get(name, hint))
        if given != count:
            words = f"`{at}` takes {count} argument{'s' * (count != 1)}, and {given} "
            raise self.complain(at, words + ("is given" if given == 1 else "are given"))
        return self.function(name, count)


class _Function(Interpreter[Token, ir.Value]):
    """One function's body: a method for each rule of the grammar adds the instructions for such a
    node and returns its value.  `names` leads from the variables in scope to their places."""

    def __init__(self, module: _Module, function: ir.Function, parameters: tuple[Token, ...]):
        super().__init__()
        self.module, self.function = module, function
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.names: dict[Any, ir.AllocaInstr] = {}
        self.line = 0
        for argument, name in zip(function.args, parameters, strict=True):
            argument.name = str(name)
            self.names[name] = self.place(name, argument)

    def mark(self, at: Any) -> None:
        """Say in the IR which line of the cell the next instructions come from."""
        if at.line != self.line:
            self.line = at.line
            self.builder.comment(f"line {at.line}")

    def begin(self, block: ir.Block) -> None:
        """Go on in another block, whose line is not that of the text above it."""
        self.builder.position_at_end(block)
        self.line = 0

    def place(self, name: Any, value: ir.Value) -> ir.AllocaInstr:
        """A variable's place, in the entry block, where the optimiser looks for them; until it has
        its value, a debugger sees 0 there."""
        later = self.builder.block is not self.function.entry_basic_block
        with self.builder.goto_entry_block():
            place = self.builder.alloca(DOUBLE, name=str(name))
            if later:
                self.builder.store(ZERO, place)
        self.builder.store(value, place)
        return place

    def find(self, name: Any) -> ir.AllocaInstr:
        if name not in self.names:
            hint = f"`var {name} = ... in ...` makes one, for what stands behind `in`"
            hint = HABITS.get("exponent" if _EXPONENT.fullmatch(name) else name, hint)
            if name in {**self.module.own, **SUPPLIED} or self.module.find(name, name) is not None:
                hint = f"it is a function: `{name}(...)` calls it"
            raise self.module.complain(name, f"there is no variable `{name}`", hint)
        return self.names[name]

    def number(self, node: Node) -> ir.Value:
        text = repr(value := float(str(node.children[0])))
        plain = "." in text and "e" not in text  # as LLVM writes decimals
        return ir.FormattedConstant(DOUBLE, text) if plain else ir.Constant(DOUBLE, value)

    def variable(self, node: Node) -> ir.Value:
        (name,) = node.children
        return self.builder.load(self.find(name), name=str(name), typ=DOUBLE)

    def call(self, node: Node) -> ir.Value:
        name, *arguments = [c for c in node.children if c is not None]
        return self.invoke(name, str(name), arguments)

    def operation(self, node: Node) -> ir.Value:
        operator, operand = node.children
        return self.invoke(operator, f"unary{operator}", [operand])

    def invoke(self, at: Any, name: str, arguments: list[Node]) -> ir.Value:
        callee = self.module.callee(at, name, len(arguments))
        values = [self.visit(a) for a in arguments]
        self.mark(at)
        return self.builder.call(callee, values)

    def binary(self, node: Node) -> ir.Value:
        operator, left, right = str(node.children[0]), *node.children[1:]
        builder, at = self.builder, node.children[0]
        if operator == "=":
            value = self.visit(right)
            builder.store(value, self.find(left.children[0]))
            return value
        if operator not in "+-*<":
            return self.invoke(at, f"binary{operator}", [left, right])
        pair = self.visit(left), self.visit(right)
        self.mark(at)
        if operator == "<":
            return builder.uitofp(builder.fcmp_unordered("<", *pair), DOUBLE)
        operations = {"+": builder.fadd, "-": builder.fsub, "*": builder.fmul}
        return operations[operator](*pair)

    def is_true(self, node: Node) -> ir.Value:
        return self.builder.fcmp_ordered("!=", self.visit(node), ZERO)

    def choice(self, node: Node) -> ir.Value:
        """Two ways, which meet again in a phi."""
        condition, *branches = node.children
        blocks = [self.function.append_basic_block(name) for name in ("then", "else", "after")]
        self.builder.cbranch(self.is_true(condition), blocks[0], blocks[1])
        ways = []
        for block, branch in zip(blocks, branches, strict=False):
            self.begin(block)
            ways.append((self.visit(branch), self.builder.block))  # it may end in another block
            self.builder.branch(blocks[2])
        self.begin(blocks[2])
        phi = self.builder.phi(DOUBLE)
        for value, block in ways:
            phi.add_incoming(value, block)
        return phi

    def loop(self, node: Node) -> ir.Value:
        """As in the tutorial: the body runs at least once, the condition sees the variable before
        its step, and the value is 0.0."""
        name, start, condition, step, body = node.children
        builder, before = self.builder, dict(self.names)
        place = self.names[name] = self.place(name, self.visit(start))
        block, after = (self.function.append_basic_block(name) for name in ("loop", "after"))
        builder.branch(block)
        self.begin(block)
        self.visit(body)
        by = self.visit(step) if step is not None else ONE
        goes_on = self.is_true(condition)
        builder.store(builder.fadd(builder.load(place, name=str(name), typ=DOUBLE), by), place)
        builder.cbranch(goes_on, block, after)
        self.begin(after)
        self.names = before
        return ZERO

    def scope(self, node: Node) -> ir.Value:
        *bindings, body = node.children
        before = dict(self.names)
        for binding in bindings:
            name, initial = binding.children
            value = self.visit(initial) if initial is not None else ZERO
            self.names[name] = self.place(name, value)
        value = self.visit(body)
        self.names = before
        return value
