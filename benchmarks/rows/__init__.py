"""Every row of the table, in the order it is printed.  Start from `ROWS`.

A row's module is imported only in the process that measures it: LLVM is not to be in the others.
"""

from __future__ import annotations

from benchmarks.harness import Row

__all__ = ["ROWS"]

ROWS: tuple[Row, ...] = (
    Row("latency", "Define and call one tiny function", "latency:define_and_call"),
    Row("line", "Call lines and bare instructions", "latency:call_line"),
    Row("inline", "Calls in this process, beside ctypes", "inline:calls"),
    Row("link", "Linking alone, objects made beforehand", "linking:link_only"),
    Row("link-many", "Linking among 100,000 cells", "linking:link_among_many", as_kernel=True),
    Row("archives", "Whole archives, and GNU ld", "archives:whole_archives"),
    Row("live", "Many live cells", "live:live_cells", as_kernel=True),
    Row("container", "A normal session in a container of 512 MiB", "container:normal_session"),
    Row("live-rivals", "Many live cells: rivals", "rivals_live:rivals_memory"),
    Row("cycles", "Left per define + evict cycle", "cycles:define_evict"),
    Row("cycles-types", "Left per cycle, fresh types", "cycles:define_evict_types"),
    Row("cycles-same", "Left per recompilation of one function", "cycles:recompile"),
    Row("cycles-rivals", "Left per cycle: rivals", "rivals_live:rivals_cycles"),
    Row("mesa", "Mesa's load: programs of about 10 KB", "mesa:mesa"),
    Row("large", "One large module", "mesa:large_module"),
    Row("messages", "Messages to the executor", "placing:messages"),
    Row("padding", "Padding in every zone", "placing:padding"),
    Row("many", "Many cells at once", "placing:run_many"),
    Row("budget", "More code than may be in memory", "budget:under_budget"),
    Row("growth", "How time grows with what there is", "growth:growth"),
    Row("c-growth", "How time grows with what a cell of C has", "c_growth:growth"),
    Row("redefine", "Redefinition", "redefinition:callers"),
    Row("pasted", "Pasted IR: a CPU that compilers write by default", "pasted:matmul"),
    Row("c-code", "C cells: the code that they become", "c_cells:generated_code"),
    Row("c-latency", "C cells: latency", "c_cells:latency"),
    Row("arrays", "Arrays of Python's", "arrays:calls"),
    Row("numeric", "Numeric programs: C cells, numba, cffi", "arrays:numeric"),
    Row("exceptions", "C++ exceptions", "exceptions:thrown_and_caught"),
    Row("start", "Start-up, library", "startup:library"),
    Row("start-kernel", "Start-up, kernel", "startup:kernel"),
    Row("rest", "Memory of a kernel at rest", "rest:at_rest"),
    Row("second", "Memory that a second kernel adds", "rest:second"),
    Row("data", "Live data beside each cell", "data:beside_data"),
    Row("cache", "Object cache: compiled before, in another session", "cache:warm_and_cold"),
    Row("cache-hit", "Object cache: one look-up", "cache:look_up"),
    Row("cache-start", "Object cache: start of a session", "cache:start"),
    Row("cache-kernel", "Object cache: warm cells through Jupyter", "cache:through_jupyter"),
    Row("save", "A session in a file: save and restore", "save:save_and_restore"),
    Row("autosave", "A session in a file: saved after each cell", "save:autosave"),
    Row("watch", "Looking at globals while code runs", "watching:watched"),
    Row("debugger", "A debugger: stops, conditions, steps", "debugging:stops"),
    Row("contexts", "LLVM contexts: thrown away, shared, kept", "contexts:named_types"),
    Row("explain", "Explain a function from source to bytes", "explain:panels"),
    Row("faults", "Recovery from faults", "recovery:faults"),
    Row("interrupts", "Interrupts", "recovery:interrupts"),
)
