"""Who imports whom in `jitkernel/`, read from the source, and where that closes a circle.

Prints what it finds: `python -m tests.import_graph`.  Start from `read` and `circles`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
When = Literal["import", "call", "typing"]


class Import(NamedTuple):
    """`line` of a module imports `target`; `when`: with the module, when a function is called, or
    only for who checks types."""

    target: str
    when: When
    line: int


def read(root: Path = ROOT, package: str = "jitkernel") -> dict[str, list[Import]]:
    """The imports of every module of a package, by the module's name."""
    files = {_name(path, root): path for path in sorted((root / package).rglob("*.py"))}
    found: dict[str, list[Import]] = {}
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        is_package = path.name == "__init__.py"
        found[name] = [
            Import(target, when, node.lineno)
            for node, when in _statements(tree, "import")
            for target in _targets(node, name if is_package else name.rpartition(".")[0], files)
            if target != name
        ]
    return found


def _name(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _statements(node: ast.AST, when: When) -> Iterator[tuple[ast.Import | ast.ImportFrom, When]]:
    """The import statements below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _statements(child, "call" if when == "import" else when)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _statements(ast.Module(child.body, []), "typing")
            yield from _statements(ast.Module(child.orelse, []), when)
        else:
            yield from _statements(child, when)


def _targets(
    node: ast.Import | ast.ImportFrom, package: str, known: Mapping[str, Path]
) -> Iterator[str]:
    """The modules that a statement names: `from a import b` is the module `a.b`, if it is one."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        for _ in range(node.level - 1):
            package = package.rpartition(".")[0]
        base = ".".join(filter(None, [package if node.level else "", node.module]))
        inner = [f"{base}.{alias.name}" for alias in node.names]
        names = [name if name in known else base for name in inner]
    yield from (name for name in dict.fromkeys(names) if name in known)


def circles(graph: Mapping[str, list[Import]], *kinds: When) -> list[list[str]]:
    """The sets of modules that lead to each other by imports of these kinds (Tarjan, 1972)."""
    edges = {name: [i.target for i in found if i.when in kinds] for name, found in graph.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in edges[name]:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in index:
            visit(name)
    return sorted(found)


if __name__ == "__main__":
    graph = read()
    for title, kinds in {
        "when imported": ("import",),
        "when imported or called": ("import", "call"),
        "of types as well": ("import", "call", "typing"),
    }.items():
        found = circles(graph, *kinds)
        print(f"circles {title}: {len(found)}")
        for circle in found:
            print(f"  {len(circle)}:", *circle)
