"""A folder in which a compile that is watched leaves what LLVM prints, pass by pass, as it goes on;
so what there is can be told, and shown, before the compile is over.  Start from `Dumps`.

LLVM writes to a file in one go what it writes to standard error word by word, which takes five
times as long.  Its names are `NUMBER-...-before.ll`, NUMBER that of the pass; each of its pass
managers has a folder of its own.  What is beside those is JSON of ours, each file whole or not
there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from jitkernel.compiler.pass_log import PassRun

_BEFORE, _AFTER = "-before.ll", "-after.ll"
#: What is written to standard error: by passes, and while code is generated.
PASSES, CODE = "passes.log", "code.log"
#: What a compile is told so that LLVM prints to the folder that it is in.
HERE = "-ir-dump-directory=."


class Dumps:
    """The folder, whose path is all that both sides need."""

    def __init__(self, folder: str):
        self.folder = folder

    # -- the process that compiles

    def put(self, name: str, value: Any) -> None:
        """Leave something by its name."""
        path = os.path.join(self.folder, name)
        with open(f"{path}.part", "w", encoding="utf-8", errors="surrogatepass") as file:
            json.dump(value, file)
        os.rename(f"{path}.part", path)

    def log(self, of: str) -> int:
        """A descriptor of a file for what is written to standard error: by PASSES, or while CODE is
        generated."""
        return os.open(os.path.join(self.folder, of), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def empty(self) -> None:
        """Take away what passes have printed."""
        for manager in self._managers():
            path = os.path.join(self.folder, str(manager))
            for name in os.listdir(path):
                os.unlink(os.path.join(path, name))
            os.rmdir(path)

    def enter(self) -> None:
        """Be in the folder of the next pass manager, also where the last one ran in a child."""
        folder = os.path.join(self.folder, str(len(self._managers()) + 1))
        os.mkdir(folder)
        os.chdir(folder)

    # -- the process that shows it

    def get(self, name: str) -> Any:
        """The value that was left by that name; None where none was."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8", errors="surrogatepass") as file:
            return json.load(file)

    def logged(self, of: str) -> bytes:
        """All that was written to such a file so far."""
        path = os.path.join(self.folder, of)
        if not os.path.exists(path):
            return b""
        with open(path, "rb") as file:
            return file.read()

    def runs(self) -> list[PassRun]:
        """The passes of the compile, all that there will be; none while they are still counted."""
        return [PassRun(*row) for row in self.get("runs") or ()]

    def reached(self) -> tuple[int, int]:
        """The manager and the number of the last pass before or after which LLVM printed."""
        managers = self._managers()
        for manager in reversed(managers):
            if numbers := [number for number, _ in self._names(manager)]:
                return manager, max(numbers)
        return 0, 0

    def fits(self) -> bool:
        """True if LLVM printed at those passes that `runs` has by the numbers."""
        titles = {(run.manager, run.number): run.title for run in self.runs()}
        return all(
            name.rpartition("-")[0].endswith(f"-{titles.get((manager, number))}")
            for manager in self._managers() for number, name in self._names(manager)
        )  # fmt: skip

    def texts(self, whole: bool) -> dict[tuple[int, int, bool], str]:
        """The paths of what LLVM printed, by manager and number of a pass and whether it was after
        it.  Unless that is all that there will be (`whole`) the last may be half, and is left
        out."""
        last = (0, 0) if whole else self.reached()
        return {
            (manager, number, name.endswith(_AFTER)): os.path.join(self.folder, str(manager), name)
            for manager in self._managers()
            for number, name in self._names(manager)
            if (manager, number) != last
        }

    def _managers(self) -> list[int]:
        return sorted(int(name) for name in os.listdir(self.folder) if name.isdigit())

    def _names(self, manager: int) -> Iterator[tuple[int, str]]:
        for name in os.listdir(os.path.join(self.folder, str(manager))):
            number = name.partition("-")[0]
            if number.isdigit() and name.endswith((_BEFORE, _AFTER)):
                yield int(number), name


def text_of(path: str) -> str:
    """A text that LLVM printed, without the line that says when."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().partition("\n")[2]
