"""IPython's side: `%jit`, a cell magic for each language, what happens around cells.

Start from `load`, which `%load_ext jitkernel` calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import no_var_expand

from jitkernel.ipython.completion import matcher
from jitkernel.ipython.inspection import inspector
from jitkernel.ipython.notebook import Notebook
from jitkernel.ipython.words import in_python
from jitkernel.kernel.frontend import deleted_cells
from jitkernel.kernel.magics import CellCall, run_cell_magic, run_line_magic
from jitkernel.kernel.magics.parsing import help_text
from jitkernel.languages import names
from jitkernel.regex import regex
from jitkernel.views.view import paragraph

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jitkernel.kernel.frontend import Frontend
    from jitkernel.session import Result, Session

_HERE = (
    "Here %NAME is written %jit NAME, and %%NAME is %%jit NAME; cells of languages keep their own "
    "first line: %%llvm, %%c. `%jit @f(3)` is a call line. jitkernel.session is the session."
)

_UNKNOWN = regex(r"(?:Line|Cell) magic (?:function )?`(%+\w+)` not found")  # IPython's words

#: Magics that look at no program, and change settings that hold from its start.
_WITHOUT_SESSION = ("", "config", "help", "language", "lsmagic", "pwd", "quickref")


class Extension:
    """The extension, loaded in one shell of IPython."""

    def __init__(self, shell: InteractiveShell, notebook: Notebook):
        self.shell, self.notebook = shell, notebook
        self._cell = ""  # the source of the cell that runs, as it was typed
        self._cell_id: str | None = None
        self._aside = False  # it leaves no number behind
        self._ours: dict[str, Callable[..., Any]] = {}  # magics, by name
        self._matcher = matcher(notebook)
        self._events = {"pre_run_cell": self._begin, "post_run_cell": self._end}

    # -- being loaded ----------------------------------------------------------------------

    def load(self) -> None:
        """Magics, completion and events are there from now on."""
        self._register("jit", self._any_magic(), "line_cell")
        others = self._register_languages()
        for event, call in self._events.items():
            self.shell.events.register(event, call)
        if self.shell.Completer is not None:
            self.shell.Completer.custom_matchers.append(self._matcher)
        if (kernel := getattr(self.shell, "kernel", None)) is not None:
            kernel.do_inspect = inspector(self.notebook, kernel.do_inspect)
        cells = ", ".join(f"%%{name}" for name in names() if name in self._ours)
        print(f"jitkernel: {cells} cells are one program, called from Python too; %jit help")
        for name in others:
            print(f"%%{name} is another extension's; here it is %%jit {name}")

    def unload(self) -> None:
        """They are not there any more; session and functions stay."""
        if not self._ours:
            return
        known = self.shell.magics_manager.magics
        for name, function in self._ours.items():
            for kind in ("line", "cell"):
                if known[kind].get(name) is function:
                    del known[kind][name]
        self._ours.clear()
        for event, call in self._events.items():
            self.shell.events.unregister(event, call)
        if self.shell.Completer is not None:
            matchers = self.shell.Completer.custom_matchers
            matchers[:] = [each for each in matchers if each is not self._matcher]
        if (kernel := getattr(self.shell, "kernel", None)) is not None:
            kernel.__dict__.pop("do_inspect", None)  # the method of its class again

    def _register(self, name: str, function: Callable[..., Any], kind: str) -> None:
        function = no_var_expand(function)  # braces and dollars are the cell's
        self._ours[name] = function
        self.shell.register_magic_function(function, kind, name)  # type: ignore[arg-type]

    def _register_languages(self) -> list[str]:
        """A cell magic for each language that has none; those whose name is another's magic."""
        others = []
        for name in names():
            if name in self._ours:
                continue
            if name in self.shell.magics_manager.magics["cell"]:
                others.append(name)
                continue
            self._register(name, self._language(name), "cell")
        return others

    def _any_magic(self) -> Callable[..., Result | None]:
        def jit(line: str, cell: str | None = None) -> Result | None:
            return self._jit(line, cell)

        jit.__doc__ = self._jit.__doc__
        return jit

    def _language(self, name: str) -> Callable[[str, str], Result | None]:
        def run(line: str, cell: str) -> Result | None:
            return self._run_cell(name, line, cell)

        magic = self.notebook.frontend.magics.get_cell(name)
        run.__name__ = name
        run.__doc__ = help_text(magic) if magic is not None else None
        return run

    # -- around cells ----------------------------------------------------------------------

    def _begin(self, info: Any) -> None:
        self._cell = info.raw_cell or ""
        # Running a notebook's cell again replaces what it defined.  One of Python may run several.
        is_magic = self._cell.lstrip().startswith("%%")
        cell_id = getattr(info, "cell_id", None)
        self._cell_id = cell_id if is_magic else None
        self._aside = bool(info.silent) or not info.store_history
        self.notebook.begin(cell_id, self._deleted(), self._aside)

    def _deleted(self) -> list[str]:
        parent: Any = getattr(self.shell, "get_parent", dict)()  # the request, where there is one
        return deleted_cells(parent if isinstance(parent, dict) else {})

    def _end(self, result: Any) -> None:
        self.notebook.end()
        error = getattr(result, "error_in_exec", None)
        unknown = _UNKNOWN.match(str(error)) if isinstance(error, UsageError) else None
        if unknown is not None and (there := in_python(unknown[1])) != unknown[1]:
            print(f"hint: {unknown[1]} is written {there} in a notebook of Python")
        self._cell, self._cell_id = "", None

    # -- magics ----------------------------------------------------------------------------

    def _run_cell(self, name: str, line: str, cell: str) -> Result | None:
        # The lines above are kept as empty ones: an error names the cell's own line.
        text = cell.rstrip()
        at = self._cell.rfind(text) if text else -1
        above = self._cell.count("\n", 0, at) if at >= 0 else 1
        call = CellCall(name, line, "\n" * above + cell)
        return self._run(
            lambda frontend: run_cell_magic(frontend, call, self._cell_id),
            f"%%{name} {line}".rstrip() + "\n" + cell,
        )

    def _jit(self, line: str, cell: str | None = None) -> Result | None:
        """Every magic of jitkernel: `%jit help` lists them, `%jit help NAME` explains one.

        %jit undo                  the kernel's %undo
        %jit explain @f            the kernel's %explain
        %jit @f(3)                 a call line
        %%jit timeit               a magic that takes the rest of the cell
        """
        name, _, rest = line.strip().partition(" ")
        name = name.lstrip("%")
        if cell is not None:
            if not name:
                return self._run(lambda frontend: frontend.execute("\n" + cell), cell)
            return self._run_cell(name, rest, cell)
        shown = f"%jit {line}"
        if name.startswith("@"):
            return self._run(lambda frontend: frontend.aside(line.strip(), "llvm"), shown)
        return self._run(
            lambda frontend: self._line(frontend, name or "help", rest),
            shown,
            start=name not in _WITHOUT_SESSION,
        )

    def _line(self, frontend: Frontend, name: str, rest: str) -> None:
        if name == "help" and not rest.strip():
            frontend.display(paragraph(_HERE))
        if "--example" in rest.split():  # of a cell that IPython does not let be empty
            run_cell_magic(frontend, CellCall(name, rest, ""), None)
        else:
            run_line_magic(frontend, name, rest)
        if name == "language":
            for other in self._register_languages():
                frontend.print(f"%%{other} is IPython's own; here it is %%jit {other}")

    def _run(
        self, call: Callable[[Frontend], Result | None], source: str, start: bool = True
    ) -> Result | None:
        def counted(frontend: Frontend) -> Result | None:
            if not self._aside:
                result = call(frontend)
                shown = result.text if result is not None else None
                frontend.history.store(self.notebook.number, source.rstrip("\n"), shown)
                return result
            with frontend.session.frontend.aside():
                return call(frontend)

        return self.notebook.run(counted, start)


class _Package(ModuleType):
    """The package `jitkernel` in a Python notebook: `jitkernel.session` is the notebook's."""

    @property
    def session(self) -> Session | ModuleType:
        found = _latest()
        return found.notebook.session if found is not None else self.__dict__["session"]

    @session.setter
    def session(self, module: ModuleType) -> None:
        self.__dict__["session"] = module  # the import system puts it there


#: What each shell has; its notebook stays when the extension is loaded again.
_extensions: dict[int, Extension] = {}


def _latest() -> Extension | None:
    return next(reversed(_extensions.values()), None)


def load(shell: InteractiveShell) -> None:
    """`%load_ext jitkernel`, `%reload_ext jitkernel`."""
    before = _extensions.pop(id(shell), None)
    if before is not None and before.shell is shell:
        before.unload()
        notebook = before.notebook
    else:
        notebook = Notebook(shell)
    extension = Extension(shell, notebook)
    extension.load()
    _extensions[id(shell)] = extension
    sys.modules["jitkernel"].__class__ = _Package
    notebook.place_names()


def unload(shell: InteractiveShell) -> None:
    """`%unload_ext jitkernel`: magics go; the session and its functions stay."""
    extension = _extensions.get(id(shell))
    if extension is not None:
        extension.unload()
