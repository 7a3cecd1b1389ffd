"""Benchmarks: the same cells through jitkernel and its rivals, side by side.

`python -m benchmarks` prints a table of medians and ratios, each with its bar.  Start from
`__main__`; what is measured is in `rows/`, how in `harness` and `processes`, against whom in
`rivals`.  Nothing here is imported by jitkernel.
"""
