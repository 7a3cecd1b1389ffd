"""Taking cells out of memory: refused, with dependents, by force; destructors; shared groups."""

from __future__ import annotations

import pytest
from programs import CUBE, SQ, caller, constant, state

from jitkernel.errors import CompileError, EvictError, UndefinedSymbol, UsageError


@pytest.fixture
def chain(s):
    """Cells a <- b <- c, and one on its own; their numbers."""
    numbers = [
        s.run(constant("a", 1)).cell.number,
        s.run(caller("b", "a", 10)).cell.number,
        s.run(caller("c", "b", 100)).cell.number,
        s.run(constant("alone", 4)).cell.number,
    ]
    return numbers


def numbers(cells):
    return sorted(c.number for c in cells)


def test_a_cell_that_others_use_is_refused_naming_them(s, chain):
    a, b, c, _ = chain
    before = state(s)
    with pytest.raises(EvictError) as caught:
        s.evict("a")
    message = str(caught.value)
    assert f"cell {a} cannot be evicted, others use it" in message
    assert f"cell {b} (@b) uses @a" in message and f"cell {c} (@c) uses @b" in message
    assert "--cascade" in message and "--force" in message
    assert set(caught.value.dependents) == {
        f"cell {b} (@b) uses @a", f"cell {c} (@c) uses @b",
        f"cell {c} (@c) uses @a",  # it has the body
    }  # fmt: skip
    assert state(s) == before


def test_all_of_a_group_together_need_no_permission(s, chain):
    a, b, c, alone = chain
    assert numbers(s.evict(f"{a}-{c}")) == [a, b, c]
    s.undo()
    assert numbers(s.evict(a, "b", f"@{'c'}")) == [a, b, c]
    s.undo()
    assert numbers(s.evict(*s.cells)) == [a, b, c, alone]


def test_by_symbol_with_and_without_sign_and_by_cell(s):
    for which in (lambda cell: cell, lambda cell: cell.number, lambda cell: str(cell.number),
                  lambda cell: "sq", lambda cell: "@sq"):  # fmt: skip
        cell = s.run(SQ).cell
        assert s.evict(which(cell)) == [cell]
        assert "sq" not in s


def test_a_superseded_cell_is_not_there_to_be_evicted(s):
    first = s.run(SQ).cell.number
    s.run(CUBE)
    with pytest.raises(UsageError, match=f"no cell {first} in memory: it was superseded"):
        s.evict(first)
    with pytest.raises(UsageError, match="never ran"):
        s.evict(s.number + 5)


def test_evicting_the_cell_of_the_last_result(s):
    number = s.run(SQ + "\n@sq(6)").cell.number
    s.evict("sq")
    with pytest.raises(CompileError, match=f"_{number} has no value"):
        s.run(f"@strlen(_{number})")


# -- variables beside --------------------------------------------------------------------------

BESIDE = """
@kept = global i32 1
@own = thread_local global i32 2
@never = constant i32 3
define i32 @f() {
  %v = load i32, ptr @kept
  ret i32 %v
}
"""


@pytest.mark.parametrize(
    ("which", "taken"),
    [
        (("f",), "@kept, @own"),
        (("@f",), "@kept, @own"),
        (("f", "own"), "@kept"),
        (("kept",), "@own"),
        (("own", "f"), "@kept"),
        (("never",), "@kept, @own"),
    ],
)
def test_a_name_takes_no_variables_along_unasked(s, which, taken):
    s.run(BESIDE)
    s["kept"].value = 40
    before = state(s)
    several = "s" * ("," in taken)
    with pytest.raises(EvictError, match=f"with the variable{several} {taken}, which would go"):
        s.evict(*which)
    assert state(s) == before and s.call("f") == 40


@pytest.mark.parametrize(
    ("names", "numbered", "how"),
    [
        (("f", "kept", "own"), "", {}),
        ((), "{0}", {}),
        (("f",), "{0}", {}),
        (("f",), "{0}-{0}", {}),
        (("f",), "", {"force": True}),
        (("kept",), "", {"cascade": True}),
    ],
)
def test_a_cell_goes_whole_where_that_is_asked_for(s, names, numbered, how):
    number = s.run(BESIDE).cell.number
    s["kept"].value = 40
    which = (*names, *([numbered.format(number)] if numbered else ()))
    assert numbers(s.evict(*which, **how)) == [number]
    s.undo()
    assert s.call("f") == 40


# -- destructors -----------------------------------------------------------------------------------

LOG = "int noted[8], n; void note(int x) { noted[n++] = x; }"
GLOBALS = """void note(int);
__attribute__((constructor)) void late(void) { note(2); }
__attribute__((constructor(101))) void early(void) { note(1); }
__attribute__((destructor(101))) void dearly(void) { note(4); }
__attribute__((destructor)) void dlate(void) { note(3); }"""
ATEXIT = """
declare i32 @atexit(ptr)
declare i32 @__cxa_atexit(ptr, ptr, ptr)
@__dso_handle = external global i8
@seven = global i32 7
define internal void @five() {
  call void @note(i32 5)
  ret void
}
define internal void @with(ptr %p) {
  %v = load i32, ptr %p
  call void @note(i32 %v)
  ret void
}
define i32 @register() {
  %a = call i32 @atexit(ptr @five)
  %b = call i32 @__cxa_atexit(ptr @with, ptr @seven, ptr @__dso_handle)
  ret i32 %b
}
"""


def log(s):
    return [v for v in s["noted"].value if v]


def test_constructors_run_in_the_order_of_their_priority_and_destructors_at_eviction(s):
    s.run(LOG, "c")
    number = s.run(GLOBALS, "c").cell.number
    assert log(s) == [1, 2]
    s.evict(number)
    assert log(s) == [1, 2, 3, 4]


