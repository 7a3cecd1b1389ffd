"""A module of LLVM IR as values, uses and blocks that may be changed, and what control flow tells::

    m = Module(text)
    for i in m.functions["f"].instructions:
        if i.opcode == "mul" and i.operands[1] == const(i.type, 8):
            i.replace_with(binary("shl", i.operands[0], const(i.type, 3)).insert_before(i))
    print(m)

Names are those of LLVM's C++ and of llvmlite.  Lossless: what is not understood stays text, and
what is not changed is printed as it was.  It reads what LLVM accepts and needs no LLVM; whether
what a change left is valid is for LLVM to say.  Start from `Module`, and from `build` for new
instructions.
"""

from jitkernel.ir.model.build import (
    alloca,
    binary,
    br,
    call,
    cast,
    cond_br,
    fcmp,
    freeze,
    gep,
    icmp,
    load,
    phi,
    ret,
    select,
    store,
    unreachable,
)
from jitkernel.ir.model.flow import Dominators, Liveness, Loop
from jitkernel.ir.model.function import Block, Function
from jitkernel.ir.model.instruction import Instruction
from jitkernel.ir.model.module import Module
from jitkernel.ir.model.operands import ModelError
from jitkernel.ir.model.reading import parse
from jitkernel.ir.model.values import Argument, Constant, Global, Use, Value, const

__all__ = [
    "Argument", "Block", "Constant", "Dominators", "Function", "Global", "Instruction", "Liveness",
    "Loop", "ModelError", "Module", "Use", "Value", "alloca", "binary", "br", "call", "cast",
    "cond_br", "const", "fcmp", "freeze", "gep", "icmp", "load", "parse", "phi", "ret", "select",
    "store", "unreachable",
]  # fmt: skip
