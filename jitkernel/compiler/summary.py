"""What a parsed module offers and asks for.  Worker only.  Start from `summarise`.

Also makes exports replaceable while it walks over them, since that is the same walk.  A one-line
cell is summarised in some 15 us: whatever few cells need is looked for in the text first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitkernel.compiler import binding
from jitkernel.compiler.binding import EXTERNAL, INTERNAL, PRIVATE, WEAK, WEAK_ODR, lib
from jitkernel.compiler.records import FunctionInfo, Request, VariableInfo
from jitkernel.ir.calls import find_calls, suspects
from jitkernel.ir.expansion import Expansion
from jitkernel.ir.module import entities, global_values, may_define_types, said_arrays
from jitkernel.ir.names import can_be_held, locals_in
from jitkernel.ir.signature import abi_features, headers, may_matter
from jitkernel.ir.text import squeeze, type_at
from jitkernel.reach import reached

# LLVMLinkage of llvm-c/Core.h
LINKAGES = {
    0: "external",
    1: "available_externally",
    2: "linkonce",
    3: "linkonce_odr",
    4: "linkonce_odr",
    5: "weak",
    6: "weak_odr",
    7: "appending",
    8: "internal",
    9: "private",
    10: "external",
    11: "external",
    12: "extern_weak",
    14: "common",
}

_NOINLINE = binding.attribute_kind("noinline")


def summarise(
    module: int,
    request: Request,
    aliases: Iterable[FunctionInfo | VariableInfo],
    host_features: str,
) -> list[Any]:
    """The lists that `Summary.of` reads; see there.  Changes linkages and attributes for later
    cells, which may define again what a module defines that is not closed.

    The module's context has seen no other: LLVM would call a second `%pt` there `%pt.0`.
    """
    source = request.source
    functions, mentions = _functions(module, request, host_features)
    variables: list[list[Any]] = []
    if "@" in source and ("global" in source or "constant" in source):
        mentions |= _variables(module, request, variables)
    for alias in aliases:
        (functions if isinstance(alias, FunctionInfo) else variables).append([*alias])
        mentions |= "%" in alias.type
    types = _types(module, functions, variables) if mentions else {}
    if may_define_types(source):
        _add_defined(module, source, types)
    calls: list[list[Any]] = []
    if "call" in source or "invoke" in source:
        calls = _calls(module, source, functions, types, request.first_line)
    return [functions, variables, types, calls]


def _functions(module: int, request: Request, host_features: str) -> tuple[list[list[Any]], bool]:
    """Rows of the module's functions, and whether some type names a struct."""
    rows: list[list[Any]] = []
    source, weaken, nobuiltin = request.source, not request.options.closed, request.nobuiltin
    written = headers(source) if may_matter(source) else {}
    assembly = " asm " in source
    mentions = False
    iterator = lib.ModuleFunctionsIter(module)
    step, declared, linkage_of = lib.FunctionsIterNext, lib.IsDeclaration, lib.GetLinkage
    name_of, type_of = lib.GetValueName, lib.GlobalGetValueType
    while function := step(iterator):
        raw: bytes = name_of(function).removeprefix(b"\x01")
        if raw.startswith(b"llvm."):
            continue
        name = raw.decode("utf-8", "surrogateescape")
        defined = not declared(function)
        linkage = linkage_of(function)
        type_text = binding.print_type(type_of(function))
        convention = attributes = features = ""
        if written:
            convention, attributes = written.get(name) or _printed(function)
        if "<" in type_text or "half" in type_text or "bfloat" in type_text:
            features = abi_features(type_text, binding.attributes(function), host_features)
        if "%" in type_text or "%" in attributes:
            mentions = True
        rows.append([name, defined, LINKAGES[linkage], type_text, convention, attributes, features])
        if defined and linkage == EXTERNAL:
            lib.SetVisibility(function, binding.PROTECTED)
            if weaken:
                lib.SetLinkage(function, _replaceable(name, request))
                if assembly and _has_labels(function):
                    lib.AddFunctionAttr(function, _NOINLINE)
            lib.AddFunctionAttr(function, binding.NOBUILTIN)
        elif name in nobuiltin:
            lib.AddFunctionAttr(function, binding.NOBUILTIN)
    lib.DisposeFunctionsIter(iterator)
    return rows, mentions


def _has_labels(function: int) -> bool:
    """True if a function has inline assembly with a label, which an assembler takes once."""
    from jitkernel.ir.instructions import has_labelled_assembly  # few cells have assembly

    return has_labelled_assembly(binding.print_value(function))


