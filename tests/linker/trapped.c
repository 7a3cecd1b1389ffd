/* Runs functions with breakpoints in them, as a child of a fork does: a handler finds the slot of
   the instruction in a table.  Or one instruction at a time, by the trap flag: the oracle.  Both
   note each instruction that begins in a range, with the registers as it begins. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define TF 0x100
#define RF 0x10000
#define STACK (1 << 20)

typedef struct { uint64_t address, slot; } row;
static const row *table;
static uint64_t rows, low, high;

struct result {
    uint64_t rax, xmm0, signal, count, hash, path; /* of all, and of addresses alone */
    uint64_t registers[18]; /* at a fault: those of gregs, up to eflags */
} result;

static uint64_t function, arguments[4], flags, last;
static int running;
static double number;
static ucontext_t outside, inside;
char *stack;
/* What was noted, to tell where two runs part. */
#define NOTED 100000
uint64_t noted[NOTED][2];

static void note(const greg_t *r) {
    uint64_t pc = r[REG_RIP];
    if (pc == last) return; /* again of a rep, or of a jump to itself */
    last = pc;
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < 18; i++) {
        uint64_t v = r[i];
        if (i == REG_R11) continue; /* a system call leaves the flags there */
        if (i == REG_EFL) v &= ~(uint64_t)(TF | RF);
        h = (h ^ v) * 1099511628211u;
        h ^= h >> 29;
    }
    result.hash = (result.hash ^ h) * 1099511628211u;
    result.path = (result.path ^ pc) * 1099511628211u;
    if (result.count < NOTED) {
        noted[result.count][0] = pc;
        noted[result.count][1] = h;
    }
    result.count++;
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (info->si_code == TRAP_TRACE) {
        if ((uint64_t)r[REG_RIP] - low < high - low) note(r);
        return;
    }
    uint64_t at = r[REG_RIP] - 1, from = 0, to = rows;
    while (from < to) {
        uint64_t middle = (from + to) / 2;
        if (table[middle].address < at) from = middle + 1; else to = middle;
    }
    if (from < rows && table[from].address == at) {
        r[REG_RIP] = at;
        note(r);
        r[REG_RIP] = table[from].slot;
        return;
    }
    result.signal = signal; /* the program's own */
    for (int i = 0; i < 18; i++) result.registers[i] = r[i];
    setcontext(&outside);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!running) _exit(98);
    result.signal = signal;
    for (int i = 0; i < 18; i++) result.registers[i] = r[i];
    setcontext(&outside);
}

static void call(void) {
    __asm__ volatile(
        "mov %[function], %%rax\n"
        "mov %[a], %%rdi\n mov %[b], %%rsi\n mov %[c], %%rdx\n mov %[d], %%rcx\n"
        "movsd %[number], %%xmm0\n movsd %[number], %%xmm1\n"
        "xor %%r8d, %%r8d\n xor %%r9d, %%r9d\n xor %%r10d, %%r10d\n xor %%r11d, %%r11d\n"
        "xor %%r12d, %%r12d\n xor %%r13d, %%r13d\n xor %%r14d, %%r14d\n"
        "mov %[flags], %%r15\n"
        "pushfq\n or %%r15, (%%rsp)\n popfq\n mov $0, %%r15\n"
        "mov %%rsp, %%rbx\n and $-16, %%rsp\n call *%%rax\n mov %%rbx, %%rsp\n"
        "pushfq\n andq $~0x100, (%%rsp)\n popfq\n"
        "mov %%rax, %[rax]\n movq %%xmm0, %[xmm0]\n"
        : [rax] "=m"(result.rax), [xmm0] "=m"(result.xmm0)
        : [function] "m"(function), [flags] "m"(flags), [a] "m"(arguments[0]),
          [b] "m"(arguments[1]), [c] "m"(arguments[2]), [d] "m"(arguments[3]),
          [number] "m"(number)
        : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
          "r15", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
          "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

void set_up(void) {
    static const int faults[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    sigaction(SIGTRAP, &action, 0);
    action.sa_sigaction = on_fault;
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) sigaction(faults[i], &action, 0);
    static char own[1 << 16];
    stack_t other = {.ss_sp = own, .ss_size = sizeof own};
    sigaltstack(&other, 0);
    stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Call a function on a stack of zeros. */
void run(uint64_t f, const uint64_t *with, double x, int stepping, uint64_t start, uint64_t stop,
         const row *known, uint64_t count) {
    memset(&result, 0, sizeof result);
    memset(stack + STACK - (64 << 10), 0, 64 << 10);
    function = f, number = x, flags = stepping ? TF : 0, low = start, high = stop, last = 0;
    memcpy(arguments, with, sizeof arguments);
    table = known, rows = count;
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, call, 0);
    running = 1;
    swapcontext(&outside, &inside);
    running = 0;
}
