"""Many cells at once, compiling without placing, freeing what nobody can reach, starting over."""

from __future__ import annotations

import pytest
from programs import SQ, caller, constant, state

from jitkernel.errors import CompileError, JitError, TypeMismatch

# -- run_many --------------------------------------------------------------------------------------


def test_many_cells_may_use_each_other(s):
    s.run_many(
        [
            "declare i32 @f1()\n" + caller("f0", "f1", 1),
            caller("f1", "f2", 10).replace("define", "declare i32 @f2()\ndefine", 1),
            constant("f2", 100),
            caller("f3", "f0", 1000),  # not declared: known by the time it is its turn
        ]
    )
    assert (s.call("f0"), s.call("f3")) == (111, 1111)


def test_many_definitions_of_one_name_the_last_stands(s):
    results = s.run_many(
        [
            constant("f", 1),
            caller("u", "f").replace("define", "declare i32 @f()\ndefine", 1),
            constant("f", 2),
        ]
    )
    assert s.call("f") == s.call("u") == 2
    assert any("moved from cell" in n for n in results[2].notes)


def test_an_error_in_the_middle_keeps_what_came_before(s):
    s.run(SQ)
    with pytest.raises(CompileError) as caught:
        s.run_many([constant("a", 1), "define i32 @b() {\n  ret i64 1\n}", constant("c", 3)])
    assert "line 2" in str(caught.value)
    assert "a" in s and "b" not in s and "c" not in s
    with pytest.raises(TypeMismatch):
        s.run_many(
            [
                caller("u", "one").replace("@one()", "@sq(i32 1)"),
                "define i64 @sq() {\n  ret i64 1\n}",
                constant("c", 3),
            ]
        )
    assert s.call("u") == 1 and "c" not in s
    s.check()


def test_a_library_name_among_many(s):
    s.run_many(
        [
            'declare i64 @strlen(ptr)\n@t = private constant [4 x i8] c"abc\\00"\ndefine i64 @first() {\n  %r = call i64 @strlen(ptr @t)\n  ret i64 %r\n}',
            "define i64 @strlen(ptr %s) {\n  ret i64 77\n}",
            'declare i64 @strlen(ptr)\n@u = private constant [4 x i8] c"abc\\00"\ndefine i64 @second() {\n  %r = call i64 @strlen(ptr @u)\n  ret i64 %r\n}',
        ]
    )
    assert (s.call("first"), s.call("second")) == (77, 77)


def test_statements_are_refused_before_anything_is_done(s):
    before = state(s)
    for bad in ('@puts("x")', "%x = add i32 1, 2", "", "%cells", "@x = 5"):
        with pytest.raises(CompileError, match="only definitions"):
            s.run_many([constant("a", 1), bad])
    assert state(s) == before
    assert s.run_many([]) == []


@pytest.mark.process
def test_a_fault_in_one_constructor_of_many(s):
    bad = "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @c, ptr null }]\ndefine void @c() {\n  store volatile i32 1, ptr null\n  ret void\n}"
    with pytest.raises(JitError, match="constructor"):
        s.run_many([constant("a", 1), bad, constant("b", 1)])
    assert "a" in s and "c" not in s and "b" not in s
    s.check()


# -- compile and place -----------------------------------------------------------------------------


def test_sizes_are_exact_before_anything_is_placed(s):
    source = (
        SQ
        + "\n@g = global [10 x i64] zeroinitializer\n@k = constant [3 x i32] [i32 1, i32 2, i32 3]\n"
    )
    before = state(s)
    compiled = s.compile(source)
    assert state(s) == before and compiled.object[:4] == b"\x7fELF"
    used = {z: u["used"] for z, u in s.memory()["zones"].items()}
    result = s.place(compiled)
    after = {z: u["used"] for z, u in s.memory()["zones"].items()}
    grown = {z: after[z] - used[z] for z in ("text", "rodata", "data")}
    assert grown == {z: compiled.sizes.get(z, 0) for z in grown}
    assert result.cell.sizes["text"] == compiled.sizes["text"]
    assert s.call("sq", 5) == 25


def test_what_is_compiled_fits_the_session_when_it_is_placed(s):
    s.run(SQ)
    s.run(caller("use", "one").replace("@one()", "@sq(i32 3)"))
    compiled = s.compile("define i64 @sq(i64 %x) {\n  ret i64 %x\n}")
    with pytest.raises(TypeMismatch):
        s.place(compiled)
    with pytest.raises(CompileError, match="only definitions"):
        s.compile('@puts("x")')
    with pytest.raises(CompileError):
        s.compile("define i32 @f( {")


# -- gc and reset ----------------------------------------------------------------------------------


def test_gc_frees_cells_without_definitions(s):
    s.run(
        "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @c, ptr null }]\ndefine internal void @c() {\n  store volatile i32 1, ptr @x\n  ret void\n}\n@x = internal global i32 0"
    )
    s.run(SQ)
    freed = s.gc()
    assert len(freed.cells) == 1 and freed.freed["text"] > 0
    assert len(s.cells) == 1 and s.call("sq", 2) == 4
    s.check()
    s.undo()
    s.undo()
    s.check()


def test_gc_gives_pages_of_freed_text_back(s):
    for n in range(3):
        s.run(
            f'define void @f{n}() {{\n  call void asm sideeffect ".skip 100000, 0x90", ""()\n  ret void\n}}'
        )
    s.evict("f0", "f1", "f2")
    for _ in range(25):
        s.run(SQ)
    assert s.gc().processes["slab"] >= 250_000
    s.check()
    s.run(constant("after", 1))
    assert s.call("after") == 1


def test_reset_leaves_an_empty_session_that_works(s):
    s.run(
        SQ + "\n@g = global i32 4\n%pt = type { i32 }\n@p = global %pt zeroinitializer", cell_id="a"
    )
    s.run(caller("use", "one").replace("@one()", "@sq(i32 3)") + "\n@use()", cell_id="b")
    s.reset()
    assert s.cells == [] and not any(y.defined for y in s.symbols.values())
    assert dict(s.types) == {} and s.inspect.program.state.ids == {}
    zones = s.memory()["zones"]
    assert zones["data"]["used"] == 0
    assert zones["unwind"]["used"] <= 4096, "the records of thunks, and those that cells share"
    with pytest.raises(CompileError):
        s.run("@sq(1)")
    with pytest.raises(CompileError):
        s.run("@strlen(_)")
    s.run("define i64 @sq(i64 %x) {\n  ret i64 %x\n}\n@g = global double 1.0", cell_id="a")
    assert s.call("sq", 1 << 40) == 1 << 40


@pytest.mark.process
def test_memory_tells_the_whole_account(s):
    s.run(SQ + "\n@sq(2)")
    m = s.memory()
    assert m["cells"] == 1 and m["symbols"] >= 1 and m["thunks"] > 0
    assert m["total"] == m["slab"] + m["kernel"] + m["executor"] + m["files"] + sum(
        w["own"] for w in m["workers"]
    )
    assert m["slab"] == sum(m["regions"].values()) == s.inspect.engine.arena.resident()
    for zone in ("text", "rodata", "unwind", "data"):
        z = m["zones"][zone]
        assert z["used"] + z["padding"] + z["free"] == z["capacity"]
    assert m["executor"] > 1 << 20 and m["kernel"] > 1 << 20 and m["workers"][0]["own"] > 1 << 20
