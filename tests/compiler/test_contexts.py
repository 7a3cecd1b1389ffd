"""Contexts that are thrown away, shared or kept: what is offered is the same, what stays is not."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from statistics import median

import pytest

from jitkernel import Session
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import ContextAccount, Request
from jitkernel.errors import CompileError, UsageError
from jitkernel.settings import SessionSettings

POLICIES = ("throwaway", "shared", "kept")


def typed(k: int, fields: int = 2) -> str:
    """A cell whose named types are called as every other's, each time with other bodies."""
    return (
        f"%in = type {{ {', '.join(['i8'] * fields)} }}\n%pt = type {{ i32, %in }}\n"
        f'%"odd name" = type {{ %pt, i64 }}\n'
        f'@g{k} = global %pt zeroinitializer\n@h{k} = global %"odd name" zeroinitializer\n'
        f"define void @f{k}(ptr sret(%pt) %p, ptr byval(%in) %q) {{\n  ret void\n}}\n"
        f"define i32 @c{k}(%pt %v) {{\n  %x = extractvalue %pt %v, 0\n"
        f"  %y = call i32 @c{k}(%pt %v)\n  ret i32 %y\n}}\n"
    )


def test_a_cell_offers_the_same_in_every_context() -> None:
    """Also where the context knows other structs by the same names: LLVM then renames them."""
    with CompilerPool(SessionSettings(spare=False)) as pool:
        for k, fields in ((1, 2), (2, 2), (3, 5), (4, 1)):
            plain, *others = (
                pool.compile(Request(typed(k, fields), context=policy, cell=k))
                for policy in POLICIES
            )
            assert plain.summary.types["pt"] == "{ i32, %in }"
            for other in others:
                assert other.summary == plain.summary
                assert other.object == plain.object
        assert pool.contexts().live == 1 + 4


def test_a_call_with_another_signature_is_seen_in_a_shared_context_too() -> None:
    source = (
        "%pt = type { i32, i32 }\ndeclare i32 @c(%pt)\n"
        "define i32 @f() {\n  %r = call i32 @c(i64 7)\n  ret i32 %r\n}\n"
    )
    good = source.replace("i64 7", "%pt zeroinitializer")
    with CompilerPool(SessionSettings(spare=False)) as pool:
        for policy in POLICIES * 2:
            assert [
                c.line for c in pool.compile(Request(source, context=policy)).summary.calls
            ] == [4]
            assert pool.compile(Request(good, context=policy)).summary.calls == ()


def test_numbered_names_are_not_taken_for_renamed_ones() -> None:
    source = "%t = type { i8 }\n%t.0 = type { i16 }\n@a = global %t.0 zeroinitializer\n"
    with CompilerPool(SessionSettings(spare=False)) as pool:
        for _ in range(3):
            summary = pool.compile(Request(source, context="shared")).summary
            assert (
                summary.types == {"t": "{ i8 }", "t.0": "{ i16 }"}
                and summary.variables[0].type == "%t.0"
            )


def test_an_error_leaves_every_context_usable() -> None:
    with CompilerPool(SessionSettings(spare=False)) as pool:
        for policy in POLICIES:
            for _ in range(2):
                with pytest.raises(CompileError):
                    pool.compile(Request("%a = type { i8 }\n@x = nonsense", context=policy, cell=1))
                pool.compile(Request(typed(1), context=policy, cell=1))


def many_types(k: int) -> str:
    """500 named types, as a cell that includes a header has them."""
    lines = [f"%t{i} = type {{ i32, [{i + 1} x i8], i{k % 60 + 3} }}" for i in range(500)]
    return "\n".join([*lines, f"@v{k} = global %t7 zeroinitializer", ""])


def test_what_each_context_costs() -> None:
    """500 types: nothing stays, or all of them stay, in one context or in as many as cells."""
    left: dict[str, list[int]] = {}
    with CompilerPool(SessionSettings(spare=False)) as pool:
        pool.contexts()
        for policy in POLICIES:
            for k in range(30):
                pool.compile(Request(many_types(k), context=policy, cell=k + 1))
            costs = [c for c in pool.contexts().costs if c.context == policy]
            left[policy] = [c.heap for c in costs[5:]]
            # A context that goes at once is nobody's.
            cells = [0] * 30 if policy == "throwaway" else list(range(1, 31))
            assert [c.cell for c in costs] == cells
        account = pool.contexts()
        assert account.live == 31 and account.kept == tuple(range(1, 31)) and account.lost == 0
        assert median(left["throwaway"]) < 8 << 10
        assert median(left["shared"]) > 40 << 10
        assert median(left["kept"]) > 40 << 10
        pool.release_contexts(lambda cell: cell == 7, shared=True)
        assert pool.contexts().kept == (7,) and pool.contexts().live == 1


def test_kept_contexts_go_with_their_cells() -> None:
    def kept(s: Session) -> tuple[int, ...]:
        return s.contexts().kept

    with Session(spare=False, context="kept") as s:
        for k in (1, 2, 3):
            s.run(typed(k), cell_id=str(k))
        s.run("%y = add i32 1, 2")  # a block's code is not kept, so neither is its context
        assert kept(s) == (1, 2, 3) == tuple(c.number for c in s.cells)
        s.evict(2)
        assert kept(s) == (1, 3)
        s.run(typed(3), cell_id="3")
        assert kept(s) == tuple(c.number for c in s.cells) == (1, 5)
        s.undo()
        assert [c.number for c in s.cells] == [1, 3] and kept(s) == (1,), "code is back, IR is not"
        s.configure("context", "throwaway")
        s.run(typed(4))
        assert s.contexts() == ContextAccount(0, (), 0, s.contexts().costs)
        with pytest.raises(UsageError, match="throwaway, shared, kept"):
            s.configure("context", "mine")
    with pytest.raises(UsageError, match="no context 'mine'"):
        Session(context="mine")


def test_a_worker_that_is_replaced_takes_its_contexts_along_and_the_code_stays() -> None:
    with Session(spare=False, context="kept") as s:
        s.run("define i32 @one() {\n  ret i32 1\n}")
        s.run("define i32 @two() {\n  ret i32 2\n}")
        os.kill(s.inspect.engine.pool.memory()[0].pid, signal.SIGKILL)
        # Its end may be seen before the next compile, or be that compile's error.
        while s.inspect.engine.pool.workers.restarts == 0:
            with suppress(CompileError):
                s.run("define i32 @three() {\n  ret i32 3\n}")
        live = s.contexts().live
        assert live <= 1 and s.contexts().lost == 2
        assert s.call("one") + s.call("two") == 3
        s.run("define i32 @four() {\n  ret i32 4\n}")
        assert s.contexts().live == live + 1


def test_lasting_contexts_compile_even_what_the_cache_has(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Session(spare=False, object_cache=True) as s:
        s.run("define i32 @one() {\n  ret i32 1\n}")
        s.configure("context", "kept")
        s.run("define i32 @one() {\n  ret i32 1\n}")
        assert s.contexts().live == 1


def test_the_view_says_what_stays() -> None:
    from jitkernel.views.memory import contexts

    with Session(spare=False, context="shared") as s:
        s.run(typed(1))
        text = contexts(s).text
        assert "shared contexts; 1 LLVM context kept" in text and "1  shared" in text
