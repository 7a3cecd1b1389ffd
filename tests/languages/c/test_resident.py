"""The clang that compiles one text after another: what a process of its own would answer, and
nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
from processes import gone, runs

from jitkernel import Session
from jitkernel.languages.c import resident
from jitkernel.languages.c.clang import find_clang
from jitkernel.languages.c.resident import plain_names
from tests.busy import strain, within

pytest.importorskip("ziglang")


@pytest.fixture
def taken(monkeypatch):
    """Whether each text found a process that waited."""
    found = []
    take = resident._take

    def noted(command):
        process = take(command)
        found.append(process is not None)
        return process

    monkeypatch.setattr(resident, "_take", noted)
    resident.end()
    yield found
    resident.end()


def waits():
    """The process that waits."""
    return resident._waiting[0]


def test_one_process_compiles_cell_after_cell(taken):
    with Session() as s:
        for number in range(5):
            s.run(f"int f{number}(int x) {{ return x + {number}; }}", "c")
            pid = waits().pid
            assert s.run(f"f{number}(1)", "c").value == 1 + number
            assert waits().pid == pid
        assert taken == [False] + 9 * [True]


def test_another_one_takes_over_in_time(taken):
    with Session() as s:
        pids = set()
        for number in range(resident._TEXTS + 8):
            s.run(f"int g{number};", "c")
            pids.add(waits().pid)
        assert len(pids) == 2 and taken.count(False) == 1


def test_mistakes_are_told_as_ever_and_the_next_one_is_another(taken):
    with Session() as s:
        s.run("int x = 1;", "c")
        pid = waits().pid
        with pytest.raises(Exception, match="undeclared identifier 'nope'"):
            s.run("int y(void) { return nope; }", "c")
        assert gone(pid) and waits().pid != pid
        assert s.run("x + 1", "c").text == "(int) 2"
        assert taken == [False, True, True]


def test_another_command_starts_another_process(taken, tmp_path, monkeypatch):
    text = "#ifdef A\nA\n#else\n0\n#endif"
    with Session() as s:
        s.run("int x;", "c")
        pid = waits().pid
        s.configure("clang_flags", "-D A=5")
        assert s.run(text, "c").text == "(int) 5"
        assert gone(pid)
        pid = waits().pid
        monkeypatch.setenv("CPATH", str(tmp_path))
        taken.clear()
        s.run("int y;", "c")
        assert True not in taken
        assert gone(pid)


def test_a_folder_of_headers_that_has_come_since_is_seen(taken, tmp_path):
    folder = tmp_path / "mine"
    with Session() as s:
        s.configure("clang_flags", f"-I {folder}")
        s.run("int x;", "c")
        pid = waits().pid
        folder.mkdir()
        (folder / "mine.h").write_text("enum { ANSWER = 42 };\n")
        assert s.run('#include "mine.h"\nANSWER', "c").text == "(int) 42"
        assert gone(pid)


def test_a_header_is_read_again(taken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Session() as s:
        for value in 1, 22, 333:
            (tmp_path / "mine.h").write_text(f"enum {{ ANSWER = {value} }};\n")
            assert s.run('#include "mine.h"\nANSWER', "c").value == value
            assert s.run("ANSWER + 1", "c").value == value + 1
            embedded = tmp_path / "data.bin"
            embedded.write_bytes(bytes([value % 256]))
            s.run('unsigned char data[] = {\n#embed "data.bin"\n};', "c")
            assert s.run("data[0]", "c").value == value % 256


def test_a_session_that_ends_leaves_none(taken):
    with Session() as s:
        s.run("int x;", "c")
        pid = waits().pid
        assert runs(pid)
    assert gone(pid)


def test_it_ends_with_a_process_that_is_killed(tmp_path):
    program = (
        "import os, signal\nfrom jitkernel import Session\n"
        "from jitkernel.languages.c import resident\n"
        "s = Session()\ns.run('int x;', 'c')\nprint(resident._waiting[0].pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and gone(int(done.stdout))


def test_no_descriptor_is_left(taken):
    with Session() as s:
        s.run("int x;", "c")
        resident.end()
        before = os.listdir("/proc/self/fd")
        s.run("int y;", "c")
        with pytest.raises(Exception, match="nope"):
            s.run("int z = nope;", "c")
        resident.end()
        assert os.listdir("/proc/self/fd") == before


def test_where_there_are_few_descriptors():
    program = (
        "import resource\nfrom jitkernel import Session\n"
        "s = Session()\ns.run('define void @f() { ret void }')\n"
        "import os\nused = max(map(int, os.listdir('/proc/self/fd')))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (used + 24, used + 24))\n"
        "s.run('int x = 4;', 'c')\nassert s.run('x', 'c').value == 4"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_that_was_killed_is_not_used(taken):
    with Session() as s:
        s.run("int x;", "c")
        pid = waits().pid
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
        assert s.run("x", "c").text == "(int) 0"
        assert True not in taken


def test_a_forked_child_leaves_it_to_its_parent(taken):
    with Session() as s:
        s.run("int x;", "c")
        pid = os.fork()
        if not pid:
            os._exit(bool(resident._waiting or resident._pipes))
        assert os.waitpid(pid, 0)[1] == 0
        s.run("int y;", "c")
        assert taken[-1]


def test_one_that_does_not_answer_is_replaced_at_once(taken):
    with Session(timeout=100) as s:
        s.run("int x = 1;", "c")
        os.kill(waits().pid, signal.SIGSTOP)
        begun = time.monotonic()
        assert s.run("x + 1", "c").text == "(int) 2"
        assert taken[-1] and time.monotonic() - begun < 90


def test_one_that_has_no_memory_left_is_replaced(taken):
    with Session() as s:
        s.run("int x = 1;", "c")
        resource.prlimit(waits().pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        assert s.run("x + 1", "c").text == "(int) 2"
        assert taken[-1]


def nothing(number):
    return number + 1


def pools(count):
    """Cells of C while processes that were forked in between live on: the longest, in seconds."""
    longest = 0.0
    context = multiprocessing.get_context("fork")
    with Session(timeout=100) as s:
        s.run("int x = 1;", "c")
        for number in range(count):
            with context.Pool(2) as pool:
                assert pool.map(nothing, [1, 2]) == [2, 3]
                begun = time.monotonic()
                s.run(f"int f{number}(int y) {{ return x + y + {number}; }}", "c")
                assert s.run(f"f{number}(1)", "c").value == number + 2
                longest = max(longest, time.monotonic() - begun)
    return longest


def test_forked_pools_between_cells():
    within(lambda: pools(3), 5 * strain())


@pytest.mark.soak
def test_many_forked_pools_between_cells():
    assert pools(100) < 5


# -- the same text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("%struct.p = type { i32 }\n@v = %struct.p", "%struct.p = type { i32 }\n@v = %struct.p"),
        ("%struct.p.7 = type { i32 }\n@v = %struct.p.7", "%struct.p = type { i32 }\n@v = %struct.p"),
        ("%struct.p.7 = type { i32 }\n@v = %struct.p.71", "%struct.p = type { i32 }\n@v = %struct.p.0"),
        ("%struct.p = type {}\n%struct.p.7 = type { %union.anon.12, %union.anon.9 }",
         "%struct.p = type {}\n%struct.p.0 = type { %union.anon.1, %union.anon }"),
        ("%struct.a.0 = type {}\n%struct.a.1 = type {}", "%struct.a = type {}\n%struct.a.0 = type {}"),
        ('%"struct.\\C3\\A9.4" = type { i32 }', '%"struct.\\C3\\A9" = type { i32 }'),
        ('@s = c"%struct.p.7"\n%struct.p.7 = type {}', '@s = c"%struct.p.7"\n%struct.p = type {}'),
    ],
)  # fmt: skip
def test_names_of_types_are_a_lone_process_s(given, expected):
    assert plain_names(given) == expected


TEXTS = [
    "int a(void) {{ return {0}; }}",
    "struct p {{ int x; double y; }}; double f{0}(struct p *q) {{ return q->y + {0}; }}",
    "struct p {{ int x; double y; }} v{0} = {{1, {0}}}; double g(struct p q, struct p *r) "
    "{{ return q.y + r[1].y; }}",
    "struct {{ int a; }} an; union {{ int b; float c; }} un; int k(void) {{ return an.a + un.b; }}",
    "int warn(void) {{ int u; return u + {0}; }}",
    '# 3 "cell {0}"\nint lines(int x) {{\n return x + {0}; }}',
    'static const char *t[] = {{"a{0}", "%struct.p.4"}}; const char *m(int i) {{ return t[i]; }}',
    "typedef struct node node; struct node {{ node *next; struct {{ int a; }} in[{0} + 1]; }};"
    "int n(node *x) {{ struct node y = *x; struct {{ char c; }} z = {{1}}; return z.c + y.in[0].a; }}",
    "#define N {0}\n#pragma pack(push, 1)\nstruct q {{ char c; int x[N + 1]; }} q;\n"
    "#pragma pack(pop)\nint s = sizeof q;",
    "#define N 7\n#undef N\n#ifdef N\nint broken(\n#endif\nint c = __COUNTER__;",
    "#pragma STDC FP_CONTRACT OFF\ndouble mul(double a, double b) {{ return a * b + {0}; }}",
    "static int st; int *once(void) {{ static int st; static int other = {0}; st += other; "
    "return &st; }}",
    "#pragma push_macro(\"N\")\n#define N 4\nint n4 = N;\n#pragma weak n4\n",
    "enum e {{ A{0}, B }} en; _Thread_local long tl = {0}; _Bool bo; long double ld = 1.5L;",
    "int unused(int x) {{ x == {0}; 1, x; return (x & 1 == 1); }}",
    "#include <stddef.h>\nsize_t sz(void) {{ return offsetof(struct {{ char c; int i; }}, i); }}",
    '#pragma GCC diagnostic ignored "-Wunused-value"\nint q(int x) {{ x == {0}; return x; }}',
    "typeof(_Generic({0}, int: 1.0)) gen = 2; int vla(int n) {{ int t[n]; t[0] = n; return t[0]; }}",
    'int sys(void) {{ __asm__ volatile("nop" ::: "memory"); return {0}; }}',
    "struct __attribute__((aligned(32))) al {{ int x; }} al; struct bits {{ int a : 3, b : {0} + 1; "
    "}} bi; int bit(void) {{ return bi.b; }}",
]  # fmt: skip


def pairs(count, seed, header=""):
    """Random texts one after another, each compared with the answer of a process of its own."""
    program = find_clang()
    some = random.Random(seed)
    for number in range(count):
        text = some.choice(TEXTS).format(some.randrange(1, 9))
        if some.randrange(4) == 0:
            text += "\n" + some.choice(TEXTS[:9]).format(some.randrange(1, 9)).replace("p ", "pp ")
        again = program.compile(text, header)
        kept = resident._waiting.copy()
        resident._waiting.clear()
        alone = program.compile(text, header)
        resident.end()
        resident._waiting.extend(kept)
        assert (number, text, again) == (number, text, alone)


def test_the_answer_is_that_of_a_process_of_its_own():
    pairs(60, 1)
    pairs(30, 2, "#include <stdio.h>\n")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_many_answers_are_those_of_processes_of_their_own(seed):
    pairs(500, seed, "#include <stdlib.h>\n" * (seed % 2))
