"""Source text in, IR text and actions out; one package per language.  Start from `llvm`."""
