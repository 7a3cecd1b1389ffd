"""Notebooks of declarations that use each other, edited at random: what the text says at each
moment, to be compared with a session that runs it from the beginning.  Start from `Notebook`.

An `Item` declares one name; its text mentions items that stand before it.  A notebook's cells hold
items; an edit changes one item's text in its cell, or gives it in a new cell of its own, in C, in
IR, in Kaleidoscope or from Python.  `Notebook.collapsed` is the text in which each item stands once,
where it was first: nothing is defined again there.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jitkernel import Session

__all__ = ["Item", "Notebook", "Player"]

INTEGERS = ("int", "short", "long", "signed char", "unsigned char", "long long")
#: What sums the bytes of an object, so that values of all types can be compared.
HELPER = (
    "int same(int x) { return x; } int bytes_of(const void *p, unsigned long n) { int s = 0; const unsigned char *c = p;"
    " for (unsigned long i = 0; i < n; i++) s = s * 31 + c[i]; return s & 0xfffff; }"
)


@dataclass
class Item:
    """One name: its kind, a number and words that vary its text, and the items that it uses."""

    name: str
    kind: str
    value: int
    word: str = ""
    uses: list[str] = field(default_factory=list)
    language: str = "c"  # of a function: c, llvm, kaleidoscope, python


class Notebook:
    """Items by name, in order, and the cells that hold them (lists of names)."""

    def __init__(self, seed: int, folder: Path, kinds: tuple[str, ...] = ()):
        self.random = random.Random(seed)
        self.folder = folder
        self.items: dict[str, Item] = {}
        self.cells: list[list[str]] = []
        self.left: set[str] = set()  # names that an edit gave elsewhere
        names = 0
        every = kinds or tuple(WEIGHTS)
        for _ in range(self.random.randint(4, 7)):
            cell = []
            for _ in range(self.random.randint(1, 4)):
                kind = self.random.choices(every, [WEIGHTS.get(k, 2) for k in every])[0]
                if kind in ("pack", "header") and cell:
                    continue
                names += 1
                cell.append(self._new(f"{kind[0]}{names}", kind).name)
                if kind in ("pack", "header"):
                    break
            self.cells.append(cell)
        names += 1
        self.cells.append([self._new(f"f{names}", "function").name])

    # -- items -----------------------------------------------------------------------------------

    def _new(self, name: str, kind: str) -> Item:
        item = self.items[name] = Item(name, kind, 0)
        self._vary(item)
        return item

    def _vary(self, item: Item) -> None:
        """Give an item another text."""
        rnd = self.random
        item.value += rnd.randint(1, 5)
        words = WORDS.get(item.kind, ("",))
        if item.kind != "function" or not item.word:
            item.word = rnd.choice(words)
        before = list(self.items)[: list(self.items).index(item.name)]
        usable = [n for n in before if self._may_use(item, self.items[n])]
        item.uses = rnd.sample(usable, min(len(usable), rnd.randint(0, 3)))
        if item.kind == "function" and item.language != "c":
            item.uses = []
        if item.kind in LANGUAGES:
            item.language = LANGUAGES[item.kind]
        if self._is_number(item.name):
            item.uses = []

    def _is_number(self, name: str) -> bool:
        """Whether it is a macro that stays a number, for which conditions can ask."""
        return self.items[name].kind == "macro" and int(name[1:]) % 2 == 1

    @staticmethod
    def _may_use(item: Item, other: Item) -> bool:
        if item.kind in LANGUAGES:
            return {"size": "irtype", "kaleidoscope": "kaleidoscope"}.get(item.kind) == other.kind
        if other.kind in ("pack", "irtype"):
            return False
        if other.kind in LANGUAGES:
            return item.kind == "function"
        if other.kind in RICH:
            return item.kind in ("function", *RICH)
        if item.kind in RICH:
            return item.kind != "flexible"
        if item.kind == "table":
            return other.kind == "function"
        if item.kind == "function":
            return True
        if other.kind in ("function", "table", "variable", "header"):
            return other.kind == "header" and item.kind != "table"
        if other.kind == "const":  # no constant expression elsewhere, as C has it
            return item.kind == "const"
        return item.kind not in ("pack", "header")

    def _term(self, name: str) -> str:
        """An expression of an item, an int."""
        item = self.items[name]
        match item.kind:
            case "macro" | "enum":
                return name
            case "const":
                return f"(int) {name}"
            case "typedef":
                return f"(int) sizeof({name})"
            case "struct":
                return f"(int) sizeof(struct {name})"
            case "function":
                return f"(int) {name}(1)"
            case "size" | "kaleidoscope":
                return f"(int) {name}(1)"
            case "library" | "labels" | "section":
                return f"{name}(1)"
            case "handlers":
                return f"({name}[0].f(1) + {name}[1].f(2) + {name}[0].k)"
            case "flexible":
                return f"(int) ({name}.d[{name}.n - 1] + {name}.n)"
            case "table":
                return f"{name}[0](2)"
            case "header":
                return f"(H_{name} + (int) sizeof(struct s_{name}))"
            case _:
                return f"(int) sizeof {name} + bytes_of(&{name}, sizeof {name})"

    def _sum(self, item: Item) -> str:
        terms = [str(item.value), *map(self._term, item.uses)]
        return f"({' + '.join(terms)})"

    def text(self, item: Item) -> str:
        """What declares it."""
        name, value, word = item.name, item.value, item.word
        total = self._sum(item)
        types = [n for n in item.uses if self.items[n].kind in ("typedef", "struct")]
        inner = [f"struct {n}" if self.items[n].kind == "struct" else n for n in types]
        match item.kind:
            case "macro":
                return f"#define {name} {total}"
            case "enum":
                tag = f"e_{name}" if item.word else ""
                return f"enum {tag} {{ {name} = {total} }} w_{name} = {name};"
            case "const":
                return f"{word} {name} = {total};"
            case "typedef":
                return (
                    f"typedef {word} {name}[{total}];" if value % 2 else f"typedef {word} {name};"
                )
            case "struct":
                more = "".join(f" {t} in{i};" for i, t in enumerate(inner))
                return f"struct {name} {{ char a; {word} b;{more} char c[{total}]; }};"
            case "pack":
                return f"#pragma pack({word})"
            case "variable":
                if inner:
                    return f"{inner[0]} {name};"
                return {
                    "scalar": f"int {name} = {total};",
                    "array": f"int {name}[{total}];",
                    "filled": f"int {name}[] = {{{', '.join(['1'] * (value % 5 + 1))}, {total}}};",
                    "wide": f"long {name}[{total}] = {{{total}}};",
                    "unnamed": f"struct {{ int a; char c[{total}]; }} {name} = {{{total}}}, o_{name};",
                }[word]
            case _ if item.kind in RICH:
                return self._together(item, total)
            case "table":
                return f"int (*{name}[])(int) = {{{', '.join(item.uses) or 'same'}}};"
            case "header":
                return f'#include "{self.folder}/{name}.h"'
            case "irtype":
                return f"%{name} = type {{ {word}, i8, [{value} x i16] }}"
            case "size":
                type = f"%{item.uses[0]}" if item.uses else "i64"
                return (
                    f"define i32 @{name}(i32 %x) {{\n  %e = getelementptr {type}, ptr null, i32 1\n"
                    f"  %n = ptrtoint ptr %e to i32\n  %y = add i32 %n, {value}\n  ret i32 %y\n}}\n"
                    f"@v_{name} = global {type} zeroinitializer"
                )
            case "kaleidoscope":
                return (
                    f"def {name}(x) {' + '.join([f'x + {value}', *(f'{n}(x)' for n in item.uses)])}"
                )
            case _:
                return self._function(item, total)

    def _together(self, item: Item, total: str) -> str:
        """The declarations that belong together."""
        name, value, word = item.name, item.value, item.word
        match item.kind:
            case "flexible":
                every = ", ".join(str(value + i) for i in range(value % 4 + 1))
                return f"struct s_{name} {{ int n; {word} d[]; }} {name} = {{ {value % 4 + 1}, {{ {every} }} }};"
            case "handlers":
                return (
                    f"static int a_{name}(int x) {{ return x + {value}; }}\n"
                    f"int b_{name}(int x) {{ return x * 2 + {total}; }}\n{word} struct {{ int (*f)(int); int k; }}"
                    f" {name}[] = {{ {{ a_{name}, {value} }}, {{ b_{name}, 2 }} }};"
                )
            case "library":
                return (
                    f"typedef {word} t_{name};\nstatic t_{name} f_{name}(t_{name} a) {{ return a * 3 + {value % 20}; }}\n"
                    f"int {name}(int x) {{ return (int) f_{name}(x) + {total}; }}"
                )
            case "labels":
                return (
                    f"{word} int {name}(int x) {{ static void *const t[] = {{ &&a, &&b }}; goto *t[x & 1];"
                    f" a: return {value}; b: return x + {total}; }}"
                )
            case _:
                return (
                    f'__attribute__((section("of_{name}"), used)) static int a_{name} = {value}, b_{name} = 2;\n'
                    f"extern int __start_of_{name}[], __stop_of_{name}[];\nint {name}(int x) {{ int s = x; for (int *p ="
                    f" __start_of_{name}; p < __stop_of_{name}; p++) s += *p; return s + {total}; }}"
                )

    def _function(self, item: Item, total: str) -> str:
        name, value = item.name, item.value
        if item.language == "llvm":
            return f"define i32 @{name}(i32 %x) {{\n  %y = add i32 %x, {value}\n  ret i32 %y\n}}"
        body = f"return x + {total};"
        plain = [n for n in item.uses if self._is_number(n)]
        if plain and value % 2:
            body = f"\n#if {plain[0]} % 2\n{body}\n#else\nreturn x;\n#endif\n"
        return f"{item.word} int {name}(int x) {{ {body} }}".strip()

    def header(self, item: Item) -> str:
        """The text of a header's file."""
        guard = "#pragma once\n" if item.word == "guarded" else ""
        return (
            f"{guard}#define H_{item.name} {item.value}\n"
            f"struct s_{item.name} {{ char a; int b[{item.value}]; }};\n"
            f"static inline int i_{item.name}(int x) {{ return x * {item.value}; }}\n"
        )

    # -- edits -----------------------------------------------------------------------------------

    def collapsed(self) -> list[list[Item]]:
        """The cells of the present text."""
        first = [[self.items[n] for n in cell] for cell in self.cells]
        return [[copy.deepcopy(i) for i in cell] for cell in first if cell]

    def edit(self, below: Mapping[str, Item]) -> tuple[Item, str]:
        """Change an item, and how: in its place, "elsewhere" in a cell of its own, or "back" to
        what stands `below`, in a cell that was run before."""
        if below and self.random.random() < 0.3:
            item = self.items[self.random.choice(sorted(below))]
            item.__dict__ |= copy.deepcopy(below[item.name].__dict__)
            return item, "back"
        item = self.random.choice(list(self.items.values()))
        elsewhere = self.random.random() < 0.4
        if any(i.kind == "pack" for i in self.items.values()):  # it depends on the place
            elsewhere = elsewhere and item.kind in ("macro", "enum", "const", "function")
        elsewhere = elsewhere and item.kind != "library"  # its cell still has all of it
        if item.kind == "function" and elsewhere:
            item.language = self.random.choice(("c", "c", "llvm", "python"))
        if elsewhere:
            self.left.add(item.name)
        elif item.kind in SWAPPED and item.name not in self.left and int(item.name[1:]) % 2 == 0:
            item.kind = self.random.choice(SWAPPED)
        self._vary(item)
        return item, "elsewhere" * elsewhere

    @property
    def is_portable(self) -> bool:
        """Whether all of it can be saved."""
        return all(item.language != "python" for item in self.items.values())

    def probe(self) -> str:
        """An expression of everything: an array of ints."""
        return f"(int[]){{{', '.join(map(self._term, self.names()))}}}"

    def names(self) -> list[str]:
        """What the probe's elements are of."""
        return [n for n, i in self.items.items() if i.kind not in ("pack", "irtype")]


