"""Functions of a session on Dask distributed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import pytest

from tests.portable.conftest import environment

# Not imported here: all who collect tests would wait for it.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed"
)

SQ = "define i64 @sq(i64 %x) {\n  %r = mul i64 %x, %x\n  ret i64 %r\n}"
GET = "@g = global i64 0\ndefine i64 @get() {\n  %v = load i64, ptr @g\n  ret i64 %v\n}"
AGAIN = "define i64 @get() {\n  ret i64 100\n}"
#: Counts what the client and the scheduler of a LocalCluster send over TCP, by kind of message.
COUNTING = """
from distributed.comm import tcp
sent = {}
write = tcp.TCP.write
async def counted(self, message, *arguments, **named):
    size = await write(self, message, *arguments, **named)
    ops = [m.get("op") for m in message if isinstance(m, dict)] if isinstance(message, (list, tuple)) else []
    if isinstance(message, dict):
        ops = [message.get("op")]
    for op in set(ops):
        row = sent.setdefault(str(op), [0, 0])
        row[0] += ops.count(op)
        row[1] += size or 0
    return size
tcp.TCP.write = counted
"""
#: Runs the programs that it reads, a line of JSON each, and ends what each has printed with a 0.
PROGRAM = (
    COUNTING
    + """
import json, sys, traceback
from distributed import Client, LocalCluster, get_client
from jitkernel import Session
def main():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for line in sys.stdin:
            sent.clear()
            try:
                with Session(capacity=64 << 20) as s:
                    exec(json.loads(line), globals() | {"s": s, "cluster": cluster, "client": client})
            except Exception:
                traceback.print_exc(file=sys.stdout)
            print(end="\\0", flush=True)
if __name__ == "__main__":
    main()
"""
)


class OnCluster(Protocol):
    """Runs a program with a local `cluster`, its `client` and a session `s`; the lines that it
    prints."""

    def __call__(self, body: str) -> list[str]: ...


@pytest.fixture(scope="module")
def on_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCluster]:
    path = tmp_path_factory.mktemp("cluster") / "program.py"
    path.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, path.name], cwd=path.parent, env=environment(path.parent), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip

        def run(body: str) -> list[str]:
            print(json.dumps(textwrap.dedent(body)), file=process.stdin, flush=True)
            return "".join(iter(partial(process.stdout.read, 1), "\0")).splitlines()

        yield run
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.slow
def test_many_tasks_while_a_worker_is_killed(on_cluster: OnCluster) -> None:
    """All results are right; a task costs less than 1 KB, although the code has more than that."""
    out = on_cluster(
        f"""
        import os, pickle, signal, time
        s.run({SQ!r})
        sq = s["sq"]
        client.gather(client.map(abs, range(8)))
        sent.clear()
        futures = client.map(sq, range(400))
        while sum(f.done() for f in futures) < 40:
            time.sleep(0.01)
        left = sum(not f.done() for f in futures)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        right = client.gather(futures) == [x * x for x in range(400)]
        print(json.dumps([right, left, len(pickle.dumps(sq)), sent]))
        client.wait_for_workers(2)
        """
    )
    right, left, size, sent = json.loads(out[-1])
    assert right and left > 0
    tasks, bytes_ = sent["compute-task"]
    assert tasks >= 400 and size > 1024
    print(f"{bytes_ / tasks:.0f} bytes a task; {size} bytes of code; graph {sent['update-graph']}")
    assert bytes_ / tasks <= 1024
    assert sent["update-graph"][1] <= 1024 * 400


@pytest.mark.slow
def test_what_arrived_travels_on(on_cluster: OnCluster) -> None:
    """From a task to other tasks, and as a task's result back to the client; as an argument."""
    out = on_cluster(
        f"""
        import pickle
        def again(f, x):
            return f, sum(get_client().gather(get_client().map(f, range(x))))
        s.run({SQ!r})
        future = client.submit(again, s["sq"], 10)
        s.close()
        f, total = future.result()
        print(f(9), total, f.name)
        print(len(pickle.dumps(f)) > 1024)
        """
    )
    assert out[-2:] == ["81 285 sq", "True"]


