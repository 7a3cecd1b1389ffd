"""What TAB and Shift-TAB say in the Python of `%%pass` and `%%analysis`: the names of
`jitkernel.ir.model`, and what the values there have.

The code is not run.  Of which class a variable is, is guessed: by its annotation, by what a loop or
an assignment takes it from, by its name.  Start from `completed` and `explained`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from jitkernel.kernel.magics.parsing import cell_magic
from jitkernel.languages.language import Suggestion
from jitkernel.regex import regex

#: The magics whose cells these are.
MAGICS = ("pass", "analysis")
# Dotted names, with indices and calls between, that end at a place.
_PATH = regex(r"((?:[A-Za-z_]\w*(?:\([^()]*\)|\[[^\[\]]*\])*\.)*)([A-Za-z_]\w*)?\Z")
_CALLED = regex(r"([A-Za-z_][\w.\[\]]*)\([^()]*\Z")
_STEP = regex(r"([A-Za-z_]\w*)(?:\([^()]*\)|\[[^\[\]]*\])*\.?")
_PARAMETER = regex(r"\bdef\s+\w+\(\s*(\w+)\s*(?::\s*[\"']?(\w+))?")
# What a loop, a statement or a `:=` gives a name to.
_BINDING = regex(r"(?:\bfor\s+|\(|^\s*)(\w+)\s*(?:\bin\b|:?=)\s*([A-Za-z_][\w.()\[\]]*)", re.M)
_QUOTED = regex(r"(: |-> )'([^']*)'")
_WORD = regex(r"\w+")
_USUAL = {
    "m": "Module", "module": "Module", "f": "Function", "function": "Function", "b": "Block",
    "block": "Block", "i": "Instruction", "instruction": "Instruction", "v": "Value",
    "value": "Value", "loop": "Loop", "tree": "Dominators", "live": "Liveness",
}  # fmt: skip


def is_python(code: str, position: int) -> bool:
    """True if a place in a cell is in the Python of a pass or an analysis."""
    call = cell_magic(code)
    head = code.find("\n", len(code) - len(code.lstrip()))
    return call is not None and call.name in MAGICS and 0 <= head < position


def completed(code: str, position: int) -> tuple[int, list[Suggestion]]:
    """The place where the word before a place begins, and all that it may become."""
    at = _path(code, position)
    path, word = (at[1], at[2] or "") if at else ("", "")
    start = position - len(word)
    if not path:
        found = [Suggestion(n, _kind(o), _first(o)) for n, o in _names().items()]
        own = dict.fromkeys(_WORD.findall(code))
        found += [Suggestion(n, "name", "in this cell") for n in own if not n.isdigit()]
        return start, [m for m in found if word and m.text.startswith(word) and m.text != word]
    every: dict[str, Suggestion] = {}
    for owner in _owners(code, path):
        for name in _members(owner):
            if name.startswith(word):
                every.setdefault(name, Suggestion(name, "property", _about(owner, name)))
    return start, [every[name] for name in sorted(every)]


def explained(code: str, position: int) -> str:
    """The text of what is known of the name at a place, or of the function that is called there; ""
    where nothing is."""
    end = position
    while end < len(code) and (code[end].isalnum() or code[end] == "_"):
        end += 1
    called = _CALLED.search(code[code.rfind("\n", 0, position) + 1 : position])
    paths = [_path(code, end), _PATH.search(called[1]) if called else None]
    for found in paths:
        path, word = (found[1], found[2] or "") if found else ("", "")
        if not path and word in _names():
            return _described(word, _names()[word])
        for owner in _owners(code, path) if path else ():
            if word in _members(owner):
                return f"{owner.__name__}.{_about(owner, word, whole=True)}"
    return ""


def _path(code: str, position: int) -> re.Match[str] | None:
    """The dotted names before the word that ends at a place, and that word."""
    return _PATH.search(code[code.rfind("\n", 0, position) + 1 : position])


@cache
def _names() -> dict[str, Any]:
    from jitkernel.ir import model

    return {name: getattr(model, name) for name in model.__all__}


def _class(name: str) -> type | None:
    found = _names().get(name)
    return found if isinstance(found, type) else None


def _owners(code: str, path: str) -> list[type]:
    """The classes that what a path leads to may be of: one and those derived from it; all, where
    nothing is known."""
    every = [found for found in _names().values() if isinstance(found, type)]
    found = _resolved(path, _bound(code))
    return [c for c in every if issubclass(c, found)] if found is not None else every


def _bound(code: str) -> dict[str, type | None]:
    """The classes of a cell's variables."""
    known = {name: _class(kind) for name, kind in _USUAL.items()}
    for name, kind in _PARAMETER.findall(code):
        known[name] = _class(kind) or known.get(name)
    for name, path in _BINDING.findall(code):
        known[name] = _resolved(path, known) or known.get(name)
    return known


def _resolved(path: str, known: dict[str, type | None]) -> type | None:
    """The class of what dotted names lead to; an element's, of what has some."""
    first, *steps = _STEP.findall(path) or [""]
    found = known.get(first) or _class(first) or _named(_returned(_names().get(first)))
    for step in steps:
        if found is None:
            return None
        of = (_named(_annotation(c, step)) for c in _with_derived(found) if step in _members(c))
        found = next((c for c in of if c is not None), found)
    return found


def _with_derived(owner: type) -> Iterator[type]:
    yield owner
    yield from (c for c in _names().values() if isinstance(c, type) and owner in c.__mro__[1:])


def _named(annotation: str) -> type | None:
    """The first of the classes that an annotation names."""
    return next((c for word in _WORD.findall(annotation) if (c := _class(word))), None)


def _members(owner: type) -> list[str]:
    own = [vars(c) for c in owner.__mro__ if c.__module__.startswith("jitkernel.")]
    names = [name for v in own for name in (*v.get("__annotations__", ()), *v)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _annotation(owner: type, name: str) -> str:
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, property):
        return _returned(found.fget)
    if hasattr(found, "func"):  # a cached property
        return _returned(found.func)
    if inspect.isfunction(found):
        return _returned(found)
    notes = (vars(c).get("__annotations__", {}) for c in owner.__mro__)
    return next((str(note[name]) for note in notes if name in note), "")


def _returned(function: Any) -> str:
    return str(getattr(function, "__annotations__", {}).get("return", ""))


def _about(owner: type, name: str, whole: bool = False) -> str:
    """A member as it is written, its type, and what its documentation says."""
    found = inspect.getattr_static(owner, name, None)
    if inspect.isfunction(found):
        return _described(name, found, whole)
    kind = _annotation(owner, name)
    doc = inspect.getdoc(found) if isinstance(found, property) or hasattr(found, "func") else ""
    text = f"{name}: {kind}" if kind else name
    return text + (f"\n{doc}" if whole and doc else "")


def _described(name: str, found: Any, whole: bool = True) -> str:
    signature = ""
    if inspect.isfunction(found):
        signature = _QUOTED.sub(r"\1\2", str(inspect.signature(found)))
        signature = signature.replace("(self, ", "(").replace("(self)", "()")
    doc = inspect.getdoc(found) or ""
    return f"{name}{signature}" + (f"\n{doc}" if whole else "")


def _kind(found: Any) -> str:
    return "class" if isinstance(found, type) else "function"


def _first(found: Any) -> str:
    return (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")
