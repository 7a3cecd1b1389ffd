"""LLVM's functions as the worker calls them: llvmlite's library through ctypes.  Worker only.

Of llvmlite only its library is loaded.  Its Python classes take longer to import than a compile
takes, and in a compile as long as parsing a tiny cell.  Functions are called directly, with plain
addresses (`int`) for references.  Who makes an object disposes it.  Start from `Machine`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_longlong, c_size_t, c_uint, c_void_p
from functools import cache
from types import SimpleNamespace
from typing import Any

import llvmlite

from jitkernel.compiler.passes import SINGLE, TEXTS

_FILE = os.path.join(llvmlite.__path__[0], "binding", "libllvmlite.so")
_REF = c_void_p
_OUT = POINTER(c_void_p)

# What can be walked over: the function that begins.
_WALKS = {
    "Functions": "ModuleFunctionsIter",
    "Globals": "ModuleGlobalsIter",
    "Blocks": "FunctionBlocksIter",
    "Instructions": "BlockInstructionsIter",
    "Operands": "InstructionOperandsIter",
    "AttributeList": "FunctionAttributesIter",
    "Arguments": "FunctionArgumentsIter",
}

#: LLVMLinkage of llvm-c/Core.h
EXTERNAL, AVAILABLE, LINKONCE, WEAK, WEAK_ODR, INTERNAL, PRIVATE = 0, 1, 2, 5, 6, 8, 9

_TUNED = ("LoopInterleaving", "LoopUnrolling", "LoopVectorization", "SLPVectorization")

_Prototype = tuple[Any, tuple[Any, ...]]


def _each(names: str, result: Any, *arguments: Any) -> dict[str, _Prototype]:
    return dict.fromkeys(names.split(), (result, arguments))


# name: (result, arguments)
_PROTOTYPES: dict[str, _Prototype] = {
    **_each("ContextCreate CreatePipelineTuningOptions CreateNewModulePassManager", _REF),
    **_each(
        "ContextDispose DisposeModule DisposeString DisposeTargetData DisposeTargetMachine"
        " DisposePassBuilder DisposeNewModulePassManger DisposeMemoryBuffer",
        None,
        _REF,
    ),
    # modules
    "ParseAssembly": (_REF, (_REF, c_char_p, _OUT)),
    "VerifyModule": (c_bool, (_REF, _OUT)),
    "ParseBitcode": (_REF, (_REF, c_char_p, c_size_t, _OUT)),
    "WriteBitcodeToString": (None, (_REF, _OUT, POINTER(c_size_t))),
    "LinkModules": (c_int, (_REF, _REF, _OUT)),
    **_each("PrintModuleToString PrintValueToString", None, _REF, _OUT),
    **_each(" ".join(_WALKS.values()), _REF, _REF),
    **_each(" ".join(f"{item}IterNext" for item in _WALKS), _REF, _REF),
    **_each(" ".join(f"Dispose{item}Iter" for item in _WALKS), None, _REF),
    # values
    "GetValueName": (c_char_p, (_REF,)),
    "SetValueName": (None, (_REF, c_char_p)),
    "SetLinkage": (None, (_REF, c_int)),
    "SetVisibility": (None, (_REF, c_int)),
    **_each("GetLinkage IsDeclaration GetValueKind", c_int, _REF),
    **_each("GlobalGetValueType GetOpcodeName", _REF, _REF),
    "GetEnumAttributeKindForName": (c_uint, (c_char_p, c_size_t)),
    "AddFunctionAttr": (None, (_REF, c_uint)),
    # types
    **_each("PrintType TypeOf", _REF, _REF),
    **_each("ABISizeOfType ABIAlignmentOfType", c_longlong, _REF, _REF),
    "GetNamedStructType": (_REF, (_REF, c_char_p)),
    # passes
    "SetCommandLine": (None, (c_char_p, c_char_p)),
    "CreatePassBuilder": (_REF, (_REF, _REF)),
    "buildPerModuleDefaultPipeline": (_REF, (_REF, c_int)),
    "RunNewModulePassManager": (None, (_REF, _REF, _REF)),
    **{f"PTOSet{what}": (None, (_REF, c_bool)) for what in _TUNED},
    **{f"module_Add{name}Pass": (None, (_REF,)) for name in SINGLE.values()},
    # machines
    "GetVersionInfo": (c_uint, ()),
    **_each(
        "InitializeNativeTarget InitializeNativeAsmPrinter InitializeNativeAsmParser"
        " InitializeAllTargetInfos InitializeAllTargets InitializeAllTargetMCs"
        " InitializeAllAsmPrinters",
        None,
    ),
    **_each("GetDefaultTargetTriple GetHostCPUName GetHostCPUFeatures", None, _OUT),
    "GetTargetFromTriple": (_REF, (c_char_p, _OUT)),
    # target, triple, CPU, features, level, relocation model, code model, print?, for a JIT?, ABI
    "CreateTargetMachine": (
        _REF,
        (_REF, c_char_p, c_char_p, c_char_p, c_int, c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "CreateTargetMachineData": (_REF, (_REF,)),
    "CreateTargetData": (_REF, (c_char_p,)),
    **_each("GetTargetMachineTriple CopyStringRepOfTargetData", None, _REF, _OUT),
    # code
    "TargetMachineEmitToMemory": (_REF, (_REF, _REF, c_int, _OUT)),
    "GetBufferStart": (_REF, (_REF,)),
    "GetBufferSize": (c_size_t, (_REF,)),
}


@cache
def identity() -> tuple[str, str, str, str, str]:
    """The parts of `records.Identity`, of this process."""
    number = lib.GetVersionInfo()  # a byte for each part
    return (
        ".".join(map(str, number.to_bytes((number.bit_length() + 7) // 8, "big"))),
        str(llvmlite.__version__),
        told(lib.GetDefaultTargetTriple),
        told(lib.GetHostCPUName),
        _host_features(),
    )


def _load() -> Any:
    """The functions above as attributes, without their prefix."""
    handle = ctypes.CDLL(_FILE)
    found = SimpleNamespace()
    for name, (result, arguments) in _PROTOTYPES.items():
        function = handle[f"LLVMPY_{name}"]
        function.restype = result
        function.argtypes = arguments
        setattr(found, name, function)
    return found


lib = _load()
lib.InitializeNativeTarget()
lib.InitializeNativeAsmPrinter()
lib.InitializeNativeAsmParser()  # inline and module asm

PROTECTED = 2  # LLVMVisibility of llvm-c/Core.h


class LLVMError(Exception):
    """A refusal of LLVM, in its words: `stage` is "parse", "verify", "optimise" or "emit"."""

    def __init__(self, stage: str, message: str):
        self.stage, self.message = stage, message
        super().__init__(message)


# Whether LLVM was told to allocate registers as for optimised code, which it cannot be told to
# forget: then it is told for each module.  (`-regalloc` it reads once in its life.)
_optimised: bool | None = None


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


def told(function: Any, *arguments: Any) -> str:
    """The text that a function writes to its last argument."""
    out = c_void_p()
    function(*arguments, byref(out))
    return take(out.value)


@cache
def _host_features() -> str:
    """The features that this machine's CPU has and has not, by name: `+avx,-avx512f`."""
    words = told(lib.GetHostCPUFeatures).split(",")
    return ",".join(sorted(filter(None, words), key=lambda word: word[1:]))


