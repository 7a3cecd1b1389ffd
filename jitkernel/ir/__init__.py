"""LLVM IR as text: names, types, brackets and commas, and what a module's text defines.

The one place that reads IR text.  Not a parser: LLVM has accepted the text, or will say what is
wrong with it.  All of it is linear in the length of the text, and none of it needs LLVM.  Start
from `names` for names and quoting, `text` for the parts of a line, `types` for types, `module` for
functions and globals, `signature` and `calls` for what a callee expects and what it is given, and
`debug_info` for lines.
"""
