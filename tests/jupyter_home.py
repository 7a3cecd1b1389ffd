"""A home of Jupyter's and IPython's of its own: no user's configuration, history or kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def jupyter_home(home: Path) -> Iterator[Path]:
    """While it lasts, processes that start have this one, and this tree's `jitkernel`."""
    saved = dict(os.environ)
    os.environ.update(
        JUPYTER_CONFIG_DIR=str(home / "config"),
        JUPYTER_DATA_DIR=str(home / "data"),
        IPYTHONDIR=str(home / "ipython"),
        XDG_CACHE_HOME=str(home / "cache"),
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    )
    try:
        yield home
    finally:
        os.environ.clear()
        os.environ.update(saved)
