"""IR text to objects, in processes that hold LLVM so that this one need not.

Start from `pool.CompilerPool`.  The kernel's side is `pool` and `process`; the worker's is
`worker`, which runs `pipeline`, `summary` and `binding`, which loads llvmlite's library.
"""
