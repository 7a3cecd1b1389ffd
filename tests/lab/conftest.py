"""JupyterLab in a real browser: Debian's Chromium, driven by Playwright.  Start from `lab`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, dict[str, Any]] = {
    # Every cell of a notebook is in the page, also those out of sight.
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false"},
}
# JupyterLab that ends its kernels and itself when who has started it is gone (prctl(2),
# PR_SET_PDEATHSIG), as a worker of pytest-xdist that Ctrl-C has ended: that runs no `finally`.
SERVER = (
    "import ctypes, runpy; ctypes.CDLL(None).prctl(1, 15, 0, 0, 0); "
    "runpy.run_module('jupyterlab', run_name='__main__', alter_sys=True)"
)
# The kernel of the notebook in front has done all that it was asked for.
IDLE = (
    "()=>{const k=window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;"
    "return k?.connectionStatus==='connected' && k.status==='idle'}"
)
# At least so many cells have a number.
NUMBERED = (
    "n=>[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
    ".filter(e=>/\\[\\d+\\]/.test(e.textContent)).length>=n"
)


class Lab:
    """A JupyterLab server over a folder of its own, and a browser."""

    def __init__(self, url: str, folder: Path, browser: Any):
        self.url, self.folder, self.browser = url, folder, browser
        self.made = 0

    def notebook(self, kernel: str, cells: list[str], failing: Collection[int] = ()) -> Any:
        """A page that shows a new notebook with these cells, once its kernel is idle.

        `failing`: the cells that are meant to fail, which then stop none of those below."""
        content = {
            "cells": [
                {
                    "cell_type": "code", "id": f"cell-{i}", "source": source,
                    "metadata": {"tags": ["raises-exception"]} if i in failing else {},
                    "outputs": [], "execution_count": None,
                }
                for i, source in enumerate(cells)
            ],
            "metadata": {"kernelspec": {"name": kernel, "display_name": kernel}},
            "nbformat": 4, "nbformat_minor": 5,
        }  # fmt: skip
        page = self.open(content)
        # The indicator says idle before there is a kernel, too.
        page.wait_for_function(IDLE, timeout=60_000)
        return page

    def open(self, content: dict[str, Any]) -> Any:
        """A page that shows this notebook, under a name of its own."""
        self.made += 1  # a path that was opened before would find its old kernel
        name = f"test{self.made}.ipynb"
        (self.folder / name).write_text(json.dumps(content))
        page = self.page(f"/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content", timeout=90_000)
        return page

    def page(self, path: str) -> Any:
        page = self.browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(self.url + path)
        return page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests; skipped where something of it is absent."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One server for all tests; skipped where something of it is absent."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: pip install '.[lab]'")
    home = tmp_path_factory.mktemp("lab")
    folder = home / "notebooks"
    folder.mkdir()
    for plugin, values in SETTINGS.items():
        path = home / "settings" / plugin
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    environment = {
        **os.environ,
        "JUPYTER_PATH": str(home / "prefix/share/jupyter"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    }
    subprocess.run(
        [sys.executable, "-m", "jitkernel", "install", "--prefix", str(home / "prefix")],
        env=environment, check=True, timeout=60, cwd=ROOT, capture_output=True,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(home / "lab.log", "wb") as log:
        server = subprocess.Popen(
            [
                sys.executable, "-c", SERVER, "--no-browser", "--allow-root",
                "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=",
                "--ServerApp.disable_check_xsrf=True", "--LabApp.expose_app_in_browser=True",
                f"--ServerApp.root_dir={folder}",
            ],
            stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, server, home / "lab.log")
        yield Lab(url, folder, browser)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(url + "/api/status", timeout=2)
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")
