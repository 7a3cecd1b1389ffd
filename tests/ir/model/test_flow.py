"""Order, dominance, loops and liveness, each against its definition on random functions."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from jitkernel.ir.model import Block, Function, Module
from tests.ir.model.corpus import SOURCES, compiled


def function_of(graph: list[list[int]], lines: list[list[str]] | None = None) -> Function:
    """A function with the control flow of a graph, the entry first; a block without a successor
    returns."""
    text = []
    for node, following in enumerate(graph):
        end = "ret void"
        if following:
            first, *others = following
            table = " ".join(f"i32 {n}, label %b{o}" for n, o in enumerate(others))
            end = f"switch i32 %n, label %b{first} [ {table} ]"
        text += [f"b{node}:", *(lines[node] if lines else ()), end]
    return Module("define void @f(i32 %n) {\n" + "\n".join(text) + "\n}\n").functions["f"]


def reached(start: int, graph: list[list[int]], without: Collection[int] = ()) -> set[int]:
    todo, seen = [start], set[int]()
    while todo:
        node = todo.pop()
        if node not in seen and node not in without:
            seen.add(node)
            todo += graph[node]
    return seen


def random_graph(rng: random.Random) -> list[list[int]]:
    count = rng.randrange(1, 14)
    most = rng.choice((1, 2, 3))
    return [
        [rng.randrange(1, count) for _ in range(rng.randrange(most + 1))] if count > 1 else []
        for _ in range(count)
    ]


def numbers(blocks: Collection[Block | None]) -> set[int]:
    return {int(b.name[1:]) for b in blocks if b is not None}


@pytest.mark.parametrize("seed", range(60))
def test_any_graph(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    f = function_of(graph)
    blocks, there = f.blocks, reached(0, graph)
    tree = f.dominators()
    assert numbers(tree.reachable) == there
    above = {n: {d for d in there if n not in reached(0, graph, {d})} for n in there}
    for node in there:
        assert {d for d in there if tree.dominates(blocks[d], blocks[node])} == above[node]
        assert tree.depth[blocks[node]] == len(above[node]) - 1
        parent = tree.idom[blocks[node]]
        assert parent is None if node == 0 else parent in [blocks[d] for d in above[node]]
        assert numbers(tree.children[blocks[node]]) == {
            n for n in there if n != node and above[n] - {n} == above[node]
        }
        # Cytron et al. 1991: it dominates what leads there, and not strictly the place itself.
        frontier = {
            m
            for m in there
            if any(m in graph[p] and node in above[p] for p in there)
            and not (node in above[m] and node != m)
        }
        assert numbers(f.frontiers()[blocks[node]]) == frontier
    order = f.reverse_post_order()
    assert numbers(order) == there and order[0] is f.entry and len(order) == len(there)
    for position, block in enumerate(order[1:], 1):
        assert any(p in order[:position] for p in block.predecessors)


@pytest.mark.parametrize("seed", range(40))
def test_post_dominators(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    f = function_of(graph)
    back = [[p for p in range(len(graph)) if n in graph[p]] for n in range(len(graph))]
    ends = [n for n in range(len(graph)) if not graph[n]]
    there = set().union(*[reached(end, back) for end in ends])
    tree = f.post_dominators()
    assert numbers(tree.reachable) == there
    for node in there:
        behind = {
            d for d in there if not any(node in reached(e, back, {d}) for e in ends if e != d)
        }
        assert {d for d in there if tree.dominates(f.blocks[d], f.blocks[node])} == behind


@pytest.mark.parametrize("seed", range(40))
def test_loops(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    f = function_of(graph)
    there = reached(0, graph)
    back = [[p for p in there if n in graph[p]] for n in range(len(graph))]
    expected: dict[int, set[int]] = {}
    for latch in there:
        for header in set(graph[latch]):
            if latch not in reached(0, graph, {header}):  # the header dominates it
                body = reached(latch, back, {header}) | {header}
                expected[header] = expected.get(header, set()) | body
    found = f.loops()
    assert {int(loop.header.name[1:]): numbers(loop.blocks) for loop in found} == expected
    for loop in found:
        inside = numbers(loop.blocks)
        assert numbers(loop.exits) == {s for b in inside for s in graph[b]} - inside
        around = [e for h, e in expected.items() if e > inside]
        assert loop.depth == 1 + len(around)
        if loop.parent is not None:
            assert numbers(loop.parent.blocks) == min(around, key=len)
        outside = [
            p
            for p in range(len(graph))
            if p not in inside and int(loop.header.name[1:]) in graph[p]
        ]
        alone = len(outside) == 1 and set(graph[outside[0]]) == {int(loop.header.name[1:])}
        assert (loop.preheader is not None) == alone
        assert loop.header.terminator in loop and f.entry.terminator not in loop


@pytest.mark.parametrize("seed", range(40))
def test_liveness(seed: int) -> None:
    """Live is what a way leads from to a use, without a definition on it."""
    rng = random.Random(seed)
    graph = random_graph(rng)
    count = len(graph)
    lines: list[list[str]] = [[] for _ in graph]
    used: dict[int, list[str]] = {}
    names = [f"v{n}" for n in range(8)]
    defined = {name: rng.randrange(count) for name in names}
    for node in range(count):
        own = [n for n in names if defined[n] == node]
        before = [n for n in names if n not in own and rng.random() < 0.2]
        lines[node] += [f"store i32 %{n}, ptr null" for n in before]
        lines[node] += [f"%{n} = add i32 %n, 1" for n in own]
        lines[node] += [f"store i32 %{n}, ptr null" for n in own]
        used[node] = before
    f = function_of(graph, lines)
    live = f.liveness()
    for node, block in enumerate(f.blocks):
        expected = {
            name
            for name in names
            if any(name in used[n] for n in reached(node, graph, {defined[name]}))
        }
        assert {v.name for v in live.live_in[block]} - {"n"} == expected
        out = {v for s in block.successors for v in live.live_in[s]}
        assert live.live_out[block] == out


def test_what_phis_take_is_live_where_they_take_it_from() -> None:
    f = Module(
        "define i32 @f(i32 %x, i1 %c) {\na:\n  br i1 %c, label %b, label %e\nb:\n"
        "  %p = phi i32 [ %x, %a ], [ %q, %b ]\n  %q = add i32 %p, 1\n"
        "  br i1 %c, label %b, label %e\ne:\n  %r = phi i32 [ 0, %a ], [ %p, %b ]\n  ret i32 %r\n}\n"
    ).functions["f"]
    live = f.liveness()
    a, b, e = f.blocks
    assert [sorted(v.name for v in live.live_in[n]) for n in (a, b, e)] == [["c", "x"], ["c"], []]
    assert [sorted(v.name for v in live.live_out[n]) for n in (a, b, e)] == [
        ["c", "x"], ["c", "p", "q"], [],
    ]  # fmt: skip


def test_order_within_a_block() -> None:
    f = Module(
        "define i32 @f(i32 %x) {\n  %a = add i32 %x, 1\n  %b = add i32 %a, 1\n  ret i32 %b\n}\n"
    ).functions["f"]
    a, b, _ = f.instructions
    tree = f.dominators()
    assert tree.dominates(a, b) and not tree.dominates(b, a) and tree.dominates(f.entry, a)
    assert not tree.dominates(a, f.entry) and tree.dominates(a, a)
    b.remove()
    with pytest.raises(ValueError, match="it is in no block"):
        tree.dominates(a, b)


def test_a_long_chain() -> None:
    graph = [[n + 1] for n in range(1, 3000)] + [[]]
    f = function_of([[1], *graph])
    assert f.dominators().depth[f.blocks[-1]] == 3000
    assert len(f.reverse_post_order()) == 3001 and f.loops() == []


def test_functions_of_c_have_the_loops_that_they_are_written_with() -> None:
    module = Module(compiled(SOURCES[0], "O0"))
    loops = {name: sorted(loop.depth for loop in f.loops()) for name, f in module.functions.items()}
    assert loops["matrix"] == [1, 1, 2, 2] and loops["collatz"] == [1] and loops["edges"] == []
    assert loops["walk"] == [] and loops["main"] == [1, 1, 1]
    assert all(f.loops()[0].preheader for name, f in module.functions.items() if loops[name])


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("br label %a", [("a", "")]),
        ("br i1 %c, label %a, label %b", [("a", "T"), ("b", "F")]),
        (
            "switch i32 %x, label %a [ i32 1, label %b i32 -3, label %b ]",
            [("a", "default"), ("b", "1"), ("b", "-3")],
        ),
        ("switch i1 %c, label %a [ i1 true, label %b ]", [("a", "default"), ("b", "true")]),
        ("indirectbr ptr %p, [label %a, label %b]", [("a", ""), ("b", "")]),
        ("invoke void @g(i32 %x) to label %a unwind label %b", [("a", ""), ("b", "unwind")]),
        ("%s = catchswitch within none [label %a] unwind to caller", [("a", "")]),
        (
            "%s = catchswitch within none [label %a] unwind label %b",
            [("a", ""), ("b", "unwind")],
        ),
        ("ret i32 %x", []),
    ],
)
def test_when_edges_are_taken(end: str, expected: list[tuple[str, str]]) -> None:
    f = Module(
        f"define i32 @f(i32 %x, i1 %c, ptr %p) {{\n  {end}\na:\n  ret i32 1\nb:\n  ret i32 2\n}}\n"
    ).functions["f"]
    found = zip(f.entry.edges, f.entry.conditions, strict=True)
    assert [(block.name, letter) for block, letter in found] == expected