def test_wherever_in_a_task_it_is_the_code_goes_once(on_cluster: OnCluster) -> None:
    """In what calls it, in a container, in a graph that Dask has put together: 3 KB would show."""
    out = on_cluster(
        f"""
        import dask
        from functools import partial
        def apply(f, x):
            return (f["f"][0] if isinstance(f, dict) else f)(x)
        s.run({SQ!r})
        s["sq"].__reduce__()  # so that it is packed
        ways = {{
            "partial": lambda: [client.submit(partial(s["sq"], x)) for x in range(50)],
            "argument": lambda: client.map(apply, [s["sq"]] * 50, range(50)),
            "container": lambda: client.map(apply, [{{"f": [s["sq"]]}}] * 50, range(50)),
            "delayed": lambda: client.compute(
                [dask.delayed(apply)(s["sq"], dask.delayed(int)(x)) for x in range(50)]
            ),
            "closure": lambda: client.map(lambda x, f=s["sq"]: f(x), range(50)),
        }}
        for name, start in ways.items():
            sent.clear()
            right = client.gather(start()) == [x * x for x in range(50)]
            tasks, bytes_ = sent["compute-task"]
            print(json.dumps([name, right, tasks, bytes_]))
        """
    )
    for line in out[-5:]:
        name, right, tasks, bytes_ = json.loads(line)
        print(f"{name}: {bytes_ / tasks:.0f} bytes a task")
        assert right and tasks >= 50 and bytes_ / tasks < 2048, line


def test_workers_in_the_clients_process_give_functions_with_their_code(
    script: Callable[[str], str],
) -> None:
    out = script(
        f"""
import pickle
from distributed import Client
from jitkernel import Session
def same(f):
    return f
def main():
    for protocol in ("inproc", "tcp"):
        with (
            Client(processes=False, dashboard_address=None, protocol=protocol + "://") as client,
            Session(capacity=64 << 20) as s,
        ):
            s.run({SQ!r})
            print(client.submit(s["sq"], 3).result(), end=" ")
            f = client.submit(same, s["sq"]).result()
            print(f(9), len(pickle.dumps(f)) > 1024, end=" ")
            print(client.submit(lambda g: g(8), f).result(), len(pickle.dumps(f)) > 1024)
main()
"""
    )
    assert out.splitlines() == ["9 81 True 64 True"] * 2


@pytest.mark.slow
def test_a_task_asks_its_own_cluster(script: Callable[[str], str]) -> None:
    """This process has workers of several: whoever made the first is not asked for all."""
    out = script(
        """
from distributed import Client
from jitkernel.portable.on_dask import _here
def scheduler():
    return _here().scheduler.address
def main():
    made = [Client(processes=False, dashboard_address=None, set_as_default=False) for _ in range(3)]
    for client in made:
        print(client.submit(scheduler).result() == client.scheduler.address)
    for client in made:
        client.close()
main()
"""
    )
    assert out.split() == ["True"] * 3


def test_what_is_marked_is_what_has_just_arrived_and_is_in_a_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from collections import deque
    from weakref import ref

    from jitkernel.portable import on_dask
    from jitkernel.portable.travelling import PortableFunction

    def new() -> PortableFunction:
        function = PortableFunction("f", "0" * 32, None)
        on_dask._new.append((ref(function), on_dask._GRAPHS))
        return function

    monkeypatch.setattr(on_dask, "_new", deque())
    first, second, elsewhere, old = new(), new(), new(), PortableFunction("f", "0" * 32, None)
    tasks = [(1, {"f": [first]}), lambda: second, [old, open], threading.Lock(), first]
    on_dask.mark(tasks)
    assert [f.is_named for f in (first, second, elsewhere, old)] == [True, True, False, False]
    for _ in range(on_dask._GRAPHS - 1):  # it may be of a graph that is still being read
        assert len(on_dask._new) == 1
        on_dask.mark([3])
    assert not on_dask._new and not elsewhere.is_named
    third = new()
    rest = iter([4, third, 5, 6])
    on_dask.mark(rest)
    assert third.is_named and list(rest) == [5, 6], "no more tasks are looked at than needed"


