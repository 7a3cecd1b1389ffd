"""Workers that die, hang, grow or are left behind."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from jitkernel import procfs
from jitkernel.compiler import worker_process, workers
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Compiled, Options, Request
from jitkernel.errors import CompileError, Interrupted, WorkerDied
from jitkernel.settings import SessionSettings
from tests.busy import soon, until
from tests.interruption import Torn, torn
from tests.processes import gone, python, runs
from tests.seeds import few

SQUARE = "define i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n"


def slow(elements: int = 16384) -> str:
    """A module of one line that LLVM is busy with for many seconds (the time is quadratic)."""
    vector = f"<{elements} x i64>"
    return (
        f"define {vector} @f({vector} %a, {vector} %b) {{\n"
        f"  %r = sdiv {vector} %a, %b\n  ret {vector} %r\n}}"
    )


def pids(pool: CompilerPool, role: str = "worker") -> list[int]:
    return [m.pid for m in pool.memory() if m.role == role]


# source, LLVM's words, the line they are about
FATAL = [
    (
        'define i32 @f() {\n  %x = call i32 asm "", "={zork}"()\n  ret i32 %x\n}',
        "couldn't allocate output register",
        2,
    ),
    ('define void @f() {\n\n  call void asm "zork 1", ""()\n  ret void\n}', "mnemonic", 3),
    ('\nmodule asm "zork"', "zork", 2),
]


def test_what_ends_llvm_is_an_error_of_one_cell(capfd: pytest.CaptureFixture[str]) -> None:
    with CompilerPool() as pool:
        for source, words, line in FATAL:
            with pytest.raises(WorkerDied) as caught:
                pool.compile(Request(source, label="cell 7"))
            assert words in caught.value.words and words in str(caught.value)
            assert caught.value.begun
            assert "cell 7" in str(caught.value)
            (diagnostic,) = caught.value.diagnostics
            assert diagnostic.line == line
            assert diagnostic.source == source.split("\n")[line - 1]
            assert pool.compile(Request(SQUARE)).object
        assert pool.workers.restarts == len(FATAL)
    assert capfd.readouterr() == ("", "")


def test_the_spare_forks_another_worker() -> None:
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        (spare,), (first,) = pids(pool, "spare"), pids(pool)
        with pytest.raises(WorkerDied):
            pool.compile(Request(FATAL[0][0]))
        pool.compile(Request(SQUARE))
        assert pids(pool) not in ([], [first], [spare])
        assert pids(pool, "spare") == [spare]


def test_a_spare_that_was_killed_is_started_again() -> None:
    """The workers that it forked go on; whoever forks next, or has time, starts another one."""
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        (worker,), (spare,) = pids(pool), pids(pool, "spare")
        os.kill(spare, signal.SIGKILL)
        assert until(lambda: not pids(pool, "spare"))
        assert pool.compile(Request(SQUARE)).object
        assert pids(pool) == [worker]
        assert until(lambda: bool(pids(pool, "spare")))
        (spare,) = pids(pool, "spare")
        os.kill(spare, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        assert until(lambda: not pids(pool, "spare") and not runs(worker))
        assert pool.compile(Request(SQUARE)).object
        assert len(pids(pool)) == len(pids(pool, "spare")) == 1


def test_what_a_forked_worker_holds_is_the_spare_s_too() -> None:
    """LLVM's tables and llvmlite's classes are there once; a worker's own is what it compiled."""
    with CompilerPool() as pool, CompilerPool(SessionSettings(spare=False)) as alone:
        pool.compile(Request(SQUARE))
        alone.compile(Request(SQUARE))
        (forked,) = (m for m in pool.memory() if m.role == "worker")
        (spawned,) = alone.memory()
        assert 0 < forked.uss < spawned.uss / 2


