"""Values of C as they are shown: each text gives the same value when it is typed."""

from __future__ import annotations

import pytest

pytest.importorskip("ziglang")

DECLARED = r"""
#include <stdio.h>
#include <stdint.h>
#include <stdbool.h>
#include <complex.h>
#include <math.h>
#include <stddef.h>
#include <wchar.h>
struct pt {int x; double y;};
struct pt p = {1, 2.5};
struct nest {struct pt a; int b[2]; char name[8]; struct pt *link;};
struct nest n = {{3, 4}, {5, 6}, "abc", &p};
union num {int i; float f; double d;};
union num u = {.d = 1.5};
enum color {RED, GREEN, BLUE};
enum fl {X1 = 1, X2 = 2, X4 = 4};
struct bits {unsigned a:3; int b:5; _Bool c:1; enum color k:2;};
struct bits bf = {5, -3, 1, BLUE};
int arr[3] = {1, 2, 3};
int m[2][3] = {{1, 2, 3}, {4, 5, 6}};
int big[1000] = {7, 8};
const char *s = "hey";
char buf[16] = "buf";
int inc(int x) { return x + 1; }
int (*fp)(int) = inc;
int *ip = &arr[1];
typedef struct {short h; long l;} anon_t;
anon_t an = {1, 2};
typedef int myint;
myint mi = 9;
int fam_n = 3;
struct list {int v; struct list *next;};
struct list l2 = {2, 0}, l1 = {1, &l2};
volatile int vol = 4;
const double pi = 3.14159;
_Bool flag = 1;
long double ld = 0.1L;
float complex fc = 1.0f + 2.0if;
__int128 big128 = ((__int128)1 << 100);
unsigned __int128 ub128 = ~(unsigned __int128)0;
typedef float v4 __attribute__((vector_size(16)));
v4 vec = {1, 2, 3, 4};
void *vp = &p;
char nonutf[3] = {(char)0xff, 'a', 0};
struct pt ps[2] = {{1, 1}, {2, 2}};
"""

