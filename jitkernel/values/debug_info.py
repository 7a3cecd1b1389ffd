"""Types of C, as clang's debug information describes them.  Start from `Types`.

The nodes: llvm.org/docs/LangRef.html#specialized-metadata-nodes; DWARF 4, chapter 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from operator import methodcaller

from jitkernel.ir.debug_info import fields, members
from jitkernel.values.datatype import VOID, DataType, Kind, Member

_KINDS: dict[str, Kind] = {
    "DW_TAG_pointer_type": "pointer",
    "DW_TAG_typedef": "typedef",
    "DW_TAG_const_type": "const",
    "DW_TAG_volatile_type": "volatile",
    "DW_TAG_restrict_type": "restrict",
    "DW_TAG_atomic_type": "atomic",
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
    "DW_TAG_array_type": "array",
}
#: By DWARF's names of encodings.
_BASIC: dict[str, tuple[Kind, bool | None]] = {
    "boolean": ("bool", False),
    "float": ("float", None),
    "complex_float": ("complex", None),
    "signed": ("int", True),
    "signed_char": ("int", True),
}

_IS_LOCAL = methodcaller("startswith", "!DILocalVariable(")


class Types:
    """The types that a module's metadata describes; `metadata` has nodes by their numbers."""

    def __init__(self, metadata: Mapping[str, str]):
        self._metadata = metadata
        self._read: dict[str, tuple[str, dict[str, str]]] = {}  # nodes, by their numbers
        self._made: dict[str, DataType] = {}
        self._begun: list[str] = []  # nodes whose types have nothing in them yet
        self._enums: list[tuple[DataType, DataType]] = []  # with what they are, which has the sign

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
        found = self._type(self._fields(number)[1].get("type"))
        self._complete()
        return found

    def _complete(self) -> None:
        """Fill the types that are begun; they may lead to each other through thousands, so nothing
        here calls itself."""
        while self._begun:
            number = self._begun.pop()
            self._fill(self._made[number], *self._fields(number))
        while self._enums:
            made, base = self._enums.pop()
            made.signed = base.bare.signed

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

    def _type(self, reference: str | None) -> DataType:
        if not reference or reference == "null":
            return VOID
        number = reference
        if number not in self._made:
            self._made[number] = DataType()
            self._begun.append(number)
        return self._made[number]

    def _fill(self, made: DataType, node: str, fields: dict[str, str]) -> None:
        made.name = fields.get("name", "")
        made.bits = int(fields.get("size") or 0)
        made.size = made.bits // 8
        made.kind = _KINDS.get(fields.get("tag", ""), "void")
        made.complete = "DIFlagFwdDecl" not in fields.get("flags", "")
        if node == "DIBasicType":
            self._basic(made, fields)
        elif node == "DISubroutineType":
            made.kind = "function"
            result, *rest = self._list(fields.get("types", "")) or [""]
            made.element = self._type(result)
            made.variadic = bool(rest) and not rest[-1]
            made.parameters = tuple(self._type(r) for r in rest if r)
        elif made.kind == "array":
            self._array(made, fields)
        elif made.kind == "enum":
            self._enums.append((made, self._type(fields.get("baseType"))))
            nodes = [self._fields(e)[1] for e in self._list(fields.get("elements", "")) if e]
            made.constants = tuple((n["name"], int(n["value"])) for n in nodes)
        elif made.kind in ("struct", "union"):
            made.members = tuple(
                self._member(e) for e in self._list(fields.get("elements", "")) if e
            )
        elif node == "DIDerivedType":
            made.element = self._type(fields.get("baseType"))
            if made.kind == "pointer":
                made.size, made.bits = 8, 64

    def _basic(self, made: DataType, fields: dict[str, str]) -> None:
        if fields.get("tag") == "DW_TAG_unspecified_type":  # C23 7.21.2
            made.kind, made.name, made.size, made.bits = "pointer", "nullptr_t", 8, 64
            return
        encoding = fields.get("encoding", "").removeprefix("DW_ATE_")
        made.kind, made.signed = _BASIC.get(encoding, ("int", False))
        if made.kind == "complex":
            part = {8: "float", 16: "double", 32: "long double"}.get(made.size, "")
            made.name = f"{part} _Complex"
        elif made.form is not None:
            made.bits = made.form.width

    def _array(self, made: DataType, fields: dict[str, str]) -> None:
        of = self._type(fields.get("baseType"))
        counts = []
        for element in self._list(fields.get("elements", "")):
            said = self._fields(element)[1].get("count", "-1")
            counts.append(int(said) if said.lstrip("-").isdigit() else -1)
        if "DIFlagVector" in fields.get("flags", ""):
            made.kind = "vector"
        outer, size = made, made.size
        for count in counts[:-1]:  # of the arrays in it, one size is said
            size //= max(count, 1)
            outer.count, outer.element = count, (inner := DataType("array", size=size))
            outer = inner
        outer.count, outer.element = counts[-1] if counts else -1, of

    def _member(self, number: str) -> Member:
        fields = self._fields(number)[1]
        bits = int(fields.get("size") or 0) if "BitField" in fields.get("flags", "") else 0
        offset, shift = divmod(int(fields.get("offset") or 0), 8)
        return Member(
            fields.get("name", ""), self._type(fields.get("baseType")), offset, bits, shift
        )
