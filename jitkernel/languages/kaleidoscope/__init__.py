"""Kaleidoscope, the language of LLVM's tutorial (https://llvm.org/docs/tutorial), by its chapters.

1 and 2 are `grammar.lark` and `syntax`, which reads a cell; 3, 5 and 7 are `codegen`, which makes
IR of it; 4, the JIT, is the session itself; 6, operators that programs define, is `binary_head` in
the grammar and `climb` in `syntax`.  What session and editors ask is `language`: start there.
"""

from jitkernel.languages.kaleidoscope.language import LANGUAGE

__all__ = ["LANGUAGE"]