def test_an_idle_worker_has_none_of_llvm_mapped_and_gives_back_what_a_large_module_took() -> None:
    """Between compiles it keeps what it freed: the next one wants it again.  It works as before
    when it is asked again; what was relocated is not lost."""

    def mapped(pid: int) -> int:
        return sum(
            int(line.split()[1])
            for mapping in Path(f"/proc/{pid}/smaps").read_text().split("VmFlags:")
            if "/libllvmlite" in mapping and " r-xp " in mapping
            for line in mapping.splitlines()
            if line.startswith("Rss:")
        )

    body = "  %y = mul i32 %x, %x\n" + "".join(
        f"  %a{i} = xor i32 %{f'a{i - 1}' if i else 'y'}, {i + 3}\n  %m{i} = call i32 @f(i32 %a{i})\n"
        for i in range(20)
    )
    large = "declare i32 @f(i32)\n" + "".join(
        f"define i32 @g{n}(i32 %x) {{\n{body}  ret i32 %y\n}}\n" for n in range(300)
    )
    with CompilerPool() as pool:
        code = pool.compile(Request(SQUARE)).object
        (worker,), (spare,) = pids(pool), pids(pool, "spare")
        small = procfs.own_bytes(worker)
        assert pool.compile(Request(large)).object
        grown = procfs.own_bytes(worker) - small
        assert grown > 4 << 20 and mapped(worker) > 0
        assert until(lambda: procfs.own_bytes(worker) < small + grown / 2, 30)
        assert until(lambda: mapped(worker) == mapped(spare) == 0, 30)
        assert pool.compile(Request(SQUARE)).object == code
        with pytest.raises(WorkerDied):
            pool.compile(Request(FATAL[0][0]))
        assert pool.compile(Request(SQUARE)).object == code


def test_where_nothing_can_be_forked_the_process_compiles_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where a sandbox refuses clone(2) with CLONE_PARENT."""
    others = zombies()
    script = Path(worker_process._SCRIPT)
    wrong = tmp_path / "worker.py"
    code = script.read_text().replace("realpath(__file__)", f"realpath({str(script)!r})")
    forks = "import jitkernel.compiler.forks as forks\nforks._CLONE_PARENT = 0x8000 | 0x10000\n\nimport os "
    wrong.write_text(code.replace("import os ", forks, 1))
    monkeypatch.setattr("jitkernel.compiler.worker_process._SCRIPT", str(wrong))
    with CompilerPool() as pool:
        assert pool.compile(Request(SQUARE)).object
        (first,) = pool.workers.working
        assert first.zygote is not None and first.zygote.pid == first.pid
        for _ in range(5):
            assert pool.compile(Request(SQUARE)).object
        assert pids(pool) == [first.pid] and not pool.workers.restarts
        with pytest.raises(WorkerDied, match=FATAL[0][1]):
            pool.compile(Request(FATAL[0][0]))
        assert pool.compile(Request(SQUARE)).object
        assert first.pid not in pids(pool)
    assert zombies() <= others


def test_a_pool_that_is_closed_before_a_worker_is_there() -> None:
    """Nothing waits for LLVM to be loaded, and nothing is left."""
    others = zombies()
    descriptors = set(os.listdir("/proc/self/fd"))
    for delay in (0, 0.01, 0.05, 0.1, 0.2):
        pool = CompilerPool()
        pool.start()
        time.sleep(delay)
        (spare,) = (worker.zygote for worker in pool.workers.working)
        assert spare is not None
        pool.close()
        assert not Path(f"/proc/{spare.pid}").exists()
    assert set(os.listdir("/proc/self/fd")) == descriptors
    assert zombies() <= others


def test_a_worker_killed_while_it_compiles() -> None:
    with CompilerPool(SessionSettings(spare=False)) as pool:
        pool.compile(Request(SQUARE))
        (pid,) = pids(pool)
        used, kill = procfs.processor_time(pid), partial(os.kill, pid, signal.SIGKILL)
        busy = lambda: procfs.processor_time(pid) > used + 0.05  # noqa: E731
        with soon(lambda: busy() and kill() is None), pytest.raises(WorkerDied, match="SIGKILL"):
            pool.compile(Request(slow()))
        assert pool.compile(Request(SQUARE)).object


def state(pid: int) -> str:
    """How proc(5) calls what the process does: `T` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# Bytes; some are more than the socket holds.