# fmt: off
SHOWN = [
    ('1', '(int) 1'),
    ('-1', '(int) -1'),
    ('1u', '(unsigned int) 1'),
    ('1L', '(long) 1'),
    ('1UL', '(unsigned long) 1'),
    ('1LL', '(long long) 1'),
    ('0x7fffffffffffffffLL', '(long long) 9223372036854775807'),
    ('18446744073709551615ULL', '(unsigned long long) 18446744073709551615'),
    ("(char)'a'", "(char) 'a'"),
    ("'a'", '(int) 97'),
    ("(char)'\\n'", "(char) '\\n'"),
    ('(char)0', "(char) '\\000'"),
    ('(char)200', "(char) '\\310'"),
    ('(signed char)-5', '(signed char) -5'),
    ('(unsigned char)250', '(unsigned char) 250'),
    ('(short)-7', '(short) -7'),
    ('(unsigned short)65535', '(unsigned short) 65535'),
    ('1.0', '(double) 1.0'),
    ('0.1', '(double) 0.1'),
    ('1e300', '(double) 1e+300'),
    ('1e-300', '(double) 1e-300'),
    ('-0.0', '(double) -0.0'),
    ('1.0/3', '(double) 0.3333333333333333'),
    ('0.1f', '(float) 0.1'),
    ('1.0f/3', '(float) 0.33333334'),
    ('3.4e38f', '(float) 3.4e+38'),
    ('1e-45f', '(float) 1e-45'),
    ('(float)16777217', '(float) 16777216.0'),
    ('INFINITY', '(float) INFINITY'),
    ('-INFINITY', '(float) -INFINITY'),
    ('0.1L', '(long double) 0.1L'),
    ('1.0L/3', '(long double) 0.33333333333333333334L'),
    ('ld', '(long double) 0.1L'),
    ('1e4000L', '(long double) 1e+4000L'),
    ('(_Float16)0.1', '(_Float16) 0.1'),
    ('true', '(int) 1'),
    ('(_Bool)0', '(_Bool) false'),
    ('(bool)5', '(_Bool) true'),
    ('flag', '(_Bool) true'),
    ('NULL', '(void *) NULL'),
    ('(int *)0', '(int *) NULL'),
    ('p', '(struct pt) {.x = 1, .y = 2.5}'),
    ('&p', '(struct pt *) &p'),
    ('p.x', '(int) 1'),
    ('p.y', '(double) 2.5'),
    ('n', '(struct nest) {.a = {.x = 3, .y = 4.0}, .b = {5, 6}, .name = "abc", .link = &p}'),
    ('n.a', '(struct pt) {.x = 3, .y = 4.0}'),
    ('n.b', '(int[2]) {5, 6}'),
    ('n.name', '(char[8]) "abc"'),
    ('n.link', '(struct pt *) &p'),
    ('&n.a', '(struct pt *) &n'),
    ('&n.b[1]', '(int *) (void *)((char *)&n + 20)'),
    ('u', '(union num) {.i = 0, .f = 0.0, .d = 1.5}'),
    ('u.d', '(double) 1.5'),
    ('bf', '(struct bits) {.a = 5, .b = -3, .c = true, .k = BLUE}'),
    ('bf.a', '(unsigned int) 5'),
    ('bf.b', '(int) -3'),
    ('bf.c', '(_Bool) true'),
    ('bf.k', '(enum color) BLUE'),
    ('arr', '(int[3]) {1, 2, 3}'),
    ('&arr', '(int (*)[3]) &arr'),
    ('arr[1]', '(int) 2'),
    ('&arr[2]', '(int *) (void *)((char *)&arr + 8)'),
    ('m', '(int[2][3]) {{1, 2, 3}, {4, 5, 6}}'),
    ('m[1]', '(int[3]) {4, 5, 6}'),
    ('big', '(int[1000]) {7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 976 more */ 0, 0, 0, 0}'),
    ('s', '(const char *) "hey"'),
    ('*s', "(char) 'h'"),
    ('s[1]', "(char) 'e'"),
    ('buf', '(char[16]) "buf"'),
    ('&buf', '(char (*)[16]) &buf'),
    ('"lit"', '(char[4]) "lit"'),
    ('"q\\"uote\\n\\ttab\\\\"', '(char[13]) "q\\"uote\\n\\ttab\\\\"'),
    ('"é"', '(char[3]) "é"'),
    ('""', '(char[1]) ""'),
    ('(char[8]){0}', '(char[8]) ""'),
    ('(char[2][3]){0}', '(char[2][3]) {"", ""}'),
    ('(char[2][3]){"ab", {1, 2}}', '(char[2][3]) {"ab", {\'\\001\', \'\\002\', \'\\000\'}}'),
    ('fp', '(int (*)(int)) inc'),
    ('inc', 'int inc(int)'),
    ('&inc', '(int (*)(int)) inc'),
    ('*fp', 'int inc(int)'),
    ('inc(4)', '(int) 5'),
    ('ip', '(int *) (void *)((char *)&arr + 4)'),
    ('*ip', '(int) 2'),
    ('an', '(anon_t) {.h = 1, .l = 2}'),
    ('&an', '(anon_t *) &an'),
    ('mi', '(myint) 9'),
    ('(myint)3', '(myint) 3'),
    ('RED', '(int) 0'),
    ('(enum color)BLUE', '(enum color) BLUE'),
    ('(enum color)7', '(enum color) 7'),
    ('(enum fl)(X1 | X4)', '(enum fl) X1 | X4'),
    ('(enum fl)0', '(enum fl) 0'),
    ('l1', '(struct list) {.v = 1, .next = &l2}'),
    ('l1.next', '(struct list *) &l2'),
    ('*l1.next', '(struct list) {.v = 2, .next = NULL}'),
    ('vol', '(int) 4'),
    ('pi', '(double) 3.14159'),
    ('&pi', '(const double *) &pi'),
    ('fc', '(float _Complex) 1.0f + 2.0fi'),
    ('1.0 + 2.0i', '(double _Complex) 1.0 + 2.0i'),
    ('-1.5 - 2.5i', '(double _Complex) -1.5 - 2.5i'),
    ('big128', '(__int128) 1267650600228229401496703205376wb'),
    ('-big128', '(__int128) -1267650600228229401496703205376wb'),
    ('ub128', '(unsigned __int128) 340282366920938463463374607431768211455wb'),
    ('vec', '(v4) {1.0, 2.0, 3.0, 4.0}'),
    ('vp', '(void *) &p'),
    ('(void *)arr', '(void *) &arr'),
    ('nonutf', '(char[3]) "\\377a"'),
    ('ps', '(struct pt[2]) {{.x = 1, .y = 1.0}, {.x = 2, .y = 2.0}}'),
    ('ps[1]', '(struct pt) {.x = 2, .y = 2.0}'),
    ('sizeof(int)', '(unsigned long) 4'),
    ('sizeof p', '(unsigned long) 16'),
    ('offsetof(struct pt, y)', '(unsigned long) 8'),
    ('(struct pt){7, 8}', '(struct pt) {.x = 7, .y = 8.0}'),
    ('(int[2]){9, 10}', '(int[2]) {9, 10}'),
    ("(char[4]){'a', 'b'}", '(char[4]) "ab"'),
    ('L"wide"', '(int[5]) {119, 105, 100, 101, 0}'),
    ("L'x'", '(int) 120'),
    ('u"u16"', '(unsigned short[4]) {117, 49, 54, 0}'),
    ('1 ? 2 : 3', '(int) 2'),
    ('(1, 2)', '(int) 2'),
    ('arr + 1', '(int *) (void *)((char *)&arr + 4)'),
    ('&arr[3] - arr', '(long) 3'),
    ('(uintptr_t)0', '(uintptr_t) 0'),
    ('(int8_t)-1', '(int8_t) -1'),
    ('(uint64_t)1', '(uint64_t) 1'),
    ('(size_t)2', '(size_t) 2'),
    ('(wchar_t)65', '(wchar_t) 65'),
    ('sqrt(2)', '(double) 1.4142135623730951'),
    ('cexp(0)', '(double _Complex) 1.0 + 0.0i'),
    ('!5', '(int) 0'),
    ('~0', '(int) -1'),
    ('1 << 4', '(int) 16'),
    ('5 % 3', '(int) 2'),
    ('arr[0] == 1', '(int) 1'),
    ('(volatile int)3', '(int) 3'),
    ('(const char *)s', '(const char *) "hey"'),
    ('&s', '(const char **) &s'),
    ('&fp', '(int (**)(int)) &fp'),
    ('(int (*)(int))0', '(int (*)(int)) NULL'),
    ('_Generic(1, int: 10, default: 20)', '(int) 10'),
    ('__builtin_popcount(255)', '(int) 8'),
    ('({ int t = 4; t * 2; })', '(int) 8'),
    ('(union num){.i = 3}', '(union num) {.i = 3, .f = 4e-45, .d = 1.5e-323}'),
    ('(struct bits){1, 2, 0, RED}', '(struct bits) {.a = 1, .b = 2, .c = false, .k = RED}'),
    ('(struct list){5, &l1}', '(struct list) {.v = 5, .next = &l1}'),
    ('&l1.next->v', '(int *) &l2'),
    ('(v4){0.5f, 0, 0, 0}', '(v4) {0.5, 0.0, 0.0, 0.0}'),
    ('(long double)1', '(long double) 1.0L'),
    ('(double)1e22', '(double) 1e+22'),
    ('123456789.0f', '(float) 123456790.0'),
    ('1e16', '(double) 1e+16'),
    ('(enum fl)8', '(enum fl) 8'),
]
# fmt: on


