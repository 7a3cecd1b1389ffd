"""Six numeric programs over arrays, in C and as numba has them.  Start from `PROGRAMS`.

A program is the name of its function, which is the same on each side, C source, Python source for
`numba.njit`, and what makes its arguments.  Arrays are changed in place.

Both sources have the same operations in the same order, each rounded by itself, so that the results
are equal to the bit.  C by itself may make one operation of `a * b + c`, which rounds once, and
clang and gcc do so where the processor can; numba does not unless it is told `fastmath`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "Program"]


@dataclass(frozen=True, slots=True)
class Program:
    """`name` is the function's; `declared` its prototype, `body` what it does; `arguments()` are
    new arrays, and numbers."""

    name: str
    declared: str
    body: str
    python: str
    arguments: Callable[[], tuple[Any, ...]]

    def c(self, contracted: bool = False, name: str = "") -> str:
        """C source, as the function `name`; `contracted` leaves `a * b + c` to the compiler (gcc
        knows of that only `-ffp-contract`)."""
        declared = self.declared.replace(f"{self.name}(", f"{name or self.name}(", 1)
        said = "" if contracted else "#pragma STDC FP_CONTRACT OFF\n"
        return f"{declared} {{\n{said}{self.body.removeprefix('{').lstrip()}\n"

    def renamed(self, name: str) -> Program:
        """The same program as a function that nothing has been compiled for."""
        declared, python = (
            text.replace(f"{self.name}(", f"{name}(", 1) for text in (self.declared, self.python)
        )
        return replace(self, name=name, declared=declared, python=python)


def _random(*shape: int) -> Any:
    return np.random.default_rng(1).random(shape)


PROGRAMS = (
    Program(
        "dot", "double dot(const double *a, const double *b, long n, long times)",
        """{
    double t = 0;
    for (long r = 0; r < times; r++)
        for (long i = 0; i < n; i++) t += a[i] * b[i];
    return t;
}""",
        """def dot(a, b, n, times):
 t = 0.0
 for r in range(times):
  for i in range(n): t += a[i] * b[i]
 return t
""",
        lambda: (_random(20_000), _random(20_000), 20_000, 400),
    ),
    Program(
        "matmul", "void matmul(double *restrict c, const double *a, const double *b, long n)",
        """{
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long k = 0; k < n; k++) {
            double x = a[i * n + k];
            for (long j = 0; j < n; j++) c[i * n + j] += x * b[k * n + j];
        }
    }
}""",
        """def matmul(c, a, b, n):
 for i in range(n):
  for j in range(n): c[i, j] = 0.0
  for k in range(n):
   x = a[i, k]
   for j in range(n): c[i, j] += x * b[k, j]
""",
        lambda: (np.zeros((450, 450)), _random(450, 450), _random(450, 450), 450),
    ),
    Program(
        "mandelbrot", "void mandelbrot(int *out, long n, int limit)",
        """{
    for (long y = 0; y < n; y++)
        for (long x = 0; x < n; x++) {
            double cr = 3.0 * x / n - 2, ci = 2.0 * y / n - 1, zr = 0, zi = 0;
            int i = 0;
            for (; i < limit && zr * zr + zi * zi < 4; i++) {
                double t = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = t;
            }
            out[y * n + x] = i;
        }
}""",
        """def mandelbrot(out, n, limit):
 for y in range(n):
  for x in range(n):
   cr = 3.0 * x / n - 2
   ci = 2.0 * y / n - 1
   zr = zi = 0.0
   i = 0
   while i < limit and zr * zr + zi * zi < 4:
    t = zr * zr - zi * zi + cr
    zi = 2 * zr * zi + ci
    zr = t
    i += 1
   out[y, x] = i
