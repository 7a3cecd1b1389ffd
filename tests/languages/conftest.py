"""An LLVM to compare with, and a session in a few lines for expressions to run against."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from llvmlite import binding

from jitkernel.ir.keywords import nearest
from jitkernel.ir.types import FunctionType, Type, parse_type
from jitkernel.languages.llvm.prelude import prelude_type
from jitkernel.values.ir import Layouts, data_type_of
from jitkernel.values.value import TypedValue

NAMED_TYPES = {
    "pt": "{ i32, i32 }",
    "mixed": "{ i8, double, [3 x i16], ptr }",
    "packed": "<{ i8, i32 }>",
    "a b": "{ %pt, i1 }",
    "list": "{ ptr, i64 }",
}


def type_lines() -> str:
    return "\n".join(
        f'%"{name}" = type {body}' if " " in name else f"%{name} = type {body}"
        for name, body in NAMED_TYPES.items()
    )


class LLVM:
    """llvmlite, as the one who knows."""

    def __init__(self) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        binding.initialize_native_asmparser()
        self.machine = binding.Target.from_default_triple().create_target_machine()

    def parse(self, text: str) -> Any:
        return binding.parse_assembly(text, binding.create_context())

    def error(self, text: str) -> tuple[int, int, str]:
        """Line, column and words of the complaint; (0, 0, "") where there is none."""
        try:
            self.parse(text).verify()
        except RuntimeError as error:
            match = re.search(r"<string>:(\d+):(\d+): error: (.*)", str(error))
            return (int(match[1]), int(match[2]), match[3]) if match else (0, 0, str(error))
        return 0, 0, ""

    def instruction_types(self, text: str) -> list[str]:
        """The types of all instructions of a module's functions, in order."""
        module = self.parse(text)
        return [
            str(instruction.type)
            for function in module.functions
            for block in function.blocks
            for instruction in block.instructions
        ]

    def bytes_of(self, value: str, size: int) -> bytes:
        """What a constant looks like in memory: read from the object that LLVM emits."""
        module = self.parse(f"{type_lines()}\n@value = global {value}, align 16\n")
        module.verify()
        elf = ELFFile(io.BytesIO(self.machine.emit_object(module)))
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("value")
        section = elf.get_section(symbol["st_shndx"])
        at = symbol["st_value"]
        return bytes(size) if section["sh_type"] == "SHT_NOBITS" else section.data()[at : at + size]


@pytest.fixture(scope="session")
def llvm() -> LLVM:
    return LLVM()


@pytest.fixture(scope="session")
def layouts() -> Layouts:
    return lambda type: data_type_of(type, NAMED_TYPES)


class FakeHost:
    """A session of Python functions and a dictionary of memory."""

    def __init__(self, layout: Layouts):
        self.layout = layout
        self.functions: dict[str, tuple[FunctionType, Callable[..., Any]]] = {}
        self.variables: dict[str, tuple[Type, int, bool]] = {}
        self.memory: dict[int, bytes] = {}
        self.results: dict[int | None, TypedValue] = {}
        self.log: list[str] = []
        self.next = 0x1000

    # What an expression may ask

    def signature(self, name: str) -> FunctionType | None:
        return self.functions[name][0] if name in self.functions else prelude_type(name)

    def variable(self, name: str) -> tuple[Type, int, bool] | None:
        return self.variables.get(name)

    def address(self, name: str) -> int | None:
        if name in self.variables:
            return self.variables[name][1]
        return 0x500000 if name in self.functions else None

    def call(self, name: str, arguments: list[TypedValue]) -> TypedValue:
        self.log.append(f"{name}({', '.join(a.text() for a in arguments)})")
        type, function = self.functions[name]
        answer = function(*[a.python for a in arguments])
        layout = None if str(type.result) == "void" else self.layout(type.result)
        data = b"" if layout is None else int(answer).to_bytes(layout.size, "little", signed=True)
        return TypedValue(type.result, data, self.layout)

    def load(self, type: Type, address: int) -> TypedValue:
        return TypedValue(type, self.memory[address], self.layout)

    def allocate(self, data: bytes, align: int) -> int:
        self.next = -(-self.next // 16) * 16
        address, self.next = self.next, self.next + len(data)
        self.memory[address] = data
        return address

    def result(self, number: int | None) -> TypedValue | None:
        return self.results.get(number)

    def nearest(self, name: str) -> str | None:
        return nearest(name, [*self.functions, *self.variables])

    def hint(self, name: str) -> str:
        near = self.nearest(name)
        return f"did you mean @{near}?" if near else ""

    # What a test sets up

    def define(self, name: str, type: str, function: Callable[..., Any]) -> None:
        found = parse_type(type)
        assert isinstance(found, FunctionType)
        self.functions[name] = (found, function)

    def set(self, name: str, type: str, data: bytes, constant: bool = False) -> None:
        self.variables[name] = (parse_type(type), self.allocate(data, 16), constant)

    def value(self, type: str, data: bytes) -> TypedValue:
        return TypedValue(parse_type(type), data, self.layout)


@pytest.fixture
def host(layouts: Layouts) -> FakeHost:
    host = FakeHost(layouts)
    host.define("sq", "i32 (i32)", lambda x: x * x)
    host.define("wide", "i64 (i64)", lambda x: x)
    host.define("flag", "i1 (i1)", lambda x: -int(x))
    host.define("half_it", "double (double)", lambda x: 0)
    host.define("apply", "i32 (ptr, i32)", lambda f, x: x)
    host.define("none", "void ()", lambda: None)
    host.define("two", "i32 (i32, i32)", lambda x, y: x + y)
    host.define("take", "i32 (%pt)", lambda p: p[0] + p[1])
    host.define("text", "i64 (ptr)", lambda p: len(host.memory[p]))
    host.define("printf", "i32 (ptr, ...)", lambda *a: len(a))
    host.define("a b", "i32 ()", lambda: 5)
    host.define("narrow", "i8 ()", lambda: -1)
    host.define("vec", "i32 (<4 x i32>)", sum)
    host.set("g", "i32", (42).to_bytes(4, "little"))
    host.set("k", "i32", (7).to_bytes(4, "little"), constant=True)
    host.set("p", "%pt", b"\1\0\0\0\2\0\0\0")
    host.set("s", "[6 x i8]", b"hello\0")
    host.set("d", "double", bytes(8))
    return host
