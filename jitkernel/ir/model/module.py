"""A module's text as functions of blocks of instructions, and what is between, which stays text.

Start from `Module`.
"""

from __future__ import annotations

from functools import cached_property

from jitkernel.ir.model.function import Block, Function
from jitkernel.ir.model.reading import FunctionReader
from jitkernel.ir.model.values import Constant, Global, canonical
from jitkernel.ir.module import Entity, entities, functions, symbols_of
from jitkernel.ir.names import NAME, symbol_name
from jitkernel.ir.text import without_comments
from jitkernel.ir.types import PTR, Type, parse_type
from jitkernel.regex import regex

_ADDRESS = regex(rf"\bblockaddress\s*\(\s*@({NAME})\s*,\s*%({NAME})\s*\)")


class Module:
    """A module: `functions`, those that are defined, by name and in order.

    `str(module)` is its text: what was not changed stands there as it was.  Functions may be
    changed in place and removed.  Raises ModelError where a text is none that LLVM would accept.
    """

    functions: dict[str, Function]

    def __init__(self, text: str):
        self.functions = {}
        self._globals: dict[str, Global] = {}
        self._constants: dict[tuple[str, str], Constant] = {}
        self._pieces: list[str | Function] = []
        clean, at = without_comments(text), 0
        self._clean = clean
        for found in functions(text, "define"):
            brace, end = found.body()
            if end < 0:
                break
            self._pieces.append(text[at : found.start])
            function = FunctionReader(self, found, clean, brace, end).function
            self.functions[found.name] = function
            self._pieces.append(function)
            at = end
        self._pieces.append(text[at:])

    @property
    def globals(self) -> dict[str, Global]:
        """The functions and variables that instructions name, by their names."""
        return {value.name: value for value in self._globals.values()}

    @cached_property
    def types(self) -> dict[str, str]:
        """The bodies of named types, by their names."""
        return {found.name: found.rest.strip() for found in entities(self._clean, "type")}

    def declare(self, text: str) -> Global:
        """The function or variable that a line of IR declares or defines, which is added where the
        module does not know it: `module.declare("declare i32 @puts(ptr)")`."""
        found = next(iter(symbols_of(text.strip())), None)
        if found is None:
            raise ValueError(f"neither a declaration nor a variable: {text}")
        known = any(
            each.name == found.name
            for piece in self._pieces
            if isinstance(piece, str) and f"@{found.spelled}" in piece
            for each in entities(piece, "function", "value")
        )
        if not known and found.name not in self.functions:
            last = str(self._pieces[-1])
            self._pieces.append(f"{'' if last.endswith(chr(10)) else chr(10)}{text.strip()}\n")
        return self.global_value(found.spelled, PTR)

    def global_value(self, spelled: str, type: Type | str = PTR) -> Global:
        """The global that is written so behind its `@`."""
        found = self._globals.get(key := canonical(spelled))
        if found is None:
            record = parse_type(type) if isinstance(type, str) else type
            found = self._globals[key] = Global(record, spelled)
        return found

    def constant(self, type: str, text: str) -> Constant:
        """A constant by its type's text and its own."""
        found = self._constants.get((type, text))
        if found is None:
            found = self._constants[type, text] = Constant(parse_type(type), text)
        return found

    def has_address(self, block: Block) -> bool:
        """True if a `blockaddress` somewhere names a block."""
        if "blockaddress" not in self._clean:
            return False
        for function, label in _ADDRESS.findall(self._clean):
            if symbol_name(function) == block.function.name and _same(label, block):
                return True
        return False

    def lines(self) -> list[tuple[int, Function]]:
        """The functions with the line of the module's text that each begins in."""
        found, line = [], 1
        for piece in self._pieces:
            if isinstance(piece, str):
                line += piece.count("\n")
            elif self.functions.get(piece.name) is piece:
                found.append((line, piece))
                line += str(piece).count("\n")
        return found

    def __str__(self) -> str:
        kept = self.functions
        return "".join(
            [
                str(piece)
                for piece in self._pieces
                if isinstance(piece, str) or kept.get(piece.name) is piece
            ]
        )


def _same(label: str, block: Block) -> bool:
    return canonical(label) == canonical(block._spelled)


def function_of(entity: Entity) -> Function:
    """A function that is defined, read by itself: what else its module has is not known to it."""
    return Module(entity.text).functions[entity.name]