@pytest.mark.parametrize(
    ("spare", "size"), few([(False, 8 << 20), (True, 0), (False, 0), (True, 8 << 20)], 2)
)
def test_a_request_that_a_killed_worker_never_read_goes_to_another(spare: bool, size: int) -> None:
    """A process that was killed holds its socket for a while: what is sent then is lost."""
    request = Request(SQUARE + ";" * size)
    with CompilerPool(SessionSettings(spare=spare)) as pool:
        code = pool.compile(request).object
        (worker,) = pids(pool)
        os.kill(worker, signal.SIGSTOP)
        assert until(lambda: state(worker) == "T")
        killer = threading.Timer(0.2, os.kill, (worker, signal.SIGKILL))
        killer.start()
        assert pool.compile(request).object == code
        killer.join()
        assert worker not in pids(pool) and pool.workers.restarts == 1


def test_workers_and_spares_killed_at_any_time_fail_no_request() -> None:
    with CompilerPool() as pool:
        code = pool.compile(Request(SQUARE)).object
        for count in range(30):
            running = pids(pool) + (pids(pool, "spare") if count % 3 else [])
            for pid in filter(None, running):  # 0: it was being forked by one that was killed
                os.kill(pid, signal.SIGKILL)
            time.sleep(count % 5 * 0.0002)
            assert pool.compile(Request(SQUARE)).object == code


def test_workers_that_end_before_they_begin_are_not_tried_for_ever(tmp_path: Path) -> None:
    """What is wrong may be with every one."""
    starts = tmp_path / "starts"
    wrong = tmp_path / "worker.py"
    wrong.write_text(
        f"import os, select, sys\nopen({str(starts)!r}, 'a').write('x')\n"
        "select.select([int(sys.argv[1])], [], [])\nos._exit(3)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jitkernel.compiler.worker_process._SCRIPT", str(wrong))
        with CompilerPool(SessionSettings(spare=False)) as pool:
            with pytest.raises(WorkerDied, match=r"\(exit status 3\) before it compiled") as caught:
                pool.compile(Request(SQUARE))
            assert not caught.value.begun
    # Three tries, and for each one that was started ahead, and may have ended before it was lent.
    assert 2 <= len(starts.read_text()) <= 6


def test_a_compile_that_takes_too_long() -> None:
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        (pid,) = pids(pool)
        pool.settings.timeout = 0.3
        with pytest.raises(CompileError, match=r"longer than 0\.3 s"):
            pool.compile(Request(slow()))
        assert not Path(f"/proc/{pid}").exists()
        pool.settings.timeout = 60
        assert pool.compile(Request(SQUARE)).object


def test_interrupt() -> None:
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        assert not pool.workers.interrupt()  # nothing to interrupt
        assert pool.compile(Request(SQUARE)).object
        with soon(pool.workers.interrupt), pytest.raises(Interrupted):
            pool.compile(Request(slow()))
        with soon(pool.workers.interrupt), pytest.raises(Interrupted):
            pool.compile_many([Request(slow()), Request(slow())])
        assert pool.compile(Request(SQUARE)).object


def test_an_interrupt_that_came_just_before() -> None:
    """Who owns the pool knows of it; no worker is lost, and the session's own code is compiled."""
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        before = pids(pool)
        pool.stopping = lambda: True
        with pytest.raises(Interrupted, match="interrupted while compiling"):
            pool.compile(Request(SQUARE))
        with pytest.raises(Interrupted):
            pool.compile_many([Request(SQUARE), Request(SQUARE)])
        assert pool.compile(Request(SQUARE, Options(internal=True))).object
        pool.stopping = lambda: False
        assert pool.compile(Request(SQUARE)).object
        assert pids(pool) == before


def test_interrupt_from_a_signal_handler() -> None:
    """The handler runs in the thread that compiles, whatever lock it holds at that moment."""
    others = zombies()
    with CompilerPool() as pool:
        before = signal.signal(signal.SIGALRM, lambda *_: pool.workers.interrupt())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.01)
            for _ in range(20):
                with pytest.raises(Interrupted):
                    while True:
                        pool.compile(Request(SQUARE))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert pool.compile(Request(SQUARE)).object
    assert zombies() <= others


def test_an_exception_in_the_waiting_thread_leaves_no_stale_answer() -> None:
    """Ctrl-C in a plain program: the answer that is on its way must not meet the next request."""
    with CompilerPool(SessionSettings(spare=False)) as pool:
        pool.compile(Request(SQUARE))

        def ring(number: int, frame: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, ring)
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                pool.compile(Request(slow()))
        finally:
            signal.signal(signal.SIGALRM, before)
        assert pool.compile(Request(SQUARE)).summary.functions[0].name == "sq"