def _printed(function: int) -> tuple[str, str]:
    """Convention and attributes of a function whose header was not found in the text."""
    for found in headers(binding.print_value(function)).values():
        return found
    return "", ""


def _replaceable(name: str, request: Request) -> int:
    """The linkage of what may be defined again: LLVM does not look into it, or it looks and says
    so, and derives nothing more from it (`weak_odr`, LLVM Language Reference, Linkage Types)."""
    return WEAK_ODR if request.options.inline and can_be_held(name) else WEAK


def _variables(module: int, request: Request, rows: list[list[Any]]) -> bool:
    """Add the module's variables to `rows`; whether some type names a struct."""
    source, weaken = request.source, not request.options.closed
    defined = {found.name: found for found in global_values(source)}
    said = said_arrays(source)
    mentions = False
    for variable in binding.variables(module):
        name = binding.name_of(variable)
        linkage = lib.GetLinkage(variable)
        if name.startswith("llvm."):
            continue
        found = defined.get(name) or next(global_values(binding.print_value(variable)), None)
        of_thread = found is not None and "thread_local" in found.words
        if linkage == EXTERNAL and not lib.IsDeclaration(variable):
            if weaken:
                lib.SetLinkage(variable, _replaceable(name, request))
            if not of_thread:
                lib.SetVisibility(variable, binding.PROTECTED)
        elif linkage == PRIVATE and request.options.inline:  # bodies that are lent name its place
            lib.SetLinkage(variable, INTERNAL)
        type_text = binding.print_type(lib.GlobalGetValueType(variable))
        if type_text.startswith("%"):
            type_text = type_text.partition(" = type ")[0]
        elif "<{" in type_text:
            type_text = said.get(name, type_text)
        rows.append(
            [
                name,
                not lib.IsDeclaration(variable),
                LINKAGES[linkage],
                type_text,
                found is not None and found.kind == "constant",
                of_thread,
            ]
        )
        mentions = mentions or "%" in type_text
    return mentions


def _types(module: int, functions: list[list[Any]], variables: list[list[Any]]) -> dict[str, str]:
    """The bodies of the structs that these rows name, at any depth."""
    types: dict[str, str] = {}

    def leads(name: str) -> Iterable[str]:
        types[name] = _body(module, name)
        return sorted(locals_in(types[name]))

    texts = [row[3] + row[5] for row in functions] + [row[3] for row in variables]
    reached(sorted(locals_in("\n".join(texts))), leads)
    return types


def _add_defined(module: int, source: str, types: dict[str, str]) -> None:
    """Add the named types that the text defines, whatever mentions them."""
    for found in entities(source, "type"):
        name = found.name
        if name in types:
            continue
        body = type_at(source, found.value)
        if squeeze(body[:2] if body[:1] == "{" else body).startswith(("{", "<{", "opaque")):
            types[name] = _body(module, name)
        elif body:  # another name for what is no struct
            types[name] = " ".join(body.split())


def _body(module: int, name: str) -> str:
    """The body of an identified struct, "opaque" for one that has none."""
    if name.startswith("type 0x"):  # one without a name: LLVM prints where it stands
        reference: int | None = int(name[5:], 16)
    else:
        reference = lib.GetNamedStructType(module, name.encode("utf-8", "surrogateescape"))
    if not reference:
        return "opaque"
    return binding.print_type(reference).partition(" = type ")[2] or "opaque"


def _calls(
    module: int,
    source: str,
    functions: list[list[Any]],
    types: dict[str, str],
    first_line: int,
) -> list[list[Any]]:
    """Rows of the calls that have another signature than their callee."""
    signatures = {row[0]: (row[3], row[4]) for row in functions}

    def body(name: str) -> str:
        if name not in types and name.isdigit():  # one without a name: LLVM cannot be asked
            return next((t.rest for t in entities(source, "type") if t.spelled == name), "opaque")
        return types[name] if name in types else _body(module, name)

    rows, expanded = [], Expansion(body, squeeze)
    for call in suspects(find_calls(source), signatures):
        expected, convention = signatures[call.callee]
        actual = _as_printed(call.type)
        same = expanded(actual) == expanded(expected)
        if same and call.convention == convention:
            continue
        if call.convention != convention:
            actual = f"{call.convention} {actual}".strip()
        line = source.count("\n", 0, call.offset) + 2 - first_line
        rows.append([call.callee, actual, max(line, 0)])
    return rows


def _as_printed(type_text: str) -> str:
    """A type as LLVM writes it, whatever the blanks in it; `i32*` is a ptr."""
    from jitkernel.ir.types import TypeSyntaxError, parse_type  # seldom needed

    try:
        return str(parse_type(type_text))
    except TypeSyntaxError:
        return type_text
