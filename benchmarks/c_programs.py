"""Twenty small programs of C, each a function `long work(void)`.  Start from `PROGRAMS`.

What a compiler is good or bad at: calls, loops over arrays, vectors, branches, pointers, the heap.
"""

from __future__ import annotations

import re

from jitkernel.languages.c.pieces import cut
from jitkernel.languages.c.tokens import Unfinished

__all__ = ["HEADERS", "PROGRAMS", "TIMED", "in_cells", "main_renamed", "names"]

#: Milliseconds of processor time that one call of `work` takes.
TIMED = """
#include <time.h>
static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
double timed(void) {
    double before = milliseconds();
    volatile long result = work();
    (void)result;
    return milliseconds() - before;
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
    "life": """
#define W 256
static unsigned char now[W][W], next[W][W];
static int at(int x, int y) { return now[y & (W - 1)][x & (W - 1)]; }
static int around(int x, int y) {
    return at(x - 1, y - 1) + at(x, y - 1) + at(x + 1, y - 1) + at(x - 1, y) + at(x + 1, y)
        + at(x - 1, y + 1) + at(x, y + 1) + at(x + 1, y + 1);
}
static int lives(int x, int y) { int n = around(x, y); return n == 3 || (n == 2 && at(x, y)); }
static void step(void) {
    for (int y = 0; y < W; y++) for (int x = 0; x < W; x++) next[y][x] = lives(x, y);
    for (int y = 0; y < W; y++) for (int x = 0; x < W; x++) now[y][x] = next[y][x];
}
long work(void) {
    long t = 0;
    for (int y = 0; y < W; y++) for (int x = 0; x < W; x++) now[y][x] = (x * 7 + y * 13) % 5 == 0;
    for (int i = 0; i < 60; i++) step();
    for (int y = 0; y < W; y++) for (int x = 0; x < W; x++) t += now[y][x];
    return t;
}
""",
    "vec3": """
struct vec { double x, y, z; };
static struct vec vec(double x, double y, double z) { struct vec v = {x, y, z}; return v; }
static struct vec add(struct vec a, struct vec b) { return vec(a.x + b.x, a.y + b.y, a.z + b.z); }
static struct vec scale(struct vec a, double k) { return vec(a.x * k, a.y * k, a.z * k); }
static double dot(struct vec a, struct vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static struct vec cross(struct vec a, struct vec b) {
    return vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
long work(void) {
    struct vec p = vec(1, 2, 3), q = vec(0.5, -0.25, 0.125);
    double t = 0;
    for (int i = 0; i < 5000000; i++) {
        p = add(scale(p, 0.999), scale(cross(p, q), 0.01));
        q = add(scale(q, 0.998), vec(0.001, 0.002, 0.003));
        t += dot(p, q);
    }
    return (long)t;
}
""",
    "jacobi": """
#define N 512
const double QUARTER = 0.25;
static double u[N * N], v[N * N];
static int index(int i, int j) { return i * N + j; }
static double mean(const double *g, int i, int j) {
    return QUARTER
        * (g[index(i - 1, j)] + g[index(i + 1, j)] + g[index(i, j - 1)] + g[index(i, j + 1)]);
}
static void sweep(double *restrict to, const double *restrict from) {
    for (int i = 1; i < N - 1; i++)
        for (int j = 1; j < N - 1; j++) to[index(i, j)] = mean(from, i, j);
}
long work(void) {
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) u[index(i, j)] = v[index(i, j)] = i ^ j;
    for (int r = 0; r < 60; r++) { sweep(v, u); sweep(u, v); }
    return (long)(u[index(100, 100)] * 1000);
}
""",
    "sha256": """
#include <stdint.h>
static const uint32_t K[16] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174};
static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }
static uint32_t choose(uint32_t x, uint32_t y, uint32_t z) { return (x & y) ^ (~x & z); }
static uint32_t most(uint32_t x, uint32_t y, uint32_t z) { return (x & y) ^ (x & z) ^ (y & z); }
static uint32_t big0(uint32_t x) { return turn(x, 2) ^ turn(x, 13) ^ turn(x, 22); }
static uint32_t big1(uint32_t x) { return turn(x, 6) ^ turn(x, 11) ^ turn(x, 25); }
static void mix(uint32_t *h, const uint32_t *w) {
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
    for (int i = 0; i < 64; i++) {
        uint32_t x = k + big1(e) + choose(e, f, g) + K[i & 15] + w[i & 15];
        uint32_t y = big0(a) + most(a, b, c);
        k = g; g = f; f = e; e = d + x; d = c; c = b; b = a; a = x + y;
    }
    h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += k;
}
long work(void) {
    uint32_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[16];
    for (int r = 0; r < 60000; r++) {
        for (int i = 0; i < 16; i++) w[i] = r * 31 + i;
        mix(h, w);
    }
    return h[0] ^ h[7];
}
""",
    "edit": """
