"""The module that clang prints, taken apart: what goes into a cell's module, and what runs once.

clang's text is regular: a definition a line, functions from `define` to a line `}`.  Its debug
information becomes comments, which the session reads: `; line 3`, and `; [40 x i32]` in the type of
a variable that is an array for C alone.  Start from `parse`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from jitkernel.files import absolute
from jitkernel.ir import module as ir
from jitkernel.ir.attributes import cpu, without_cpu
from jitkernel.ir.debug_info import fields, nodes, split_at_locations, split_location
from jitkernel.ir.instructions import Instruction
from jitkernel.ir.names import (
    decode_name,
    mentions,
    quote_name,
    renamed,
    symbol_name,
    unnumbered,
)
from jitkernel.ir.statements import Statement
from jitkernel.ir.text import has_word, split_at_commas, type_at
from jitkernel.ir.types import ArrayType, StructType, Type, parse_type
from jitkernel.languages.c.debugged import debug_metadata
from jitkernel.languages.c.generated import OWN, PLAIN, owner_of
from jitkernel.languages.llvm.plan import ENTRY, Plan
from jitkernel.reach import reached
from jitkernel.record import field, record

EntityKind: TypeAlias = Literal["variable", "function", "declaration", "alias"]
#: What a module of clang's has that goes into others.
_PRINTED = ("function", "value", "type", "comdat", "asm")
_KINDS: dict[str, EntityKind] = {"define": "function", "alias": "alias", "ifunc": "alias"}

_ANONYMOUS = ("struct.anon", "union.anon")
_LOCAL = ("internal", "private", "available_externally")


@record(frozen=False)
class Entity:
    """A definition or a declaration: its text, and the symbols in it."""

    kind: EntityKind
    name: str
    text: str
    local: bool = False
    external: bool = False  # a variable of somebody else's
    symbols: frozenset[str] = frozenset()

    @staticmethod
    def of(found: ir.Entity, text: str) -> Entity:
        """A definition or a declaration as clang has printed it."""
        linkage, name = found.linkage, found.spelled
        if found.kind == "declare":
            return Entity("declaration", name, text)
        if linkage == "external":  # __cpu_model, which libgcc_s has, may be far away
            text = text.replace("external dso_local ", "external ", 1)
        return Entity(
            _KINDS.get(found.kind, "variable"), name, text, linkage in _LOCAL,
            linkage in ("external", "extern_weak"), mentions(text, "@") - {name},
        )  # fmt: skip

    @property
    def head(self) -> ir.Entity:
        """The head of the text as it is now."""
        return next(ir.entities(self.text, "function", "value"))

    @property
    def type_place(self) -> tuple[int, str]:
        """The offset of a variable's type, and its text."""
        start = self.head.value + 1
        return start, type_at(self.text, start)

    def put(self, at: int, old: str, new: str) -> None:
        """Replace what stands at an offset of the text."""
        self.text = f"{self.text[:at]}{new}{self.text[at + len(old) :]}"

    @property
    def is_inline(self) -> bool:
        """True if somebody else defines it, and the text here is for what calls it."""
        return self.local and "available_externally" in self.text.partition("@")[0]

    @property
    def is_zero(self) -> bool:
        """True of a variable that begins with zeros."""
        at, type = self.type_place
        value = self.text[at + len(type) :].partition(",")[0].strip()
        return value in ("zeroinitializer", "0", "null")

    @property
    def is_declaration(self) -> bool:
        """True if somebody else defines it."""
        return self.kind == "declaration" or self.external


