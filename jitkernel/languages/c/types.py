"""Types of C, as clang's debug information describes them.  Start from `Types`.

The nodes: llvm.org/docs/LangRef.html#specialized-metadata-nodes; DWARF 4, chapter 5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from jitkernel.ir.names import decode_name

__all__ = ["VOID", "CType", "Member", "Types"]

TypeKind: TypeAlias = Literal[
    "void", "base", "pointer", "array", "vector", "struct", "union", "enum", "typedef", "function",
    "const", "volatile", "restrict", "atomic",
]  # fmt: skip
_QUALIFIED = ("typedef", "const", "volatile", "restrict", "atomic")
_FIELD = re.compile(
    r'(\w+): (?:"((?:[^"\\]|\\.)*)"|(!\{[^}]*\}|!?\w*\((?:[^()]|\([^()]*\))*\)|[^,()]*))(?:, |\)?$)'
)
_REFERENCE = re.compile(r"!(\d+)|(null)")
_KINDS: dict[str, TypeKind] = {
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


@dataclass(frozen=True, slots=True)
class Member:
    """A member: `offset` in bits; `bits` are those of a bit-field, 0 for all others."""

    name: str
    type: CType
    offset: int
    bits: int = 0


@dataclass(slots=True, eq=False)
class CType:
    """A type.  `size` in bytes; `counts` are an array's, -1 where unknown; `constants` an enum's.

    `encoding` is DWARF's, of a basic type (`signed`, `float`, `boolean`, ...).
    """

    kind: TypeKind = "void"
    name: str = ""
    size: int = 0
    encoding: str = ""
    of: CType | None = None
    members: tuple[Member, ...] = ()
    counts: tuple[int, ...] = ()
    constants: tuple[tuple[str, int], ...] = ()
    parameters: tuple[CType, ...] = ()
    variadic: bool = False
    unsigned: bool = False
    complete: bool = True

    @property
    def bare(self) -> CType:
        """The type without names and qualifiers around it."""
        found = self
        while found.kind in _QUALIFIED and found.of is not None:
            found = found.of
        return found

    @property
    def unqualified(self) -> CType:
        """The type without qualifiers around it."""
        found = self
        while found.kind in _QUALIFIED[1:] and found.of is not None:
            found = found.of
        return found

    @property
    def promoted(self) -> CType:
        """A function's type as its callers see it where its definition is an old-style one.

        C11 6.5.2.2: default argument promotions.
        """
        return replace(self, parameters=tuple(map(_promoted, self.parameters)))

    def declare(self, inner: str = "") -> str:
        """The type in C, around a declarator: `int (*p)[3]` for `p`.  C11 6.7.6, 6.7.7."""
        gap = " " if inner and not inner.startswith("[") else ""
        of = self.of or VOID
        match self.kind:
            case "struct" | "union" | "enum":
                return f"{self.kind} {self.name or '{...}'}{gap}{inner}"
            case "const" | "volatile" | "restrict":
                if of.kind == "pointer":
                    return of.declare(self.kind + (f" {inner}" if inner else ""))
                return f"{self.kind} {of.declare(inner)}"
            case "atomic":
                return f"_Atomic({of.declare()}){gap}{inner}"
            case "pointer":
                return of.declare(
                    f"(*{inner})" if of.kind in ("array", "function") else f"*{inner}"
                )
            case "array":
                return of.declare(inner + "".join(f"[{c if c >= 0 else ''}]" for c in self.counts))
            case "vector":
                return f"{of.declare()} __attribute__((vector_size({self.size}))){gap}{inner}"
            case "function":
                every = [p.declare() for p in self.parameters]
                more = ["..."] if every and self.variadic else []  # `f()`: no prototype
                inside = ", ".join(every + more) or "void" * (not self.variadic)
                return of.declare(f"{inner}({inside})")
            case _:
                return f"{self.name or 'void'}{gap}{inner}"

    def __str__(self) -> str:
        return self.declare()


VOID = CType()
_INT = CType("base", "int", 4, "signed")
_DOUBLE = CType("base", "double", 8, "float")


def _take_after(made: CType, base: CType) -> None:
    """Give a type what it has from the one that it is made of, which is filled."""
    if made.kind == "enum":
        made.unsigned = "unsigned" in base.bare.encoding
    else:
        made.size = base.size * math.prod(made.counts)


def _promoted(type: CType) -> CType:
    bare = type.bare
    if bare.kind == "base" and bare.encoding == "float" and bare.size == 4:
        return _DOUBLE
    return _INT if bare.kind == "base" and bare.size < 4 and bare.encoding != "float" else type


class Types:
    """The types that a module's metadata describes; `metadata` has nodes by their numbers."""

    def __init__(self, metadata: Mapping[str, str]):
        self._metadata = metadata
        self._made: dict[str, CType] = {}
        self._begun: list[str] = []  # nodes whose types have nothing in them yet
        self._bases: dict[CType, CType] = {}  # of types whose sizes are those of others
        self._functions: dict[str, str] | None = None
        self._variables: dict[str, str] = {}

    def function(self, name: str) -> CType | None:
        """The type of a function that the module defines."""
        number = self._index().get(name)
        return self._typed(number)

    def variable(self, name: str) -> CType | None:
        """The type of a global variable that the module defines."""
        self._index()
        return self._typed(self._variables.get(name))

    def file(self, name: str) -> str:
        """The file in which a function or a global variable is defined."""
        number = self._index().get(name) or self._variables.get(name)
        file = self._fields(number)[1].get("file", "") if number else ""
        return self._fields(file.lstrip("!"))[1].get("filename", "")

    def local(self, name: str) -> CType | None:
        """The type of a local variable, of the first that is called so."""
        wanted = f'name: "{name}"'
        for number, node in self._metadata.items():
            if node.startswith("!DILocalVariable(") and wanted in node:
                return self._typed(number)
        return None

    def locals_of(self, name: str) -> list[tuple[str, int]]:
        """The variables that stand in the outermost block of a function, with their lines."""
        function = self._index().get(name)
        found: list[tuple[str, int]] = []
        for number, node in self._metadata.items() if function is not None else ():
            if node.startswith("!DILocalVariable("):
                fields = self._fields(number)[1]
                scope = fields.get("scope", "").lstrip("!")
                while self._metadata.get(scope, "").startswith("!DILexicalBlockFile("):
                    scope = self._fields(scope)[1].get("scope", "").lstrip("!")
                if scope == function:
                    found.append((fields.get("name", ""), int(fields.get("line", 0))))
        return found

    def _typed(self, number: str | None) -> CType | None:
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
        for made in list(self._bases):
            chain: list[tuple[CType, CType]] = []
            while (base := self._bases.pop(made, None)) is not None:
                chain.append((made, base))
                made = base
            for made, base in reversed(chain):
                _take_after(made, base)

    def _index(self) -> dict[str, str]:
        if self._functions is None:
            self._functions = {}
            for number, node in self._metadata.items():
                function = "!DISubprogram(" in node[:24]
                if function or "!DIGlobalVariable(" in node[:28]:
                    fields = self._fields(number)[1]
                    name = fields.get("linkageName") or fields.get("name", "")
                    (self._functions if function else self._variables)[name] = number
        return self._functions

    def _fields(self, number: str) -> tuple[str, dict[str, str]]:
        """The kind of a node, and its fields."""
        kind, _, rest = self._metadata.get(number, "").removeprefix("distinct ").partition("(")
        found = {
            m[1]: decode_name(f'"{m[2]}"') if m[2] is not None else m[3].strip()
            for m in _FIELD.finditer(rest)
        }
        return kind[1:], found

    def _list(self, reference: str) -> list[str]:
        """The nodes of a list, "" for `null`."""
        node = self._metadata.get(reference.lstrip("!"), "")
        return [m[1] or "" for m in _REFERENCE.finditer(node)]

    def _type(self, reference: str | None) -> CType:
        if not reference or reference == "null":
            return VOID
        number = reference.lstrip("!")
        if number not in self._made:
            self._made[number] = CType()
            self._begun.append(number)
        return self._made[number]

    def _fill(self, made: CType, node: str, fields: dict[str, str]) -> None:
        made.name = fields.get("name", "")
        made.size = int(fields.get("size") or 0) // 8
        made.kind = _KINDS.get(fields.get("tag", ""), "void")
        made.complete = "DIFlagFwdDecl" not in fields.get("flags", "")
        if node == "DIBasicType":
            self._basic(made, fields)
        elif node == "DISubroutineType":
            made.kind = "function"
            result, *rest = self._list(fields.get("types", "")) or [""]
            made.of = self._type(result)
            made.variadic = bool(rest) and not rest[-1]
            made.parameters = tuple(self._type(r) for r in rest if r)
        elif made.kind == "array":
            self._array(made, fields)
        elif made.kind == "enum":
            self._bases[made] = self._type(fields.get("baseType"))
            nodes = [self._fields(e)[1] for e in self._list(fields.get("elements", "")) if e]
            made.constants = tuple((n["name"], int(n["value"])) for n in nodes)
        elif made.kind in ("struct", "union"):
            made.members = tuple(
                self._member(e) for e in self._list(fields.get("elements", "")) if e
            )
        elif node == "DIDerivedType":
            made.of = self._type(fields.get("baseType"))
            if made.kind == "pointer":
                made.size = 8
            else:
                self._bases[made] = made.of

    def _basic(self, made: CType, fields: dict[str, str]) -> None:
        if fields.get("tag") == "DW_TAG_unspecified_type":  # C23 7.21.2
            made.kind, made.name, made.size, made.encoding = "base", "nullptr_t", 8, "null"
            return
        made.kind, made.encoding = "base", fields.get("encoding", "").removeprefix("DW_ATE_")
        if made.encoding == "complex_float":
            part = {8: "float", 16: "double", 32: "long double"}.get(made.size, "")
            made.name = f"{part} _Complex"

    def _array(self, made: CType, fields: dict[str, str]) -> None:
        made.of = self._type(fields.get("baseType"))
        counts = []
        for element in self._list(fields.get("elements", "")):
            count = self._fields(element)[1].get("count", "-1")
            counts.append(int(count) if count.lstrip("-").isdigit() else -1)
        made.counts = tuple(counts)
        if "DIFlagVector" in fields.get("flags", ""):
            made.kind = "vector"
        elif not made.size and -1 not in counts:
            self._bases[made] = made.of

    def _member(self, number: str) -> Member:
        fields = self._fields(number)[1]
        bits = int(fields.get("size") or 0) if "BitField" in fields.get("flags", "") else 0
        offset = int(fields.get("offset") or 0)
        return Member(fields.get("name", ""), self._type(fields.get("baseType")), offset, bits)