@pytest.fixture(scope="module")
def program(shared):
    shared.reset()
    shared.run(DECLARED, "c")
    return shared


@pytest.mark.parametrize(("expression", "shown"), SHOWN)
def test_a_value_is_shown_and_can_be_typed_back(program, expression, shown):
    assert program.run(expression, "c").text == shown
    if not shown.startswith("int inc"):  # a function's declaration
        assert program.run(shown, "c").text == shown


def test_an_array_of_arrays_has_a_row_a_line(program):
    program.run("int m[8][8] = {{1, 2, 3}}; int small[2][2] = {{1, 2}, {3, 4}};", "c")
    program.run("int deep[2][3][9]; double many[40][4];", "c")
    shown = program.run("m", "c").text
    assert shown.splitlines()[:3] == [
        "(int[8][8]) {",
        "  {1, 2, 3, 0, 0, 0, 0, 0},",
        "  {0, 0, 0, 0, 0, 0, 0, 0},",
    ]
    assert len(shown.splitlines()) == 10 and shown.endswith("\n}")
    assert program.run("small", "c").text == "(int[2][2]) {{1, 2}, {3, 4}}"
    deep = program.run("deep", "c").text.splitlines()
    assert len(deep) == 4 and deep[1].startswith("  {{0, 0")
    many = program.run("many", "c").text.splitlines()
    assert len(many) == 26 and many[21].startswith("  /* 16 more */ {0.0")
    for name, shape in (("m", "8][8"), ("deep", "2][3][9")):
        text = program.run(name, "c").text.partition(") ")[2]
        program.run(f"int again_{name}[{shape}] = {text};", "c")
        assert program.run(f"again_{name}", "c").text == program.run(name, "c").text


def test_a_union_shows_all_its_members(program):
    program.run("union u { float f; int i; unsigned char bytes[4]; } u = {1.5f};", "c")
    shown = "(union u) {.f = 1.5, .i = 1069547520, .bytes = {0, 0, 192, 63}}"
    assert program.run("u", "c").text == shown
    program.run("struct tagged { int tag; union { int i; double d; }; } t = {1, {.d = 2.5}};", "c")
    assert program.run("t", "c").text == "(struct tagged) {.tag = 1, {.i = 0, .d = 2.5}}"
