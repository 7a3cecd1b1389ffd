"""`jitkernel install`: make the kernel visible to Jupyter without installing the package again.

It copies the kernelspecs, one for each tile of the launcher, and the extension that colours cells
in JupyterLab.

`pip install` of the wheel already does so for its own environment; this is for editable installs
and for the Jupyter of another environment.  Start from `install`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

NAME = "jitkernel"
# The same kernel, with another default language.
KERNELS = (NAME, "jitkernel-c", "jitkernel-kaleidoscope")


def kernelspec_source(name: str = NAME) -> Path:
    """The folder with kernel.json and the logos."""
    return _source(Path("kernelspec", name), "kernels", "kernel.json")


def _source(in_tree: Path, kind: str, file: str) -> Path:
    """A folder of the source tree, or where the wheel's data went."""
    tree = Path(__file__).resolve().parents[2] / in_tree
    name = in_tree.name if kind == "kernels" else NAME
    shared = Path(sysconfig.get_path("data"), "share", "jupyter", kind, name)
    for folder in (tree, shared):
        if (folder / file).is_file():
            return folder
    raise FileNotFoundError(f"no {file} in {tree} nor in {shared}")


def install(where: str = "user", prefix: str = "") -> Path:
    """Copy the kernelspecs to where Jupyter looks; the path of the first.

    `where` is "user", "sys-prefix" or "prefix".  Outside this environment the kernel is started
    with this Python by its path, since "python" would be another one there.
    """
    if where == "user":
        from jupyter_core.paths import jupyter_data_dir

        base = Path(jupyter_data_dir())
    else:
        base = Path(sys.prefix if where == "sys-prefix" else prefix) / "share" / "jupyter"
    extension = _source(Path("labextension"), "labextensions", "package.json")
    if extension.resolve() != (base / "labextensions" / NAME).resolve():
        shutil.copytree(extension, base / "labextensions" / NAME, dirs_exist_ok=True)
    for name in reversed(KERNELS):
        target = _copy_spec(kernelspec_source(name), base / "kernels" / name, where)
    return target


def _copy_spec(source: Path, target: Path, where: str) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name != "kernel.json" and file.resolve() != (target / file.name).resolve():
            shutil.copyfile(file, target / file.name)
    spec = json.loads((source / "kernel.json").read_text(encoding="utf-8"))
    if where != "sys-prefix":
        spec["argv"][0] = sys.executable
    partial = target / f"kernel.json.{os.getpid()}"
    partial.write_text(json.dumps(spec, indent=2) + "\n", encoding="utf-8")
    partial.replace(target / "kernel.json")
    return target
