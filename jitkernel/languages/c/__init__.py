"""C: cells that clang compiles, on the session that all languages share.

`language.LANGUAGE` is what the session asks; `reader.read` makes a cell's plan.
"""
