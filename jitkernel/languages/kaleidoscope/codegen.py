"""From Kaleidoscope's syntax tree to LLVM IR.  Start from `generate`.

`llvmlite.ir` builds the text of a module in plain Python; LLVM itself is not loaded here.  Every
value is a `double`.  What can be assigned to is an `alloca`, which the optimiser (`mem2reg`) turns
into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from lark import Token
from lark.visitors import Interpreter
from llvmlite import ir

from jitkernel.errors import CompileError
from jitkernel.languages.kaleidoscope.syntax import Node, Prototype
from jitkernel.regex import regex

DOUBLE, I32 = ir.DoubleType(), ir.IntType(32)
ZERO, ONE = ir.FormattedConstant(DOUBLE, "0.0"), ir.FormattedConstant(DOUBLE, "1.0")
# The precedence of `binary|` is in the constant `binary|.precedence`, for later cells.
PRECEDENCE = ".precedence"
# What the tutorial's C++ program offers to its language, and the format each prints with.
SUPPLIED = {"putchard": "%c", "printd": "%f\n"}

# What `llvmlite` writes otherwise than LLVM: lines on the target, quotes around plain names, and
# what a pointer points to.
_HEADER = 'target datalayout = ""\n\n'
_QUOTED = regex(r'([@%])"([A-Za-z$._][\w$.]*)"')
_POINTER = regex(r"(?:double|\[\d+ x i8\])\*")

# How many parameters a function has that is not the cell's own, None where nobody knows it.
Find: TypeAlias = Callable[[str, Token], int | None]
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
    text = str(module.module).partition(_HEADER)[2]
    return _POINTER.sub("ptr", _QUOTED.sub(r"\1\2", text))


class _Module:
    """One module, its functions by name."""

    def __init__(self, own: Mapping[str, int], find: Find, complain: Complain):
        self.module = ir.Module()
        self.own, self.find, self.complain = own, find, complain

    def function(self, name: str, parameters: int) -> ir.Function:
        """The function of that name, declared where it is not there yet."""
        found = self.module.globals.get(name)
        type = ir.FunctionType(DOUBLE, [DOUBLE] * parameters)
        return found or ir.Function(self.module, type, name)

    def define(self, head: Prototype, body: Node) -> None:
        function = _Function(self, self.function(head.name, len(head.parameters)), head.parameters)
        function.mark(head.at)
        function.builder.ret(function.visit(body))
        if head.precedence:
            constant = ir.GlobalVariable(self.module, I32, head.name + PRECEDENCE)
            constant.global_constant, constant.initializer = True, ir.Constant(I32, head.precedence)

    def callee(self, at: Token, name: str, given: int) -> ir.Function:
        """The function that a call with so many arguments calls."""
        shown = name.removeprefix("unary").removeprefix("binary") if name != at else name
        count = self.own[name] if name in self.own else self.find(name, at)
        if count is None and name in SUPPLIED:
            count = 1
            self.supply(name)
        if count is None:
            what = "function" if shown == name else "operator"
            hint = "" if shown == name else f"def {name}(x) ..."
            raise self.complain(at, f"there is no {what} `{shown}`", hint)
        if given != count:
            words = f"`{shown}` takes {count} argument{'s' * (count != 1)}, and {given} "
            raise self.complain(at, words + ("is given" if given == 1 else "are given"))
        return self.function(name, count)

    def supply(self, name: str) -> None:
        """Define `putchard` or `printd`, for this module alone: a `printf` of its argument."""
        if name in self.module.globals:
            return
        function = self.function(name, 1)
        function.linkage = "internal"
        text = bytearray(SUPPLIED[name].encode() + b"\0")
        form = ir.Constant(ir.ArrayType(ir.IntType(8), len(text)), text)
        string = ir.GlobalVariable(self.module, form.type, name + ".format")
        string.linkage, string.global_constant, string.initializer = "internal", True, form
        type = ir.FunctionType(I32, [ir.PointerType()], var_arg=True)
        printf = self.module.globals.get("printf") or ir.Function(self.module, type, "printf")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        (value,) = function.args
        builder.call(printf, [string, builder.fptosi(value, I32) if name == "putchard" else value])
        builder.ret(ZERO)


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
            if name in self.module.own or self.module.find(name, name) is not None:
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
        values = [self.visit(a) for a in arguments]
        self.mark(at)
        return self.builder.call(self.module.callee(at, name, len(values)), values)

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
