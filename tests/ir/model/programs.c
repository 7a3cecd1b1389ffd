// Loops, switches, memory, recursion and arithmetic at the edges; `main` prints what came of it.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct node { int key; struct node *left, *right; } node;

static node pool[64];
static int used;
static volatile int port;

static node *insert(node *tree, int key) {
    if (!tree) {
        node *made = &pool[used++];
        made->key = key;
        return made;
    }
    node **way = key < tree->key ? &tree->left : &tree->right;
    *way = insert(*way, key);
    return tree;
}

static int walk(const node *tree, int depth) {
    return tree ? walk(tree->left, depth + 1) + tree->key * depth + walk(tree->right, depth + 1) : 0;
}

unsigned collatz(unsigned n) {
    unsigned steps = 0;
    while (n != 1 && steps < 1000) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

int edges(int a, int b, unsigned c) {
    unsigned x = a, y = b;
    unsigned r = x * 8 + y * 1073741824u + y * 2147483648u + c / 16 + c % 32;
    r ^= (int)(signed char)(128 + (a & 255)) + (short)(32768 - (b & 255)) + (a > -1) + (c > 0u - 1u);
    r += ((int)0x80000000 >> 31) + (int)(0xFFFFFFFFu >> 4) + (-128 / -1);
    if (b) r += a / ((b & 255) | 1) - a % ((b & 255) | 1);
    return r;
}

long dispatch(const char *text) {
    long value = 0, sign = 1;
    for (; *text; text++)
        switch (*text) {
        case '-': sign = -sign; break;
        case '0': case '1': case '2': case '3': case '4':
        case '5': case '6': case '7': case '8': case '9': value = value * 10 + (*text - '0'); break;
        case '#': goto out;
        default: value ^= *text; /* and on */
        case ' ': value++;
        }
out:
    return sign * value;
}

int matrix(int n) {
    int m[8][8], sum = 0;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) m[i][j] = n * n + i * j;
    for (int k = 0; k < n * 3; k++) {
        if (k % 7 == 5) continue;
        if (sum > 100000) break;
        for (int i = 0; i < 8; i++) sum += m[i][k & 7] * (n * n - 4);
    }
    return sum;
}

int computed(int n) {
    static void *const table[] = { &&add, &&twice, &&end };
    int at = 0, r = n;
next:
    goto *table[(n >> at++) % 3u];
add:
    r += at;
    if (at < 9) goto next;
twice:
    r *= 2;
    if (at < 9) goto next;
end:
    return r;
}

double mean(int count, ...) {
    va_list list;
    va_start(list, count);
    double all = 0;
    for (int i = 0; i < count; i++) all += va_arg(list, double);
    va_end(list);
    return count ? all / count : 0.0;
}

int main(void) {
    node *tree = NULL;
    for (int i = 0; i < 40; i++) tree = insert(tree, i * 37 % 41);
    port = walk(tree, 1);
    int *where = &used;
    int **twice = &where;
    **twice += port > 0;
    printf("%d %d %d\n", port, used, **twice);
    for (unsigned i = 1; i < 30; i += 7) printf("%u ", collatz(i));
    for (int i = -3; i < 4; i++) printf("%d %d %d ", edges(i, i * 3, (unsigned)i), matrix(i), computed(i + 9));
    printf("\n%ld %ld %.3f %s\n", dispatch("-12 x7#9"), dispatch(""), mean(3, 1.0, 2.5, -7.25), "");
    return strlen("end") - 3;
}
