"""LLVM's functions as the worker calls them: llvmlite's library through ctypes.  Worker only.

Of llvmlite only its library is loaded.  Its Python classes take longer to import than a compile
takes, and in a compile as long as parsing a tiny cell.  Functions are called directly, with plain
addresses (`int`) for references.  Who makes an object disposes it.  Start from `Machine`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_longlong, c_size_t, c_uint, c_void_p
from functools import cache
from typing import Any

import llvmlite

from jitkernel.compiler.passes import SINGLE

__all__ = ["LLVM_VERSION", "LLVMError", "Machine", "lib", "set_option", "take"]

_FILE = os.path.join(llvmlite.__path__[0], "binding", "libllvmlite.so")
_REF = c_void_p
_OUT = POINTER(c_void_p)

# name: (result, arguments)
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "GetVersionInfo": (c_uint, ()),
    "SetCommandLine": (None, (c_char_p, c_char_p)),
    "ContextCreate": (_REF, ()),
    "ContextDispose": (None, (_REF,)),
    "ParseAssembly": (_REF, (_REF, c_char_p, _OUT)),
    "VerifyModule": (c_bool, (_REF, _OUT)),
    "DisposeModule": (None, (_REF,)),
    "DisposeString": (None, (_REF,)),
    "SetTarget": (None, (_REF, c_char_p)),
    "SetDataLayout": (None, (_REF, c_char_p)),
    "PrintModuleToString": (None, (_REF, _OUT)),
    "ParseBitcode": (_REF, (_REF, c_char_p, c_size_t, _OUT)),
    "WriteBitcodeToString": (None, (_REF, _OUT, POINTER(c_size_t))),
    # globals
    "ModuleFunctionsIter": (_REF, (_REF,)),
    "FunctionsIterNext": (_REF, (_REF,)),
    "DisposeFunctionsIter": (None, (_REF,)),
    "ModuleGlobalsIter": (_REF, (_REF,)),
    "GlobalsIterNext": (_REF, (_REF,)),
    "DisposeGlobalsIter": (None, (_REF,)),
    "GetNamedFunction": (_REF, (_REF, c_char_p)),
    "GetNamedStructType": (_REF, (_REF, c_char_p)),
    "GetValueName": (c_char_p, (_REF,)),
    "SetValueName": (None, (_REF, c_char_p)),
    "GetLinkage": (c_int, (_REF,)),
    "SetLinkage": (None, (_REF, c_int)),
    "IsDeclaration": (c_int, (_REF,)),
    "GlobalGetValueType": (_REF, (_REF,)),
    "PrintValueToString": (None, (_REF, _OUT)),
    "FunctionBlocksIter": (_REF, (_REF,)),
    "BlocksIterNext": (_REF, (_REF,)),
    "DisposeBlocksIter": (None, (_REF,)),
    "BlockInstructionsIter": (_REF, (_REF,)),
    "InstructionsIterNext": (_REF, (_REF,)),
    "DisposeInstructionsIter": (None, (_REF,)),
    "InstructionOperandsIter": (_REF, (_REF,)),
    "OperandsIterNext": (_REF, (_REF,)),
    "DisposeOperandsIter": (None, (_REF,)),
    "GetOpcodeName": (_REF, (_REF,)),
    "WriteCFG": (None, (_REF, _OUT, c_int)),
    "GetValueKind": (c_int, (_REF,)),
    "FunctionAttributesIter": (_REF, (_REF,)),
    "AttributeListIterNext": (_REF, (_REF,)),
    "DisposeAttributeListIter": (None, (_REF,)),
    "GetEnumAttributeKindForName": (c_uint, (c_char_p, c_size_t)),
    "AddFunctionAttr": (None, (_REF, c_uint)),
    # types
    "PrintType": (_REF, (_REF,)),
    "GetTypeName": (_REF, (_REF,)),
    "GetTypeKind": (c_int, (_REF,)),
    "GetTypeBitWidth": (c_longlong, (_REF,)),
    "GetTypeElementCount": (c_int, (_REF,)),
    "ElementIter": (_REF, (_REF,)),
    "ElementIterNext": (_REF, (_REF,)),
    "DisposeElementIter": (None, (_REF,)),
    "IsOpaqueStruct": (c_bool, (_REF,)),
    "CreateTargetData": (_REF, (c_char_p,)),
    "DisposeTargetData": (None, (_REF,)),
    "ABISizeOfType": (c_longlong, (_REF, _REF)),
    "ABIAlignmentOfType": (c_longlong, (_REF, _REF)),
    "OffsetOfElement": (c_longlong, (_REF, _REF, c_int)),
    # passes
    "CreatePipelineTuningOptions": (_REF, ()),
    "CreatePassBuilder": (_REF, (_REF, _REF)),
    "DisposePassBuilder": (None, (_REF,)),
    "buildPerModuleDefaultPipeline": (_REF, (_REF, c_int)),
    "RunNewModulePassManager": (None, (_REF, _REF, _REF)),
    "DisposeNewModulePassManger": (None, (_REF,)),
    "CreateNewModulePassManager": (_REF, ()),
    "PTOSetLoopInterleaving": (None, (_REF, c_bool)),
    "PTOSetLoopUnrolling": (None, (_REF, c_bool)),
    "PTOSetLoopVectorization": (None, (_REF, c_bool)),
    "PTOSetSLPVectorization": (None, (_REF, c_bool)),
    **{f"module_Add{name}Pass": (None, (_REF,)) for name in SINGLE.values()},
    # machines
    "InitializeNativeTarget": (None, ()),
    "InitializeNativeAsmPrinter": (None, ()),
    "InitializeNativeAsmParser": (None, ()),
    "InitializeAllTargetInfos": (None, ()),
    "InitializeAllTargets": (None, ()),
    "InitializeAllTargetMCs": (None, ()),
    "InitializeAllAsmPrinters": (None, ()),
    "GetDefaultTargetTriple": (None, (_OUT,)),
    "GetHostCPUName": (None, (_OUT,)),
    "GetHostCPUFeatures": (c_int, (_OUT,)),
    "GetTargetFromTriple": (_REF, (c_char_p, _OUT)),
    # target, triple, CPU, features, level, relocation model, code model, print?, for a JIT?, ABI
    "CreateTargetMachine": (
        _REF,
        (_REF, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "DisposeTargetMachine": (None, (_REF,)),
    "GetTargetMachineTriple": (None, (_REF, _OUT)),
    "CreateTargetMachineData": (_REF, (_REF,)),
    "CopyStringRepOfTargetData": (None, (_REF, _OUT)),
    # code
    "TargetMachineEmitToMemory": (_REF, (_REF, _REF, c_int, _OUT)),
    "GetBufferStart": (_REF, (_REF,)),
    "GetBufferSize": (c_size_t, (_REF,)),
    "DisposeMemoryBuffer": (None, (_REF,)),
}


@cache
def identity() -> tuple[str, str, str, str, str]:
    """The parts of `records.Identity`, of this process."""
    return (
        ".".join(map(str, LLVM_VERSION)),
        str(llvmlite.__version__),
        _told(lib.GetDefaultTargetTriple),
        _told(lib.GetHostCPUName),
        _host_features(),
    )


class _Library:
    """The functions above as attributes, without their prefix."""

    def __init__(self) -> None:
        handle = ctypes.CDLL(_FILE)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = handle[f"LLVMPY_{name}"]
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"LLVMPY_{name} has no prototype in {__name__}")


def _version() -> tuple[int, ...]:
    """LLVM's, which the library tells as one number: a byte for each part."""
    number = lib.GetVersionInfo()
    return tuple(number.to_bytes((number.bit_length() + 7) // 8, "big"))


lib = _Library()
lib.InitializeNativeTarget()
lib.InitializeNativeAsmPrinter()
lib.InitializeNativeAsmParser()  # inline and module asm
LLVM_VERSION = _version()


class LLVMError(Exception):
    """What LLVM refused, in its words: `stage` is "parse", "verify" or "emit"."""

    def __init__(self, stage: str, message: str):
        self.stage, self.message = stage, message
        super().__init__(message)


def set_option(*words: str) -> None:
    """Options of LLVM's command line: for the whole process, and for ever."""
    for word in words:
        lib.SetCommandLine(b"jitkernel", word.encode())


def take(address: int | None) -> str:
    """The text of a C string that LLVM handed over, which is freed."""
    if not address:
        return ""
    raw = ctypes.string_at(address)
    lib.DisposeString(address)
    return raw.decode("utf-8", "replace")


def _told(function: Any, *arguments: Any) -> str:
    """What a function writes to its last argument."""
    out = c_void_p()
    function(*arguments, byref(out))
    return take(out.value)


def _host_features() -> str:
    """What this machine's CPU has and has not, by name: `+avx,-avx512f`."""
    words = _told(lib.GetHostCPUFeatures).split(",")
    return ",".join(sorted(filter(None, words), key=lambda word: word[1:]))


def name_of(value: int) -> str:
    """A value's name, empty where it has none; bytes that are not UTF-8 as surrogates."""
    return str(lib.GetValueName(value).decode("utf-8", "surrogateescape"))


def draw(function: int) -> str:
    """The graph of a function's blocks in the language DOT, without their instructions."""
    return _told(lambda out: lib.WriteCFG(function, out, 0))


def print_value(value: int) -> str:
    """LLVM's text of a value; of a function, its whole body."""
    return _told(lib.PrintValueToString, value)


def print_module(module: int) -> str:
    """LLVM's text of a module."""
    return _told(lib.PrintModuleToString, module)


def print_type(type_: int) -> str:
    """LLVM's text of a type; of an identified struct, its definition."""
    return take(lib.PrintType(type_))


def opcode(instruction: int) -> str:
    """An instruction's name: `ret`, `call`."""
    return take(lib.GetOpcodeName(instruction))


def attributes(function: int) -> str:
    """The text of all attributes of a function, its result and its parameters."""
    parts = []
    iterator = lib.FunctionAttributesIter(function)
    try:
        while text := lib.AttributeListIterNext(iterator):
            parts.append(take(text))
    finally:
        lib.DisposeAttributeListIter(iterator)
    return " ".join(parts)


def parse(context: int, text: bytes) -> int:
    """The module that `text` (without NUL bytes) describes; raises LLVMError."""
    out = c_void_p()
    module = lib.ParseAssembly(context, text, byref(out))
    if out.value:
        raise LLVMError("parse", take(out.value))
    if not module:
        raise LLVMError("parse", "the text is not a module")
    return int(module)


def verify(module: int) -> None:
    """Raises LLVMError where the module is not well formed."""
    out = c_void_p()
    broken = lib.VerifyModule(module, byref(out))
    message = take(out.value)
    if broken:
        raise LLVMError("verify", message)


def functions(module: int) -> Iterator[int]:
    """The module's functions, defined and declared."""
    return _walk(lib.ModuleFunctionsIter(module), lib.FunctionsIterNext, lib.DisposeFunctionsIter)


def blocks(function: int) -> Iterator[int]:
    """A function's blocks, the entry first."""
    return _walk(lib.FunctionBlocksIter(function), lib.BlocksIterNext, lib.DisposeBlocksIter)


def instructions(block: int) -> Iterator[int]:
    """A block's instructions, in order."""
    iterator = lib.BlockInstructionsIter(block)
    return _walk(iterator, lib.InstructionsIterNext, lib.DisposeInstructionsIter)


def variables(module: int) -> Iterator[int]:
    """The module's global variables."""
    return _walk(lib.ModuleGlobalsIter(module), lib.GlobalsIterNext, lib.DisposeGlobalsIter)


def elements(type_: int) -> list[int]:
    """The member types of a struct, the parameter types of a function."""
    return list(_walk(lib.ElementIter(type_), lib.ElementIterNext, lib.DisposeElementIter))


def _walk(iterator: int, step: Any, dispose: Any) -> Iterator[int]:
    try:
        while item := step(iterator):
            yield item
    finally:
        dispose(iterator)


class Machine:
    """A TargetMachine and a pass pipeline for one set of options; kept for the worker's life.

    Without `triple`, one for this machine.  Raises RuntimeError, with LLVM's words, where there is
    none for the triple.
    """

    _reference: int | None = None

    def __init__(
        self, opt_level: int, cpu: str, reloc: str, code_model: str, triple: str | None = None
    ):
        if triple:
            lib.InitializeAllTargetInfos()
            lib.InitializeAllTargets()
            lib.InitializeAllTargetMCs()
            lib.InitializeAllAsmPrinters()
            self.cpu, self.features = cpu, ""
        else:
            triple = _told(lib.GetDefaultTargetTriple)
            host = _told(lib.GetHostCPUName)
            native = cpu in ("native", host)
            self.cpu = host if native else cpu
            self.features = _host_features() if native else ""
        self.opt_level = opt_level
        out = c_void_p()
        target = lib.GetTargetFromTriple(triple.encode(), byref(out))
        words = take(out.value)
        if not target:
            raise RuntimeError(words)
        self._reference = lib.CreateTargetMachine(
            target, triple.encode(), self.cpu.encode(), self.features.encode(), opt_level,
            reloc.encode(), code_model.encode(), 0, 0, b"",
        )  # fmt: skip
        if not self._reference:
            raise RuntimeError("Cannot create target machine")
        self.triple = _told(lib.GetTargetMachineTriple, self._reference)
        data = lib.CreateTargetMachineData(self._reference)
        self.layout = _told(lib.CopyStringRepOfTargetData, data)
        lib.DisposeTargetData(data)
        self._tuning = lib.CreatePipelineTuningOptions()
        self._tune(opt_level)
        self._pipeline: tuple[int, int] | None = None

    def __del__(self) -> None:
        if self._reference:
            lib.DisposeTargetMachine(self._reference)

    def _tune(self, opt_level: int) -> None:
        """What clang has of a pipeline: vectors and unrolled loops from -O2 on."""
        for what in ("LoopInterleaving", "LoopUnrolling", "LoopVectorization", "SLPVectorization"):
            getattr(lib, f"PTOSet{what}")(self._tuning, opt_level >= 2)

    def prepare(self) -> None:
        """Build the next compile's pass pipeline now, while nobody waits for it."""
        self._pipeline = self._prepared()

    def _prepared(self) -> tuple[int, int]:
        """The next compile's pass pipeline.

        A pass builder must not run twice: each run leaves callbacks in it that point into that
        run's stack frame.
        """
        if self._pipeline is None:
            builder = lib.CreatePassBuilder(self._reference, self._tuning)
            passes = lib.buildPerModuleDefaultPipeline(builder, self.opt_level)
            self._pipeline = (builder, passes)
        return self._pipeline

    def optimise(self, module: int) -> tuple[int, int]:
        """Run the pipeline; the caller hands its remains to `dispose` when there is time."""
        used = self._prepared()
        self._pipeline = None
        lib.RunNewModulePassManager(used[1], module, used[0])
        return used

    def run_passes(self, module: int, names: tuple[str, ...]) -> tuple[int, int]:
        """Run passes of `SINGLE`, in order; what is left of them is for `dispose`."""
        builder = lib.CreatePassBuilder(self._reference, self._tuning)
        passes = lib.CreateNewModulePassManager()
        for name in names:
            getattr(lib, f"module_Add{SINGLE[name]}Pass")(passes)
        lib.RunNewModulePassManager(passes, module, builder)
        return builder, passes

    def run_default(self, module: int) -> None:
        """Run the pipeline of -O3 with all that LLVM has, whatever this machine's level."""
        self._tune(3)
        builder = lib.CreatePassBuilder(self._reference, self._tuning)
        passes = lib.buildPerModuleDefaultPipeline(builder, 3)
        lib.RunNewModulePassManager(passes, module, builder)

    def dispose(self, used: tuple[int, int]) -> None:
        """Free a pipeline that has run.

        1.5 KB stay: `LLVMPY_CreatePassBuilder` makes a PassInstrumentationCallbacks that nothing
        of llvmlite 0.50 frees (ffi/newpassmanagers.cpp).  `Workers` replaces what has grown.
        """
        builder, passes = used
        lib.DisposeNewModulePassManger(passes)
        lib.DisposePassBuilder(builder)

    def emit(self, module: int, assembly: bool = False) -> bytes:
        """The module as an object file (or as assembly text)."""
        out = c_void_p()
        buffer = lib.TargetMachineEmitToMemory(
            self._reference, module, 0 if assembly else 1, byref(out)
        )
        if not buffer:
            raise LLVMError("emit", take(out.value))
        try:
            return ctypes.string_at(lib.GetBufferStart(buffer), lib.GetBufferSize(buffer))
        finally:
            lib.DisposeMemoryBuffer(buffer)
