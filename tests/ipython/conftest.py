"""IPython in this process, a shell for each test, and a Python kernel as a client starts it."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.jupyter_home import jupyter_home

_ANSI = re.compile(r"\x1b\[[0-9;]*m")

SQ = "%%llvm\ndefine i32 @sq(i32 %x) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}\n"
CUBE = "%%llvm\ndefine i32 @sq(i32 %x) {\n  %y = mul i32 %x, %x\n  %r = mul i32 %y, %x\n  ret i32 %r\n}\n"
SPIN = "%%llvm\ndefine void @spin() {\n  br label %l\nl:\n  br label %l\n}\n"


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No user's configuration, history or profiles."""
    with jupyter_home(tmp_path_factory.mktemp("ipython home")) as folder:
        yield folder


class Shell:
    """One IPython shell; what its cells showed, as text."""

    def __init__(self, shell: Any, capsys: pytest.CaptureFixture[str]):
        self.shell, self._capsys = shell, capsys

    @property
    def names(self) -> dict[str, Any]:
        return self.shell.user_ns

    def run(self, source: str, **how: Any) -> tuple[Any, str]:
        """A cell's outcome, and what it showed."""
        self._capsys.readouterr()
        result = self.shell.run_cell(source, store_history=True, **how)
        shown = self._capsys.readouterr()
        return result, _ANSI.sub("", shown.out + shown.err)

    def ok(self, source: str, **how: Any) -> str:
        """A cell that must not fail; what it showed."""
        result, shown = self.run(source, **how)
        assert result.success, shown
        return shown

    def fails(self, source: str, **how: Any) -> str:
        """A cell that must fail; what it showed."""
        result, shown = self.run(source, **how)
        assert not result.success, shown
        assert "/jitkernel/" not in shown, shown  # none of our frames
        return shown


@pytest.fixture
def bare(capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A shell without the extension."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    before = signal.getsignal(signal.SIGINT)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    yield Shell(shell, capsys)
    shell.extension_manager.unload_extension("jitkernel")
    InteractiveShell.clear_instance()
    shell.restore_sys_module_state()
    shell._atexit_once()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def ip(bare: Shell) -> Iterator[Shell]:
    """A shell with the extension; its session ends with the test."""
    from jitkernel.ipython import extension

    bare.ok("%load_ext jitkernel")
    notebook = extension._extensions[id(bare.shell)].notebook
    yield bare
    notebook.close()
    extension._extensions.pop(id(bare.shell), None)


@pytest.fixture(autouse=True)
def package() -> Iterator[None]:
    """The package is again what other tests know: `jitkernel.session` is a module."""
    yield
    extension = sys.modules.get("jitkernel.ipython.extension")
    if extension is not None:
        extension._extensions.clear()
    sys.modules["jitkernel"].__class__ = ModuleType