@record(frozen=False)
class Module:
    """A module's parts by name; names are spelled as they stand in the text."""

    entities: dict[str, Entity] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    comdats: dict[str, str] = field(default_factory=dict)
    assembly: dict[int, list[str]] = field(default_factory=dict)  # by cell; 0: its own
    metadata: dict[str, str] = field(default_factory=dict)
    debug: bool = False  # its debug information stays
    tentative: set[str] = field(default_factory=set)  # variables of headers; see `share`

    @property
    def labels(self) -> set[str]:
        """The names that its assembly defines."""
        return ir.labels_in(line for said in self.assembly.values() for line in said)

    def reach(self, roots: Iterable[str]) -> list[str]:
        """These names, what is local behind them, and what they use of others', in the text's
        order.  With debug information also the constants of functions: clang has put the values of
        some in their places, and nothing uses them (`f.limit`)."""
        constants: dict[str, list[str]] = {}
        for entity in self.entities.values() if self.debug else ():
            owner, dot, _ = decode_name(entity.name).partition(".")
            if dot and entity.kind == "variable" and entity.local and " constant " in entity.text:
                constants.setdefault(quote_name(owner), []).append(entity.name)

        def leads(name: str) -> Iterable[str]:
            entity = self.entities.get(name)
            used = [self.entities.get(other) for other in entity.symbols] if entity else ()
            found = [e.name for e in used if e and (e.local or e.is_declaration)]
            return found + constants.get(name, [])

        found = reached(roots, leads)
        return [name for name in self.entities if name in found]

    def declaration(self, name: str) -> str:
        """The text that declares what the module defines; "" of an alias."""
        entity = self.entities[name]
        if entity.kind == "alias":
            return ""
        return next(ir.entities(entity.text, "function", "value")).declaration

    def plan(
        self, roots: Iterable[str], assembly: Iterable[str] = (), entry: str = "",
        declared: Iterable[str] = (),
    ) -> Plan:  # fmt: skip
        """The plan of a module of what these names reach, with the types and so on that they need,
        and `assembly` that stands outside of functions; `entry` is the function that runs once.
        What is `declared`, or others use, it only declares."""
        names = self.reach(roots)
        declared = (*declared, *self.borrowed(names))
        chosen = [self.entities[name] for name in names]
        heads = {name: head for name in declared if (head := self.declaration(name))}
        code = "\n".join([*heads.values(), *(e.text for e in chosen)])
        parts = [*assembly]
        types: dict[str, str] = {}
        if self.types:
            known, bodies = self.types.keys(), self.types
            used = reached(mentions(code, "%") & known, lambda n: mentions(bodies[n], "%") & known)
            types = {name: body for name, body in bodies.items() if name in used}
            parts += [f"%{name} = type {body}" for name, body in types.items()]
        if self.comdats:
            comdats = mentions(code, "$") | {
                e.name for e in chosen if has_word(e.text.replace(" comdat(", ""), "comdat")
            }
            parts += [said for name, said in self.comdats.items() if name in comdats]
        parts.append(code)
        groups = mentions(code, "#")
        parts += [group for name, group in self.attributes.items() if name in groups]
        metadata = self._metadata_of(code)
        text = "\n".join([*parts, *metadata])
        if entry:  # which only its own blocks' addresses name besides
            for behind in "(,":
                text = text.replace(f"@{entry}{behind}", f"@{ENTRY}{behind}")
        named = [e for e in chosen if not e.name.isdigit()]
        own = [e for e in named if not (e.is_declaration or e.is_inline)]
        others = (e for e in named if e.is_declaration or e.is_inline)
        uses = {*heads}.union((e.name for e in named), *(e.symbols for e in chosen))
        uses.update(*(mentions(line, "@") for line in metadata))

        def symbols(names: Iterable[str]) -> frozenset[str]:
            return frozenset([ENTRY if n == entry else symbol_name(n) for n in names])

        return Plan(
            text,
            entities=(Statement.whole(text),),
            defines=symbols(e.name for e in own),
            declares=symbols((*heads, *(e.name for e in others))),
            uses=symbols(name for name in uses if not name.isdigit()),
            local_names=symbols(e.name for e in own if e.local),
            types={symbol_name(name): body for name, body in types.items()},
        )

    def _metadata_of(self, text: str) -> list[str]:
        if self.debug:
            return debug_metadata(self.metadata, text)
        found: dict[str, str] = {}
        todo = [*mentions(text, "!")]
        while todo:
            number = todo.pop()
            if number not in found:
                node = self.metadata.get(number, "")
                found[number] = node = "" if _is_debug(node) else self._without_places(node)
                todo += mentions(node, "!")
        kept = sorted(int(number) for number, node in found.items() if node)
        return [f"!{number} = {found[str(number)]}" for number in kept]

    def _without_places(self, node: str) -> str:
        """Loops name the lines they are on, which are gone."""
        if not node.startswith("distinct !{"):  # those are no loop's
            return node
        distinct, brace, items = node.partition("!{")
        kept = [
            item for item in items.removesuffix("}").split(", ")
            if not (item[:1] == "!" and _is_debug(self.metadata.get(item[1:], "")))
        ]  # fmt: skip
        return f"{distinct}{brace}{', '.join(kept)}}}"

    def borrowed(self, names: Collection[str]) -> list[str]:
        """The others that these entities use and that the module defines for all to see."""
        own = frozenset(names)
        used = frozenset().union(*(self.entities[name].symbols for name in names)) - own
        return [
            name for name in self.entities
            if name in used and not self.entities[name].is_declaration
        ]  # fmt: skip

    def share(self, has: Callable[[str], bool]) -> list[str]:
        """Make one variable of the session's of each that is a header's own: `static int seed;`, or
        one within its functions; `has` tells which somebody has: the module only declares those.
        The names of those that it defines and that begin with zeros.

        In C each file that includes the header has another copy.  A session is one program, whose
        cells are pieces of one file: so there is one for all cells, a symbol that is called after
        the header, with the cell of its `#include`.  The same holds for what a header that defines
        nothing else defines tentatively for all (C11 6.9.2): these are `tentative`.
        """
        names: dict[str, str] = {}
        tentative: dict[str, str] = {}
        for name, entity in self.entities.items():
            if entity.kind != "variable" or entity.external or name.startswith(OWN):
                continue
            if entity.local and " constant " in entity.text:
                continue
            if (entity.local or entity.is_zero) and (path := self._header_of(entity.text)):
                if entity.local:
                    names[name] = quote_name(f"{path}:{decode_name(name)}")
                else:
                    tentative[name] = path
        others = {
            self._header_of(entity.text.partition("\n")[0])
            for name, entity in (self.entities.items() if tentative else ())
            if not (entity.local or entity.is_declaration) and name not in tentative
        }  # fmt: skip
        self.tentative = {name for name, path in tentative.items() if path not in others}
        for name in filter(lambda name: has(decode_name(name)), self.tentative):
            entity = self.entities[name]
            entity.text, entity.external = self.declaration(name), True
        own = [new for new in names.values() if not has(decode_name(new))]
        self._publish(names, own)
        return [new for new in own if self.entities[new].is_zero]

    def _header_of(self, text: str) -> str:
        """The header that debug information names of a variable, or of a function by its first
        line; "" for none."""
        node = self.metadata.get(split_location(text)[1], "")
        for key in ("var", "file"):
            if key == "file" or key in fields(node):
                node = self.metadata.get(fields(node).get(key, ""), "")
        name = fields(node).get("filename", "")
        if not name or name.startswith(("cell ", "session")):
            return ""
        return absolute(name)

    def _publish(self, names: Mapping[str, str], own: Collection[str]) -> None:
        """Give variables that nobody else saw these names for all to see; those that are not
        `own`, somebody else has."""
        if not names:
            return
        for entity in self.entities.values():
            if entity.name in names or not entity.symbols.isdisjoint(names):
                entity.text = renamed(entity.text, "@", names)
                entity.symbols = frozenset(names.get(name, name) for name in entity.symbols)
        self.entities = {names.get(name, name): e for name, e in self.entities.items()}
        for new in names.values():
            entity = self.entities[new]
            entity.name, entity.local = new, False
            head = entity.head
            words = head.words.replace(f"{head.linkage} ", "", 1)
            entity.put(head.words_at, head.words, words)
            if new not in own:
                entity.text, entity.external = self.declaration(new), True

    def make_writable(self, name: str) -> None:
        """Let a constant be a variable: it gets its value when the cell runs."""
        entity = self.entities.get(name)
        if entity is not None and (found := entity.head).kind == "constant":
            entity.put(found.value - len(found.kind), found.kind, "global")

    def say_array(self, name: str, counts: Sequence[int]) -> None:
        """A variable is an array with such sides, however its initialiser is written: a comment
        in its type says so, which the session reads."""
        entity = self.entities.get(name)
        if entity is None or entity.kind != "variable":
            return
        at, type = entity.type_place
        if "<{" in type and (said := _array_type(parse_type(type), counts)):
            entity.put(at + type.rindex("}>"), "", f"; {said}\n")

    # -- what a session needs otherwise ----------------------------------------------------------

    def keep_lines(self, prefix: str, file_name: str) -> None:
        """Debug information goes, but for comments that say the lines of a function in its file
        (see `ir.marks`), where that is another one than `file_name`; of functions whose names have
        the prefix, those in the file of that name."""
        metadata = self.metadata
        named = {
            number for number, node in metadata.items()
            if node.startswith("!DIFile(") and f'filename: "{file_name}"' in node
        }  # fmt: skip
        files: dict[str, str] = {}  # by the number of a scope

        def file_of(scope: str) -> str:
            if scope not in files:
                files[scope] = fields(metadata.get(scope, "")).get("file", "")
            return files[scope]

        places: dict[str, tuple[str, str]] = {}  # line and file, by the number of a location
        for entity in self.entities.values():
            if entity.kind != "function":
                if "!dbg" in entity.text:
                    entity.text = split_location(entity.text)[0]
                continue
            head = entity.text.partition("\n")[0]
            body = entity.text[len(head) :]
            head, scope = split_location(head)
            said = fields(metadata.get(scope, ""))
            files[scope] = file = said.get("file", "")
            own = named if entity.name.startswith(prefix) else {file} if scope else set()
            now = "0"
            suffix = "" if own <= named else f' in "{self._path(min(own))}"'
            if scope and (first := said.get("line")):
                head += f"\n  ; begins at line {first}"
            parts = split_at_locations(body)
            for number in range(1, len(parts), 2):
                at, parts[number] = parts[number], ""
                if at not in places:
                    place = fields(metadata.get(at, ""))
                    places[at] = place.get("line", "0"), file_of(place.get("scope", ""))
                line, where = places[at]
                if line not in ("0", now) and where in own:
                    before = parts[number - 1]
                    begin = before.rfind("\n") + 1
                    parts[number - 1] = f"{before[:begin]}  ; line {line}{suffix}\n{before[begin:]}"
                    now = line
            entity.text = head + "".join(parts)

    def _path(self, file: str) -> str:
        """The path of a file by the number of its node."""
        said = fields(self.metadata.get(file, ""))
        name, folder = said.get("filename", ""), said.get("directory", "")
        return name if not folder or name.startswith("/") else f"{folder}/{name}"

    def keep_debug(self, lines: Mapping[str, range]) -> None:
        """Debug information stays.  Functions of these names are of these lines alone: what we
        have written behind them is of none."""
        self.debug = True
        for name in lines.keys() & self.entities.keys():
            for number in mentions(self.entities[name].text, "!"):
                node = self.metadata.get(number, "")
                line = fields(node).get("line", "0") if node.startswith("!DILocation(") else "0"
                if line != "0" and int(line) not in lines[name]:
                    self.metadata[number] = node.replace(f"line: {line}", "line: 0", 1)

    def keep_literals(self, prefix: str) -> None:
        """Compound literals stay when the function that has them returns, where something else may
        have their address: those of functions whose names have the prefix, which run once.

        C11 6.5.2.5: outside of functions they live for ever, and that is where a cell's statements
        stand.
        """
        for entity in list(self.entities.values()):
            if entity.kind != "function" or not entity.name.startswith(prefix):
                continue
            text = entity.text
            for line in text.split("\n") if ".compoundliteral" in text else ():
                found = Instruction.read(line)
                literal = found.result.removeprefix("%")
                if found.opcode != "alloca" or not literal.startswith(".compoundliteral"):
                    continue
                if not _escapes(text, literal):
                    continue
                name = f"{entity.name}.{literal}"
                left = entity.text.replace(line + "\n", "")
                entity.text = renamed(left, "%", {literal: name}, new_sign="@")
                entity.symbols |= {name}
                type, *alignment = split_at_commas(found.text[found.operands :])
                value = ", ".join([f"{type} zeroinitializer", *alignment])
                variable = f"@{name} = internal global {value}"
                self.entities[name] = Entity("variable", name, variable, True)

    def name_anonymous(self, cell: int) -> None:
        """Types without a tag get names that those of no other cell have."""
        names = {
            name: f"{name}.cell{cell}" for name in self.types if unnumbered(name) in _ANONYMOUS
        }
        if not names:
            return
        for entity in self.entities.values():
            entity.text = renamed(entity.text, "%", names)
        bodies = ((name, renamed(body, "%", names)) for name, body in self.types.items())
        self.types = {names.get(name, name): body for name, body in bodies}