def test_a_worker_over_its_limit_is_replaced_when_idle() -> None:
    with CompilerPool(SessionSettings(spare=False, worker_memory_limit=1 << 20)) as pool:
        first = pool.compile(Request(SQUARE))
        before = pids(pool)
        for _ in range(40):
            assert pool.compile(Request(SQUARE)).object == first.object
        assert pids(pool) != before
        assert pool.workers.restarts >= 1


def fresh_types(tag: str) -> str:
    """A module of types, constants and names that no context has met: 20 KB of a context's."""
    types = "".join(f"%{tag}t{i} = type {{ i32, [{i + 2} x i{i + 3}] }}\n" for i in range(100))
    return f"{types}@{tag}v = global %{tag}t7 zeroinitializer\n" + SQUARE.replace("@sq", f"@{tag}")


def test_contexts_come_back() -> None:
    """What stays of a compile is llvmlite's, 1.5 KB of a pass builder, whatever the module had."""
    with CompilerPool(SessionSettings(spare=False)) as pool:

        def compile_fresh(count: int, tag: str) -> int:
            for i in range(count):
                pool.compile(Request(fresh_types(f"{tag}{i}"), Options(0)))
            return pool.memory()[0].anonymous

        before = compile_fresh(200, "a")
        after = compile_fresh(300, "b")
        assert after - before < 300 * 2048
        assert pool.workers.restarts == 0


def test_what_compiles_leave_does_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has grown is replaced, forked or not: no process is ever much larger than a fresh
    one."""
    monkeypatch.setattr(workers, "_GROWTH", 256 << 10)
    monkeypatch.setattr(workers, "_GROWTH_ALONE", 256 << 10)
    for spare in (True, False):
        with CompilerPool(SessionSettings(spare=spare)) as pool:
            sizes = []
            for i in range(500):
                restarts = pool.workers.restarts
                assert pool.compile(Request(fresh_types(f"a{i}"), Options(0))).object
                if (
                    i % 50 == 49 and pool.workers.restarts == restarts
                ):  # else it has compiled nothing yet
                    sizes.append(next(m.anonymous for m in pool.memory() if m.role == "worker"))
            assert max(sizes) < min(sizes) + (3 << 20)
            assert 1 <= pool.workers.restarts <= 10


def test_a_worker_that_holds_too_much_gives_way_to_a_fresh_one() -> None:
    """Nobody waits for that: it is forked before it is asked."""
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        assert until(lambda: len(pool.memory()) == 2)
        (worker,), (spare,) = pids(pool), pids(pool, "spare")
        lent = pool.workers.lend(0)
        pool.workers.give_back(0, lent)
        lent.first_held = 1 - (4 << 20)  # as if it had grown since
        for _ in range(40):
            assert pool.compile(Request(SQUARE)).object
        assert pids(pool) not in ([], [worker]) and pool.workers.restarts == 1
        assert pids(pool, "spare") == [spare]


def test_a_large_module_is_not_growth() -> None:
    """What it took is free again, if not given back: the same worker goes on."""
    lines = [f"  %v{i} = mul i64 %v{i - 1}, {2 * i + 3}" for i in range(1, 4000)]
    large = "define i64 @f(i64 %v0) {\n" + "\n".join(lines) + "\n  ret i64 %v3999\n}"
    with CompilerPool() as pool:
        for _ in range(40):
            pool.compile(Request(SQUARE))
        (before, resident) = pids(pool)[0], pool.memory()[0].anonymous
        assert until(lambda: len(pool.memory()) == 2)
        pool.compile(Request(large))
        for _ in range(40):
            pool.compile(Request(SQUARE))
        assert pool.memory()[0].anonymous > resident + (2 << 20)
        assert pids(pool)[0] == before and pool.workers.restarts == 0


def test_megabytes_of_text() -> None:
    with CompilerPool(SessionSettings(spare=False)) as pool:
        with pytest.raises(CompileError) as caught:
            pool.compile(Request("; comment\n" * 400_000 + "zork"))
        assert caught.value.diagnostics[0].line == 400_001


def test_the_worker_ends_with_the_process_that_owns_it() -> None:
    """Also in the middle of a compile, when nobody reads the socket."""
    program = textwrap.dedent(
        f"""
        import os, signal, sys, threading, time
        from jitkernel.compiler.pool import CompilerPool
        from jitkernel.compiler.records import Request
        pool = CompilerPool()
        pool.start()
        pool.compile(Request("define void @f() {{ ret void }}"))
        while len(pool.memory()) < 2:
            time.sleep(0.01)
        print(*[m.pid for m in pool.memory()], flush=True)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        pool.compile(Request({slow()!r}))
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    workers = [int(word) for word in done.stdout.split()]
    assert len(workers) == 2, done.stderr
    assert all(map(gone, workers))