def test_a_function_without_its_code_says_so() -> None:
    from jitkernel.errors import JitError
    from jitkernel.portable.content import VERSION
    from jitkernel.portable.travelling import arrive

    with pytest.raises(JitError, match="code of @sq could not be had"):
        arrive(VERSION, "sq", "0" * 32, None)(1)


def test_functions_that_the_client_drops_at_once(on_cluster: OnCluster) -> None:
    """The client is in the scheduler's process, and nobody has the function any more when its task
    comes to the scheduler; no worker is lost."""
    values, same = on_cluster(
        f"""
        s.run({GET!r})
        workers = {{w.pid for w in cluster.workers.values()}}
        futures = []
        for value in range(20):
            s["g"].value = value
            futures.append(client.submit(s.portable("get", globals=True)))
            sent = client.scatter(s.portable("get", globals=True))
            futures.append(client.submit(lambda f: f(), sent))
        futures.append(client.submit(s["get"]))
        s.run({AGAIN!r})
        print([f.result(timeout=60) for f in futures])
        print({{w.pid for w in cluster.workers.values()}} == workers)
        """
    )[-2:]
    assert json.loads(values) == [v for value in range(20) for v in (value, value)] + [0]
    assert same == "True"


def test_results_that_no_worker_has_called(on_cluster: OnCluster) -> None:
    """The worker has a name alone: it gets the code when it sends the function on."""
    out = on_cluster(
        f"""
        def same(f):
            return f
        s.run({SQ!r})
        first = client.submit(same, s["sq"])
        second = client.submit(same, first)
        second.result(timeout=60)
        del first
        s.close()
        print(second.result(timeout=60)(9), client.submit(lambda f: f(8), second).result(timeout=60))
        """
    )
    assert out[-1] == "81 64"


def test_a_name_from_another_version_ends_no_worker() -> None:
    """An error while Dask reads a message ends the connection; it is told at the call."""
    from jitkernel.errors import JitError
    from jitkernel.portable.content import VERSION, read_content
    from jitkernel.portable.travelling import arrive

    assert arrive(99, "sq", "0" * 32, None).name == "sq"
    with pytest.raises(
        JitError, match=f"form b'9', and form {VERSION} is known here: the same version"
    ):
        read_content(b"jkf9" + bytes(12))


def test_what_a_scheduler_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from jitkernel.compiler.records import Identity, Options
    from jitkernel.languages.prototypes import Prototype
    from jitkernel.portable import on_dask
    from jitkernel.portable.content import Content
    from jitkernel.session.program.signatures import Signature

    class Scheduler:
        """Something that can go."""

    here = [Scheduler()]
    monkeypatch.setattr(on_dask, "_schedulers", lambda: list(here))
    monkeypatch.setattr(on_dask, "_KEPT", 2048)
    signature = Signature("void ()", "ccc", "", "", "void ()")
    for number in range(20):
        code = bytes((number * 7 + at * at // 3) % 251 for at in range(600))
        made = (
            f"f{number}",
            "f",
            signature,
            Identity(*"abcde"),
            Options(),
            {},
            code,
            b"",
            Prototype(),
        )
        on_dask.keep(Content(*made))
    kept = on_dask._kept[here[0]]
    assert 1 < len(kept) < 20 and sum(len(c.encoded) for c in kept.values()) <= 2048
    assert list(kept.values())[-1].name == "f19"
    here.clear()
    assert not on_dask._kept
