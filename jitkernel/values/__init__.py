"""Values of the program: their types, whichever language says them, and their bytes.

Start from `datatype`; `ir` makes one of a type of LLVM's.
"""
