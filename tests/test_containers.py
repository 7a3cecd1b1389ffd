"""The container and Binder are set up by the commands that readers are told."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = "".join(
    (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/installing.md")
)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
POST_BUILD = ROOT / ".binder/postBuild"


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile and its arguments, on one line."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], " ".join(line.split()[1:])) for line in lines]


def commands(of: str) -> list[str]:
    return [text for word, text in instructions() if word == of]


def targets() -> set[str]:
    """What `make` can be asked for by name."""
    phony = re.search(r"^\.PHONY: (.*)", MAKEFILE, re.M)
    stamps = re.findall(r"\$\(VENV\)/(\.\w+)", MAKEFILE)
    assert phony is not None and stamps
    return {*phony[1].split(), *(f".venv/{name}" for name in stamps)}


def test_the_dockerfile_is_made_of_instructions() -> None:
    known = {"FROM", "RUN", "USER", "WORKDIR", "COPY", "EXPOSE", "CMD"}
    found = [word for word, _ in instructions()]
    assert found[0] == "FROM" and found[-1] == "CMD" and set(found) <= known
    # What make runs, it runs as an ordinary user.
    steps = [f"{word} {text}" for word, text in instructions()]
    assert steps.index("USER student") < steps.index("RUN make tour")


def test_the_container_is_set_up_by_make() -> None:
    made = [text.removeprefix("make ") for text in commands("RUN") if text.startswith("make ")]
    assert made == ["tour", ".venv/.lab"] and set(made) <= targets()
    assert "    make tour " in README


def test_the_container_runs_what_the_readme_says() -> None:
    (run,) = commands("CMD")
    words = re.findall(r'"([^"]*)"', run)
    assert words[:2] == ["make", "lab"] and "`make lab`" in README
    variable, _, value = words[2].partition("=")
    assert f"$({variable})" in MAKEFILE and "--ip=0.0.0.0" in value
    (port,) = commands("EXPOSE")
    assert f"-p 127.0.0.1:{port}:{port} jitkernel" in README


def test_the_commands_in_the_dockerfile_are_the_readmes() -> None:
    told = re.findall(r"^#     (docker .*)", (ROOT / "Dockerfile").read_text(), re.M)
    assert len(told) == 2
    assert told == re.findall(r"^    (docker .*)", README, re.M)


def test_the_container_has_the_packages_of_the_tests() -> None:
    (packages,) = [text for text in commands("RUN") if "apt-get" in text]
    for package in re.findall(r"tools/debian_packages (.*)", MAKEFILE)[0].split():
        assert package.partition(":")[2] in packages.split()
    assert "rm -rf /var/lib/apt/lists/*" in packages


def test_what_is_made_here_does_not_get_into_the_container() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "**/__pycache__"} <= set(ignored)


def test_binder_runs_the_readmes_commands() -> None:
    assert stat.S_IMODE(POST_BUILD.stat().st_mode) & 0o111 == 0o111
    subprocess.run(["bash", "-n", str(POST_BUILD)], check=True)
    lines = POST_BUILD.read_text().partition("pipefail\n")[2].splitlines()
    run = [line for line in lines if line]
    assert run == ["pip install .", "jitkernel doctor", "jitkernel tour"]
    for command in run[:2]:
        assert f"`{command}`" in README
    python = (ROOT / ".binder/runtime.txt").read_text().strip().removeprefix("python-")
    assert f"Python {python} or later" in README


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_binder_can_be_built(tmp_path: Path) -> None:
    """In a copy and an environment of its own, as Binder has them."""
    copy, home = tmp_path / "a copy", tmp_path / "home"
    left_out = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, copy, ignore=left_out)
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JUPYTER"))}
    variables |= {"PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}", "HOME": str(home)}
    done = subprocess.run(
        [copy / ".binder/postBuild"], cwd=copy, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " 0 unexpected" in done.stdout
    kernels = {p.name for p in (tmp_path / "venv/share/jupyter/kernels").iterdir()}
    assert {"jitkernel", "jitkernel-kaleidoscope"} <= kernels
