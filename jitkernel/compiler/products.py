"""What else becomes of modules than an object for this machine.  Worker only.

`assembly` is for other machines, and nothing of it is linked or run here.  `internalised` makes
bitcode, which an exercise's reference is shipped as, and `disassembled` reads it; `printed` is what
a module is before or after its passes.  `merged` makes one module of several cells': what a cell
defines and another one defines by now gives way; all but what is exported becomes internal, and
what nobody uses then goes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jitkernel.compiler import binding, pipeline
from jitkernel.compiler.binding import LLVMError, Machine, lib
from jitkernel.compiler.forks import in_child
from jitkernel.compiler.prepare import prepare
from jitkernel.compiler.records import Options, Part, Request
from jitkernel.errors import CompileError
from jitkernel.ir.module import without_targets
from jitkernel.ir.names import written
from jitkernel.regex import regex

Answer = tuple[dict[str, Any], bytes]

_X86 = regex(r"(?:x86_64|i[3-6]86)\b")


@cache
def _machine(triple: str, cpu: str, opt_level: int) -> Machine:
    try:
        return Machine(opt_level, cpu, "pic", "default", triple)
    except RuntimeError as error:
        raise CompileError(f"no such machine: {triple}: {str(error).strip()}") from None


def assembly(request: Request, triple: str, cpu: str, syntax: str) -> Answer:
    """The assembly of a module for a machine; raises CompileError.

    `syntax` is `intel` or `att`, and of x86 alone; "" makes an object of it.
    """
    machine = triple, cpu, request.options.opt_level
    _machine(*machine)  # raises where there is none
    if syntax == "intel" and _X86.match(triple):
        if found := _in_intel(lambda: _made(request, machine, syntax)):
            return {}, found
    return {}, _made(request, machine, syntax)


def _in_intel(make: Callable[[], bytes]) -> bytes | None:
    """Call `make` in a forked process whose LLVM writes Intel's syntax: it takes that option
    once in its life, and then reads a module's own assembly so too.  None where that fails."""

    def work() -> bytes:
        binding.set_option("-x86-asm-syntax=intel")
        _machine.cache_clear()
        return make()

    with open(os.devnull, "wb") as nobody:  # it is tried again, and said then
        return in_child(work, nobody.fileno())


def _made(request: Request, machine: tuple[str, str, int], syntax: str) -> bytes:
    target = _machine(*machine)
    # The cell's own target is blanked out: ours stands in front of it.
    source = without_targets(request.source)[0]
    text = target.prefix + source.encode("utf-8", "surrogatepass")
    with pipeline.module_of(text, request) as module:
        for value in binding.definitions(module):
            # As a cell's: what may be redefined is not copied into its users.
            if lib.GetLinkage(value) == binding.EXTERNAL:
                lib.SetLinkage(value, binding.WEAK)
        target.dispose(target.optimise(module))
        return target.emit(module, assembly=bool(syntax))


def internalised(request: Request, keep: str, called: str) -> Answer:
    """Bitcode of the module with its function `keep` as `called`, and a variable `v` that is not
    its own as `called.v`; nothing else is seen from outside.  Raises CompileError where it is not
    defined or the source has errors."""
    target = pipeline.machine(Options())
    ready = prepare(request._replace(options=Options()), target)
    with pipeline.module_of(ready.text, request) as module:
        found, variables = 0, set(binding.variables(module))
        for value in binding.definitions(module):
            name = binding.name_of(value)
            if name == keep:
                found = value
            elif value in variables and lib.GetLinkage(value) == binding.EXTERNAL:
                lib.SetValueName(value, f"{called}.{name}".encode())
            else:
                lib.SetLinkage(value, binding.INTERNAL)
        if not found:
            raise CompileError(f"{written(keep)} is not defined here")
        lib.SetValueName(found, called.encode())
        return {}, binding.bitcode(module)


def disassembled(digits: str) -> Answer:
    """The text of a module that was shipped as bitcode.  Raises CompileError."""
    with binding.fresh_context() as context:
        try:
            module = binding.parse_bitcode(context, bytes.fromhex(digits))
        except LLVMError as error:
            raise CompileError(error.message) from None
        return {}, binding.print_module(module).encode()


def printed(request: Request, at: str, emitted: bool) -> Answer:
    """The module of a cell at a stage: as its passes find it (`optimise`) or leave it
    (`optimised`); then, if that is wanted too, the object that it becomes.  Raises CompileError."""
    texts: list[bytes] = []

    def watch(stage: str, module: int) -> None:
        if stage == at:
            texts.append(binding.print_module(module).encode())
            if not emitted:
                raise pipeline.Seen

    made = pipeline.watched(request, watch)
    return {"size": len(texts[0])}, texts[0] + made


def merged(
    parts: Sequence[Part], options: Options, seen: frozenset[str], forms: Sequence[str]
) -> Answer:
    """The parts as one module, in each of the `forms`: `object`, `text`, `bitcode`.

    `seen` are the names that can be seen from outside.  Text and bitcode are as before the passes.
    Raises CompileError.
    """
    target = pipeline.machine(options)
    try:
        with binding.fresh_context() as context:
            module = 0
            for part in parts:
                added = binding.parse(context, prepare(part.request, target).text)
                binding.verify(added)
                _own(added, part)
                module = _linked(module, added)
            for value in _values(module):
                if not lib.IsDeclaration(value) and lib.GetLinkage(value) != binding.AVAILABLE:
                    if binding.name_of(value) not in seen:
                        lib.SetLinkage(value, binding.INTERNAL)
            binding.verify(module)
            target.dispose(target.run_passes(module, ("globaldce",)))
            made = {}
            if "text" in forms:
                made["text"] = binding.print_module(module).encode("utf-8", "surrogateescape")
            if "bitcode" in forms:
                made["bitcode"] = binding.bitcode(module)
            if "object" in forms:
                target.dispose(target.optimise(module))
                source = "\n".join(part.request.source for part in parts)
                made["object"] = target.emit(pipeline.with_safepoints(target, module, source))
    except LLVMError as error:
        raise CompileError(f"the cells cannot be made one module: {error.message}") from None
    every = [made[form] for form in forms]
    return {"sizes": list(map(len, every))}, b"".join(every)


def _values(module: int) -> list[int]:
    """Functions and variables, without LLVM's own."""
    found = [*binding.functions(module), *binding.variables(module)]
    return [v for v in found if not lib.GetValueName(v).startswith(b"llvm.")]


def _own(module: int, part: Part) -> None:
    """Let a cell's definitions be its own, or give way to another cell's."""
    renamed = dict(part.renamed)
    functions = set(binding.functions(module))
    for value in _values(module):
        name, linkage = binding.name_of(value), lib.GetLinkage(value)
        defined = not lib.IsDeclaration(value)
        if value in functions and (
            name in part.request.nobuiltin or (defined and linkage == binding.EXTERNAL)
        ):
            lib.AddFunctionAttr(value, binding.NOBUILTIN)
        if not defined or linkage == binding.AVAILABLE:
            continue
        if linkage in (binding.INTERNAL, binding.PRIVATE):
            if name in renamed:
                lib.SetValueName(value, renamed[name].encode("utf-8", "surrogateescape"))
                lib.SetLinkage(value, binding.LINKONCE)
        else:
            lib.SetLinkage(value, binding.EXTERNAL if name in part.owned else binding.LINKONCE)


def _linked(module: int, added: int) -> int:
    """One module of two, both of which are gone."""
    if not module:
        return added
    binding.link(module, added)
    return module