""",
        lambda: (np.zeros((400, 400), "i4"), 400, 100),
    ),
    Program(
        "nbody", "void nbody(double *p, double *v, const double *m, long n, long steps, double dt)",
        """{
    for (long s = 0; s < steps; s++) {
        for (long i = 0; i < n; i++)
            for (long j = i + 1; j < n; j++) {
                double x = p[3 * i] - p[3 * j], y = p[3 * i + 1] - p[3 * j + 1];
                double z = p[3 * i + 2] - p[3 * j + 2], d = x * x + y * y + z * z + 0.01;
                double f = dt / (d * __builtin_sqrt(d)), a = m[j] * f, b = m[i] * f;
                v[3 * i] -= x * a; v[3 * i + 1] -= y * a; v[3 * i + 2] -= z * a;
                v[3 * j] += x * b; v[3 * j + 1] += y * b; v[3 * j + 2] += z * b;
            }
        for (long i = 0; i < 3 * n; i++) p[i] += dt * v[i];
    }
}""",
        """def nbody(p, v, m, n, steps, dt):
 for s in range(steps):
  for i in range(n):
   for j in range(i + 1, n):
    x = p[i, 0] - p[j, 0]
    y = p[i, 1] - p[j, 1]
    z = p[i, 2] - p[j, 2]
    d = x * x + y * y + z * z + 0.01
    f = dt / (d * math.sqrt(d))
    a = m[j] * f
    b = m[i] * f
    v[i, 0] -= x * a
    v[i, 1] -= y * a
    v[i, 2] -= z * a
    v[j, 0] += x * b
    v[j, 1] += y * b
    v[j, 2] += z * b
  for i in range(n):
   for k in range(3): p[i, k] += dt * v[i, k]
""",
        lambda: (_random(50, 3), np.zeros((50, 3)), _random(50), 50, 2000, 1e-5),
    ),
    Program(
        "kmeans", "void kmeans(const double *p, double *c, double *sums, long *counts, long n, long k)",
        """{
    for (long j = 0; j < k; j++) { counts[j] = 0; sums[2 * j] = sums[2 * j + 1] = 0; }
    for (long i = 0; i < n; i++) {
        long best = 0;
        double least = 1e300;
        for (long j = 0; j < k; j++) {
            double x = p[2 * i] - c[2 * j], y = p[2 * i + 1] - c[2 * j + 1], d = x * x + y * y;
            if (d < least) { least = d; best = j; }
        }
        counts[best]++;
        sums[2 * best] += p[2 * i];
        sums[2 * best + 1] += p[2 * i + 1];
    }
    for (long j = 0; j < k; j++)
        if (counts[j]) {
            c[2 * j] = sums[2 * j] / counts[j];
            c[2 * j + 1] = sums[2 * j + 1] / counts[j];
        }
}""",
        """def kmeans(p, c, sums, counts, n, k):
 for j in range(k):
  counts[j] = 0
  sums[j, 0] = sums[j, 1] = 0.0
 for i in range(n):
  best = 0
  least = 1e300
  for j in range(k):
   x = p[i, 0] - c[j, 0]
   y = p[i, 1] - c[j, 1]
   d = x * x + y * y
   if d < least:
    least = d
    best = j
  counts[best] += 1
  sums[best, 0] += p[i, 0]
  sums[best, 1] += p[i, 1]
 for j in range(k):
  if counts[j]:
   c[j, 0] = sums[j, 0] / counts[j]
   c[j, 1] = sums[j, 1] / counts[j]
""",
        lambda: (
            _random(800_000, 2), _random(16, 2), np.zeros((16, 2)), np.zeros(16, "i8"), 800_000, 16,
        ),
    ),
    Program(
        "convolve",
        "void convolve(const double *a, const double *k, double *restrict out, long n, long m)",
        """{
    for (long y = 0; y + m <= n; y++)
        for (long x = 0; x + m <= n; x++) {
            double t = 0;
            for (long j = 0; j < m; j++)
                for (long i = 0; i < m; i++) t += a[(y + j) * n + x + i] * k[j * m + i];
            out[y * n + x] = t;
        }
}""",
        """def convolve(a, k, out, n, m):
 for y in range(n - m + 1):
  for x in range(n - m + 1):
   t = 0.0
   for j in range(m):
    for i in range(m): t += a[y + j, x + i] * k[j, i]
   out[y, x] = t
""",
        lambda: (_random(900, 900), _random(5, 5), np.zeros((900, 900)), 900, 5),
    ),
)  # fmt: skip
