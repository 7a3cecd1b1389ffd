"""From Kaleidoscope's syntax tree to LLVM IR.  Start from `generate`.

`llvmlite.ir` builds the text of a module in plain Python; LLVM itself is not loaded here.  Every
value is a `double`.  What can be assigned to is an `alloca`, which the optimiser (`mem2reg`) turns
into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from llvmlite import ir

from jitkernel.errors import CompileError
from jitkernel.languages.kaleidoscope.syntax import (
    Assign,
    At,
    BuiltIn,
    Call,
    Choice,
    Expression,
    Item,
    Loop,
    Number,
    Prototype,
    Scope,
    Variable,
)

__all__ = ["PRECEDENCE", "SUPPLIED", "Complain", "Find", "generate"]

DOUBLE, I32 = ir.DoubleType(), ir.IntType(32)
ZERO = ir.Constant(DOUBLE, 0.0)
# The constant that holds the precedence of `binary|` is `binary|.precedence`.
PRECEDENCE = ".precedence"
# What the tutorial's C++ program offers to its language: names, and the format each prints with.
SUPPLIED = {"putchard": "%c", "printd": "%f\n"}

# The number of parameters of a function that is not the module's own, None where nobody knows it.
# Raises CompileError for one that cannot be called.
Find: TypeAlias = Callable[[str, At], int | None]
Complain: TypeAlias = Callable[[At, str, str], CompileError]


def generate(
    definitions: Iterable[Item], known: Mapping[str, int], find: Find, complain: Complain,
    entry: str = "",
) -> str:  # fmt: skip
    """The text of a module that defines these items; an expression becomes the function `entry`.

    `known` are the numbers of parameters of the functions that the whole cell defines or declares.
    Raises what `complain` makes of a mistake.
    """
    module = ir.Module()
    module.triple = ""  # the session's own
    build = _Module(module, known, find, complain)
    for item in definitions:
        build.item(item, entry)
    return str(module)


class _Module:
    """Functions by name, and where names lead that are not the module's."""

    def __init__(
        self, module: ir.Module, known: Mapping[str, int], find: Find, complain: Complain
    ):
        self.module, self.known, self.find, self.complain = module, known, find, complain

    def item(self, item: Item, entry: str) -> None:
        prototype = item.prototype or Prototype(item.at, entry, ())
        function = self.declare(prototype.name, len(prototype.parameters))
        if item.body is None:
            return
        for argument, name in zip(function.args, prototype.parameters, strict=True):
            argument.name = name
        _Function(self, function).define(item.at, item.body)
        if prototype.precedence:
            precedence = ir.GlobalVariable(self.module, I32, prototype.name + PRECEDENCE)
            precedence.global_constant = True
            precedence.initializer = ir.Constant(I32, prototype.precedence)

    def declare(self, name: str, parameters: int) -> ir.Function:
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(DOUBLE, [DOUBLE] * parameters), name)
        return found

    def callee(self, call: Call) -> ir.Function:
        """The function that a call calls, its arguments counted."""
        wanted = self.known.get(call.name)
        if wanted is None:
            wanted = self.find(call.name, call.at)
        if wanted is None and call.name in SUPPLIED:
            wanted = 1
            if call.name not in self.module.globals:
                self.supply(call.name)
        what = call.name.removeprefix("unary").removeprefix("binary")
        if wanted is None:
            if what != call.name:
                raise self.complain(
                    call.at, f"nobody defines the operator `{what}`", f"def unary{what}(x) ..."
                )
            raise self.complain(call.at, f"there is no function `{what}`", call.name)
        given = len(call.arguments)
        if given != wanted:
            plural, verb = "s" * (wanted != 1), "is" if given == 1 else "are"
            words = f"`{what}` takes {wanted} argument{plural}, and {given} {verb} given"
            raise self.complain(call.at, words, "")
        return self.declare(call.name, wanted)

    def supply(self, name: str) -> None:
        """Define `putchard` or `printd` for this module alone: a `printf` of its argument."""
        function = self.declare(name, 1)
        function.linkage = "internal"
        text = bytearray(SUPPLIED[name].encode() + b"\0")
        form = ir.Constant(ir.ArrayType(ir.IntType(8), len(text)), text)
        string = ir.GlobalVariable(self.module, form.type, name + ".format")
        string.linkage, string.global_constant, string.initializer = "internal", True, form
        printf = self.module.globals.get("printf") or ir.Function(
            self.module, ir.FunctionType(I32, [ir.PointerType()], var_arg=True), "printf"
        )
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        value = function.args[0]
        if name == "putchard":
            value = builder.fptosi(value, I32)
        builder.call(printf, [string, value])
        builder.ret(ZERO)


