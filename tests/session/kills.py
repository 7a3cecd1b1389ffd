"""A program for the tests of kills: a session that saves after each cell and says which are done.

`python kills.py FILE SEED` runs cells for ever, or until a cell is stopped because the executor or
the worker was killed under it.  Each finished cell is a line on stdout: its number, and what the
model says of the session then, as JSON.  Cells that failed say so and leave the model as it was,
except for what they had stored.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

from jitkernel import Session
from jitkernel.errors import JitError

NAMES = 6


class Model:
    """What the session's functions answer and what its globals hold."""

    def __init__(self) -> None:
        self.functions: dict[str, int] = {}
        self.globals: dict[str, int] = {}

    def step(self, chance: random.Random) -> tuple[str, dict[str, Any]]:
        """A cell, and what holds when it has run."""
        kind = chance.randrange(5)
        name, value = f"f{chance.randrange(NAMES)}", chance.randrange(1000)
        if kind < 2 or not self.functions:
            cell = f"define i32 @{name}() {{\n  ret i32 {value}\n}}"
            return cell, {"functions": self.functions | {name: value}, "globals": self.globals}
        if kind == 2 or not self.globals:
            name = f"g{name[1:]}"
            cell = f"@{name} = i64 {value}" if name not in self.globals else f"@{name} = {value}"
            return cell, {"functions": self.functions, "globals": self.globals | {name: value}}
        if kind == 3:
            name = chance.choice(sorted(self.globals))
            cell = f"store i64 {value}, ptr @{name}"
            return cell, {"functions": self.functions, "globals": self.globals | {name: value}}
        called = chance.choice(sorted(self.functions))
        own = f"c{chance.randrange(NAMES)}"
        cell = f"define i32 @{own}() {{\n  %r = call i32 @{called}()\n  ret i32 %r\n}}\n@{own}()"
        return cell, {"functions": self.functions, "globals": self.globals}

    def take(self, then: dict[str, Any]) -> None:
        self.functions, self.globals = then["functions"], then["globals"]


def main(path: str, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    with Session(capacity=16 << 20, spare=False, store_path=path, autosave=True) as s:
        s.run("@start = global i64 1")
        _say(
            {
                "pids": [
                    os.getpid(),
                    s.inspect.engine.executor.pid,
                    s.inspect.engine.pool.processes()[0][0],
                ]
            }
        )
        while True:
            cell, then = model.step(chance)
            _say({"begins": then})
            try:
                s.run(cell)
            except JitError:
                _say({"failed": s.number})
                return
            model.take(then)
            _say({"done": s.number})


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