def name_of(value: int) -> str:
    """A value's name, that of a global as its symbol's; empty where it has none.  Bytes that are
    not UTF-8 are surrogates."""
    return str(lib.GetValueName(value).removeprefix(b"\x01").decode("utf-8", "surrogateescape"))


def print_value(value: int) -> str:
    """LLVM's text of a value; of a function, its whole body."""
    return told(lib.PrintValueToString, value)


def print_module(module: int) -> str:
    """LLVM's text of a module."""
    return told(lib.PrintModuleToString, module)


def print_type(type_: int) -> str:
    """LLVM's text of a type; of an identified struct, its definition."""
    return take(lib.PrintType(type_))


@contextmanager
def layout(text: str) -> Iterator[int]:
    """The data layout that a text describes, for a while."""
    data = lib.CreateTargetData(text.encode())
    try:
        yield data
    finally:
        lib.DisposeTargetData(data)


def opcode(instruction: int) -> str:
    """An instruction's name: `ret`, `call`."""
    return take(lib.GetOpcodeName(instruction))


def attributes(function: int) -> str:
    """The text of all attributes of a function, its result and its parameters."""
    return " ".join(map(take, _walk("AttributeList", function)))


def parse(context: int, text: bytes) -> int:
    """The module that `text` (without NUL bytes) describes; raises LLVMError."""
    out = c_void_p()
    module = lib.ParseAssembly(context, text, byref(out))
    if out.value or not module:
        raise LLVMError("parse", take(out.value) or "the text is not a module")
    return int(module)


