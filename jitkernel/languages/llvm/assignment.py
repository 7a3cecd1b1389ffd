"""`@name = expression`: what it stores, and where.  Start from `assign`."""

from __future__ import annotations

from jitkernel.ir.expressions import Aggregate, Expr, Number, Text, Word, complaint
from jitkernel.ir.names import quote_name
from jitkernel.languages.language import Host
from jitkernel.languages.llvm.evaluate import evaluate
from jitkernel.record import record
from jitkernel.values.value import TypedValue

#: ends the definition of a global that a statement makes: its value is stored, and not in the text
ASSIGNED = " ; assigned"


@record
class Assignment:
    """`@name = value`, checked: bytes to store at `address`, or (None) a global to define."""

    name: str
    value: TypedValue
    address: int | None
    align: int


def assign(name: str, expr: Expr, host: Host, source: str = "") -> Assignment:
    """Evaluate `@name = expr`; nothing is stored yet."""
    known = host.variable(name)
    shown = "@" + quote_name(name)
    if known is not None:
        type, address, constant = known
        if constant:
            raise complaint(source, expr.at, f"{shown} is a constant and cannot be set")
        value = evaluate(expr, type, host, source, f"{shown} is {type}")
        return Assignment(name, value, address, host.layout(type).align)
    if host.signature(name) is not None:
        words = f"{shown} is a function and cannot be set"
        raise complaint(source, expr.at, words, "define it again to replace it")
    if expr.type is None and (hint := _with_type(shown, expr)):
        words = f"{shown} is not known yet, so its value needs a type"
        raise complaint(source, expr.at, words, hint)
    value = evaluate(expr, None, host, source)
    if value.is_void:
        words = f"the call returns nothing, so {shown} would have no value"
        raise complaint(source, expr.at, words)
    return Assignment(name, value, None, host.layout(value.type).align)


def _with_type(shown: str, expr: Expr) -> str:
    """A hint at how the assignment may be written; "" where the value says enough of its type to
    make a global of it."""
    match expr:
        case Text(terminated=True):
            size = len(expr.data) + 1
            return f'write `{shown} = ptr "..."`, or `[{size} x i8] "..."` for the bytes themselves'
        case Number():
            text = f"double {expr.text}" if expr.is_fraction else f"i64 {expr.text}"
        case Word():
            types = {"null": "ptr", "zeroinitializer": "i64"}
            text = f"{types.get(expr.text, 'i1')} {expr.text}"
        case Aggregate():
            text = "i64 0"
        case _:
            return ""
    return f"for example `{shown} = {text}`"
