"""LLVM IR as text: names, types, brackets and commas, what a module's text defines, and the
instructions of its bodies; and as cells have it: statements, call lines and lines that are nearly
IR.

The one place that reads IR text.  Not a parser: LLVM has accepted the text, or will say what is
wrong with it.  Lossless: everything found has its place in the text, and what is between is blanks
and comments.  All of it is linear in the length of the text, and none of it needs LLVM.  Start from
`names` for names and quoting, `text` for the parts of a line, `types` for types, `module` for
functions, globals and all else at the top, `instructions` for what is in bodies, `signature` and
`calls` for what a callee expects and what it is given, `constants` for what they alone tell, and
`debug_info` for metadata and lines, `attributes` for what functions have.  Of a cell, `statements`
cuts the text, `expressions` reads call lines, and `miswritten` and `spot` look at what is wrong.
`keywords` has the words and their meanings.  `model` makes values and blocks of a module, which may
be changed.
"""