#: Each so many lines is one that is tried.
EACH = [3, pytest.param(1, marks=pytest.mark.slow)]


def zombies() -> set[int]:
    """What below this process has ended, and nobody has asked how; other tests' children too."""
    return {pid for pid in procfs.family(os.getpid()) if not runs(pid)}


def test_workers_are_out_of_reach_of_the_terminal() -> None:
    with CompilerPool(SessionSettings(spare=False)) as pool:
        pool.compile(Request(SQUARE))
        (pid,) = pids(pool)
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGINT)
        time.sleep(0.05)
        assert pool.compile(Request(SQUARE)).object
        assert pids(pool) == [pid]


def test_this_process_never_loads_llvm() -> None:
    python(
        """
        import sys
        from jitkernel.compiler.pool import CompilerPool
        from jitkernel.compiler.records import Request
        with CompilerPool() as pool:
            pool.compile(Request("define void @f() { ret void }"))
            pool.lines(Request("define void @f() { ret void }"))
        assert not any("llvmlite" in name for name in sys.modules), sys.modules
        assert "llvmlite" not in open("/proc/self/maps").read()
        """
    )


def test_who_starts_a_worker_first_of_all_waits_for_little() -> None:
    """The kernel does: what a request and its answer are is imported meanwhile."""
    told = python(
        """
        import sys
        from jitkernel.compiler.worker_process import Zygote
        print(*sys.modules)
        """
    )
    loaded = set(told.split())
    assert not loaded & {"jitkernel.compiler.pool", "jitkernel.compiler.records"}


def test_a_worker_has_no_module_that_only_the_kernel_process_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each is there twice, for every kernel; `dataclasses` brings `inspect`, which brings more."""
    script, told = Path(worker_process._SCRIPT), tmp_path / "modules"
    changed = tmp_path / "worker.py"
    code = script.read_text().replace("realpath(__file__)", f"realpath({str(script)!r})")
    tell = f"        open({str(told)!r}, 'w').write(' '.join(sys.modules))\n        try:\n"
    before, mark, after = code.partition("        try:\n            reply, data = _answer(")
    assert mark
    changed.write_text(before + tell + mark.partition("\n")[2] + after)
    monkeypatch.setattr("jitkernel.compiler.worker_process._SCRIPT", str(changed))
    with CompilerPool() as pool:
        pool.compile(Request(SQUARE))
        pool.compile(Request(SQUARE))
    loaded = set(told.read_text().split())
    assert "jitkernel.compiler.pipeline" in loaded
    heavy = {"dataclasses", "inspect", "ast", "difflib", "subprocess", "logging", "socket"}
    if sys.version_info >= (3, 14):
        heavy.remove("ast")  # typing itself has it there, by way of annotationlib, for a NamedTuple
    assert not loaded & heavy


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitkernel.compiler.worker_process.packages", lambda: ("/nowhere",))
    with CompilerPool() as pool, pytest.raises(WorkerDied, match="No module named 'llvmlite'"):
        pool.compile(Request(SQUARE))


def test_descriptors_that_select_cannot_wait_for() -> None:
    """As where there are a thousand arrays, or a server's connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("no descriptors above 1,024 may be had")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    taken = []
    try:
        while not taken or taken[-1] < 1030:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        with CompilerPool() as pool:
            assert pool.compile(Request(SQUARE)).object
            assert pool.traces.passes(Request(SQUARE), tick=lambda what: None).steps
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_many_keep_their_order_and_their_errors() -> None:
    sources = [SQUARE.replace("@sq", f"@f{i}") for i in range(40)]
    sources[3] = "define zork"
    sources[11] = FATAL[0][0]
    sources[12] = "; \ud800"
    with CompilerPool(SessionSettings(workers=2)) as pool:
        results = pool.compile_many([Request(s, label=f"cell {i}") for i, s in enumerate(sources)])
    for number, result in enumerate(results):
        if number == 11:
            assert isinstance(result, WorkerDied) and "cell 11" in str(result)
        elif number in (3, 12):
            assert type(result) is CompileError
        else:
            assert isinstance(result, Compiled)
            assert result.summary.functions[0].name == f"f{number}"