def bitcode(module: int) -> bytes:
    """The module as bitcode."""
    start, size = c_void_p(), c_size_t()
    lib.WriteBitcodeToString(module, byref(start), byref(size))
    try:
        return ctypes.string_at(start.value or 0, size.value)
    finally:
        lib.DisposeString(start.value)


def parse_bitcode(context: int, data: bytes) -> int:
    """The module that bitcode describes; raises LLVMError."""
    out = c_void_p()
    module = lib.ParseBitcode(context, data, len(data), byref(out))
    if not module:
        raise LLVMError("parse", f"this is not bitcode: {take(out.value)}")
    return int(module)


def link(module: int, added: int) -> None:
    """Make a module of the same context, which goes, a part of another; raises LLVMError."""
    out = c_void_p()
    if lib.LinkModules(module, added, byref(out)):
        raise LLVMError("link", take(out.value) or "they define the same name")


def attribute_kind(name: str) -> int:
    """The number of an attribute without a value."""
    return int(lib.GetEnumAttributeKindForName(name.encode(), len(name)))


NOBUILTIN = attribute_kind("nobuiltin")


@contextmanager
def fresh_context() -> Iterator[int]:
    """A context for a while, which takes the modules in it along."""
    context = lib.ContextCreate()
    try:
        yield context
    finally:
        lib.ContextDispose(context)


@contextmanager
def parsed(text: bytes) -> Iterator[int]:
    """The module that a text describes, for a while, in a context of its own; raises LLVMError."""
    with fresh_context() as context:
        yield parse(context, text)


def verify(module: int) -> None:
    """Raises LLVMError where the module is not well formed."""
    out = c_void_p()
    broken = lib.VerifyModule(module, byref(out))
    message = take(out.value)
    if broken:
        raise LLVMError("verify", message)


def functions(module: int) -> Iterator[int]:
    """The module's functions, defined and declared."""
    return _walk("Functions", module)


def blocks(function: int) -> Iterator[int]:
    """A function's blocks, the entry first."""
    return _walk("Blocks", function)


def instructions(block: int) -> Iterator[int]:
    """A block's instructions, in order."""
    return _walk("Instructions", block)


def arguments(function: int) -> Iterator[int]:
    """A function's arguments, in order."""
    return _walk("Arguments", function)


def operands(instruction: int) -> Iterator[int]:
    """An instruction's operands, in order."""
    return _walk("Operands", instruction)


def variables(module: int) -> Iterator[int]:
    """The module's global variables."""
    return _walk("Globals", module)


def definitions(module: int) -> Iterator[int]:
    """The functions and variables that the module defines."""
    for value in (*functions(module), *variables(module)):
        if not lib.IsDeclaration(value):
            yield value