#include <string.h>
static int least(int a, int b, int c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }
static int cost(char a, char b) { return a != b; }
static int distance(const char *a, int n, const char *b, int m) {
    static int row[2][600];
    for (int j = 0; j <= m; j++) row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i & 1], *was = row[~i & 1];
        now[0] = i;
        for (int j = 1; j <= m; j++)
            now[j] = least(was[j] + 1, now[j - 1] + 1, was[j - 1] + cost(a[i - 1], b[j - 1]));
    }
    return row[n & 1][m];
}
long work(void) {
    char a[500], b[500];
    long t = 0;
    for (int r = 0; r < 30; r++) {
        for (int i = 0; i < 500; i++) { a[i] = 'a' + i * r % 17; b[i] = 'a' + i * (r + 3) % 19; }
        t += distance(a, 500, b, 500);
    }
    return t;
}
""",
    "trees": """
#include <stdlib.h>
struct tree { struct tree *left, *right; };
static struct tree *leaf(struct tree *l, struct tree *r) {
    struct tree *t = malloc(sizeof *t);
    t->left = l; t->right = r;
    return t;
}
static struct tree *grow(int depth) {
    return depth ? leaf(grow(depth - 1), grow(depth - 1)) : leaf(0, 0);
}
static int count(const struct tree *t) { return t->left ? 1 + count(t->left) + count(t->right) : 1; }
static void fell(struct tree *t) { if (t->left) { fell(t->left); fell(t->right); } free(t); }
long work(void) {
    long n = 0;
    for (int i = 0; i < 40; i++) { struct tree *t = grow(13); n += count(t); fell(t); }
    return n;
}
""",
    "spectral": """
double sqrt(double);
static double entry(int i, int j) { return 1.0 / ((i + j) * (i + j + 1) / 2 + i + 1); }
static void times(int n, const double *v, double *to) {
    for (int i = 0; i < n; i++) {
        double t = 0;
        for (int j = 0; j < n; j++) t += entry(i, j) * v[j];
        to[i] = t;
    }
}
static void turned(int n, const double *v, double *to) {
    for (int i = 0; i < n; i++) {
        double t = 0;
        for (int j = 0; j < n; j++) t += entry(j, i) * v[j];
        to[i] = t;
    }
}
static double u[400], v[400], w[400];
long work(void) {
    for (int i = 0; i < 400; i++) u[i] = 1;
    for (int r = 0; r < 5; r++) {
        times(400, u, w); turned(400, w, v);
        times(400, v, w); turned(400, w, u);
    }
    double a = 0, b = 0;
    for (int i = 0; i < 400; i++) { a += u[i] * v[i]; b += v[i] * v[i]; }
    return (long)(sqrt(a / b) * 1e9);
}
""",
    "random": """
static unsigned state = 12345;
static unsigned draw(void) { state ^= state << 13; state ^= state >> 17; return state ^= state << 5; }
static double uniform(void) { return draw() / 4294967296.0; }
static int inside(double x, double y) { return x * x + y * y < 1; }
static long tries(long n) {
    long hits = 0;
    for (long i = 0; i < n; i++) hits += inside(uniform(), uniform());
    return hits;
}
long work(void) { return tries(5000000); }
""",
}


def main_renamed(source: str) -> tuple[str, str]:
    """A program with its `main` called `whole`, and a function `long work(void)` that runs it and
    throws away what it prints."""
    head = re.search(r"\bmain\s*\(([^)]*)\)", source)
    if head is None:
        raise ValueError("it has no main")
    arguments = "" if head[1].strip() in ("", "void") else '1, (char *[]){(char *)"whole", 0}'
    text = re.sub(r"\bmain\s*\(", "whole(", source)
    return text, (
        "#include <stdio.h>\n"
        'long work(void) { FILE *kept = stdout; stdout = fopen("/dev/null", "w"); '
        f"whole({arguments}); fclose(stdout); stdout = kept; return 0; }}"
    )


def in_cells(source: str) -> list[str]:
    """One cell for each top-level declaration; what stands between `#if` and `#endif` is one."""
    found: list[str] = []
    rest: list[str] = []
    group: list[str] = []
    depth = braces = 0

    def flush() -> None:
        text = "\n".join(rest)
        rest.clear()
        try:
            found.extend(piece.text for piece in cut(text))
        except Unfinished:
            found.append(text)

    for line in source.split("\n"):
        word = m[1] if (m := re.match(r"\s*#\s*(\w+)", line)) else ""
        if group or (braces == 0 and word in ("if", "ifdef", "ifndef")):
            if not group:
                flush()
            group.append(line)
            depth += (word in ("if", "ifdef", "ifndef")) - (word == "endif")
            if not depth:
                found.append("\n".join(group))
                group.clear()
            continue
        rest.append(line)
        plain = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|//.*|/\*.*?\*/', "", line)
        braces += plain.count("{") - plain.count("}")
    rest.extend(group)
    flush()
    return [cell for cell in found if cell.strip()]