def test_many_large_ones_do_not_block_each_other() -> None:
    """Requests and objects larger than the sockets hold, both ways at once."""
    filler = "".join(
        f"@g{i} = global [8 x i64] [{', '.join(['i64 1'] * 8)}]\n" for i in range(20000)
    )
    with CompilerPool(SessionSettings(workers=2, spare=False)) as pool:
        results = pool.compile_many([Request(filler, Options(0)) for _ in range(3)])
    assert all(isinstance(r, Compiled) and len(r.object) > 1 << 20 for r in results)


def test_many_with_one_that_takes_too_long() -> None:
    with CompilerPool(SessionSettings(workers=2, spare=False)) as pool:
        pool.compile(Request(SQUARE))
        for seconds in (1.0, 4.0, 16.0):  # the small ones may need more where others compute
            pool.settings.timeout = seconds
            sources = [SQUARE, slow(), SQUARE, SQUARE]
            results = pool.compile_many([Request(s) for s in sources])
            assert type(results[1]) is CompileError
            if not any(type(r) is CompileError for r in (results[0], *results[2:])):
                break
    assert [type(r) for r in results] == [Compiled, CompileError, Compiled, Compiled]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(cpu="zork-cpu"), "'zork-cpu' is not a recognized processor"),
        (Options(7), "Invalid optimization level"),
        (Options(reloc="zork"), "no reloc 'zork', but default, static, pic"),
        (Options(code_model="zork"), "no code_model 'zork', but default, .*small"),
    ],
)
def test_options_that_name_no_machine(options: Options, words: str) -> None:
    with CompilerPool(SessionSettings(spare=False)) as pool:
        with pytest.raises(CompileError, match=words):
            pool.compile(Request(SQUARE, options))
        assert pool.compile(Request(SQUARE)).object


@pytest.mark.parametrize("reloc", ["static", "pic"])
@pytest.mark.parametrize("code_model", ["small", "large"])
@pytest.mark.parametrize("cpu", ["native", "x86-64", "x86-64-v3"])
def test_options(reloc: str, code_model: str, cpu: str, pool: CompilerPool) -> None:
    options = Options(1, cpu, reloc, code_model)
    assert pool.compile(Request(SQUARE, options)).object[:4] == b"\x7fELF"


@pytest.mark.parametrize("step", EACH)
def test_an_exception_while_a_worker_s_first_word_is_read_loses_no_process(step: int) -> None:
    before, zygote = zombies(), worker_process.Zygote()
    try:
        for line in itertools.count(1, step):
            worker = worker_process.WorkerProcess(zygote)
            try:
                where, error = torn(worker.wait_started, line, by_signal=False)
                assert isinstance(error, Torn) == bool(where), (where, error)
                worker.wait_started()
                assert runs(worker.pid)
            finally:
                worker.close()
            assert zombies() <= before
            if not where:
                break
    finally:
        zygote.close()
    assert line > 10


@pytest.mark.parametrize("step", EACH)
def test_an_exception_while_a_worker_is_freed_closes_no_descriptor_twice(step: int) -> None:
    zygote = worker_process.Zygote()
    try:
        for line in itertools.count(1, step):
            worker = worker_process.WorkerProcess(zygote)
            worker.wait_started()
            where, error = torn(worker.close, line, by_signal=False)
            assert isinstance(error, Torn) == bool(where), (where, error)
            worker.close()
            if not where:
                break
    finally:
        zygote.close()
    assert line > 5


def test_a_worker_that_was_freed_in_part_is_gone(pool: CompilerPool) -> None:
    """As an exception leaves it that comes between two steps."""
    pool.compile(Request(SQUARE))
    pool.workers._workers[0]._sock.close()
    assert pool.compile(Request(SQUARE), fresh=True).object
