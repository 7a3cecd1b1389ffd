"""C functions `long f(long a, long b, unsigned char *m, double x)` that between them make compilers
emit most forms of instruction.  They read and write nothing but `m`, 64 KB, and their variables."""

from __future__ import annotations

__all__ = ["PROGRAMS"]

PROGRAMS = {
    "arithmetic": """
        long f(long a, long b, unsigned char *m, double x) {
          unsigned u = a; short s = b; signed char c = a * 3;
          long r = a * b - (a ^ b << 3) + (b >> 2) + u / 7 + s % 5 - ~c;
          r += __builtin_popcountl(r) + __builtin_clzl(r | 1) + (u << 7 | u >> 25);
          __int128 w = (__int128)r * b * 0x123456789abcdef; r ^= w >> 64;
          return r + (a < b) + (u > 9u) * 4 + (long)x;
        }""",
    "loops": """
        static int table[50]; long total;
        long f(long a, long b, unsigned char *m, double x) {
          for (int i = 0; i < 50; i++) table[i] = i * a - b;
          for (int i = 0; i < 50; i += 3) { if (table[i] & 1) continue; total += table[i]; }
          int i = 0; while (m[i] < 20) m[i++] += a; do total ^= m[i--]; while (i > 0);
          return total;
        }""",
    "switches": """
        int seen[8];
        static long g(long n) {
          switch (n & 7) { case 0: seen[0]++; return 5; case 1: return 70000; case 2: seen[2] += 2;
            case 3: return n * n; case 4: return -1; case 5: return n / 3; case 6: seen[6]--;
            default: return n % 10; }
        }
        long f(long a, long b, unsigned char *m, double x) {
          long r = 0; for (long i = 0; i < 8; i++) r = r * 31 + g(i + a) * b; return r;
        }""",
    "calls": """
        static long one(long n) { return n + 1; } static long two(long n) { return n * 2; }
        static long three(long n) { return n ^ 3; }
        long (*table[3])(long) = {one, two, three}; long (*volatile now)(long) = two;
        struct s { long (*call)(long); long n; } s = {three, 4};
        __attribute__((noinline)) static long apply(struct s *p, long n) { return p->call(n) + p->n; }
        __attribute__((noinline)) static long tail(long n) { return table[n % 3](n); }
        long f(long a, long b, unsigned char *m, double x) {
          long r = 0; long (*local[2])(long) = {one, now};
          for (int i = 0; i < 6; i++) r += table[i % 3](r) + local[i & 1](b) + now(i);
          return apply(&s, r) + tail(a & 15);
        }""",
    "recursion": """
        long calls;
        __attribute__((noinline)) long fib(int n) { calls++; return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        __attribute__((noinline)) static int odd(int n);
        __attribute__((noinline)) static int even(int n) { return n ? odd(n - 1) : 1; }
        static int odd(int n) { return n ? even(n - 1) : 0; }
        long f(long a, long b, unsigned char *m, double x) { return fib(6) * 10 + odd(a & 7) + calls; }
        """,
    "floats": """
        double k = 1.25; float h[4] = {1, 2.5f, -3, 4}; double out[4];
        long f(long a, long b, unsigned char *m, double x) {
          double s = 0; for (int i = 0; i < 4; i++) { s += x * h[i] + k; out[i] = s / (i + 1); }
          float t = (float)s * h[1]; unsigned long u = (unsigned long)(s * s);
          long r = s > 3 ? (long)s : (int)t; r += u + (x != x) + (s <= t);
          return r + (long)__builtin_sqrt(s * s) + (long)((double)a / (b | 1)) + (long)__builtin_fabs(-s);
        }""",
    "long double": """
        long double held = 2.5L;
        long f(long a, long b, unsigned char *m, double x) {
          long double v = a; for (int i = 1; i < 5; i++) { v = v * held + i; held /= 1.5L; }
          _Complex double z = x + 2.0i; z = z * z - 1.0;
          return (long)v + (v > 100) + (long)__real__ z;
        }""",
    "structs": """
        #include <string.h>
        struct p { char c; short h; int i; long l; double d; char name[40]; };
        struct p kept[3];
        __attribute__((noinline)) static struct p make(int n) {
          struct p p = {n, n * 2, n * 3, n * 4L, n * .5, "abc"}; p.name[5] = n; return p; }
        __attribute__((noinline)) static long sum(struct p p) { return p.c + p.h + p.i + p.l + (long)p.d; }
        long f(long a, long b, unsigned char *m, double x) {
          for (int i = 0; i < 3; i++) kept[i] = make(a + i);
          memcpy(m + 100, kept, sizeof kept); memset(m + 1000, 7, 300); memmove(m, m + 3, 77);
          struct { unsigned u : 5; int v : 9; long w : 40; } bits = {a, b, a * b};
          bits.w++; bits.v -= 3;
          return sum(kept[2]) + bits.u + bits.v + bits.w + memcmp(m, m + 50, 20) + (long)strlen(kept[1].name);
        }""",
    "goto": """
        long f(long a, long b, unsigned char *m, double x) {
          static void *to[] = {&&add, &&sub, &&mul, &&end}; long r = a; int at = 0;
          static const char code[] = {0, 2, 1, 0, 2, 1, 3};
          goto *to[(int)code[at++]];
          add: r += b; goto *to[(int)code[at++]];
          sub: r -= 7; goto *to[(int)code[at++]];
          mul: r *= 3; goto *to[(int)code[at++]];
          end: return r;
        }""",
    "atomics": """
        int n; long l; _Atomic long c; _Thread_local int mine_not_used;
        long f(long a, long b, unsigned char *m, double x) {
          int r = __sync_val_compare_and_swap(&n, 0, 5) + __sync_fetch_and_add(&n, 3);
          __sync_fetch_and_or(&l, a); __sync_lock_test_and_set(&n, 9); c += b; c ^= 3;
          __sync_synchronize();
          return r + n + l + c + __sync_bool_compare_and_swap(&l, a, b);
        }""".replace(" _Thread_local int mine_not_used;", ""),
    "vectors": """
        typedef int V __attribute__((vector_size(16))); typedef float W __attribute__((vector_size(32)));
        V held = {1, 2, 3, 4}; W wide = {1, 2, 3, 4, 5, 6, 7, 8}; short s[64];
        long f(long a, long b, unsigned char *m, double x) {
          V v = {a, b, 5, 6}; held = held * v + (v << 2) - (v > 3); wide = wide * (float)x + wide;
          for (int i = 0; i < 64; i++) s[i] = m[i] * 3 + i; long t = 0;
          for (int i = 0; i < 64; i++) t += s[i] * (long)m[64 + i];
          return t + held[0] + held[3] + (long)wide[7];
        }""",
    "variadic": """
        #include <stdarg.h>
        __attribute__((noinline)) static long sum(int n, ...) {
          va_list l; va_start(l, n); long r = 0;
          while (n-- > 0) { r += va_arg(l, long); r += (long)va_arg(l, double); } va_end(l); return r; }
        long f(long a, long b, unsigned char *m, double x) {
          return sum(6, a, x, b, 2.5, 3L, x * 2, 4L, 1.0, 5L, 9.0, 6L, 11.0);
        }""",
    "library": """
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static int by(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
        long f(long a, long b, unsigned char *m, double x) {
          int n[9]; for (int i = 0; i < 9; i++) n[i] = (i * 37 + (int)a) % 11;
          qsort(n, 9, sizeof *n, by);
          int size = snprintf((char *)m, 200, "%ld %d %.3f %s", a, n[4], x, "text");
          return size + n[0] + 100 * n[8] + strtol((char *)m, 0, 10) + abs((int)b);
        }""",
    "stack": """
        __attribute__((noinline)) static long use(volatile char *p, long n) { p[n - 1] = 3; return p[n - 1] + n; }
        long f(long a, long b, unsigned char *m, double x) {
          volatile char big[9000]; big[8999] = 4; long r = use(big, 8000);
          for (int i = 1; i < 4; i++) { volatile char v[i * 40]; r += use(v, i * 40); }
          char *p = __builtin_alloca((a & 31) + 16); r += use(p, 16);
          return r + big[8999];
        }""",
    "strings": """
        static const char *words[] = {"one", "two", "three", "four"}; char text[100];
        long f(long a, long b, unsigned char *m, double x) {
          char *out = text;
          for (int i = 0; i < 4; i++) { for (const char *p = words[(i + a) & 3]; *p; p++) *out++ = *p ^ 32; *out++ = ' '; }
          long h = 5381; for (char *p = text; p < out; p++) h = h * 33 + *p;
          for (char *p = text, *q = out - 1; p < q; p++, q--) { char t = *p; *p = *q; *q = t; }
          return h ^ (out - text);
        }""",
}