class _Function:
    """One function's body.  `names` leads from variables in scope to their places."""

    def __init__(self, module: _Module, function: ir.Function):
        self.module, self.function = module, function
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.names: dict[str, ir.AllocaInstr] = {}
        self.line = 0

    def define(self, at: At, body: Expression) -> None:
        self.mark(at)
        for argument in self.function.args:
            self.names[argument.name] = self.place(argument.name, argument)
        self.builder.ret(self.value(body))

    def mark(self, at: At) -> None:
        """Say in the IR which line of the cell what follows comes from."""
        if at.line != self.line:
            self.line = at.line
            self.builder.comment(f"line {at.line}")

    def place(self, name: str, value: ir.Value) -> ir.AllocaInstr:
        """A variable, made in the entry block, where the optimiser looks for them."""
        with self.builder.goto_entry_block():
            place = self.builder.alloca(DOUBLE, name=name)
        self.builder.store(value, place)
        return place

    @contextmanager  # type: ignore[arg-type]
    def bound(self, name: str, place: ir.AllocaInstr):  # type: ignore[no-untyped-def]
        """While it lasts, `name` means `place`."""
        before = dict(self.names)
        self.names[name] = place
        yield
        self.names = before

    def variable(self, at: At, name: str) -> ir.AllocaInstr:
        found = self.names.get(name)
        if found is None:
            raise self.module.complain(at, f"there is no variable `{name}`", "")
        return found

    def value(self, node: Expression) -> ir.Value:
        """Adds the instructions that compute an expression; its value."""
        builder = self.builder
        match node:
            case Number(_, value):
                return ir.Constant(DOUBLE, value)
            case Variable(at, name):
                return builder.load(self.variable(at, name), name=name, typ=DOUBLE)
            case Assign(at, name, value):
                result, place = self.value(value), self.variable(at, name)
                builder.store(result, place)
                return result
            case Call(at, _, arguments):
                values = [self.value(a) for a in arguments]
                self.mark(at)
                return builder.call(self.module.callee(node), values)
            case BuiltIn(at, operator, left, right):
                pair = self.value(left), self.value(right)
                self.mark(at)
                return self.built_in(operator, *pair)
            case Choice():
                return self.choice(node)
            case Loop():
                return self.loop(node)
            case Scope(_, bindings, body):
                before = dict(self.names)
                for name, initial in bindings:
                    self.names[name] = self.place(name, self.value(initial))
                result = self.value(body)
                self.names = before
                return result

    def built_in(self, operator: str, left: ir.Value, right: ir.Value) -> ir.Value:
        match operator:
            case "+":
                return self.builder.fadd(left, right)
            case "-":
                return self.builder.fsub(left, right)
            case "*":
                return self.builder.fmul(left, right)
            case _:
                less = self.builder.fcmp_unordered("<", left, right)
                return self.builder.uitofp(less, DOUBLE)

    def is_true(self, node: Expression) -> ir.Value:
        return self.builder.fcmp_ordered("!=", self.value(node), ZERO)

    def choice(self, node: Choice) -> ir.Value:
        """Two ways that meet again in a phi."""
        builder = self.builder
        then, otherwise, after = (
            self.function.append_basic_block(name) for name in ("then", "else", "after")
        )
        builder.cbranch(self.is_true(node.condition), then, otherwise)
        ways = []
        for block, branch in ((then, node.then), (otherwise, node.otherwise)):
            builder.position_at_end(block)
            self.line = 0
            value = self.value(branch)
            ways.append((value, builder.block))  # the branch may have ended in another block
            builder.branch(after)
        builder.position_at_end(after)
        phi = builder.phi(DOUBLE)
        for value, block in ways:
            phi.add_incoming(value, block)
        return phi

    def loop(self, node: Loop) -> ir.Value:
        """As in the tutorial: the body runs at least once, the condition is that of the variable
        before its step, and the whole is 0.0."""
        builder, before = self.builder, dict(self.names)
        place = self.place(node.name, self.value(node.start))
        self.names[node.name] = place
        body, after = (self.function.append_basic_block(name) for name in ("loop", "after"))
        builder.branch(body)
        builder.position_at_end(body)
        self.line = 0
        self.value(node.body)
        step, goes_on = self.value(node.step), self.is_true(node.condition)
        current = builder.load(place, name=node.name, typ=DOUBLE)
        builder.store(builder.fadd(current, step), place)
        builder.cbranch(goes_on, body, after)
        builder.position_at_end(after)
        self.line = 0
        self.names = before
        return ZERO
