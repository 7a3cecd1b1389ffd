"""The process that a pass runs in.  Started by `process`; start from `main`.

Standard input has the pass and the module as JSON, standard output takes what came of it.  What the
pass prints goes to standard error.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import resource
import sys
import traceback
from collections.abc import Callable
from time import perf_counter_ns
from types import ModuleType
from typing import Any

_MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    """Run one pass and end."""
    folder = sys.path.pop(0)  # this script's: what the pass imports is the environment's
    Module = _module_class(folder)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = json.load(sys.stdin)
    name, code, text = order["name"], order["code"], order["module"]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = f"<pass {name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    try:
        space: dict[str, Any] = {"__name__": "__pass__", "Module": Module}
        exec(compile(code, file, "exec"), space)
        function = _find(space, name, file)
        given: Any = text if _wants_text(function) else Module(text)
        before = str(given)
        began = perf_counter_ns()
        made = function(given)
        spent = perf_counter_ns() - began
        after = str(given if made is None else made)
        json.dump({"before": before, "after": after, "spent": spent}, answer)
    except BaseException as error:
        json.dump({"error": _told(error, file)}, answer)
    answer.flush()
    sys.stdout.flush()
    os._exit(0)


def _module_class(folder: str) -> Any:
    """`module.Module`, without most of jitkernel, which would take longer than the pass."""
    package = ModuleType("jitkernel.transform")
    package.__path__ = [folder]
    sys.modules[package.__name__] = package
    sys.path.append(os.path.dirname(os.path.dirname(folder)))  # jitkernel may not be installed
    from jitkernel.transform.module import Module

    sys.path.pop()
    return Module


def _find(space: dict[str, Any], name: str, file: str) -> Callable[[Any], Any]:
    """The function that is the pass: of its name, or called `run`, or the only one."""
    wanted = name.replace("-", "_")
    own = {
        key: value
        for key, value in space.items()
        if inspect.isfunction(value) and value.__code__.co_filename == file
    }
    for key in (wanted, "run"):
        if key in own:
            return own[key]
    if len(own) == 1:
        return next(iter(own.values()))
    raise NameError(f"which function is the pass? Call it {wanted}; there are {list(own)}")


def _wants_text(function: Callable[[Any], Any]) -> bool:
    """True if the pass asks for a string: by annotation, or by calling it `text`."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        raise TypeError(f"{function.__name__}() takes no module: give it one parameter")
    return first.annotation in (str, "str") or first.name == "text"


def _told(error: BaseException, file: str) -> str:
    """The error with the pass's own lines alone."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    lines = [f"  line {f.lineno}, in {f.name}: {(f.line or '').strip()}" for f in frames]
    return "\n".join([f"{type(error).__name__}: {error}", *lines])


if __name__ == "__main__":
    main()