def test_destructors_run_when_a_cell_is_superseded(s):
    s.run(LOG, "c")
    s.run(GLOBALS, "c", cell_id="x")
    s.run(constant("other", 1), cell_id="x")
    assert log(s) == [1, 2, 3, 4]


def test_what_a_cell_registered_with_atexit_runs_at_its_eviction(s):
    s.run(LOG, "c")
    cell = s.run(ATEXIT + "\n@register()").cell
    s.run(constant("other", 1))
    s.evict("other")
    assert log(s) == []
    s.evict(cell)
    assert log(s) == [7, 5]
    s.check()


@pytest.mark.process
def test_destructors_run_at_undo_of_the_cell_and_at_reset(s):
    s.run(LOG, "c")
    s.run("@seen = global i32 0")
    s.run(ATEXIT + "\n@register()")
    s.undo()
    assert log(s) == [], "what its destructors stored is taken back too"
    assert s.run('@puts("on")').stdout == "on\n"
    s.run(ATEXIT + "\n@register()")
    s.reset()
    assert s.run('@puts("on")').stdout == "on\n"


@pytest.mark.process
def test_a_destructor_that_faults_does_not_keep_the_cell(s):
    number = s.run(
        "__attribute__((destructor)) void d(void) { *(volatile int *)0 = 1; }", "c"
    ).cell.number
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s._core.sink, "note", said.append)
        assert numbers(s.evict(number)) == [number]
    assert any("destructor" in t and f"cell {number}" in t and "null pointer" in t for t in said)
    s.check()
    assert s.run(SQ + "\n@sq(3)").value == 9


# -- groups that several cells have ------------------------------------------------------------------


def group(own: str, value: int = 1) -> str:
    return (
        f"$shared = comdat any\ndefine linkonce_odr i32 @shared() noinline comdat {{\n  ret i32 {value}\n}}\n"
        f"define i32 @{own}() {{\n  %r = call i32 @shared()\n  %s = add i32 %r, {len(own) * 10}\n  ret i32 %s\n}}"
    )


def test_another_copy_takes_over_when_the_provider_goes(s):
    first = s.run(group("a")).cell.number
    second = s.run(group("bb")).cell.number
    s.run(caller("user", "shared", 5))
    assert s.symbols["shared"].cell == first
    s.evict(first)
    assert s.symbols["shared"].cell == second
    assert (s.call("bb"), s.call("user"), s.call("shared")) == (21, 6, 1)
    s.check()
    s.undo()
    assert (s.call("a"), s.call("bb"), s.call("user")) == (11, 21, 6)
    s.check()


def test_the_last_copy_is_a_definition_as_any_other(s):
    s.run(group("a"))
    s.run(caller("user", "shared", 5))
    with pytest.raises(EvictError):
        s.evict("a")
    s.run(group("bb"))
    s.evict("a")
    with pytest.raises(EvictError, match="uses @shared"):
        s.evict("bb")
    s.evict("bb", force=True)
    with pytest.raises(UndefinedSymbol):
        s.call("user")
    s.check()


def test_copies_of_superseded_cells_take_over_too(s):
    s.run(group("a"), cell_id="x")
    s.run(group("bb"))
    s.run(constant("a", 9), cell_id="x")
    assert (s.call("a"), s.call("bb"), s.call("shared")) == (9, 21, 1)
    s.check()
    s.undo()
    assert (s.call("a"), s.call("bb")) == (11, 21)
    s.check()


def test_the_variables_of_a_cell_that_takes_over_stay(s):
    s.run(group("a"))
    s.run(
        group("bb")
        + "\n@v = global i32 1\n@w = internal global i32 5\ndefine i32 @up() {\n  %o = load i32, ptr @w\n  %p = add i32 %o, 1\n  store i32 %p, ptr @w\n  ret i32 %p\n}\n@q = global ptr @w\ndefine i32 @look() {\n  %p = load ptr, ptr @q\n  %v = load i32, ptr %p\n  ret i32 %v\n}"
    )
    s.run("@v = 40")
    assert s.call("up") == 6
    address = s.symbols["v"].address
    s.evict("a")
    assert (s["v"].value, s.symbols["v"].address, s.call("up"), s.call("look")) == (
        40,
        address,
        7,
        7,
    )
    s.check()


@pytest.mark.process
def test_handlers_of_forks_are_the_cells_own_and_go_with_it(s):
    """libc has neither function: each program has them from its linker, as `atexit`."""
    s.run(LOG, "c")
    one = """#include <pthread.h>
#include <stdlib.h>
void note(int);
static void before(void) { note(5); }
static void last(void) { note(6); }
int handle(void) { return pthread_atfork(before, 0, 0) | at_quick_exit(last) | atexit(last); }"""
    other = (
        one.replace("handle", "handle2")
        .replace("before", "early")
        .replace("last", "end")
        .replace("5", "7")
    )
    cells = [s.run(one, "c").cell, s.run(other, "c").cell]
    assert s.call("handle") == s.call("handle2") == 0
    s.run(
        "#include <sys/wait.h>\n#include <unistd.h>\n"
        "int child(void) { int pid = fork(), s; if (!pid) _exit(0); waitpid(pid, &s, 0); return s; }",
        "c",
    )
    assert s.call("child") == 0 and log(s) == [7, 5]  # the last first
    s.evict(cells[0])
    assert log(s) == [7, 5, 6]
    assert s.call("child") == 0 and log(s) == [7, 5, 6, 7]
    s.evict(cells[1])
    assert s.call("child") == 0 and log(s) == [7, 5, 6, 7, 6]
    s.check()
