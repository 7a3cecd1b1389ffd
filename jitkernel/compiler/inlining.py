"""Bodies and values that LLVM makes part of other code, and what the object says of them.  Worker
only.  Start from `lend` and `Watch`.

LLVM's inliner tells each body that it copies (`-pass-remarks=inline`).  An object says which bodies
and values of symbols it holds, though it may never refer to them, by relocations without a field
(R_X86_64_NONE, psABI 4.4.1) in a section that is not loaded, `HELD`: who defines one of those
symbols again must have the object made anew.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from jitkernel.compiler import binding
from jitkernel.compiler.binding import Machine, lib
from jitkernel.compiler.prepare import prepare
from jitkernel.compiler.records import Lent, Request
from jitkernel.elf.constants import HELD
from jitkernel.ir.names import can_be_held
from jitkernel.reach import reached
from jitkernel.regex import regex

_REMARK = regex(r"remark: .*?'(.*)' inlined into '(.*)' with \(.*")
_STDERR = 2
_MOST = 1 << 20  # bytes of remarks that are read
_KEPT = 8 << 20  # bytes of bitcode
_NULL_IS_VALID = binding.attribute_kind("null_pointer_is_valid")

binding.set_option("-pass-remarks=inline")


# -- bodies that are lent --------------------------------------------------------------------------


class Unknown(Exception):
    """The text of a body is not here."""


class _Known:
    """Bodies that were lent, as bitcode, by key; the longest unused go first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def get(self, lent: Lent, request: Request, target: Machine) -> bytes:
        """The bitcode of a body.  Raises Unknown, LLVMError, CompileError."""
        found = self._known.get(lent.key)
        if found is not None:
            self._known.move_to_end(lent.key)
            return found
        if not lent.text:
            raise Unknown
        own = Request(lent.text, request.options, lent.name)
        with binding.parsed(prepare(own, target).text) as module:
            for function in binding.functions(module):
                name = binding.name_of(function)
                if not lib.IsDeclaration(function) or name in lent.nobuiltin:
                    lib.AddFunctionAttr(function, binding.NOBUILTIN)
            found = self._known[lent.key] = binding.bitcode(module)
        self._size += len(found)
        while self._size > _KEPT and len(self._known) > 1:
            self._size -= len(self._known.popitem(last=False)[1])
        return found


_known = _Known()


def lend(module: int, context: int, request: Request, target: Machine) -> list[str]:
    """Let a module look into the bodies that it may use; it takes those that it needs.  The names
    of those that it holds whatever becomes of it.  Raises Unknown, LLVMError, CompileError."""
    bodies = [_known.get(lent, request, target) for lent in request.bodies]
    if any(lent.null_is_valid for lent in request.bodies):
        # LLVM inlines no function with that attribute into one without it.
        for function in binding.functions(module):
            if not lib.IsDeclaration(function):
                lib.AddFunctionAttr(function, _NULL_IS_VALID)
    for data in bodies:
        binding.link(module, binding.parse_bitcode(context, data))
    binding.verify(module)
    telling = {lent.name for lent in request.bodies if lent.telling}
    there = map(binding.name_of, binding.definitions(module)) if telling else ()
    return sorted(telling.intersection(there))


def bring_near(module: int, names: Container[str]) -> None:
    """Let code use the addresses of symbols of others as those of its own module: without a table
    of addresses between (LLVM Language Reference, Visibility Styles, Runtime Preemption)."""
    for value in (*binding.functions(module), *binding.variables(module)):
        if lib.GetLinkage(value) in (binding.EXTERNAL, binding.AVAILABLE):
            if binding.name_of(value) in names:
                lib.SetVisibility(value, binding.PROTECTED)


# -- what was taken --------------------------------------------------------------------------------


class Watch:
    """LLVM's remarks from now on."""

    def __init__(self) -> None:
        self._begin = _position()

    def inlined(self) -> list[tuple[str, str]] | None:
        """Pairs of functions, callee and caller, one inlined into the other since then, None where
        that cannot be told; the remarks are taken out of what LLVM wrote."""
        begin, end = self._begin, _position()
        if begin < 0 or end < begin:
            return None
        if end == begin:
            return []
        raw = os.pread(_STDERR, min(end - begin, _MOST), begin)
        lines = raw.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        others = [line for line in lines if not line.startswith("remark: ")]
        os.lseek(_STDERR, begin, os.SEEK_SET)
        os.write(_STDERR, "".join(others).encode("utf-8", "surrogateescape"))
        found = [match.groups() for line in lines if (match := _REMARK.match(line))]
        if len(raw) < end - begin or len(found) + len(others) < len(lines):
            return None
        return [(callee, caller) for callee, caller in found]


def _position() -> int:
    """The bytes that were written to standard error so far, -1 where that cannot be told."""
    try:
        return os.lseek(_STDERR, 0, os.SEEK_CUR)
    except OSError:
        return -1


def held(
    inlined: Iterable[tuple[str, str]] | None, lent: Collection[str], seen: Collection[str]
) -> list[str]:
    """The symbols whose bodies a module's own code has in it, of those that others see: of all
    that were inlined, but for what only became part of a `lent` body that is not emitted."""
    if inlined is None:
        return sorted(seen)
    bodies: dict[str, list[str]] = {}
    for callee, caller in inlined:
        bodies.setdefault(caller, []).append(callee)
    first = (callee for caller in bodies.keys() - lent for callee in bodies[caller])
    return sorted(reached(first, lambda name: bodies.get(name, ())).keys() & seen)


def mark(module: int, context: int, prefix: bytes, names: Mapping[str, int]) -> None:
    """Let the object that a module becomes say that it holds these symbols, and which texts of
    them: their numbers are the addends, 0 for the module's own."""
    lines = [b".section %s,\\22\\22,@progbits" % HELD]
    for name, number in names.items():
        where = b"\\22%s\\22+%d" % (name.encode(), number)
        lines.append(b".reloc 0, BFD_RELOC_NONE, %s" % where)
    assemble(module, context, prefix, [*lines, b".text"])


def assemble(module: int, context: int, prefix: bytes, lines: Iterable[bytes]) -> None:
    """Let lines of assembly stand in front of the code that a module becomes."""
    text = b"".join(b'module asm "%s"\n' % line for line in lines)
    binding.link(module, binding.parse(context, prefix + text))


def names_held(request: Request, rows: Sequence[list[Any]], told: Watch) -> list[str]:
    """The symbols that the object of a module will hold, now that it is optimised; `rows` are its
    summary's functions and variables as they were before."""
    inlined, lent = told.inlined(), [lent.name for lent in request.bodies]
    functions, variables = (
        [row for row in some if row[1] and row[2] in ("external", "weak", "weak_odr")]
        for some in rows
    )
    if not rows[0] or not (lent or variables or functions):
        return []
    own = [] if request.options.closed else [row[0] for row in functions]
    # What the module defines for the linker alone has the name of what it is lent.
    apart = {*lent}.difference(row[0] for row in rows[0] if row[1])
    names = held(inlined, apart, {*own, *lent})
    if not request.options.closed:  # LLVM says nowhere which values it has made part of code
        names += [row[0] for row in variables if row[4]]
    return [name for name in dict.fromkeys(names) if can_be_held(name)]


def numbered(request: Request, names: Iterable[str]) -> dict[str, int]:
    """The numbers of the texts that an object holds of these symbols."""
    lent = {lent.name: lent.number for lent in request.bodies}
    return {name: lent.get(name, 0) for name in names}
