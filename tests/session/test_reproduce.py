"""`Session.reproduce`: the cells' present text, run again beside the session."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import EVERYTHING, interrupting, run_cells, state

from jitkernel import Session, errors, views
from jitkernel.session import CellOptions
from jitkernel.session.run.results import Collector
from jitkernel.views.reproduce import reproduced as reproduced_view
from tests.busy import strain, within

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import compile_c, needs, tool

pytestmark = pytest.mark.process

SPIN = "start:\n  br label %spin\nspin:\n  br label %spin"


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20) as session:
        yield session
        session.check()


def found(s: Session) -> list[str]:
    """What a fresh run finds."""
    reproduced = s.reproduce()
    assert reproduced.same == (not reproduced.differences)
    return list(map(str, reproduced.differences))


class Answers(Collector):
    def __init__(self, *lines: str):
        super().__init__()
        self.lines = list(lines)

    def input(self, prompt: str) -> str | None:
        return self.lines.pop(0)


# -- nothing differs ---------------------------------------------------------------------------------


def test_cells_that_ran_once_in_order_differ_in_nothing(s) -> None:
    run_cells(s, EVERYTHING)
    before = state(s)
    reproduced = s.reproduce()
    assert reproduced.same and reproduced.cells == len(EVERYTHING)
    assert "gives what is here" in reproduced_view(reproduced).text
    assert state(s) == before


def test_nothing_changes_and_nothing_is_printed(s, capfd) -> None:
    said = []

    @s.export_python("note", type="void (i64)")
    def note(n):
        said.append(n)
        print("note", n)

    s.run("#include <stdio.h>\nint n = 1; void note(long);", "c", "a")
    s.run('n++; printf("n is %d\\n", n); fprintf(stderr, "n\\n"); note(n);', "c", "b")
    s["n"].value = 50
    capfd.readouterr()
    before = state(s)
    assert found(s) == ["n is 50 here, and 2 in a fresh run"]
    assert state(s) == before
    assert capfd.readouterr() == ("", "")
    assert said == [2, 2]  # Python's functions are called
    s.run("n++;", "c")
    assert s.undo()[0].startswith("undone: cell") and s["n"].value == 50


def test_inline_sessions(fresh) -> None:
    s = fresh(executor="inline")
    run_cells(s, EVERYTHING)
    assert found(s) == []
    s["u"].value = 5
    assert found(s) == ["u is 5 here, and 4000000000 in a fresh run"]


def test_restored_sessions(s, tmp_path) -> None:
    run_cells(s, EVERYTHING)
    s.run("u++;", "c", "again")
    s.run("u++;", "c", "again")
    s.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks") as again:
        # heap, streams and threads' variables are another process's
        lost = {"heap", "out", "tl"}
        told = [str(d) for d in again.reproduce().differences if d.name not in lost]
        assert told == ["u is 4000000002 here, and 4000000001 in a fresh run"]
        again.run("u--;", "c", "more")
        again.save(tmp_path / "b.jks")
    with Session.restore(tmp_path / "b.jks", store_path=tmp_path / "c.jks", autosave=True) as last:
        last.run("u = 3;", "c", "again")
    with Session(store_path=tmp_path / "c.jks") as last:
        last.run("u = 7;", "c", "more")
        assert not [d for d in last.reproduce().differences if d.name == "u"]
        assert last.reproduce().cells == len(EVERYTHING) + 2


def test_the_heap_that_a_restored_session_lacks_is_told(s, tmp_path) -> None:
    s.run("#include <stdlib.h>\nchar *p; p = malloc(9);", "c", "a")
    s.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks") as again:
        assert found(again) in (
            [],
            ["p is heap of a process that ended here, and heap in a fresh run"],
        )


def test_after_exit_fault_and_hibernation(s) -> None:
    s.run("#include <stdlib.h>\nint n = 1; int f(void) { static int t; return ++t + n; }", "c", "a")
    with pytest.raises(errors.Exited):
        s.run("n = 2; exit(3);", "c", "b")
    with pytest.raises(errors.Fault):
        s.run("n = 4; *(volatile int *)0 = 1; n = 5;", "c", "c")
    s.run("f();", "c", "d")
    s.hibernate("f")
    assert found(s) == []
    assert s.find("f")[0].state.value == "hibernated"
    s.call("f")
    assert found(s) == ["f.t is 2 here, and 1 in a fresh run"]


@needs("gcc", "ar")
def test_files_that_were_linked_and_loaded(s, tmp_path) -> None:
    one, member = tmp_path / "one.o", tmp_path / "member.o"
    one.write_bytes(compile_c("int one = 4; int alone(void) { return one++; }", "-O1"))
    member.write_bytes(compile_c("int calls; int member(void) { return ++calls; }", "-O1"))
    tool("ar", "rcs", str(tmp_path / "libparts.a"), str(member))
    s.load("-lz")
    s.link(one)
    s.link(tmp_path / "libparts.a")
    s.run("int alone(void), member(void); const char *zlibVersion(void); const char *version;", "c")
    s.run("alone(); member(); version = zlibVersion();", "c")
    assert found(s) == []
    s.run("member();", "c", "again")
    s.run("member();", "c", "again")
    assert found(s) == ["calls is 3 here, and 2 in a fresh run"]


def test_options_settings_folders_and_variables(s, tmp_path) -> None:
    s.setenv("REPRODUCED", "yes")
    s.chdir(tmp_path)
    s.run("#include <stdlib.h>\n#include <unistd.h>\nint yes; char here[4096];", "c", "a")
    s.run('yes = getenv("REPRODUCED") != 0; getcwd(here, sizeof here);', "c", "b")
    s.configure("opt_level", 0)
    s.run("int low(int x) { return x + x + x; }", "c", "c")
    s.configure("opt_level", 3)
    s.run("int high(int x) { return x + x + x; }", "c", "d", options=CellOptions(opt_level=1))
    s.run_many(["@m1 = global i32 1", "@m2 = global i32 2"])
    s.place(s.compile("@placed = global i32 3"))
    s.run("@m3 = i64 5", number=40)
    s.run("@m3", number=50)
    s.run("@m4 = _50", number=60)
    assert found(s) == []


def test_what_was_evicted_and_undone_by_cells_is_done_again(s) -> None:
    s.run("int a = 1;", "c", "a")
    s.run("int b = 1;", "c", "b")
    s.run("int c = 1;", "c", "c")
    s.evict(2)
    s.run("int a = 2;", "c", "more")
    s.undo()
    s.redo()
    assert found(s) == []
    s.reset()
    assert found(s) == []


# -- what differs ------------------------------------------------------------------------------------


def test_each_kind_of_difference(s, tmp_path) -> None:
    header = tmp_path / "h.h"
    header.write_text("#define SIDE 3\nstatic int side(void) { return SIDE; }\n")
    s.run("int n = 1, old = 2, wide[2];", "c", "first")
    s.run(f'#include "{header}"', "c", "header")
    s.run("int doubled(void) { return 2 * side(); } int row[SIDE];", "c", "user")
    s.run("n += old;", "c", "twice")
    s.run("n += old;", "c", "twice")
    s.run("int use(void) { return old; }", "c", "use")
    s.run("int n = 1, wide[2];", "c", "first")
    header.write_text("#define SIDE 4\nstatic int side(void) { return 5 * SIDE; }\n")
    told = {(d.kind, d.name) for d in s.reproduce().differences}
    assert {("ends", f"cell {s.find('use')[0].number}"), ("gone", "old"), ("type", "row"),
            ("code", "doubled")} <= told  # fmt: skip
    sizes = [(d.here, d.there) for d in s.reproduce().differences if d.name == "row"]
    assert sizes == [("int row[SIDE], 12 bytes", "int row[SIDE], 16 bytes")]
    text = views.reproduce(s).text
    assert "(no cell defines it any more)" in text and "code of doubled" in text


def test_a_value_of_a_cell_that_ran_twice(s) -> None:
    s.run("@n = global i32 1", cell_id="a")
    for _ in range(2):
        s.run("%v = load i32, ptr @n\n%w = add i32 %v, 1\nstore i32 %w, ptr @n", cell_id="b")
    assert found(s) == ["@n is 3 here, and 2 in a fresh run"]


def test_a_cell_keeps_its_place(s) -> None:
    s.run("#define N 2", "c", "a")
    s.run("int n = N;", "c", "b")
    s.run("int f(void) { return n + N; }", "c", "c")
    s.run("#define N 3", "c", "a")
    assert "ends" not in {d.kind for d in s.reproduce().differences}


def test_an_undo_is_done_again_in_its_place(s) -> None:
    s.run("int a = 1;", "c", "a")
    s.run("int a = 2;", "c", "a")
    s.undo()  # which takes all of a away, where a cell was never anything else
    assert found(s) == ["a (variable) is here, and no cell defines it any more"]
    s.run("int a = 3;", "c", "a")
    assert found(s) == ["a (variable) is here, and no cell defines it any more"]
    s.run("int a = 3;", "c", "b")
    assert found(s) == []


def test_a_definition_that_was_evicted_by_hand(s) -> None:
    s.frontend.begin_cell("one")
    s.run("int a = 1;", "c")
    s.frontend.end_cell()
    s.frontend.begin_cell("two")
    s.evict("a")
    s.frontend.end_cell()
    assert found(s) == []
    s.frontend.begin_cell("two")  # the cell has another text now
    s.frontend.end_cell()
    assert found(s) == ["a (variable) is missing here, and a fresh run has it"]


def test_cells_that_the_notebook_has_no_more(s) -> None:
    s.run("int a = 1;", "c", "one")
    s.run("int b = 1;", "c", "two")
    s.frontend.begin_cell("three", gone=["one"])
    s.frontend.end_cell()
    assert found(s) == ["a (variable) is here, and no cell defines it any more"]


def test_a_cell_that_failed_counts_with_its_text(s) -> None:
    s.run("int a = 1;", "c", "a")
    s.run("int b = 2;", "c", "b")
    with pytest.raises(errors.CompileError):
        s.run("int a = ;", "c", "a")
    assert found(s) == ["a (variable) is here, and no cell defines it any more"]
    with pytest.raises(errors.CompileError):
        s.run("int c = ;", "c")  # nobody's text
    s.run("int a = 1;", "c", "a")
    assert found(s) == []


def test_input_is_refused(s) -> None:
    s.run("#include <stdio.h>\nint n;", "c", "a")
    s.run('scanf("%d", &n);', "c", "b", sink=Answers("41\n"))
    assert s["n"].value == 41
    assert found(s) == [
        "cell 2 ended with no error here, and with a request for input that nobody answers in a fresh "
        "run",
        "n is 41 here, and 0 in a fresh run",
    ]


# -- how long it takes -------------------------------------------------------------------------------


def test_what_the_user_stopped_is_stopped(s) -> None:
    with interrupting(s), pytest.raises(errors.Interrupted):
        s.run(SPIN, cell_id="a")
    s.run("@n = global i32 1", cell_id="b")

    def took() -> float:
        began = time.monotonic()
        assert found(s) == []
        return time.monotonic() - began

    within(took, 10 * strain())


def test_time_is_up(s) -> None:
    s.run("#include <unistd.h>\nvolatile int go = 1; int n;", "c", "a")
    s["go"].value = 0
    s.run("n = 1; while (go) usleep(1000);", "c", "b")
    s.run("int m = 1;", "c", "c")
    for seconds in (3, 9, 27, 81):
        reproduced = s.reproduce(timeout=seconds)
        assert reproduced.unfinished >= 2
        if reproduced.unfinished == 2:  # there was time for the first one
            break
    assert (reproduced.cells, reproduced.unfinished, reproduced.same) == (1, 2, False)
    assert "time was up with 2 cells to go" in reproduced_view(reproduced).text
    assert s["go"].value == 0
    s.run("int more = n;", "c")
    assert s["more"].value == 1


@pytest.mark.parametrize("after", [0.05, 0.3, 0.7])
def test_the_stop_button(s, after) -> None:
    s.run("volatile int go = 1; int n;", "c", "a")
    s["go"].value = 0
    s.run("n = 1; while (go) ;", "c", "b")
    before = state(s)

    def took() -> float:
        began = time.monotonic()
        with interrupting(s, after), pytest.raises(errors.Interrupted):
            s.reproduce()
        return time.monotonic() - began - after

    within(took, 5 * strain())
    assert state(s) == before
    s.run("n++;", "c")
    assert s["n"].value == 2


def test_progress_is_told_while_a_cell_runs(s) -> None:
    s.run("#include <unistd.h>\nint n;", "c", "a")
    s.run("usleep(900000);", "c", "b")
    told: list[tuple[float, str]] = []
    s.reproduce(progress=lambda words: told.append((time.monotonic(), words)))
    assert len([words for _, words in told if words == "cell 2, 2 of 2"]) > 1


def test_processes_end(s) -> None:
    s.run("int n;", "c", "a")
    threads = threading.active_count()
    for _ in range(3):
        assert s.reproduce().same
    assert threading.active_count() <= threads + 1


def test_texts_of_no_cell_are_bounded(s, monkeypatch) -> None:
    from jitkernel.session.saved import texts

    monkeypatch.setattr(texts, "_MOST", 5)
    for n in range(8):
        s.run(f"@n{n} = global i32 {n}")
    with pytest.raises(errors.UsageError, match="the first 3 texts are not kept"):
        s.reproduce()
