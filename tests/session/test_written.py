"""Every way in which a program can write to its globals is seen by undo and by the session's file,
also where what was not written is not compared."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.arena.mirror import Mirror
from jitkernel.errors import UsageError
from tests.seeds import sampled

pytestmark = pytest.mark.process

SIZE = 6 << 20
PROGRAM = f"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
char big[{SIZE}];
long at;
void by_nothing(void) {{}}
void by_store(void) {{ big[at] = 77; }}
void *work(void *late) {{
  if (late) usleep(300000);
  by_store();
  return 0;
}}
void by_memcpy(void) {{ volatile char c = 77; memcpy(big + at, (char *)&c, 1); }}
void by_read(void) {{
  int fds[2];
  pipe(fds);
  write(fds[1], "M", 1);
  read(fds[0], big + at, 1);
}}
void by_memory_file(void) {{ pwrite(open("/proc/self/mem", O_RDWR), "M", 1, (long)(big + at)); }}
void by_thread(void) {{ pthread_t t; pthread_create(&t, 0, work, 0); pthread_join(t, 0); }}
void by_late_thread(void) {{ pthread_t t; pthread_create(&t, 0, work, big); pthread_detach(t); }}
int child(void *late) {{
  int pid = syscall(SYS_fork);
  if (!pid) {{ work(late); syscall(SYS_exit, 0); }}
  return pid;
}}
void by_raw_fork(void) {{ waitpid(child(0), 0, 0); }}
void by_late_child(void) {{ child(big); }}
void by_second_mapping(void) {{
  char *from = (char *)((long)(big + at) & -4096);
  char *to = mremap(from, 0, 8192, MREMAP_MAYMOVE);
  to[big + at - from] = 77;
}}
"""
WAYS = [
    "by_store", "by_memcpy", "by_read", "by_memory_file", "by_thread", "by_late_thread",
    "by_raw_fork", "by_late_child", "by_second_mapping",
]  # fmt: skip


def settle(s: Session) -> None:
    """Run until nothing that nobody wrote is compared; a page that holds memory each."""
    for page in range(0, SIZE, 4096):
        s.inspect.engine.arena.write(s["big"].address + page, b"\1")
    for _ in range(4):
        s.run("@by_nothing()")


def byte(s: Session, at: int) -> int:
    return s.inspect.engine.arena.read(s["big"].address + at, 1)[0]


def begin(s: Session, at: int) -> None:
    s.run(PROGRAM, "c")
    s["at"].value = at
    settle(s)


def wait_for(s: Session, at: int, value: int) -> None:
    end = time.monotonic() + 30
    while byte(s, at) != value:
        assert time.monotonic() < end, "it was never written"
        time.sleep(0.01)


@pytest.mark.parametrize("way", WAYS)
def test_undo_takes_it_back(way: str, s: Session) -> None:
    at = 3_000_001
    begin(s, at)
    before = byte(s, at)
    s.run(f"@{way}()")
    wait_for(s, at, 77)
    s.undo()
    assert byte(s, at) == before
    s.redo()
    assert byte(s, at) == 77
    # and again, now that the program may have children, threads or mappings that were not there
    s["at"].value = at + 1_000_000
    s.run("@by_nothing()")
    s.run("@by_nothing()")
    s.run(f"@{way}()")
    wait_for(s, at + 1_000_000, 77)
    s.undo()
    assert byte(s, at + 1_000_000) != 77 and byte(s, at) == 77


def test_what_was_not_written_is_not_compared(s: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(s, 3_000_001)
    if s.inspect.engine.executor.page_table() is None:
        pytest.skip("pages cannot be protected here")
    count = 0
    plain = Mirror._compare

    def counting(self: Mirror, *place: int) -> object:
        nonlocal count
        count += 1
        return plain(self, *place)

    monkeypatch.setattr(Mirror, "_compare", counting)
    for _ in range(10):
        s.run("@by_nothing()")
    s.run("@by_store()")
    s.undo()
    assert byte(s, 3_000_001) == 0
    assert count < 60  # of 12 times 96 pieces


def test_a_page_that_the_program_gave_back_and_somebody_read(s: Session) -> None:
    """It was protected, nobody wrote it, and there is another page where it was."""
    begin(s, 0)
    start = s["big"].address + (1 << 20) & -4096
    s.run("int give(long at) { return madvise((void *)at, 4096, MADV_REMOVE); }", "c")
    s.run("@by_nothing()")
    assert s.run(f"@give(i64 {start})").value == 0
    place = start - s["big"].address
    assert byte(s, place + 4096 & -4096) in (0, 1) and s.inspect.engine.arena.read(
        start, 4096
    ) == bytes(4096)
    s.undo()
    assert s.inspect.engine.arena.read(start, 4096).strip(b"\0")


def test_writes_of_the_kernel_process(s: Session) -> None:
    begin(s, 5)
    s["big"].address  # noqa: B018
    s.inspect.engine.arena.write(s["big"].address + 2_000_000, b"\x4d")
    s.run("@by_nothing()")
    s.run("@by_store()")
    s.undo()
    assert (byte(s, 5), byte(s, 2_000_000)) == (0, 0x4D)


@pytest.mark.parametrize("settled", [False, True])
def test_after_the_executor_was_killed(settled: bool, s: Session) -> None:
    """What the dead one wrote last, and what the next one writes."""
    begin(s, 3_000_001)
    s.call("by_store")  # nobody looked since
    os.kill(s.inspect.engine.executor.pid, signal.SIGKILL)
    s.run("@by_nothing()")
    if settled:
        settle(s)
    s["at"].value = 2_000_001
    s.run("@by_nothing()")
    s.run("@by_store()")
    assert byte(s, 2_000_001) == 77
    s.undo()
    assert byte(s, 2_000_001) != 77


@pytest.mark.parametrize("way", sampled(WAYS, 4))
def test_the_file_has_it_after_each_cell(way: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jks"
    at = 3_000_001
    with Session(capacity=64 << 20, spare=False, store_path=str(path), autosave=True) as s:
        begin(s, at)
        s.run(f"@{way}()")
        wait_for(s, at, 77)
        s.run("@by_nothing()")
        copy = tmp_path / "copy.jks"
        s.save(str(copy))
        killed = tmp_path / "killed.jks"
        for end in ("", "-wal"):
            if (tmp_path / f"s.jks{end}").exists():
                (tmp_path / f"killed.jks{end}").write_bytes((tmp_path / f"s.jks{end}").read_bytes())
    for file in (killed, copy, path):
        with Session.restore(str(file), spare=False) as back:
            assert byte(back, at) == 77, file


def test_text_that_is_none_is_refused(s):
    s.run('@text = global [8 x i8] c"unchange"')
    for give in (lambda t: s.call("puts", t), lambda t: setattr(s["text"], "value", t)):
        with pytest.raises(UsageError, match=r"U\+D800 is not text"):
            give("a\ud800")
    assert bytes(s["text"].value) == b"unchange"
