

struct node { int value; struct node *next; };

static int twice(int x) {
    return 2 * x;
}

int total(const struct node *n) {
    int sum = 0;
    while (n) {
        sum += twice(n->value);
        n = n->next;
    }
    return sum;
}

int first(const struct node *n) {
    int v = n->value;
    return v + 1;
}
