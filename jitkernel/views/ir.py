"""The LLVM IR that a cell was compiled from, read back from the session's store: `ir`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.views.names import bare, written
from jitkernel.views.target import find
from jitkernel.views.view import View, listing

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["entity", "ir", "module_text"]


def ir(session: Session, target: int | str | None = None) -> View:
    """The module of a cell, or one function or global of it; without a target the last cell's."""
    cell, _ = find(session, target)
    module = module_text(session, cell.number)
    if isinstance(target, str):
        name = written(bare(target))
        return listing(f"{name}, cell {cell.number}", entity(module, name) or module)
    return listing(f"cell {cell.number}, {cell.options}".rstrip(", "), module)


def module_text(session: Session, number: int) -> str:
    """The text that a cell's module was compiled from.  Raises UsageError where it is gone."""
    record = session.store.get(number)
    if record is None or not record.module:
        raise UsageError(f"cell {number} has no IR of its own")
    return record.module.strip("\n")


def entity(module: str, name: str) -> str:
    """The text of the function or global called `name`, written with its @; empty if absent."""
    here = re.escape(name)
    function = re.search(rf"^[ \t]*define\b[^\n@]*{here}\s*\(.*?^[ \t]*}}", module, re.M | re.S)
    if function is None:
        function = re.search(rf"^[ \t]*define\b[^\n@]*{here}\s*\([^\n]*}}", module, re.M)
    if function is not None:
        return function[0].strip("\n")
    variable = re.search(rf"^[ \t]*{here}\s*=[^\n]*(?:\n[ \t]+[^\n]*)*", module, re.M)
    return variable[0].strip() if variable is not None else ""
