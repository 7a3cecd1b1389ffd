"""A forked child has its own variables, as every process has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import LinkError
from tests.busy import until

pytest.importorskip("ziglang")

HEAD = """#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int counter = 5, zero, pid, fd[2], back[2];
char text[8] = "parent";
double large[1 << 20];
int status(void) { int s; wait(&s); return WIFEXITED(s) ? WEXITSTATUS(s) : -1; }
"""


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20) as session:
        session.run(HEAD, "c")
        yield session


def text(s: Session, cell: str) -> str:
    return s.run(cell, "c").text


def test_a_child_and_its_child(s):
    cell = """
        pid = fork();
        if (pid == 0) {
            counter += 10;
            zero = 1;
            large[1 << 19] = 1;
            if (fork() == 0) {
                counter++, zero++;
                _exit(counter * 10 + zero);
            }
            int got = status();
            _exit(got == 162 && counter == 15 && zero == 1 ? 7 : 1);
        }
        counter--;
        status()
    """
    assert text(s, cell) == "(int) 7"
    assert text(s, "counter * 100 + zero") == "(int) 400"
    assert text(s, "pid > 0 && large[1 << 19] == 0") == "(int) 1"
    s.check()
    s.undo()  # the last two cells wrote nothing
    assert s["counter"].value == 5 and s["pid"].value == 0


def test_what_stands_at_the_fork_is_what_the_child_has(s):
    """The parent goes on writing while the child reads."""
    cell = """
        int right = 0;
        for (int i = 0; i < 30; i++) {
            counter = i;
            if (fork() == 0) {
                usleep(1000);
                _exit(counter == i && strcmp(text, "parent") == 0);
            }
            counter = -1;
            strcpy(text, "other");
            right += status();
            strcpy(text, "parent");
        }
        right
    """
    assert text(s, cell) == "(int) 30"


def test_functions_are_there_also_those_that_were_away(s):
    s.run("int more(void) { return counter + 1; }", "c")
    s.hibernate("more")
    assert text(s, "if (fork() == 0) { counter = 20; _exit(more()); } status()") == "(int) 21"
    assert text(s, "more()") == "(int) 6"


def test_code_stays_while_a_child_runs_it(s):
    """A statement is a function of its own, and the next one runs while the child is in it."""
    s.run("int slow(int n) { char c; read(fd[0], &c, 1); return n; }", "c")
    cell = "pipe(fd); if (fork() == 0) _exit(slow(20) + slow(1)); write(fd[1], text, 2); status()"
    assert text(s, cell) == "(int) 21"
    s.run("if (fork() == 0) _exit(slow(22) + 1);", "c")
    with pytest.raises(LinkError, match="children of the program may run it"):
        s.hibernate("slow")
    s.run("int slow(int n) { return 0; }", "c")
    assert text(s, "1 + 1") == "(int) 2"
    assert text(s, "write(fd[1], text, 1); status()") == "(int) 23"
    s.check()
    s.hibernate("slow")
    assert s.call("slow", 5) == 0


@pytest.mark.parametrize("leaves", ["", "setsid();"])
def test_code_stays_while_a_childs_child_runs_it(s, leaves):
    """Whose parent has ended, as that of a daemon."""
    s.run("int slow(int n) { char c; read(fd[0], &c, 1); return n; }", "c")
    cell = f"if (fork() == 0) {{ {leaves} if (fork() == 0) _exit(write(back[1], text, slow(2)));"
    s.run("pipe(fd); pipe(back);" + cell + " _exit(0); } status();", "c")
    with pytest.raises(LinkError, match="children of the program may run it"):
        s.hibernate("slow")
    s.run("int slow(int n) { return 0; }", "c")
    assert text(s, "write(fd[1], text, 1); char got[8]; (int) read(back[0], got, 8)") == "(int) 2"
    assert until(lambda: not s.inspect.engine.executor.shared)
    s.hibernate("slow")
    s.check()


def test_threads_that_fork_at_once(s):
    cell = """
        void *work(void *n) {
            long good = 0;
            for (int i = 0; i < 10; i++) {
                int s, p = fork();
                if (p == 0) { zero = (long) n; _exit(counter + zero); }
                waitpid(p, &s, 0);
                good += WEXITSTATUS(s) == 5 + (long) n;
            }
            return (void *) good;
        }
        long all(void) {
            pthread_t t[4];
            void *good;
            long sum = 0;
            for (long i = 0; i < 4; i++) pthread_create(t + i, 0, work, (void *) i);
            for (int i = 0; i < 4; i++) { pthread_join(t[i], &good); sum += (long) good; }
            return sum;
        }
        all()
    """
    assert text(s, cell) == "(long) 40"
    assert s["zero"].value == 0


def test_nothing_is_left_of_it(s):
    s.run(
        "int forks(int n) { for (int i = 0; i < n; i++) { if (!fork()) _exit(0); status(); } return n; }",
        "c",
    )
    assert s.call("forks", 3) == 3
    arena, pid = s.inspect.engine.arena, s.inspect.engine.executor.pid

    def seen() -> tuple[int, int]:
        return arena.resident(), Path(f"/proc/{pid}/maps").read_text().count("\n")

    before = seen()
    assert s.call("forks", 40) == 40
    assert seen() == before  # and no hole of the zone became pages


def test_a_child_that_may_not_see_the_file_shares(s):
    """Its variables are its parent's then: it runs, and nothing is lost."""
    s.run(
        "#include <sys/resource.h>\nint cramped(void) { struct rlimit l = {1 << 20, RLIM_INFINITY};"
        "setrlimit(RLIMIT_DATA, &l); if (!fork()) { counter = 9; _exit(3); } int s = status();"
        "l.rlim_cur = RLIM_INFINITY; setrlimit(RLIMIT_DATA, &l); return s; }", "c",
    )  # fmt: skip
    assert s.call("cramped") == 3
    assert s["counter"].value == 9
