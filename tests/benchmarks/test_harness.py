"""The harness's arithmetic, and that each row runs with tiny sizes.  Nothing here asserts a time."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import container, processes, programs, table
from benchmarks.harness import Comparison, Figure, compare, ratios, slope
from benchmarks.rows import ROWS
from tests.processes import python
from tests.seeds import few

ROOT = Path(__file__).resolve().parents[2]
#: Rows whose smallest size still takes many seconds: their modules are tested by hand below.
_LONG = {
    "container", "start-kernel", "rest", "second", "data", "interrupts", "mesa", "live-rivals",
    "cache-kernel", "c-latency", "growth", "c-growth", "live", "numeric", "archives", "cycles-same",
    "cycles-types", "many", "contexts",
}  # fmt: skip


def test_a_ratio_is_the_median_of_block_ratios() -> None:
    blocks = {"ours": [2.0, 3.0, 100.0], "theirs": [1.0, 1.0, 50.0]}
    assert ratios(blocks["ours"], blocks["theirs"]) == [2.0, 3.0, 2.0]
    took = Comparison(blocks)
    assert took.ratio("ours", "theirs") == 2.0
    assert took.median("ours") == 3.0


def test_a_block_that_one_slow_moment_hits_does_not_decide() -> None:
    took = Comparison({"ours": [1.0, 1.0, 9.0, 1.0, 1.0], "theirs": [1.0] * 5})
    assert took.ratio("ours", "theirs") == 1.0


@pytest.mark.parametrize(
    ("ys", "expected"),
    [([5.0, 5.0, 5.0], 0.0), ([0.0, 32.0, 64.0], 3.2), ([1.0, 0.0, 1.0], 0.0)],
)
def test_slope_is_least_squares(ys: list[float], expected: float) -> None:
    assert slope([0.0, 10.0, 20.0], ys) == pytest.approx(expected)


def test_sides_run_in_turn_and_never_see_a_number_twice() -> None:
    seen: list[tuple[str, int]] = []
    took = compare(
        {"a": lambda i: seen.append(("a", i)), "b": lambda i: seen.append(("b", i))},
        4,
        3,
        warm_up=2,
    )
    assert len(seen) == 2 * 2 + 2 * 4 * 3
    numbers = [i for _, i in seen]
    assert len(set(numbers)) == len(numbers)
    assert {name: len(times) for name, times in took.blocks.items()} == {"a": 4, "b": 4}
    orders = ["".join(n for n, _ in seen[4 + 6 * r : 10 + 6 * r]) for r in range(4)]
    assert set(orders) == {"aaabbb", "bbbaaa"}, "blocks are whole, and their order varies"


@pytest.mark.parametrize(
    ("value", "bar", "at_least", "met"),
    [(1.1, 1.1, False, True), (1.11, 1.1, False, False), (1.6, 1.6, True, True), (1.5, 1.6, True, False),
     (1.0, None, False, None), (None, 1.0, False, None)],
)  # fmt: skip
def test_bars(value: float | None, bar: float | None, at_least: bool, met: bool | None) -> None:
    assert Figure("x", value, "x", bar, at_least).met is met


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.069, "x", "1.07 x"), (38.21, "us", "38.21 us"), (2310.4, "bytes", "2,310 bytes"),
     (0.0, "1", "0"), (9.96, "bytes", "10.0 bytes"), (2.5e6, "bytes", "2.5 MB"), (None, "x", "-")],
)  # fmt: skip
def test_amounts(value: float | None, unit: str, text: str) -> None:
    assert table.amount(value, unit) == text


def test_a_line_shows_bar_and_verdict() -> None:
    missed = table.line(Figure("what", 3.0, "x", 2.0, note="why"))
    assert (
        "3.00 x" in missed
        and "<= 2.00 x" in missed
        and "MISSED" in missed
        and missed.endswith("why")
    )
    assert ">= 2.00 x" in table.line(Figure("what", 3.0, "x", 2.0, at_least=True))
    words = table.verdict(
        [Figure("a", 1, "x", 2), Figure("b", 3, "x", 2), Figure("c", 3, "x")], ["r: dead"]
    )
    assert "1 of 2 bars met" in words and "MISSED  b" in words and "FAILED  r: dead" in words


def test_own_memory_grows_with_what_is_allocated_and_not_with_the_slab() -> None:
    before = processes.uss()
    # Not from malloc, which may have as much left from other tests, or keep what it gets back.
    held = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for _ in range(8):
        held.write(os.urandom(1 << 20))
    assert 8 << 20 <= processes.uss() - before < 12 << 20
    fd = os.memfd_create("jitkernel-slab")
    os.truncate(fd, 16 << 20)
    slab = mmap.mmap(fd, 16 << 20)
    piece = b"x" * (1 << 16)
    now = processes.uss()
    for _ in range(256):  # 16 MB at once would come from malloc, and may stay with it
        slab.write(piece)
    assert processes.uss() - now < 1 << 20
    slab.close()
    os.close(fd)
    del held


def test_mappings_are_counted() -> None:
    fd = os.memfd_create("counted")
    os.truncate(fd, 4096)
    before, both = processes.mappings(), processes.writable_and_executable()
    modes = [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC]
    pieces = [mmap.mmap(fd, 4096, prot=mode) for mode in modes]
    assert processes.mappings() == before + 2
    assert processes.writable_and_executable() == both + 1
    for piece in pieces:
        piece.close()
    os.close(fd)


def test_a_peak_is_seen_after_it_has_passed() -> None:
    processes.reset_peak()
    before = processes.peak()
    held = bytearray(b"x") * (32 << 20)
    del held
    assert processes.peak() - before >= 30 << 20


def test_a_page_that_two_processes_map_is_counted_once() -> None:
    # 8 MiB that a child maps too; after it has ended they are this process's alone.
    held = mmap.mmap(-1, 8 << 20)  # shared
    held.write(b"x" * (8 << 20))
    before = container.shared_out(os.getpid())
    child = os.fork()
    if not child:
        held[0 : 8 << 20 : 4096]  # maps every page
        signal.pause()
        os._exit(0)
    try:
        while container.shared_out(child) < 3 << 20:
            pass
        assert child in container.descendants(os.getpid())
        assert before - container.shared_out(os.getpid()) > 3 << 20
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert container.shared_out(child) == 0


def test_a_container_is_left_as_it_was_entered() -> None:
    groups = Path("/proc/self/cgroup").read_text()
    with container.confined(256 << 20) as confined:
        if confined is not None:
            assert Path("/proc/self/cgroup").read_text() != groups
            with mmap.mmap(-1, 16 << 20) as held:  # new pages, which malloc's may not be
                held.write(b"x" * (16 << 20))
                assert confined.peak >= 8 << 20 and confined.killed == 0
    assert Path("/proc/self/cgroup").read_text() == groups


def test_programs_have_the_size_they_claim() -> None:
    assert len(programs.sixty_lines("f").splitlines()) in range(55, 70)
    assert programs.large(3).count("define") == 3
    assert programs.tiny("a", 1).replace("@a", "@b") == programs.tiny("b", 1)


def test_rows_are_named_once_and_their_functions_exist() -> None:
    assert len({r.name for r in ROWS}) == len(ROWS)
    # In a process of its own: some rows import LLVM, which no test's process is to have.
    program = "from benchmarks.rows import ROWS\nassert all(callable(row.run) for row in ROWS)"
    python(program, cwd=ROOT)


@pytest.mark.parametrize(
    "row", few([r for r in ROWS if r.name not in _LONG], 2), ids=lambda r: r.name
)
def test_a_row_runs_with_tiny_sizes(row: object) -> None:
    figures = _run("--row", row.name, "--scale", "tiny")  # type: ignore[attr-defined]
    assert figures and all(f.startswith("figure ") for f in figures)
    for text in figures:
        fields = json.loads(text.removeprefix("figure "))
        assert fields["what"] and (fields["value"] is not None or fields["note"])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(_LONG))
def test_a_long_row_runs_with_tiny_sizes(name: str) -> None:
    assert _run("--row", name, "--scale", "tiny")


def test_the_table_and_its_json(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    printed = "\n".join(_run("--only", "messages", "--scale", "tiny", "--json", str(path)))
    assert "messages to the executor per placement" in printed and "bars met" in printed
    body = json.loads(path.read_text())
    assert list(body["rows"]) == ["messages"]
    assert body["rows"]["messages"][0]["value"] == 0 and body["rows"]["messages"][0]["met"] is True


def test_the_list_of_rows() -> None:
    assert [line.split()[0] for line in _run("--list")] == [r.name for r in ROWS]


def test_an_unknown_row_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "nonsense"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "nonsense" in done.stderr


def _run(*arguments: str) -> list[str]:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{time.monotonic() - start:.0f} s"
    return done.stdout.splitlines()
