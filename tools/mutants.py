"""Small faults put into a Python source, one at a time.  Start from `mutants`.

A mutant changes an operator, a constant or a condition, or removes a statement; what no test can
be asked to notice is left alone: annotations, texts, `raise`'s words, `__repr__`, `__all__`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

__all__ = ["Mutant", "mutants"]

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TEXT = (ast.JoinedStr, ast.List, ast.Tuple)  # `+` of these is no arithmetic


@dataclass(frozen=True, slots=True)
class Mutant:
    """Bytes `[start, stop)` of a source become `text`.

    `lines` are the first and the last that change, `where` the function, `nth` tells alike ones
    apart.
    """

    lines: tuple[int, int]
    where: str
    kind: str
    before: str
    after: str
    start: int
    stop: int
    text: str
    nth: int = 0

    @property
    def key(self) -> str:
        """The same in another version of the file where the line has moved."""
        return f"{self.where}: {self.before} -> {self.after} #{self.nth}"

    def apply(self, source: bytes) -> bytes:
        """The source with the fault."""
        return source[: self.start] + self.text.encode() + source[self.stop :]


def mutants(source: bytes) -> list[Mutant]:
    """All mutants of a module's source, in its order."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    seen: Counter[str] = Counter()
    found = []
    for mutant in sorted(finder.found, key=lambda m: (m.start, m.stop)):
        found.append(replace(mutant, nth=seen[mutant.key]))
        seen[mutant.key] += 1
    return found


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes):
        self.found: list[Mutant] = []
        self._names: list[str] = []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _add(self, kind: str, node: ast.expr | ast.stmt, before: str, after: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        stop = self._starts[node.end_lineno - 1] + node.end_col_offset
        lines = (node.lineno, node.end_lineno)
        text = f"({after})" if isinstance(node, ast.expr) else after
        where = ".".join(self._names) or "module"
        self.found.append(Mutant(lines, where, kind, before, after, start, stop, text))

    @contextmanager
    def _changed(self, kind: str, node: ast.expr) -> Iterator[None]:
        """A mutant is what the node is while the block has changed it."""
        before = ast.unparse(node)
        yield
        self._add(kind, node, before, ast.unparse(node))

    # -- what is left alone -------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "__repr__":
            defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d]
            self._body(node.name, [*defaults, *node.body])

    def _body(self, name: str, nodes: Sequence[ast.AST]) -> None:
        self._names.append(name)
        for node in nodes:
            self.visit(node)
        self._names.pop()

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass  # positions in it are not told before Python 3.12

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        if node.value is not None and not isinstance(node.target, ast.Name):
            self._remove(node)

    # -- statements ----------------------------------------------------------------------------

    def _remove(self, node: ast.stmt) -> None:
        self._add("removed", node, ast.unparse(node).partition("\n")[0], "pass")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._remove(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._remove(node)
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if not names:
            self._remove(node)
        if not any(name.startswith("__") for name in names):
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._remove(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._remove(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._remove(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._remove(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._remove(node)
        self.generic_visit(node)

    # -- conditions ----------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self._negate(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            words = ast.unparse(test)
            self._add("negated", test, words, f"not ({words})")

    # -- expressions ---------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, op in enumerate(node.ops):
            for other in _COMPARED[type(op)]:
                with self._changed("comparison", node):
                    node.ops[index] = other()
                node.ops[index] = op
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        op = node.op
        with self._changed("and/or", node):
            node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        node.op = op
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            kind = "dropped not" if isinstance(node.op, ast.Not) else "dropped minus"
            self._add(kind, node, ast.unparse(node), ast.unparse(node.operand))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        op = node.op
        texts = [side for side in (node.left, node.right) if _is_text(side)]
        if type(op) in _COMPUTED and not texts:
            with self._changed("arithmetic", node):
                node.op = _COMPUTED[type(op)]()
            node.op = op
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        if isinstance(name, ast.Name) and name.id in _CALLED:
            self._add("call", name, name.id, _CALLED[name.id])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("constant", node, repr(value), repr(not value))
        elif isinstance(value, int):
            self._add("constant", node, repr(value), repr(value + 1))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, _TEXT) or (isinstance(node, ast.Constant) and type(node.value) is str)