WEIGHTS = {
    "macro": 3, "enum": 2, "const": 3, "typedef": 2, "struct": 3, "pack": 1,
    "variable": 4, "table": 1, "function": 6, "header": 1, "irtype": 1, "size": 1,
    "kaleidoscope": 1,
}  # fmt: skip
#: Kinds of several declarations that belong together.
RICH = ("flexible", "handlers", "library", "labels", "section")
#: Kinds that a name may change between in its cell.
SWAPPED = ("macro", "enum")
#: Kinds that are no more than text: what another cell says of them counts again.
TEXTS = ("macro", "typedef", "struct")
#: Items that no cell of C holds.
LANGUAGES = {"irtype": "llvm", "size": "llvm", "kaleidoscope": "kaleidoscope"}
WORDS = {
    "const": tuple(f"{s}const {t}" for s in ("", "static ") for t in ("int", "double", "short")),
    "enum": ("named", ""), "typedef": INTEGERS, "struct": INTEGERS, "pack": ("1", "2", "4", ""),
    "variable": ("scalar", "array", "filled", "wide", "unnamed"),
    "function": ("", "", "static", "static inline", "inline"),
    "flexible": ("int", "short", "char"), "handlers": ("", "static", "const"),
    "library": (*INTEGERS, "double", "float"), "labels": ("", "static", "inline"),
    "header": ("guarded", "plain"), "irtype": ("i8", "i32", "i64", "double"),
}  # fmt: skip


