"""A mutation pass: do the tests notice small faults?  `python -m tools.mutate --help`.

The tests run once in a scratch copy of the tree, which tells for each line the tests that run it.
Then each mutant of the sample takes its file's place in the copy, and the tests of its lines run:
the quickest of each file, then the next of each, until the budget of seconds is full.
It is killed when one fails, timed out when they hang, and survived otherwise.  Each run is a
process group with a temporary folder of its own; whatever it started is ended, and is waited for.

Start from `main`; `mutants.py` has the faults, `mutation_plugin.py` what pytest is told.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from coverage import CoverageData

from tools.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("arena", "session/program", "session/history", "linker")
TESTS = (
    "tests/arena",
    "tests/linker",
    "tests/test_rollback.py",
    "tests/session",
    "tests/views/test_object.py",  # reads back what the linker made
)
NEEDED = ("jitkernel", "tests", "tools", "benchmarks", "notebooks", "kernelspec", "pyproject.toml")
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.mutation_plugin")
_MOST_MEMORY = 4 << 30  # bytes of heap that a run may have
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant; `by` is the test that killed it."""

    package: str
    file: str
    line: int
    key: str
    kind: str
    result: str
    seconds: float
    tests: int
    by: str = ""


class Tree:
    """A scratch copy of `root`, and what the tests in it are known to run."""

    def __init__(self, root: Path, folder: Path, packages: Iterable[str], tests: Iterable[str]):
        self.root, self.folder = root, folder / "tree"
        self.packages, self.tests = tuple(packages), tuple(tests)
        self._runs = folder / "run"
        self._last_words = ""  # of the latest run
        self.seconds: dict[str, float] = {}
        self._data = CoverageData()
        self.folder.mkdir()
        for name in NEEDED:
            if (root / name).is_dir():
                skip = shutil.ignore_patterns("__pycache__")
                shutil.copytree(root / name, self.folder / name, ignore=skip, symlinks=True)
            elif (root / name).exists():
                shutil.copy(root / name, self.folder / name)

    def run(self, arguments: Iterable[str], limit: float, **variables: str) -> int | None:
        """The exit status of pytest; None where it took longer than `limit` seconds."""
        self._runs.mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        environment |= {
            "HOME": str(self._runs),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
            "TMPDIR": str(self._runs),
            "XDG_CACHE_HOME": str(self._runs),
            **variables,
        }
        try:
            with open(self._runs / "printed", "wb") as output:
                process = subprocess.Popen(
                    [sys.executable, *_PYTEST, *arguments],
                    cwd=self.folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_limit,
                )
                try:
                    return process.wait(limit)
                except subprocess.TimeoutExpired:
                    return None
                finally:
                    _end_all(process)
        finally:
            printed = self._runs / "printed"
            words = printed.read_bytes()[-2000:] if printed.exists() else b""
            self._last_words = words.decode(errors="replace")
            shutil.rmtree(self._runs, ignore_errors=True)

    def learn(self, cache: Path, limit: float) -> None:
        """Run all tests once, unless this has been done for the very same files."""
        known = cache / self._digest()
        if not (known / "told").exists():
            fresh = self.folder.parent / "learnt"
            fresh.mkdir()
            sources = [f"--cov=jitkernel/{package}" for package in self.packages]
            options = ["-m", "not slow and not soak", "--cov-context=test", "--cov-report="]
            variables = {"MUTATE_TOLD": f"{fresh}/told", "COVERAGE_FILE": f"{fresh}/coverage"}
            self.run([*options, *sources, *self.tests], limit, **variables)
            if not (fresh / "told").exists() or not (fresh / "coverage").exists():
                raise SystemExit(f"{self._last_words}\nno test ran: {' '.join(self.tests)}")
            shutil.rmtree(known, ignore_errors=True)
            cache.mkdir(parents=True, exist_ok=True)
            shutil.move(fresh, known)
        self._data = CoverageData(str(known / "coverage"))
        self._data.read()
        for line in (known / "told").read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            if told["passed"]:
                self.seconds[told["test"]] = told["seconds"]
        failed = len((known / "told").read_text(encoding="utf-8").splitlines()) - len(self.seconds)
        print(f"{len(self.seconds)} tests know these packages; {failed} did not pass", flush=True)

    def _digest(self) -> str:
        """What the files are, that tests and packages are made of."""
        digest = hashlib.sha256(" ".join((*self.packages, *self.tests)).encode())
        for name in ("jitkernel", "tests"):
            for file in sorted((self.folder / name).rglob("*.py")):
                digest.update(str(file.relative_to(self.folder)).encode() + b"\0")
                digest.update(file.read_bytes() + b"\0")
        return digest.hexdigest()[:16]

    def known(self, file: str, lines: tuple[int, int]) -> set[str]:
        """The tests that run any of these lines; all that run the file for what importing runs."""
        measured = [f for f in self._data.measured_files() if f.endswith("/tree/" + file)]
        contexts = self._data.contexts_by_lineno(measured[0]) if measured else {}
        found = {c for line in range(lines[0], lines[1] + 1) for c in contexts.get(line, ())}
        if found == {""}:
            found = {c for several in contexts.values() for c in several}
        return {c.rpartition("|")[0] for c in found} & self.seconds.keys()

    def chosen(self, mutant: Mutant, file: str, package: str, budget: float) -> list[str]:
        """The tests to run against a mutant, those of one file together."""
        mirror = f"tests/{package.partition('/')[0]}/"
        files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(self.known(file, mutant.lines), key=lambda t: (self.seconds[t], t)):
            files[test.partition("::")[0]].append(test)
        # The quickest test of each file, then the second of each: different files ask for
        # different things.
        order = sorted(
            (turn, not name.startswith(mirror), name, test)
            for name, tests in files.items()
            for turn, test in enumerate(tests)
        )
        groups: dict[str, list[str]] = defaultdict(list)
        full = 0.0
        for _, _, name, test in order:
            if full and full + self.seconds[test] > budget:
                continue
            full += self.seconds[test]
            groups[name].append(test)
        return [test for tests in groups.values() for test in tests]

    def judge(
        self, mutant: Mutant, file: str, package: str, budget: float, grace: float
    ) -> Outcome:
        """Run the tests against a mutant."""
        tests = self.chosen(mutant, file, package, budget)
        path = self.folder / file
        source = path.read_bytes()
        result, by, began = "survived", "", time.monotonic()
        lists = self.folder.parent / "lists"
        lists.mkdir()
        try:
            path.write_bytes(mutant.apply(source))
            (lists / "tests").write_text("\n".join(tests), encoding="utf-8")
            if tests:
                files = dict.fromkeys(test.partition("::")[0] for test in tests)
                limit = grace + 4 * sum(self.seconds[test] for test in tests)
                variables = {"MUTATE_TESTS": f"{lists}/tests", "MUTATE_TOLD": f"{lists}/told"}
                status = self.run(["-x", "-p", "no:cov", *files], limit, **variables)
                result = {None: "timed out", 0: "survived"}.get(status, "killed")
            if result == "killed":
                by = _last_failed(lists / "told")
        finally:
            path.write_bytes(source)
            shutil.rmtree(lists)
        return Outcome(
            package, file, mutant.lines[0], mutant.key, mutant.kind, result,
            round(time.monotonic() - began, 1), len(tests), by,
        )  # fmt: skip

    def mutants(self, package: str) -> list[tuple[str, Mutant]]:
        """All mutants of a package, each with its file."""
        found = []
        for path in sorted((self.folder / "jitkernel" / package).rglob("*.py")):
            file = str(path.relative_to(self.folder))
            found += [(file, mutant) for mutant in mutants(path.read_bytes())]
        return found


