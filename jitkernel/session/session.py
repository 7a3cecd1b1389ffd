"""The public interface: a program that grows cell by cell.  Start from `Session`.

What an operation takes is imported when it is first called: importing this takes a few
milliseconds, and making a session starts the compiler's process before all else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    SupportsIndex,
    TypeVar,
    Unpack,
    overload,
)

from jitkernel.collecting import lasting
from jitkernel.compiler.worker_process import close_first, first_worker
from jitkernel.errors import JitError, UnknownName, UsageError, limit_met
from jitkernel.session.changing import Changing, Path
from jitkernel.session.operation import checked, operation
from jitkernel.session.running import check_argument
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.compiler.worker_process import WorkerProcess
    from jitkernel.portable.export import Exported
    from jitkernel.portable.travelling import PortableFunction
    from jitkernel.session.core import Core
    from jitkernel.session.debugging.debugger import Debugger
    from jitkernel.session.handles import FunctionHandle, Handle
    from jitkernel.session.keywords import Again, Given
    from jitkernel.session.program.cell import Cell
    from jitkernel.session.report.reproducing import Reproduced
    from jitkernel.session.run.results import Results, Sink
    from jitkernel.session.saved.restoring import Restored
    from jitkernel.session.saved.store import Store
    from jitkernel.settings import SessionSettings

    Function = TypeVar("Function", bound=Callable[..., Any])


class Session(Changing):
    """An incremental JIT session: three processes, an arena, a growing set of cells.

    Settings are those of `SessionSettings`, as keywords.  A session is used by one thread at a
    time (others wait), except `interrupt`, which any thread and a signal handler may call.
    `settings` are what it was started with, as they are now; `results` the values of cells, by
    number.  What the program prints comes out of `sys.stdout` and `sys.stderr` as it is printed,
    unless `sink` is something else; a cell's `Result` has it too.
    `worker` is a compiler worker that was started before anything else of the session was needed.
    Use it as a context manager, or call `close`; one that nobody refers to any more ends its
    processes too, and writes no file.

        >>> with Session() as s:
        ...     made = s.run("define i32 @sq(i32 %x) { %r = mul i32 %x, %x  ret i32 %r }")
        ...     s.call("sq", 7)
        49

    In the examples below `s` is a session.
    """

    #: A mistyped setting is an AttributeError, and no attribute of its own.
    __slots__ = {
        "__weakref__": "",
        "_core": "",
        "results": "The values of cells, by number.",
        "settings": "What it was started with, as it is now.",
    }

    def __init__(
        self,
        settings: SessionSettings | None = None,
        *,
        worker: WorkerProcess | None = None,
        store: Store | None = None,
        **overrides: Unpack[Given],
    ):
        try:
            worker = worker or first_worker()
            with lasting():
                from jitkernel.session.core import Core
                from jitkernel.session.settings import settings_with

                chosen = settings_with(settings, overrides)
                self._core = Core(chosen, worker, store, frozenset(overrides))
        except BaseException as error:
            if worker is not None:
                close_first(worker)
            if limit := limit_met(error):
                raise limit from None
            raise
        self.settings: SessionSettings = self._core.settings
        self.results: Results = self._core.results

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        core: Core | None = getattr(self, "_core", None)
        if core is None or core.forked or core.engine.closed or sys.is_finalizing():
            return  # a process that ends takes its sessions' along
        core.engine.close(leave_code=True)
        core.store.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise UsageError(
            "a session stays in its process: its functions are pickled and copied (session[name], "
            "session.portable), and the .value of variables and results"
        )

    # -- life ------------------------------------------------------------------------------------

    @property
    def restored(self) -> Restored | None:
        """The content that came back from a file; None where nothing did."""
        return self._core.restored

    @property
    def sink(self) -> Sink:
        """The sink of cells and calls that are given none of their own."""
        return self._core.sink

    @sink.setter
    def sink(self, sink: Sink) -> None:
        check_argument("Session", "sink", "Sink", sink)
        with self._core.lock:
            self._core.sink = sink

    def interrupt(self) -> None:
        """End the compile or the run in progress, soon.  From any thread or a signal handler."""
        self._core.interrupt()

    @property
    def closed(self) -> bool:
        """True if it has ended."""
        return self._core.engine.closed

    def close(self) -> None:
        """Write the session's file, where it has one, and end every process.

        Raises JitError in a callback of code that runs in this process.
        """
        if self._core.forked:
            return  # they are another process's
        direct = self._core.direct
        if direct is not None and direct.turn.is_callers and not self.closed:
            raise JitError("code of this session has called this: close it when that has ended")
        if "keeper" in vars(self._core):
            self._core.keeper.close()
        self._core.engine.close()
        self._core.store.close()
        from jitkernel.languages.language import at_close  # as late as cells need it

        for end in at_close:
            end()

    # -- names -----------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Handle:
        """A handle by name: it follows redefinition and undo.  Raises UnknownName, a KeyError.

        >>> made = s.run("@count = global i32 3")
        >>> s["count"]
        <@count i32 3>
        >>> s["counter"]
        Traceback (most recent call last):
        jitkernel.errors.UnknownName: @counter is not defined in this session; did you mean @count?
        """
        from jitkernel.session.handles import handle

        if not isinstance(name, str):
            raise UnknownName(f"a session's names are text, such as 'f': {name!r} is none")
        found: Handle = handle(self, name.removeprefix("@"))
        return found

    def _ipython_key_completions_(self) -> list[str]:
        return [name for name, symbol in self.symbols.items() if symbol.defined]

    @overload
    def export_python(
        self, name: str, function: Callable[..., Any], type: str = "void ()"
    ) -> FunctionHandle: ...

    @overload
    def export_python(
        self, name: str, function: None = None, type: str = "void ()"
    ) -> Callable[[Function], Function]: ...

    @operation(observed=True)  # type: ignore[misc]  # mypy: `self` has no name then
    def export_python(
        self, name: str, function: Callable[..., Any] | None = None, type: str = "void ()"
    ) -> Any:
        """Let cells call a function of Python's: `s.export_python("note", print, "void (i32)")`.

        `type` is that of a function in IR or in C, `unsigned (double, const char *)`, with the
        types that cells have defined.  Arguments are Python values, pointers are numbers that
        `read` and `write` take, and have `.text()`.  What it raises ends the run of whoever called,
        and is raised there; the session is in order.  It must not call the session's functions, nor
        change the program: `later` does.  It is a cell: exported again, it is redefined.  A call
        takes some tens of microseconds.

        Gives its handle; without `function` this is a decorator.  Raises UsageError for what is no
        type of a function.

            >>> @s.export_python("area", type="double (double, double)")
            ... def area(width, height):
            ...     return width * height
            >>> s.run("%a = call double @area(double 3.0, double 4.0)").value
            12.0
        """
        if function is None:
            return lambda given: self.export_python(name, given, type) and given
        name = name.removeprefix("@")
        source, language = self._core.python_functions.add(name, function, type)
        self.run(source, language, cell_id=f"py:{name}")
        return self[name]

    def later(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a Python function when the session is free: at once, or when what is in progress is
        done, before that returns.  For functions that cells call, which wait in the middle of a
        run: `s.later(s.run, text)` defines something when it is over.

        Where a thread of the program has called, that is when the thread's call was served: between
        cells in a notebook, by `serve` elsewhere.  What the function raises becomes a note of the
        next cell.

            >>> s.later(s.run, "@room = global i32 7")  # nothing is in progress
            >>> s["room"].value
            7
        """
        check_argument("later", "function", "Callable", function)
        self._core.deferred.add(partial(function, *arguments))

    def serve(self, seconds: float = 0.0) -> None:
        """Let the program's threads have what they wait for: pass on what they print, run the
        Python functions that they call, bring code back; for so long, or (0) for what waits now.
        Frontends do this between cells; a program that has threads and does not call calls this.
        """
        from jitkernel.session.frontend import serve

        check_argument("serve", "seconds", "float", seconds)
        serve(self._core, self.frontend, seconds)

    @operation(atomic=True, observed=True)
    def on_hot(
        self, name: str, calls: int, translate: Callable[[FunctionHandle], str | None]
    ) -> None:
        """Have a function count its calls, and define it again when there were so many: a JIT's
        tiers.  `translate` gets its handle and gives IR that defines it, or None: it stays.

        The cell is defined again with a counter in the function, `@NAME.calls`, which whoever has
        the function's body counts in, too; its variables keep their values.  `translate` is called
        by `later`, whichever thread of the program made that call, and not where the function was
        defined again before.  Undo takes the counter back, as it takes back what `translate` gave.
        Raises UsageError where no cell defines the function in IR, C, or another language that
        becomes IR.

            >>> made = s.run("define i32 @slow() { ret i32 1 }")
            >>> s.on_hot("slow", 3, lambda f: "define i32 @slow() { ret i32 2 }")
            >>> [s.call("slow") for _ in range(5)]
            [1, 1, 1, 2, 2]
        """
        from jitkernel.session.run.hot import count_calls

        check_argument("on_hot", "name", "str", name)
        check_argument("on_hot", "calls", "int", calls)
        check_argument("on_hot", "translate", "Callable", translate)
        if calls < 1:
            raise UsageError(f"on_hot: after {calls} calls? One at least")
        count_calls(self, name.removeprefix("@"), calls, translate)

    @operation()
    def reproduce(
        self, timeout: float = 60.0, progress: Callable[[str], object] | None = None
    ) -> Reproduced:
        """Run the cells' present text, in order, in a session beside this one; what differs here.

        Present is what each cell was run with last, with its own options, in the language and the
        working directory that it had; files that it includes or links are read as they are now.  A
        cell stands where it was run first: running it again moves it nowhere.  Compared are
        definitions, types, values of variables (pointers by what they lead to), code, and how
        cells end.  Nothing changes here.

        What the cells print is dropped; they are given no input; shell commands do not run; Python
        functions that they call do.  `timeout` is the seconds that all of it may take; `progress`
        is called with what runs, several times a second.  Raises UsageError where the text is not
        known, and Interrupted.

            >>> for n in (1, 2):
            ...     made = s.run(f"@start = global i32 {n}", cell_id="a")
            >>> made = s.run("@now = global i32 0", cell_id="b")
            >>> s["now"].value = 5
            >>> print(*s.reproduce().differences)
            @now is 5 here, and 0 in a fresh run
        """
        from jitkernel.session.report.reproducing import reproduce

        check_argument("reproduce", "timeout", "float", timeout)
        return reproduce(self._core, Session, timeout, progress or (lambda words: None))

    # -- files, and functions that leave ---------------------------------------------------------

    @operation()
    def save(self, path: Path) -> int:
        """Write the session to a file, all of it or nothing; the file's size in bytes.

        The file that was there stays beside it, as `PATH~`.  Raises UsageError where the file
        is another session's, or something else.

            >>> made = s.run("define i32 @kept() { ret i32 6 }")
            >>> size = s.save("work.jks")
            >>> with Session.restore("work.jks") as again:
            ...     again.call("kept")
            6
        """
        return self._core.keeper.save(os.fspath(path))

    @classmethod
    @checked
    def restore(
        cls,
        path: Path,
        *,
        rebuild: bool = False,
        trust: bool = False,
        worker: WorkerProcess | None = None,
        **overrides: Unpack[Again],
    ) -> Session:
        """A session as it was saved to a file, which is only read; `restored` says what came back.

        Settings are the file's, unless given here; the base is the file's in any case.  Code that
        another LLVM made or for another processor is compiled again.  Where the file is damaged,
        the session is that of the whole file before it, `PATH~`, which `restored` says.  Raises
        UsageError where there is none, and for a file that is newer than this, or no session's;
        `rebuild` compiles then what can be read of it, from source.

        A session's file is a program: call its functions as you would run a program of whoever
        wrote it.  Nothing of it runs before that, unless you `trust` it: then the libraries that
        it names are loaded, which runs their code, and `rebuild` runs the cells' constructors.
        """
        from jitkernel.session.saved.keeping import open_copy, open_rebuilt

        opened = open_rebuilt if rebuild else open_copy
        return opened(cls, os.fspath(path), worker, {**overrides, "trust": trust})

    @operation()
    def export(
        self,
        names: str | Handle | Sequence[str | Handle],
        path: Path,
        *,
        globals: Literal["present", "first"] = "present",
        cpu: str = "",
    ) -> Exported:
        """Write functions and variables to a file, with all that they need: it needs no session.

        The ending says what is written: `.o` a relocatable object, `.a` a static archive, `.so` a
        shared library, `.h` a header for C, `.ll` IR, `.bc` bitcode, `.py` a Python module that
        brings its library along.  Only `names`, or handles (`s["sq"]`), can be seen from outside;
        code is position independent.  Variables begin with the values that they have now
        (`globals="present"`) or with those of their definitions ("first"; what only a statement has
        given a value keeps that).  `cpu` is compiled for, such as `x86-64-v3`; the session's own
        unless given.

        What libraries must bring is listed in the answer.  Raises UsageError for a name that no
        cell defines and for a value that cannot leave (a pointer to the heap), LinkError where
        something would be missing.

            >>> made = s.run("define i32 @sq(i32 %x) { %r = mul i32 %x, %x  ret i32 %r }")
            >>> written = s.export(["sq"], "libsq.so")
            >>> import ctypes
            >>> ctypes.CDLL("./libsq.so").sq(9)
            81
        """
        from jitkernel.portable.export import export
        from jitkernel.session.handles import names_of

        check_argument("export", "cpu", "str", cpu)  # the worker would fail
        return export(self._core, names_of(self, names), os.fspath(path), globals, cpu)

    @property
    def debugger(self) -> Debugger:
        """Breakpoints, steps, and what can be seen while the program stands; off until its `start`.

        >>> from jitkernel.session.debugging.records import Breakpoint
        >>> with Session(executor="process") as s:
        ...     made = s.run("define i32 @twice(i32 %x) { %r = add i32 %x, %x  ret i32 %r }")
        ...     s.debugger.start()
        ...     lines = iter(["p %x", "c"])
        ...     prompt = s.debugger.prompt(lambda _: next(lines), print)
        ...     point = s.debugger.add(Breakpoint(function="@twice"))
        ...     s.call("twice", 21)
        breakpoint 1: @twice, cell 1, line 1
           1  define i32 @twice(i32 %x) { %r = add i32 %x, %x  ret i32 %r }
        i32 21
        42
        """
        self._core.begin()
        return self._core.debugger

    @operation()
    def portable(self, name: str, *, globals: bool = False) -> PortableFunction:
        """A function with all that it needs, apart from the session: it pickles, and runs in a
        session of the process where it arrives.  A handle (`session["f"]`) pickles as this.

        `globals`: its variables begin there with the values that they have now, by value; otherwise
        with those of their definitions (what only a statement has given a value keeps that).
        Raises UsageError and LinkError as `export` does.

            >>> import pickle
            >>> made = s.run("define i32 @half(i32 %x) { %r = ashr i32 %x, 1  ret i32 %r }")
            >>> sent = pickle.dumps(s.portable("half"))
            >>> half = pickle.loads(sent)  # most often in another process
            >>> half(12)
            6
        """
        from jitkernel.portable.building import pack
        from jitkernel.portable.travelling import portable

        return portable(pack(self._core, name, globals))

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __repr__(self) -> str:
        core = self._core
        if core.engine.closed:
            return "<Session, closed>"
        symbols = dict(core.program.linker.symbols).values() if core.begun else ()
        own = [s.is_function for s in symbols if s.cell]
        functions = sum(own)
        parts = [
            counted(len(core.program.cells) if core.begun else 0, "cell"),
            counted(functions, "function"),
            counted(len(own) - functions, "variable"),
        ]
        return f"<Session of {', '.join(parts)}>"


# Python's own errors name a function by this: `Session.run() got an unexpected keyword argument`.
for _room in Session.__mro__[1:-1]:
    for _method in vars(_room).values():
        while callable(_method):
            _method.__qualname__ = f"{Session.__name__}.{_method.__name__}"
            _method = getattr(_method, "__wrapped__", None)
