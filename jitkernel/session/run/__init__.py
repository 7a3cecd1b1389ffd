"""Running a cell: compiled, placed, its statements done in order.  Start from `runner.Runner`."""
