"""Thread-local variables as the compiler's runtime library keeps them.  Start from `emulate`.

The session's linker has no thread-local storage of its own: a variable becomes a control block,
and its address what `__emutls_get_address` of libgcc_s says, one copy for each thread.

Source: gcc.gnu.org/onlinedocs/gccint/Emulated-TLS.html; llvm.org, `-emulated-tls`.
"""

from __future__ import annotations

import re

from jitkernel.ir.names import NAME
from jitkernel.ir.text import type_at
from jitkernel.languages.c.module import Entity, Module

__all__ = ["emulate"]

_VARIABLE = re.compile(
    rf"@{NAME} = (?P<words>.*?)\bthread_local(?:\([a-z]+\))?\s+(?:(?:local_)?unnamed_addr )?"
    r"(?:global|constant) (?P<rest>.*?)(?:, align (?P<align>\d+))?$"
)
_ADDRESS = re.compile(
    r"call (?:[\w()]+ )*ptr @llvm\.threadlocal\.address\.p0\(ptr (?:[\w()]+ )*(?:\d+ )?"
    rf"@({NAME})\)"
)
_GET = "__emutls_get_address"
_CONTROL = "{ i64, i64, ptr, ptr }"  # size, alignment, what the library keeps, first value
_NO_VALUE = ("zeroinitializer", "0", "null", "false", "")


def emulate(module: Module) -> None:
    """Give a module control blocks for its thread-local variables."""
    found = {
        name: match for name, entity in module.entities.items()
        if entity.kind == "variable" and " thread_local" in entity.text
        and (match := _VARIABLE.match(entity.text))
    }  # fmt: skip
    if not found:
        return
    for name, match in found.items():
        _replace(module, name, match)
    module.entities[_GET] = Entity("declaration", _GET, f"declare ptr @{_GET}(ptr)")
    for entity in module.entities.values():
        if entity.kind == "function" and "llvm.threadlocal.address" in entity.text:
            used = {n for n in _ADDRESS.findall(entity.text) if n in found}
            entity.text = _ADDRESS.sub(
                lambda m: f"call ptr @{_GET}(ptr @__emutls_v.{m[1]})", entity.text
            )
            blocks = {f"__emutls_v.{name}" for name in used}
            entity.symbols = (entity.symbols - used) | blocks | {_GET}


def _replace(module: Module, name: str, match: re.Match[str]) -> None:
    block, first = f"__emutls_v.{name}", f"__emutls_t.{name}"
    local = module.entities.pop(name).local
    if re.search(r"\bexternal\b", match["words"]):
        text = f"@{block} = external global {_CONTROL}, align 8"
        module.entities[block] = Entity("variable", block, text, external=True)
        return
    type = type_at(match["rest"])
    value = match["rest"][len(type) :].strip()
    align, template = match["align"] or "16", "null"
    if value not in _NO_VALUE:
        text = f"@{first} = internal constant {type} {value}, align {align}"
        symbols = frozenset(re.findall(rf"@({NAME})", value))
        module.entities[first] = Entity("variable", first, text, True, False, symbols)
        template = f"@{first}"
    size = f"ptrtoint (ptr getelementptr ({type}, ptr null, i32 1) to i64)"
    linkage = "internal " if local else ""
    module.entities[block] = Entity(
        "variable", block,
        f"@{block} = {linkage}global {_CONTROL} {{ i64 {size}, i64 {align}, ptr null, "
        f"ptr {template} }}, align 8",
        local, False, frozenset([first] if template != "null" else ()),
    )  # fmt: skip
