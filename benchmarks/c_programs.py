"""Twelve small programs of C, each a function `long work(void)`.  Start from `PROGRAMS`.

What a compiler is good or bad at: calls, loops over arrays, vectors, branches, pointers, the heap.
"""

from __future__ import annotations

__all__ = ["HEADERS", "PROGRAMS", "TIMED", "names"]

#: Milliseconds of processor time that one call of `work` takes.
TIMED = """
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
double timed(void) {
    double before = now();
    volatile long result = work();
    (void)result;
    return now() - before;
}
"""

#: Sixteen headers as programs include them.
HEADERS = "\n".join(
    f"#include <{name}.h>"
    for name in (
        "stdio stdlib string math stdint stdbool ctype errno limits float signal time unistd fcntl"
        " pthread sys/types"
    ).split()
)


def names(count: int) -> str:
    """A cell that declares so many names: half prototypes, half structs."""
    return "\n".join(
        f"int g{i}(int x);\nstruct s{i} {{ int a; double b; }};" for i in range(count // 2)
    )


PROGRAMS = {
    "fib": """
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
long work(void) { return fib(32); }
""",
    "sieve": """
static char s[2000000];
long work(void) {
    long c = 0;
    for (int r = 0; r < 3; r++) {
        c = 0;
        for (int i = 0; i < 2000000; i++) s[i] = 1;
        for (long i = 2; i < 2000000; i++)
            if (s[i]) { c++; for (long j = i * i; j < 2000000; j += i) s[j] = 0; }
    }
    return c;
}
""",
    "matmul": """
#define N 300
static double a[N][N], b[N][N], c[N][N];
long work(void) {
    for (int r = 0; r < 6; r++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) { a[i][j] = i + j; b[i][j] = i - j; c[i][j] = 0; }
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    }
    return (long)c[7][9];
}
""",
    "dot": """
static double x[100000], y[100000];
long work(void) {
    double t = 0;
    for (int i = 0; i < 100000; i++) { x[i] = i * 0.5; y[i] = i; }
    for (int r = 0; r < 200; r++) {
        for (int i = 0; i < 100000; i++) t += x[i] * y[i];
        x[r] = t;
    }
    return (long)t;
}
""",
    "saxpy": """
static float x[100000], y[100000];
long work(void) {
    for (int i = 0; i < 100000; i++) x[i] = y[i] = i;
    for (int r = 0; r < 2000; r++)
        for (int i = 0; i < 100000; i++) y[i] = y[i] * 0.5f + x[i];
    return (long)y[99];
}
""",
    "collatz": """
static int len(unsigned long n) {
    int c = 0;
    while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; c++; }
    return c;
}
long work(void) {
    long b = 0;
    for (unsigned long i = 1; i < 100000; i++) { int l = len(i); if (l > b) b = l; }
    return b;
}
""",
    "nbody": """
struct body { double x, y, z, vx, vy, vz, m; };
static struct body bodies[5] = {
    {0, 0, 0, 0, 0, 0, 39}, {4.8, -1.1, -0.1, 0.6, 2.8, -0.02, 0.03},
    {8.3, 4.1, -0.4, -1.0, 1.8, 0.008, 0.01}, {12, -15, -0.2, 1.0, 0.8, -0.01, 0.001},
    {15, -25, 0.1, 0.9, 0.5, -0.03, 0.002}};
double sqrt(double);
static void advance(struct body *b, double dt) {
    for (int i = 0; i < 5; i++)
        for (int j = i + 1; j < 5; j++) {
            double dx = b[i].x - b[j].x, dy = b[i].y - b[j].y, dz = b[i].z - b[j].z;
            double d = dx * dx + dy * dy + dz * dz, m = dt / (d * sqrt(d));
            b[i].vx -= dx * b[j].m * m; b[i].vy -= dy * b[j].m * m; b[i].vz -= dz * b[j].m * m;
            b[j].vx += dx * b[i].m * m; b[j].vy += dy * b[i].m * m; b[j].vz += dz * b[i].m * m;
        }
    for (int i = 0; i < 5; i++) {
        b[i].x += dt * b[i].vx; b[i].y += dt * b[i].vy; b[i].z += dt * b[i].vz;
    }
}
long work(void) {
    for (int i = 0; i < 400000; i++) advance(bodies, 0.0001);
    return (long)(bodies[0].x * 1e9);
}
""",
    "hash": """
static unsigned long hash(const unsigned char *p, int n) {
    unsigned long x = 14695981039346656037UL;
    for (int i = 0; i < n; i++) { x ^= p[i]; x *= 1099511628211UL; }
    return x;
}
static unsigned char buf[65536];
long work(void) {
    unsigned long t = 0;
    for (int i = 0; i < 65536; i++) buf[i] = i * 7;
    for (int r = 0; r < 300; r++) { buf[r]++; t += hash(buf, 65536); }
    return t;
}
""",
    "list": """
#include <stdlib.h>
struct node { struct node *next; long v; };
long work(void) {
    long t = 0;
    for (int r = 0; r < 15; r++) {
        struct node *h = 0;
        for (int i = 0; i < 100000; i++) {
            struct node *k = malloc(sizeof *k);
            k->next = h; k->v = i; h = k;
        }
        for (struct node *k = h; k;) { t += k->v; struct node *q = k->next; free(k); k = q; }
    }
    return t;
}
""",
    "mandel": """
long work(void) {
    long t = 0;
    for (int py = 0; py < 300; py++)
        for (int px = 0; px < 300; px++) {
            double cr = px / 150.0 - 1.5, ci = py / 150.0 - 1, zr = 0, zi = 0;
            int i = 0;
            for (; i < 300 && zr * zr + zi * zi < 4; i++) {
                double q = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = q;
            }
            t += i;
        }
    return t;
}
""",
    "qsort": """
static int a[400000];
static void sort(int *a, int l, int r) {
    while (l < r) {
        int p = a[(l + r) / 2], i = l, j = r;
        while (i <= j) {
            while (a[i] < p) i++;
            while (a[j] > p) j--;
            if (i <= j) { int t = a[i]; a[i] = a[j]; a[j] = t; i++; j--; }
        }
        if (j - l < r - i) { sort(a, l, j); l = i; } else { sort(a, i, r); r = j; }
    }
}
long work(void) {
    unsigned s = 1;
    for (int i = 0; i < 400000; i++) { s = s * 1103515245 + 12345; a[i] = s >> 8; }
    sort(a, 0, 399999);
    return a[1000];
}
""",
    "interp": """
static const unsigned char program[] = {0, 1, 2, 3, 0, 2, 1, 4};
long work(void) {
    long acc = 1, c = 0;
    for (long n = 0; n < 8000000; n++) {
        int pc = 0;
        do {
            switch (program[pc]) {
            case 0: acc += 3; break;
            case 1: acc *= 5; break;
            case 2: acc ^= n; break;
            case 3: acc >>= 1; break;
            case 4: c += acc & 7; break;
            }
        } while (program[pc++] != 4);
    }
    return acc + c;
}
""",
}