def _array_type(type: Type, counts: Sequence[int]) -> Type | None:
    """The IR type of an array with such sides whose initialiser has this type; None where its
    elements have different ones, as those of unions.

    clang gives `int a[40] = {1};` the type `<{ i32, [39 x i32] }>`, so that the zeros take no space
    in the module's text.
    """
    if not counts:
        return None if isinstance(type, ArrayType) else type
    count, *inner = counts
    total, every = 0, set[Type | None]()
    for part in type.members if isinstance(type, StructType) and type.packed else (type,):
        number, one = 1, _array_type(part, inner)
        if one is None and isinstance(part, ArrayType):  # some elements as an array
            number, one = part.count, _array_type(part.element, inner)
        total += number
        every.add(one)
    found = every.pop() if len(every) == 1 and total == count else None
    return ArrayType(count, found) if found is not None else None


def _escapes(text: str, variable: str) -> bool:
    """True if the address of a function's variable may be anywhere when the function returns."""
    held = {variable}
    for line in text.split("\n"):
        if held.isdisjoint(mentions(line, "%")):
            continue
        found = Instruction.read(line)
        if found.opcode == "getelementptr":
            held.add(found.result.removeprefix("%"))
        elif found.opcode == "store":
            if held & mentions(found.text[found.operands :].partition(",")[0], "%"):
                return True
        elif found.opcode not in ("alloca", "load") and "call void @llvm.mem" not in line:
            return True
    return False