def _limit() -> None:
    """In a run, before it begins: a fault may take memory without end."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End a run with its whole process group, and whoever left that group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    # Orphans are this process's children now: see `_adopt_orphans`.
    while children := psutil.Process().children(recursive=True):
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(0.02)


def _adopt_orphans() -> None:
    """Processes whose parent ends become children of this one, not of the system's first."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _last_failed(told: Path) -> str:
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    failed = [one["test"] for one in map(json.loads, lines) if not one["passed"]]
    return failed[-1] if failed else "nothing could be collected, or the process died"


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_report(file: Path) -> list[Outcome]:
    """What an earlier pass wrote."""
    return [Outcome(**told) for told in json.loads(file.read_text(encoding="utf-8"))]


def table(outcomes: Iterable[Outcome]) -> str:
    """Packages and what became of their mutants; hanging counts as noticed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        counts[one.package][one.result] += 1
    lines = [f"{'package':<18}{'mutants':>9}{'killed':>8}{'timed out':>11}{'survived':>10}  score"]
    for package, of in counts.items():
        noticed = of["killed"] + of["timed out"]
        lines.append(
            f"{package:<18}{of.total():>9}{of['killed']:>8}{of['timed out']:>11}"
            f"{of['survived']:>10}{100 * noticed / of.total():>6.0f} %"
        )
    return "\n".join(lines)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="below jitkernel/")
    parser.add_argument("--sample", type=int, default=50, help="mutants a package; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--budget", type=float, default=30, help="seconds of tests a mutant")
    parser.add_argument("--grace", type=float, default=30, help="seconds beyond them, until killed")
    parser.add_argument("--limit", type=float, default=3600, help="seconds of the first run")
    parser.add_argument("--again", type=Path, help="a report: run what survived there once more")
    parser.add_argument("--report", type=Path, default=Path("build/mutants/report.json"))
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files and folders of tests")
    return parser


def main(words: list[str] | None = None) -> int:
    """Make a pass; what it found is printed and written to the report."""
    chosen = options().parse_args(words)
    root = chosen.root.resolve()
    _adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)  # nothing is left, however it ends
    before = read_report(chosen.again) if chosen.again else []
    again = {(one.file, one.key) for one in before if one.result == "survived"}
    outcomes = [one for one in before if one.result != "survived"]
    with _scratch() as folder:
        tree = Tree(root, folder, chosen.packages, chosen.tests)
        tree.learn(root / "build" / "mutants", chosen.limit)
        for package in chosen.packages:
            every = tree.mutants(package)
            if chosen.again:
                every = [(file, one) for file, one in every if (file, one.key) in again]
            elif 0 < chosen.sample < len(every):
                picked = random.Random(f"{chosen.seed} {package}")
                every = picked.sample(every, chosen.sample)
            for file, mutant in sorted(every, key=lambda pair: (pair[0], pair[1].start)):
                outcome = tree.judge(mutant, file, package, chosen.budget, chosen.grace)
                outcomes.append(outcome)
                by = outcome.by or (
                    f"{outcome.tests} tests" if outcome.tests else "no test runs it"
                )
                print(
                    f"{outcome.result:<10}{file}:{outcome.line} {outcome.key}"
                    f"  ({by}, {outcome.seconds} s)",
                    flush=True,
                )
                chosen.report.parent.mkdir(parents=True, exist_ok=True)
                told = json.dumps([asdict(one) for one in outcomes], indent=1)
                chosen.report.write_text(told + "\n", encoding="utf-8")
    print(table(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
