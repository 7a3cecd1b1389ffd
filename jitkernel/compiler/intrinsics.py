"""Which signature an intrinsic has, asked of LLVM.  Worker only.  Start from `signature`.

LLVM declares an intrinsic by itself where it is called, and refuses a call of another form than it
has; so the forms that a call line may mean are tried in turn.  Source: llvm.org/docs/LangRef.html,
"Intrinsic Functions".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

from jitkernel.compiler import binding
from jitkernel.compiler.binding import LLVMError, lib

_MOST = 4000  # forms that are tried; each takes LLVM about 30 us


def signature(
    name: str, arguments: Sequence[Sequence[str]], constants: Sequence[str], results: Sequence[str]
) -> tuple[dict[str, Any], bytes]:
    """The answer to one question: `found` are the result type and the argument types of the
    intrinsic `name`, or why there are none.

    `arguments` are the types that each argument may have, best first; `constants` the values of
    those that are literal numbers (some arguments have to be), "" for others; `results` the types
    that the result may have besides those of the arguments.
    """
    found: list[Any] | str = "signature"
    with binding.fresh_context() as context:
        for types in islice(product(*arguments), _MOST):
            for result in _results(types, results):
                try:
                    exact = _accepts(context, name, result, types, constants)
                except LLVMError as error:
                    if "unknown intrinsic" in error.message:
                        return {"found": "unknown"}, b""
                    continue
                if exact:
                    return {"found": [result, list(types)]}, b""
                if found == "signature":
                    found = [result, list(types)]
    if "." in name.removeprefix("llvm.") and _is_mangled(name):
        found = "signature"  # it says other types than the arguments have: LLVM would take those
    return {"found": found}, b""


def _is_mangled(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last[:1] in "ifpv" and last[1:2].isdigit()


def _results(types: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    seen = [*dict.fromkeys([*types, *others])]
    yield from seen
    yield from (f"{{ {t}, i1 }}" for t in dict.fromkeys(types))


def _accepts(
    context: int, name: str, result: str, types: Sequence[str], constants: Sequence[str]
) -> bool:
    """True if the name is exactly that form's; raises LLVMError where there is no such form."""
    parameters = ", ".join(f"{t} %a{i}" for i, t in enumerate(types))
    given = ", ".join(
        f"{t} {constant if constant and t[0] == 'i' else f'%a{i}'}"
        for i, (t, constant) in enumerate(zip(types, constants, strict=True))
    )
    text = f"define void @w({parameters}) {{\n  call {result} @{name}({given})\n  ret void\n}}\n"
    module = binding.parse(context, text.encode())
    try:
        binding.verify(module)
        return any(lib.GetValueName(f) == name.encode() for f in binding.functions(module))
    finally:
        lib.DisposeModule(module)
