"""llvmlite's engines behind one shape: define a cell, call it.  Start from `LLJIT`.

Both sides do the same work: parse, verify, run the default pass pipeline of the level, emit code
for this processor.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm

__all__ = ["LLJIT", "Front", "MCJITEach", "MCJITOne", "native_machine"]

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
llvm.initialize_native_asmparser()

_UNARY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)


def native_machine(level: int, **options: str) -> Any:
    """A TargetMachine for this processor."""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        **options,
    )


class Front:
    """Parse, verify and optimise with llvmlite, the same steps that a worker does."""

    def __init__(self, level: int):
        self.level = level
        self.machine = native_machine(level)
        self.head = f'target triple = "{self.machine.triple}"\ntarget datalayout = "{self.machine.target_data}"\n'

    def module(self, source: str, context: Any = None) -> Any:
        """An optimised module, in a context of its own where one is given."""
        text = self.head + source
        module = (
            llvm.parse_assembly(text, context) if context is not None else llvm.parse_assembly(text)
        )
        module.verify()
        with (
            llvm.create_pipeline_tuning_options(self.level) as tuning,
            llvm.create_pass_builder(self.machine, tuning) as builder,
        ):
            passes = builder.getModulePassManager()
            passes.run(module, builder)
            # Its own `close` frees nothing (60 KB at -O2): that would count as the rival's.
            llvm.newpassmanagers.NewPassManager._dispose(passes)
            passes.detach()
        return module


class LLJIT:
    """LLJIT, a tracker per cell.  `linker`: rtdyld or jitlink; `objects`: give it objects, not IR."""

    def __init__(self, level: int = 2, linker: str = "rtdyld", objects: bool = False):
        self.front = Front(level)
        self.jit = llvm.create_lljit_compiler(
            native_machine(level), use_jit_link=linker == "jitlink"
        )
        self.objects = objects
        self.live: dict[str, Any] = {}

    def define(self, source: str, name: str) -> int:
        """Compile and link; the address of `name`."""
        with llvm.create_context() as context, self.front.module(source, context) as module:
            builder = llvm.JITLibraryBuilder()
            if self.objects:
                builder.add_object_img(self.front.machine.emit_object(module))
            else:
                builder.add_ir(module)
            tracker = (
                builder.add_current_process().export_symbol(name).link(self.jit, "lib." + name)
            )
        self.live[name] = tracker
        return int(tracker[name])

    def define_and_call(self, source: str, name: str, x: int) -> int:
        """The result of `name(x)`."""
        return int(_UNARY(self.define(source, name))(x))

    def link(self, data: bytes, name: str) -> int:
        """Link an object made beforehand; the address of `name`."""
        builder = llvm.JITLibraryBuilder().add_object_img(data).export_symbol(name)
        tracker = builder.link(self.jit, "lib." + name)
        self.live[name] = tracker
        return int(tracker[name])

    def evict(self, name: str) -> None:
        """Close the tracker: all that LLJIT offers to free a cell."""
        self.live.pop(name).close()


class MCJITEach:
    """A MCJIT engine per cell."""

    def __init__(self, level: int = 2):
        self.front = Front(level)
        self.live: dict[str, Any] = {}

    def define(self, source: str, name: str) -> int:
        """Compile and link; the address of `name`."""
        module = self.front.module(source, llvm.create_context())
        engine = llvm.create_mcjit_compiler(module, native_machine(self.front.level))
        engine.finalize_object()
        self.live[name] = engine
        return int(engine.get_function_address(name))

    def define_and_call(self, source: str, name: str, x: int) -> int:
        """The result of `name(x)`."""
        return int(_UNARY(self.define(source, name))(x))

    def evict(self, name: str) -> None:
        """Delete the engine."""
        self.live.pop(name).close()


class MCJITOne:
    """One MCJIT engine that modules are added to."""

    def __init__(self, level: int = 2):
        self.front = Front(level)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), native_machine(level))
        self.live: dict[str, Any] = {}

    def define(self, source: str, name: str) -> int:
        """Compile and link; the address of `name`."""
        module = self.front.module(source)
        self.engine.add_module(module)
        self.engine.finalize_object()
        self.live[name] = module
        return int(self.engine.get_function_address(name))

    def define_and_call(self, source: str, name: str, x: int) -> int:
        """The result of `name(x)`."""
        return int(_UNARY(self.define(source, name))(x))

    def evict(self, name: str) -> None:
        """Take the module out; its code stays until the engine goes."""
        module = self.live.pop(name)
        self.engine.remove_module(module)
        module.close()
