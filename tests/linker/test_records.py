"""Only the linker assigns to fields of its records; everyone else asks it for changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel.linker.records import Block, Image, Symbol

ROOT = Path(__file__).resolve().parents[2]
LINKER = ROOT / "jitkernel" / "linker"
MODULES = sorted(
    p for p in (ROOT / "jitkernel").rglob("*.py") if LINKER not in p.parents and p != LINKER
)

#: Names that other classes have, too, are the linker's where the object is called like that.
FIELDS = {s for c in (*Image.__mro__, *Symbol.__mro__, Block) for s in vars(c).get("__slots__", ())}
FIELDS |= {"adopted", "exports", "definition"}
FIELDS -= {"info", "why"}  # of a symbol: its type, and why calls raise, are for the session to say
CALLED = ("symbol", "image", "block", "stale", "known", "target", "own", "other", "one")
#: Fields that nothing but the linker's records has.
UNIQUE = FIELDS - {
    "address", "adopted", "cell", "data", "image", "kind", "name", "size", "state", "text", "unwind",
}  # fmt: skip
#: `linker.symbols` and so on are tables that only the linker fills.
TABLES = {"symbols", "groups", "copies", "users"}
CHANGES = {"append", "clear", "extend", "pop", "popitem", "setdefault", "update"}


def assigned(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a field of a record, or what one of the linker's tables has, is written or deleted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            own = node.attr in UNIQUE and ast.unparse(node.value) != "self"
            if own or (node.attr in FIELDS and _is_called(node.value)):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if _is_table(node.value):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CHANGES and _is_table(node.func.value):
                yield node.lineno, ast.unparse(node)
            if ast.unparse(node.func) == "object.__setattr__" and _is_called(node.args[0]):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "set_first"):
            if _is_called(node.args[0]):
                yield node.lineno, ast.unparse(node)


def _is_called(node: ast.AST) -> bool:
    return ast.unparse(node).rpartition(".")[2].rpartition("_")[2] in CALLED


def _is_table(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (
        node.attr == "users" or (node.attr in TABLES and ast.unparse(node.value).endswith("linker"))
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_records_are_the_linkers(path: Path) -> None:
    found = list(assigned(ast.parse(path.read_text(encoding="utf-8"))))
    assert not found, f"{path} writes the linker's records: {found}"


@pytest.mark.parametrize(
    "text",
    [
        "image.exports = ()", "cell.image.adopted += (block,)", "symbol.slot = 0",
        "block.holders -= 1", "program.linker.symbols['f'].held = 2", "del linker.symbols[n]",
        "self.linker.symbols.pop(n, None)", "symbol.users[image] = b''", "a.stub, b.stub = b, a",
        "set_first(symbol, 'size', 4)", "for image.data in blocks: pass",
    ],
)  # fmt: skip
def test_that_would_be_noticed(text: str) -> None:
    assert list(assigned(ast.parse(text)))
