"""The process that a pass or an analysis runs in.  Started by `process`; start from `main`.

Standard input has the code and the module as JSON, standard output takes what came of it.  What the
code prints goes to standard error.
"""

from __future__ import annotations

import base64
import inspect
import io
import json
import linecache
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

_MEMORY = 4 << 30  # bytes of address space
_ROWS = 10_000  # rows of an analysis that are kept
_PICTURE = 4 << 20  # letters of one that shows itself
_FRAMES = 5  # calls of an error that are told, the first and the last
_IMAGES = {"_repr_svg_": "svg+xml", "_repr_png_": "png", "_repr_jpeg_": "jpeg"}


def main() -> None:
    """Run one pass or analysis and end."""
    folder = sys.path.pop(0)  # this script's: what the pass imports is the environment's
    sys.path.append(os.path.dirname(os.path.dirname(folder)))  # jitkernel may not be installed
    from jitkernel.ir import model
    from jitkernel.ir.model.values import Edits

    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = json.load(sys.stdin)
    name, code, text, what = order["name"], order["code"], order["module"], order["what"]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = f"<{what} {name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(True), file)
    try:
        space = {"__name__": "__pass__", **{key: getattr(model, key) for key in model.__all__}}
        exec(compile(code, file, "exec", dont_inherit=True), space)
        function = _find(space, name, file, what)
        wanted = _wanted(function)
        module = None if wanted == "text" else model.Module(text)
        before = text if module is None else str(module)
        Edits.file = file
        if what == "analysis":
            found = _analysed(function, wanted, text if module is None else module)
        else:
            found = _passed(function, wanted, text if module is None else module)
            found |= {"before": before, "statements": {}}
            if module is not None and found.pop("same"):
                found["statements"] = _statements(module, file)
        json.dump(found, answer)
    except BaseException as error:
        json.dump({"error": _told(error, file)}, answer)
    answer.flush()
    with suppress(Exception):  # it may be closed
        sys.stdout.flush()
    os._exit(0)


def _find(space: dict[str, Any], name: str, file: str, what: str) -> Callable[[Any], Any]:
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
    raise NameError(f"which function is the {what}? Call it {wanted}; there are {list(own)}")


def _wanted(function: Callable[[Any], Any]) -> str:
    """The word for what the function asks for, by the name of its parameter or by its type: `text`,
    each `function` of the module, or the `module`."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        raise TypeError(f"{function.__name__}() takes no module: give it one parameter")
    annotation = getattr(first.annotation, "__name__", first.annotation)
    if annotation == "str" or first.name == "text":
        return "text"
    return "function" if annotation == "Function" or first.name == "function" else "module"


def _passed(function: Callable[[Any], Any], wanted: str, given: Any) -> dict[str, Any]:
    """The text that the pass left, the time that it took, and whether it is the module's."""
    began, made = perf_counter_ns(), None
    if wanted == "function":
        for each in list(given.functions.values()):
            function(each)
    else:
        made = function(given)
    spent = perf_counter_ns() - began
    own = made is None or made is given
    return {"after": str(given if own else made), "spent": spent, "same": own}


def _analysed(function: Callable[[Any], Any], wanted: str, given: Any) -> dict[str, Any]:
    """The rows and the text that the analysis gave, and the time that it took."""
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    pictures: list[str] = []
    began = perf_counter_ns()
    functions = given.functions if wanted == "function" else {"": given}
    for name, each in functions.items():
        made = function(each)
        if inspect.iscoroutine(made):
            made.close()
            raise TypeError(f"{function.__name__}() is async: an analysis is a plain function")
        several = len(functions) > 1
        for row in _results(made):
            if isinstance(row, dict) and len(rows) < _ROWS:
                first = {"function": name} if several else {}
                rows.append({str(k): _plain(v) for k, v in (first | row).items()})
            elif picture := _picture(row):
                pictures.append(picture)
            elif not isinstance(row, dict):
                alone = several and row is made and not isinstance(row, str)
                lines.append(f"@{name}: {row}" if alone else str(row))
    spent = perf_counter_ns() - began
    return {"rows": rows, "text": "\n".join(lines), "html": "".join(pictures), "spent": spent}


def _results(made: Any) -> Iterable[Any]:
    """The results of an analysis, one after the other."""
    if made is None:
        return ()
    single = isinstance(made, (str, bytes, dict)) or _shows_itself(made)
    return (made,) if single or not isinstance(made, Iterable) else made


def _shows_itself(value: Any) -> bool:
    return any(hasattr(type(value), how) for how in ("_repr_html_", *_IMAGES, "savefig"))


def _picture(value: Any) -> str:
    """HTML of what shows itself in notebooks: tables of pandas, figures; "" for anything else."""
    if not _shows_itself(value):
        return ""
    if made := value._repr_html_() if hasattr(value, "_repr_html_") else "":
        return str(made) if len(made) <= _PICTURE else ""
    for how, kind in _IMAGES.items():
        data = getattr(value, how)() if hasattr(value, how) else None
        if data:
            return _image(kind, data)
    if not hasattr(value, "savefig"):
        return ""
    file = io.BytesIO()
    value.savefig(file, format="png", bbox_inches="tight")
    return _image("png", file.getvalue())


def _image(kind: str, data: str | bytes) -> str:
    data = data.encode() if isinstance(data, str) else data
    text = base64.b64encode(data).decode()
    return f'<img src="data:image/{kind};base64,{text}">' if len(text) <= _PICTURE else ""


def _plain(value: Any) -> Any:
    """A cell of a table: a number or text; of a collection its members."""
    if isinstance(value, (int, float)) or value is None:
        return value
    if isinstance(value, Iterable) and not isinstance(value, (str, dict)):
        words = [getattr(each, "ref", None) or str(each) for each in value]
        return " ".join(sorted(words) if isinstance(value, Set) else words)
    return getattr(value, "ref", None) or str(value)


def _statements(module: Any, file: str) -> dict[int, str]:
    """The pass's statements by the lines of what they made."""
    found = {}
    for start, function in module.lines():
        for line, instruction in function.lines():
            if instruction.made:
                words = linecache.getline(file, instruction.made).strip()
                found[start + line - 1] = f"line {instruction.made}: {words}"
    return found


def _told(error: BaseException, file: str) -> str:
    """The error with the pass's own lines alone."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    lines = [f"  line {f.lineno}, in {f.name}: {(f.line or '').strip()}" for f in frames]
    if len(lines) > 2 * _FRAMES:
        left = len(lines) - 2 * _FRAMES
        lines[_FRAMES:-_FRAMES] = [f"  ... {left} more calls"]
    return "\n".join([f"{type(error).__name__}: {error}", *lines])


if __name__ == "__main__":
    main()
