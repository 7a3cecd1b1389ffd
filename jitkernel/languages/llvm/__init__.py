"""LLVM IR cells: from a cell's text to a module's text and actions, from bytes to text.

No session state and no LLVM: `plan` reads a cell into a `Plan`, `assemble` makes the module that
the compiler gets, `evaluate` runs the expressions of call lines and assignments against a `Host`,
and `values` reads and writes values.  Start from `plan.parse_cell`.
"""
