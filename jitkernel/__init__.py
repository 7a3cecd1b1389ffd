"""Incremental JIT sessions: start from `Session`."""
