"""Every way in which a program can write to its globals is seen by undo and by the session's file,
also where what was not written is not compared."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.arena.mirror import Mirror

SIZE = 6 << 20
PROGRAM = f"""
@big = global [{SIZE} x i8] zeroinitializer
@at = global i64 0
@gate = global [2 x i32] zeroinitializer
@name = private constant [15 x i8] c"/proc/self/mem\\00"
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @pipe(ptr)
declare i64 @write(i32, ptr, i64)
declare i64 @read(i32, ptr, i64)
declare i64 @pwrite(i32, ptr, i64, i64)
declare i32 @open(ptr, i32, ...)
declare i32 @fork()
declare i32 @waitpid(i32, ptr, i32)
declare i64 @syscall(i64, ...)
declare i32 @usleep(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_detach(i64)
declare ptr @mremap(ptr, i64, i64, i32, ...)
declare i32 @madvise(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)

define ptr @place() {{
  %i = load i64, ptr @at
  %p = getelementptr i8, ptr @big, i64 %i
  ret ptr %p
}}
define void @store() {{
  %p = call ptr @place()
  store i8 77, ptr %p
  ret void
}}
define ptr @work(ptr %x) {{
  call void @store()
  ret ptr null
}}
define ptr @work_late(ptr %x) {{
  %a = call i32 @usleep(i32 300000)
  call void @store()
  ret ptr null
}}
define void @by_store() {{
  call void @store()
  ret void
}}
define void @by_memcpy() {{
  %s = alloca i8
  store i8 77, ptr %s
  %p = call ptr @place()
  %a = call ptr @memcpy(ptr %p, ptr %s, i64 1)
  ret void
}}
define void @by_read() {{
  %fds = alloca [2 x i32]
  %s = alloca i8
  store i8 77, ptr %s
  %a = call i32 @pipe(ptr %fds)
  %in = load i32, ptr %fds
  %q = getelementptr i32, ptr %fds, i64 1
  %out = load i32, ptr %q
  %b = call i64 @write(i32 %out, ptr %s, i64 1)
  %p = call ptr @place()
  %c = call i64 @read(i32 %in, ptr %p, i64 1)
  ret void
}}
define void @by_memory_file() {{
  %fd = call i32 (ptr, i32, ...) @open(ptr @name, i32 2)
  %s = alloca i8
  store i8 77, ptr %s
  %p = call ptr @place()
  %n = ptrtoint ptr %p to i64
  %a = call i64 @pwrite(i32 %fd, ptr %s, i64 1, i64 %n)
  ret void
}}
define void @by_thread() {{
  %t = alloca i64
  %a = call i32 @pthread_create(ptr %t, ptr null, ptr @work, ptr null)
  %n = load i64, ptr %t
  %b = call i32 @pthread_join(i64 %n, ptr null)
  ret void
}}
define void @by_late_thread() {{
  %t = alloca i64
  %a = call i32 @pthread_create(ptr %t, ptr null, ptr @work_late, ptr null)
  %n = load i64, ptr %t
  %b = call i32 @pthread_detach(i64 %n)
  ret void
}}
define void @by_raw_fork() {{
  %pid = call i64 (i64, ...) @syscall(i64 57)
  %is = icmp eq i64 %pid, 0
  br i1 %is, label %child, label %parent
child:
  call void @store()
  %e = call i64 (i64, ...) @syscall(i64 60, i32 0)
  unreachable
parent:
  %n = trunc i64 %pid to i32
  %w = call i32 @waitpid(i32 %n, ptr null, i32 0)
  ret void
}}
define void @by_late_child() {{
  %pid = call i64 (i64, ...) @syscall(i64 57)
  %is = icmp eq i64 %pid, 0
  br i1 %is, label %child, label %parent
child:
  %r = call ptr @work_late(ptr null)
  %e = call i64 (i64, ...) @syscall(i64 60, i32 0)
  unreachable
parent:
  ret void
}}
define void @by_second_mapping() {{
  %i = load i64, ptr @at
  %page = and i64 %i, -4096
  %o = and i64 %i, 4095
  %b = ptrtoint ptr @big to i64
  %sum = add i64 %b, %page
  %down = and i64 %sum, -4096
  %from = inttoptr i64 %down to ptr
  %to = call ptr (ptr, i64, i64, i32, ...) @mremap(ptr %from, i64 0, i64 8192, i32 1)
  %all = add i64 %b, %i
  %off = sub i64 %all, %down
  %p = getelementptr i8, ptr %to, i64 %off
  store i8 77, ptr %p
  ret void
}}
"""
WAYS = [
    "by_store", "by_memcpy", "by_read", "by_memory_file", "by_thread", "by_late_thread",
    "by_raw_fork", "by_late_child", "by_second_mapping",
]  # fmt: skip


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as session:
        yield session


def settle(s: Session) -> None:
    """Run until nothing that nobody wrote is compared; a page that holds memory each."""
    for page in range(0, SIZE, 4096):
        s.inspect.engine.arena.write(s["big"].address + page, b"\1")
    for _ in range(4):
        s.run("@by_nothing()")


def byte(s: Session, at: int) -> int:
    return s.inspect.engine.arena.read(s["big"].address + at, 1)[0]


def begin(s: Session, at: int) -> None:
    s.run("define void @by_nothing() {\n  ret void\n}")
    s.run(PROGRAM)
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
    s.run(
        "declare i32 @madvise(ptr, i64, i32)\ndefine i32 @give(i64 %a) {\n"
        "  %p = inttoptr i64 %a to ptr\n  %r = call i32 @madvise(ptr %p, i64 4096, i32 9)\n"
        "  ret i32 %r\n}"
    )
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
    s.call("store")  # nobody looked since
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


@pytest.mark.parametrize("way", WAYS)
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
