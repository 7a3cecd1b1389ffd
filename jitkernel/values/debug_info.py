"""Types of C, as clang's debug information describes them.  Start from `Types`.

The nodes: llvm.org/docs/LangRef.html#specialized-metadata-nodes; DWARF 4, chapter 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from operator import methodcaller

from jitkernel.ir.debug_info import fields, members
from jitkernel.values.datatype import DataType, Member
from jitkernel.values.described import ENCODINGS, KINDS, DescribedTypes

_IS_LOCAL = methodcaller("startswith", "!DILocalVariable(")


class Types(DescribedTypes[str]):
    """The types that a module's metadata describes; `metadata` has nodes by their numbers."""

    def __init__(self, metadata: Mapping[str, str]):
        super().__init__()
        self._metadata = metadata
        self._read: dict[str, tuple[str, dict[str, str]]] = {}  # nodes, by their numbers

    def function(self, name: str) -> DataType | None:
        """The type of a function that the module defines."""
        return self._typed(self._symbols[0].get(name))

    def variable(self, name: str) -> DataType | None:
        """The type of a global variable that the module defines."""
        return self._typed(self._symbols[1].get(name))

    def file(self, name: str) -> str:
        """The file in which a function or a global variable is defined."""
        number = next((found[name] for found in self._symbols if name in found), "")
        file = self._fields(number)[1].get("file", "") if number else ""
        return self._fields(file)[1].get("filename", "")

    def local(self, name: str) -> DataType | None:
        """The type of a local variable, of the first that is called so."""
        wanted = f'name: "{name}"'
        for number, node in self._metadata.items():
            if node.startswith("!DILocalVariable(") and wanted in node:
                return self._typed(number)
        return None

    @property
    def has_locals(self) -> bool:
        """True if functions have variables of their own."""
        return any(map(_IS_LOCAL, self._metadata.values()))

    def locals_of(self, name: str) -> list[tuple[str, int]]:
        """The variables that stand in the outermost block of a function, with their lines."""
        function = self._symbols[0].get(name)
        found: list[tuple[str, int]] = []
        for number, node in self._metadata.items() if function is not None else ():
            if node.startswith("!DILocalVariable("):
                fields = self._fields(number)[1]
                scope = fields.get("scope", "")
                while self._metadata.get(scope, "").startswith("!DILexicalBlockFile("):
                    scope = self._fields(scope)[1].get("scope", "")
                if scope == function:
                    found.append((fields.get("name", ""), int(fields.get("line", 0))))
        return found

    def _typed(self, number: str | None) -> DataType | None:
        if number is None:
            return None
        found = self._of(self._fields(number)[1], "type")
        self._complete()
        return found

    @cached_property
    def _symbols(self) -> tuple[dict[str, str], dict[str, str]]:
        """The nodes of functions, and those of global variables, by name."""
        found = dict[str, str](), dict[str, str]()
        for number, node in self._metadata.items():
            function = "!DISubprogram(" in node[:24]
            if function or "!DIGlobalVariable(" in node[:28]:
                fields = self._fields(number)[1]
                found[not function][fields.get("linkageName") or fields.get("name", "")] = number
        return found

    def _fields(self, number: str) -> tuple[str, dict[str, str]]:
        """The kind of a node, and its fields."""
        found = self._read.get(number)
        if found is None:
            node = self._metadata.get(number, "").removeprefix("distinct ")
            found = self._read[number] = node.partition("(")[0][1:], fields(node)
        return found

    def _list(self, reference: str) -> list[str]:
        """The nodes of a list, "" for `null`."""
        return members(self._metadata.get(reference, ""))

    def _of(self, fields: Mapping[str, str], name: str = "baseType") -> DataType:
        """The type that a field names, void where it is `null`."""
        return self._type(fields.get(name, "").removeprefix("null"))

    def _fill(self, made: DataType, reference: str) -> None:
        node, fields = self._fields(reference)
        made.name = fields.get("name", "")
        made.size = int(fields.get("size") or 0) // 8
        made.bits = int(fields.get("dataSize") or 8 * made.size)  # of a _BitInt
        tag = fields.get("tag", "").removeprefix("DW_TAG_")
        made.kind = "function" if node == "DISubroutineType" else KINDS.get(tag, "void")
        made.complete = "DIFlagFwdDecl" not in fields.get("flags", "")
        parts = [part for part in self._list(fields.get("elements", "")) if part]
        if node == "DIBasicType":
            encoding = fields.get("encoding", "").removeprefix("DW_ATE_")
            self._be_basic(made, tag, ENCODINGS.get(encoding, 0))
        elif made.kind == "function":
            result, *rest = self._list(fields.get("types", "")) or [""]
            made.element = self._type(result)
            made.variadic = bool(rest) and not rest[-1]
            made.parameters = tuple(self._type(r) for r in rest if r)
        elif made.kind == "array":
            if "DIFlagVector" in fields.get("flags", ""):
                made.kind = "vector"
            self._have_sides(made, [*map(self._count, parts)] or [-1], self._of(fields))
        elif made.kind == "enum":
            self._enums.append((made, self._of(fields)))
            nodes = [self._fields(part)[1] for part in parts]
            made.constants = tuple((n["name"], int(n["value"])) for n in nodes)
        elif made.kind in ("struct", "union"):
            made.members = tuple(map(self._member, parts))
        elif node == "DIDerivedType":
            self._lead(made, self._of(fields))

    def _count(self, number: str) -> int:
        """The elements on one side of an array, -1 where a variable says how many."""
        said = self._fields(number)[1].get("count", "-1")
        return int(said) if said.lstrip("-").isdigit() else -1

    def _member(self, number: str) -> Member:
        fields = self._fields(number)[1]
        bits = int(fields.get("size") or 0) if "BitField" in fields.get("flags", "") else 0
        offset, shift = divmod(int(fields.get("offset") or 0), 8)
        return Member(fields.get("name", ""), self._of(fields), offset, bits, shift)
