"""Words that people bring from other kernels, and what to use here instead: `HABITS`."""

from __future__ import annotations

__all__ = ["HABITS"]

HABITS: dict[str, str] = {
    "store": "a global keeps its value as long as the session: @name = i64 5",
    "macro": "define a function: define i32 @name(...) { ... }",
    "pip": "cells are LLVM IR, not Python; for a shared library: %lib libname.so",
    "conda": "cells are LLVM IR, not Python; for a shared library: %lib libname.so",
    "matplotlib": "cells are LLVM IR, not Python; values are shown as text and tables",
    "pylab": "cells are LLVM IR, not Python; values are shown as text and tables",
    "load_ext": "there are no extensions; for a shared library: %lib libname.so",
    "autoreload": "callers follow a redefined function by themselves; just run the cell again",
    "quit": "restart or shut the kernel down from the client's menu; %reset empties the session",
    "exit": "restart or shut the kernel down from the client's menu; %reset empties the session",
    "debug": "a fault names the instruction; %asm @name and @name?? show the code around it",
    "pdb": "a fault names the instruction; %asm @name and @name?? show the code around it",
    "prun": "%timeit @f(...) times a call natively",
    "sql": "cells are LLVM IR",
    "python": "notebooks/write_your_own_language.ipynb adds Python; or: !python3 -c '...'",
    "bash": "use !command, one line each",
    "sh": "use !command, one line each",
    "cpp": "cells are LLVM IR, which clang makes from C++: !clang++ -O1 -S -emit-llvm x.cpp",
    "c": "cells are LLVM IR, which clang makes from C: !clang -O1 -S -emit-llvm x.c",
    "vars": "%symbols",
    "undo_all": "%reset",
    "del": "%evict @name",
    "xdel": "%evict @name",
    "rerun": "run the cell again; %history lists earlier ones",
    "recall": "%history",
    "save_session": "%history -f FILE writes the sources to a file",
    "edit": "edit the cell and run it again: what it defined is replaced",
    "disassemble": "%asm @name",
    "jit": "every cell is compiled; %%llvm -O3 sets its options",
    "include": "%run FILE.ll",
    "import": "%run FILE.ll runs a file as a cell, %lib libname.so loads a library",
}