class Player:
    """A session in which a notebook is run: its cells by id, and items that have left theirs."""

    def __init__(self, notebook: Notebook, session: Session):
        self.notebook, self.session = notebook, session
        self.moved: set[str] = set()
        self.extra = 0
        self.runs = 0  # of cells, so far
        self.said: dict[
            str, list[tuple[str, Item]]
        ] = {}  # of each item, by cells, the last one last

    def begin(self) -> None:
        """Run every cell."""
        self.session.run(HELPER, "c")
        for at in range(len(self.notebook.cells)):
            self.run_cell(at)

    def run_cell(self, at: int) -> None:
        """Run a notebook cell, without the items that stand elsewhere now."""
        names = [n for n in self.notebook.cells[at] if n not in self.moved]
        self._give([self.notebook.items[n] for n in names], f"cell{at}")

    def below(self) -> dict[str, Item]:
        """What items are when the cells that say them now, and nothing else, do no more."""
        return {
            name: said[-2][1] for name, said in self.said.items()
            if len(said) > 1 and not said[-1][0].startswith("cell")
            and all(item.kind in TEXTS for _, item in said)
        }  # fmt: skip

    def _give(self, items: list[Item], id: str) -> None:
        book = self.notebook
        for said in self.said.values():
            said[:] = (one for one in said if one[0] != id)
        for item in items:
            self.said.setdefault(item.name, []).append((id, copy.deepcopy(item)))
        plain = []
        for item in items:
            if item.kind == "header":
                path = book.folder / f"{item.name}.h"
                path.write_text(book.header(item))
            self.runs += item.language != "c"
            if item.language in ("llvm", "kaleidoscope"):
                self.session.run(book.text(item), item.language, cell_id=f"{id}-{item.name}")
            elif item.language == "python":
                add = item.value
                self.session.export_python(item.name, lambda x, add=add: x + add, "i32 (i32)")
            else:
                plain.append(book.text(item))
        if plain:
            self.runs += 1
            self.session.run("\n".join(plain), "c", cell_id=id)

    def apply(self, item: Item, how: str) -> None:
        """Run what an edit has changed."""
        if how == "back":
            id = self.said[item.name][-1][0]
            self.runs += 1
            self.session.run(";", "c", cell_id=id)
            self._give([], id)
            if self.said[item.name][-1][0].startswith("cell"):
                self.moved.discard(item.name)
        elif how == "elsewhere":
            self.extra += 1
            self.moved.add(item.name)
            self._give([item], f"extra{self.extra}")
        elif item.name in self.moved:
            self._give([item], f"again-{item.name}")
        else:
            at = next(i for i, cell in enumerate(self.notebook.cells) if item.name in cell)
            self.run_cell(at)

    def state(self) -> dict[str, int]:
        """What everything gives."""
        values = self.session.run(self.notebook.probe(), "c").value
        return dict(zip(self.notebook.names(), values, strict=True))
