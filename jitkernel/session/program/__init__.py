"""The program as records: cells, types of symbols, eviction.  Start from `program.Program`."""
