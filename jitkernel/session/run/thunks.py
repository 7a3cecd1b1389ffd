"""Thunks: `void (fn, args, ret)`, compiled once per signature, that call any function of it.

A thunk loads each argument from a struct at `args`, calls `fn` with the callee's whole signature
and stores the result at `ret`.  Start from `thunk_source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.ir.types import function_type
from jitkernel.session.program.signatures import Signature, attributes_of

__all__ = [
    "MAX_SCALARS",
    "arguments_type",
    "intrinsic_source",
    "thunk_source",
    "timer_source",
]

#: By-value aggregates of more scalars take LLVM seconds to compile.
MAX_SCALARS = 64


def arguments_type(types: tuple[str, ...]) -> str:
    """The struct a thunk reads its arguments from."""
    return "{ " + ", ".join(types) + " }" if types else "{}"


def thunk_source(name: str, signature: Signature, types: tuple[str, ...]) -> str:
    """IR of the thunk for a call of `signature` with arguments of `types` (more than parameters
    where it is variadic); all types without names."""
    call, loads = _call(signature, types)
    lines = [f"define void @{name}(ptr %fn, ptr %args, ptr %ret) {{", *loads]
    result = function_type(signature.type)
    if str(result.result) == "void":
        lines.append(f"  {call}")
    else:
        lines += [f"  %r = {call}", f"  store {result.result} %r, ptr %ret"]
    return "\n".join([*lines, "  ret void", "}", ""])


def intrinsic_source(name: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
    """IR of a thunk that calls an intrinsic, which has no address, with `arguments`: types, each
    with its constant or "" where the value comes from `args`."""
    types = [type for type, constant in arguments if not constant]
    struct = arguments_type(tuple(types))
    lines: list[str] = []
    given: list[str] = []
    for type, constant in arguments:
        if constant:
            given.append(f"{type} {constant}")
            continue
        at = len(lines) // 2
        lines.append(f"  %p{at} = getelementptr {struct}, ptr %args, i32 0, i32 {at}")
        lines.append(f"  %a{at} = load {type}, ptr %p{at}")
        given.append(f"{type} %a{at}")
    call = f"call {result} @{name}({', '.join(given)})"
    if result == "void":
        lines.append(f"  {call}")
    else:
        lines += [f"  %r = {call}", f"  store {result} %r, ptr %ret"]
    head = "define void @jk_thunk(ptr %fn, ptr %args, ptr %ret) {"
    return "\n".join([head, *lines, "  ret void", "}", ""])


def timer_source(name: str, signature: Signature, types: tuple[str, ...]) -> str:
    """IR of a thunk that calls `fn` as often as the `i64` before the arguments says and stores the
    nanoseconds that took (CLOCK_MONOTONIC) at `ret`."""
    call, loads = _call(signature, types, first=1, before="i64, ")
    result = function_type(signature.type)
    keep = ""
    if str(result.result) != "void":
        call = f"%r = {call}"
        # The result must look used, or the optimiser could drop a call it knows to be pure.
        keep = f"  store volatile {result.result} %r, ptr %keep\n"
    room = f"  %keep = alloca {result.result}\n" if keep else ""
    return f"""declare i32 @clock_gettime(i32, ptr)
define void @{name}(ptr %fn, ptr %args, ptr %ret) {{
entry:
  %t0 = alloca [2 x i64]
  %t1 = alloca [2 x i64]
{room}  %n = load i64, ptr %args
{chr(10).join(loads)}
  %c0 = call i32 @clock_gettime(i32 1, ptr %t0)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  {call}
{keep}  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  %c1 = call i32 @clock_gettime(i32 1, ptr %t1)
  %s0 = load i64, ptr %t0
  %s1 = load i64, ptr %t1
  %p0 = getelementptr i64, ptr %t0, i64 1
  %p1 = getelementptr i64, ptr %t1, i64 1
  %n0 = load i64, ptr %p0
  %n1 = load i64, ptr %p1
  %ds = sub i64 %s1, %s0
  %dn = sub i64 %n1, %n0
  %ns = mul i64 %ds, 1000000000
  %total = add i64 %ns, %dn
  store i64 %total, ptr %ret
  ret void
}}
"""


def _call(
    signature: Signature, types: tuple[str, ...], first: int = 0, before: str = ""
) -> tuple[str, list[str]]:
    """The call instruction's text and the lines that load its arguments."""
    function = function_type(signature.type)
    on_result, on_parameter = attributes_of(signature.attributes)
    struct = "{ " + before + ", ".join(types) + " }" if types else "{}"
    loads: list[str] = []
    arguments: list[str] = []
    for i, type in enumerate(types):
        loads.append(f"  %p{i + 10} = getelementptr {struct}, ptr %args, i32 0, i32 {i + first}")
        loads.append(f"  %a{i} = load {type}, ptr %p{i + 10}")
        attributes = on_parameter.get(i, "")
        arguments.append(f"{type} {attributes + ' ' if attributes else ''}%a{i}")
    words = ["call", signature.convention, on_result]
    if function.variadic:
        fixed = ", ".join([*map(str, function.parameters), "..."])
        words.append(f"{function.result} ({fixed})")
    else:
        words.append(str(function.result))
    words.append(f"%fn({', '.join(arguments)})")
    return " ".join(w for w in words if w), loads
