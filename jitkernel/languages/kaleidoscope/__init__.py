"""Kaleidoscope, the language of LLVM's tutorial, as a cell language.

`syntax` reads a cell (grammar: `grammar.lark`), `codegen` makes IR of it, `language` says what the
session and the editors want to know.  Start from `LANGUAGE`.

The tutorial (https://llvm.org/docs/tutorial) maps onto this so: chapters 1 and 2 are `grammar.lark`
and `syntax`; chapters 3, 5 and 7 are `codegen`; chapter 4, the JIT, is the session itself; chapter
6, operators that programs define, is `group` in `syntax` and `binary_head` in the grammar.
"""

from jitkernel.languages.kaleidoscope.language import LANGUAGE

__all__ = ["LANGUAGE"]