def _walk(item: str, whole: int) -> Iterator[int]:
    iterator = getattr(lib, _WALKS[item])(whole)
    step = getattr(lib, f"{item}IterNext")
    try:
        while found := step(iterator):
            yield found
    finally:
        getattr(lib, f"Dispose{item}Iter")(iterator)


def before_passes() -> None:
    """Called before each pass manager runs; a process that watches puts its own in the place."""


def _run(passes: int, module: int, builder: int) -> None:
    before_passes()
    lib.RunNewModulePassManager(passes, module, builder)


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
            triple = told(lib.GetDefaultTargetTriple)
            host = told(lib.GetHostCPUName)
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
        self.triple = told(lib.GetTargetMachineTriple, self._reference)
        data = lib.CreateTargetMachineData(self._reference)
        self.layout = told(lib.CopyStringRepOfTargetData, data)
        lib.DisposeTargetData(data)
        #: the lines that name the target, `prepare.PREFIX_LINES` of them
        self.prefix = (
            f'target datalayout = "{self.layout}"\ntarget triple = "{self.triple}"\n'.encode()
        )
        self._tuning = lib.CreatePipelineTuningOptions()
        for what in _TUNED:  # as clang has it: vectors and unrolled loops from -O2 on
            getattr(lib, f"PTOSet{what}")(self._tuning, opt_level >= 2)
        self._pipeline: tuple[int, int] | None = None

    def __del__(self) -> None:
        if self._reference:
            lib.DisposeTargetMachine(self._reference)

    def prepare(self) -> tuple[int, int]:
        """The next compile's pass pipeline, which is best built while nobody waits for it.

        A pass builder must not run twice: each run leaves callbacks in it that point into that
        run's stack frame.
        """
        if self._pipeline is None:
            builder = lib.CreatePassBuilder(self._reference, self._tuning)
            passes = lib.buildPerModuleDefaultPipeline(builder, self.opt_level)
            self._pipeline = builder, passes
        return self._pipeline

    def optimise(self, module: int) -> tuple[int, int]:
        """Run the pipeline; the caller hands its remains to `dispose` when there is time."""
        used = self.prepare()
        self._pipeline = None
        _run(used[1], module, used[0])
        return used

    def run_passes(self, module: int, names: tuple[str, ...]) -> tuple[int, int]:
        """Run passes, in order; what is left of them is for `dispose`.  Raises LLVMError where this
        llvmlite cannot."""
        builder = lib.CreatePassBuilder(self._reference, self._tuning)
        passes = lib.CreateNewModulePassManager()
        for name in names:
            if name in SINGLE:
                getattr(lib, f"module_Add{SINGLE[name]}Pass")(passes)
                continue
            from jitkernel.compiler.hidden import parse_pipeline  # few cells need one

            try:
                text = TEXTS.get(name, name)
                parse_pipeline(_FILE, lib.CreatePassBuilder, builder, passes, text)
            except LookupError as error:
                raise LLVMError("optimise", f"the pass {name} cannot be run: {error}") from None
        _run(passes, module, builder)
        return builder, passes

    def dispose(self, used: tuple[int, int]) -> None:
        """Free a pipeline that has run.

        1.5 KB stay: `LLVMPY_CreatePassBuilder` makes a PassInstrumentationCallbacks that nothing
        of llvmlite 0.50 frees (ffi/newpassmanagers.cpp).  `Workers` replaces what has grown.
        """
        builder, passes = used
        lib.DisposeNewModulePassManger(passes)
        lib.DisposePassBuilder(builder)

    def emit(self, module: int, assembly: bool = False, regalloc: str = "") -> bytes:
        """The module as an object file (or as assembly text), by the register allocator that is
        asked for, `greedy` or `fast`."""
        global _optimised
        optimised = regalloc == "greedy" if regalloc else self.opt_level > 0
        if optimised != _optimised and (regalloc or _optimised is not None):
            set_option(f"-optimize-regalloc={str(optimised).lower()}")
            _optimised = optimised
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
