"""Which languages there are, by name.  Start from `find`.

Those of the project are in a table, so that starting a session searches no packages; all others
are entry points of installed packages, looked for when a name is not in the table, or come from a
file (`load_file`).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.files import refuse_irregular
from jitkernel.languages.language import Language
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "jitkernel.languages"
OWN = {
    "llvm": "jitkernel.languages.llvm.language",
    "c": "jitkernel.languages.c.language",
    "kaleidoscope": "jitkernel.languages.kaleidoscope",
}
_loaded: dict[str, Language] = {}


def installed() -> dict[str, EntryPoint]:
    """The languages of other packages, as they are installed now."""
    from importlib.metadata import entry_points

    importlib.invalidate_caches()
    return {point.name: point for point in entry_points(group=GROUP)}


def names() -> list[str]:
    """Every language's name, the project's own first."""
    return list(dict.fromkeys([*OWN, *_loaded, *sorted(installed())]))


def find(name: str) -> Language:
    """The language called `name`.  Raises UsageError where there is none or it cannot be loaded."""
    found = _loaded.get(name)
    if found is None:
        found = _loaded[name] = _load(name)
    return found


def of_file(path: str) -> str:
    """The name of the language that a file's ending says, "" where it says none."""
    suffix = os.path.splitext(path)[1]
    known = {".ll": "llvm", ".ks": "kaleidoscope", ".c": "c"}
    if not suffix or suffix in known:
        return known.get(suffix, "")
    return next((n for n in names() if find(n).file_extension == suffix), "")


def add(language: Language) -> None:
    """Make a language known by its name, for this process; in the place of one of that name."""
    _loaded[language.name] = language


def _load(name: str) -> Language:
    if name in OWN:
        found: object = importlib.import_module(OWN[name]).LANGUAGE
    else:
        point = installed().get(name)
        if point is None:
            known = did_you_mean(name, names(), otherwise=f"; there is {', '.join(names())}")
            raise UsageError(f"there is no language {name!r}{known}")
        try:
            found = point.load()
        except Exception as error:
            raise UsageError(
                f"the language {name} ({point.value}) cannot be loaded: {error}"
            ) from error
    if not isinstance(found, Language):
        raise UsageError(f"the language {name} is no jitkernel.languages.Language but {found!r}")
    return found


def load_file(path: str) -> Language:
    """Run a Python file and add the language that it names `LANGUAGE`.  Raises UsageError."""
    from pathlib import Path

    if refuse_irregular(path) is None:
        raise UsageError(f"there is no Python file {path}")
    file = Path(path)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file: its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    found = getattr(module, "LANGUAGE", None)
    if not isinstance(found, Language):
        raise UsageError(f"{path} names no LANGUAGE that is a jitkernel.languages.Language")
    add(found)
    return found
