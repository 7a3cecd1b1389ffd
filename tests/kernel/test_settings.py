"""Settings: sizes, files, the command line, and what reaches the session."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets import TraitError
from traitlets.config import Config

from jitkernel.errors import UsageError
from jitkernel.kernel.settings import (
    DETERMINISTIC_CPU,
    SETTINGS,
    Arena,
    Compiler,
    KernelSettings,
    configured,
    parse_size,
    sections,
    session_settings,
)
from jitkernel.session.settings import saved_settings, settings_with
from jitkernel.setting import declared
from jitkernel.settings import SessionSettings


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64M", 64 << 20),
        ("1G", 1 << 30),
        ("4096", 4096),
        ("1.5k", 1536),
        ("2 GiB", 2 << 30),
        ("8mb", 8 << 20),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    found = sections(Config(Session={"budget": text}))
    assert found["Session"].budget == size


@pytest.mark.parametrize("text", ["", "M", "64X", "-1", "many"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


def test_limits_are_named() -> None:
    with pytest.raises(TraitError, match="1776M"):
        Arena(config=Config(Arena={"capacity": "1800M"}))
    with pytest.raises(TraitError):
        Compiler(config=Config(Compiler={"opt_level": 4}))


def test_defaults() -> None:
    settings = session_settings(sections(Config()))
    assert settings["capacity"] == 1 << 30
    assert settings["opt_level"] == 2
    assert settings["cpu"] == "native"


def test_every_setting_is_one_of_the_session() -> None:
    from dataclasses import fields

    assert set(session_settings(sections(Config()))) <= {f.name for f in fields(SessionSettings)}


@pytest.mark.parametrize("fields", [SessionSettings, KernelSettings])
def test_a_trait_is_what_its_field_says(fields: type) -> None:
    found = sections(Config())
    traits = {
        f"{section}.{name}": trait
        for section, owner in found.items()
        for name, trait in owner.traits(config=True, setting=bool).items()
    }
    assert traits.keys() == SETTINGS.keys()
    for name, told in declared(fields).items():
        if not told.trait:
            assert name in ("undo_data", "spare")  # a library's alone
            continue
        trait = traits[told.trait]
        assert trait.metadata["setting"] == told
        default = told.default if told.kernel_default is None else told.kernel_default
        assert trait.default() == default == getattr(fields(), name) or name == "object_cache"
        assert trait.help == told.described and trait.help.startswith(told.help)


def test_what_a_field_says_of_values() -> None:
    settings = declared(SessionSettings)
    assert settings["context"].choices == ("throwaway", "shared", "kept")
    assert settings["prelude"].takes == "is True or False"
    assert settings["opt_level"].takes == "takes a whole number from 0 to 3"
    assert settings["timeout"].takes == "takes a number, at least 0.1"
    assert settings["cpu"].takes == ""
    assert settings["capacity"].takes == (
        "is a number of bytes, at most 1776M (so that all addresses are in reach)"
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("opt_level", 4, "opt_level takes a whole number from 0 to 3, not 4"),
        ("undo_depth", -1, "undo_depth takes a whole number, at least 0, not -1"),
        ("budget", -1, "budget is a number of bytes, not -1"),
        ("capacity", 1 << 31, "capacity is a number of bytes, at most 1776M"),
        ("context", "mine", "there is no context 'mine'; there are throwaway, shared, kept"),
        ("executor", "mine", "there is no executor 'mine'; there are process, inline"),
    ],
)
def test_the_library_has_the_same_bounds(name: str, value: object, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        settings_with(None, {name: value})


def test_what_a_session_file_has() -> None:
    assert set(saved_settings()) == {
        "capacity", "base", "undo_depth", "results_kept", "opt_level", "cpu", "prelude",
        "stack_size", "context", "budget", "inlining",
    }  # fmt: skip
    chosen = set(saved_settings()) - set(saved_settings(chosen={"cpu", "base", "clang"}))
    assert chosen == {"cpu"}  # the base is the file's in any case
    assert set(saved_settings()) - set(saved_settings(inline=True)) == {"stack_size"}


def test_the_command_line() -> None:
    from tests.kernel.conftest import Kernel

    kernel = Kernel("--Arena.capacity=256M", "--O3", "--cpu=x86-64", "--Session.key=k")
    try:
        shown = kernel.ok("%config")
    finally:
        kernel.stop()
    for name, value in (("Arena.capacity", 256 << 20), ("Compiler.opt_level", 3)):
        assert f"{name} {value} " in " ".join(shown.split())
    assert "Compiler.cpu 'x86-64'" in " ".join(shown.split())


def test_files_on_the_path_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strong, weak = tmp_path / "strong", tmp_path / "weak dir"
    for folder in (strong, weak):
        folder.mkdir()
    (weak / "jitkernel_config.json").write_text('{"Compiler": {"opt_level": 0, "workers": 2}}')
    (strong / "jitkernel_config.py").write_text(
        "c.Compiler.opt_level = 1\nc.Arena.capacity = '64M'\n"
    )
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", f"{strong}:{weak}")
    settings = session_settings(sections(configured()))
    assert (settings["opt_level"], settings["workers"], settings["capacity"]) == (1, 2, 64 << 20)


def test_deterministic_fixes_base_and_cpu() -> None:
    settings = session_settings(sections(Config(JITKernel={"deterministic": True})))
    assert settings["base"] and settings["cpu"] == DETERMINISTIC_CPU


def run_kernel(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    import os

    return subprocess.run(
        [sys.executable, "-m", "jitkernel.kernel", *arguments],
        capture_output=True, text=True, timeout=60, env={**os.environ, **environment},
    )  # fmt: skip


def test_startup_files_run_before_the_first_cell(tmp_path: Path) -> None:
    from tests.kernel.conftest import Kernel

    path = tmp_path / "first.ll"
    path.write_text("@begun = global i64 12\n")
    kernel = Kernel(f"--JITKernel.startup_files={path}")
    try:
        assert kernel.result("@begun") == "i64 12"
    finally:
        kernel.stop()


def test_a_bad_setting_is_told() -> None:
    done = run_kernel("--Arena.capacity=9000M")
    assert done.returncode == 1
    assert "1776M" in done.stderr


def test_generate_config(tmp_path: Path) -> None:
    done = run_kernel("--generate-config", JUPYTER_CONFIG_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "jitkernel_config.py").read_text()
    for name in (
        "Arena.capacity",
        "Session.undo_depth",
        "Compiler.opt_level",
        "JITKernel.max_output",
    ):
        assert f"# c.{name} = " in text
    again = run_kernel("--generate-config", JUPYTER_CONFIG_DIR=str(tmp_path))
    assert again.returncode == 1 and "there already" in again.stderr


def test_show_config(tmp_path: Path) -> None:
    done = run_kernel("--show-config", "--O3", JUPYTER_CONFIG_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Compiler" in done.stdout and ".opt_level = 3" in done.stdout


def test_help_says_when_settings_take_effect() -> None:
    done = run_kernel("--help-all")
    assert done.returncode == 0, done.stderr
    assert "--Compiler.opt_level" in done.stdout
    assert "Takes effect with the next cell" in done.stdout


def test_the_ipython_profile_is_neither_read_nor_made(tmp_path: Path) -> None:
    folder = tmp_path / "ipython"
    run_kernel("--show-config", IPYTHONDIR=str(folder))
    assert not folder.exists()