def _is_debug(node: str) -> bool:
    return node.startswith(("!DI", "distinct !DI"))


def parse(text: str, own_processor: bool = False) -> Module:
    """Take apart what clang has printed.  Functions name the processor that they are for where
    somebody has chosen it: for all, `own_processor`, or for some, by an attribute."""
    code, _, last = text.partition("\n!")
    code, *lines = code.split("\nattributes #")  # each a line, behind all others
    code += "\n"
    attributes = {line.partition(" ")[0]: f"attributes #{line.rstrip()}" for line in lines}
    module = Module(attributes=attributes, metadata=nodes(f"!{last}"))
    owner = 0
    for found in ir.entities(code, *_PRINTED):
        name, stop = found.spelled, found.stop
        said = code[found.start : stop if stop >= 0 else code.find("\n", found.value)]
        match found.kind:
            case "type":
                module.types[name] = said[found.value - found.start :]
            case "comdat":
                module.comdats[name] = said
            case "asm":
                owner = owner_of(said) or owner
                module.assembly.setdefault(owner, []).append(said)
            case _:
                module.entities[name] = Entity.of(found, said)
    if not own_processor:
        plain = module.entities.get(PLAIN)  # says nothing of it
        its = mentions(plain.text, "#") if plain is not None else ()
        usual = [cpu(module.attributes[group]) for group in its]
        for name, group in module.attributes.items():
            if not usual or cpu(group) in usual:
                module.attributes[name] = without_cpu(group)
    return module
