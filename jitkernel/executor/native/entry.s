# The executor's runtime, the part that must be written in instructions: entering user code,
# coming back from it in any state, and the ways in from user code.  The .ll files have the rest.
# `$name` is the control word of that name (abi.py), relative to the program counter; `$NAME` a
# number (abi.py).
    .intel_syntax noprefix
    .text

# i32 jk_plain(thunk, fn, args, ret): the same as jk_enter, which follows, in a process that keeps
# its own handlers of signals.
    .globl jk_plain
    .p2align 4
jk_plain:
    push rbp
    mov rbp, rsp
    .irp register, rbx, r12, r13, r14, r15
    push \register
    .endr
    sub rsp, 8
    mov rax, rdi
    stmxcsr dword ptr [$mxcsr]
    fnstcw word ptr [$x87cw]
    mov qword ptr [$saved_rsp], rsp
    mov qword ptr [$running], 1
    mov rdi, rsi
    mov rsi, rdx
    mov rdx, rcx
    call rax
    cld
    xor eax, eax
    jmp jk_restore

# i32 jk_enter(thunk, fn, args, ret): 0 = returned, 1 = recovered, see the record.
    .globl jk_enter
    .p2align 4
jk_enter:
    push rbp
    mov rbp, rsp
    .irp register, rbx, r12, r13, r14, r15
    push \register
    .endr
    sub rsp, 8
    mov rbx, rdi
    mov r12, rsi
    mov r13, rdx
    mov r14, rcx
    call jk_arm
    stmxcsr dword ptr [$mxcsr]
    fnstcw word ptr [$x87cw]
    mov qword ptr [$saved_rsp], rsp
    mov qword ptr [$running], 1
    mov rdi, r12
    mov rsi, r13
    mov rdx, r14
    call rbx
    cld
    emms
    call jk_leave
    xor eax, eax
jk_restore:
    add rsp, 8
    .irp register, r15, r14, r13, r12, rbx, rbp
    pop \register
    .endr
    ret

# Where a signal handler sends the thread of a cell that is over.  The floating-point units, the
# direction flag and the signal mask are in any state; `running` is off already.
    .globl jk_recover
    .p2align 4
jk_recover:
    cld
    fninit
    fldcw word ptr [$x87cw]
    ldmxcsr dword ptr [$mxcsr]
    cmp dword ptr [$has_avx], 0
    je 1f
    vzeroupper
1:  mov rsp, qword ptr [$saved_rsp]
    call jk_settle
    mov eax, 1
    jmp jk_restore

# What session code gets for the functions that end a process.  esi: the cause.
# On the thread of a cell they end the cell; elsewhere they are the library's own.
    .macro ends name, cause
    .globl jk_\name
jk_\name:
    mov esi, \cause
    jmp jk_quit
    .endm
    ends exit, $CAUSE_exit
    ends _exit, $CAUSE__exit
    ends _Exit, $CAUSE__Exit
    ends quick_exit, $CAUSE_quick_exit
    ends pthread_exit, $CAUSE_pthread_exit
    ends abort, $CAUSE_abort
    ends __stack_chk_fail, $CAUSE_stack_chk_fail
# Called by the 16-byte stub of a symbol that nobody defines.
    ends raise, $CAUSE_undefined
# A function of Python's that it called has failed, in the kernel process: the call of the session
# ends; where there is none the program goes on with zeros.
    ends fail, $CAUSE_on_exit
# Registered with on_exit(): a library is ending the process.
    ends on_exit, $CAUSE_on_exit
jk_quit:
    cld
    .irp register, r15, r14, r13, r12, rbx, rbp, rsi, rdi
    push \register
    .endr
    mov rdx, rsp
    mov rbx, rsp
    and rsp, -16
    call jk_note
    test eax, eax
    jnz jk_recover
    mov rsp, rbx
    .irp register, rdi, rsi, rbp, rbx, r12, r13, r14, r15
    pop \register
    .endr
    cmp esi, $CAUSE_on_exit
    je 1f
    cmp esi, $CAUSE_undefined
    jne 2f
    mov esi, $CAUSE_abort
2:  lea rax, [$libc_exit]
    jmp qword ptr [rax + 8*rsi - 8]
1:  ret

# A child that returned from its cell on the parent's stack would leave none for the parent: POSIX
# allows that vfork be fork.
    .globl jk_vfork
jk_vfork:
    jmp qword ptr [$libc_fork]

# Called by the 16-byte stub of code that is not in memory: as if the call had reached that code.
# Whatever may hold an argument, or is the caller's, stays as it is: the general registers here, the
# vector and floating-point state by xsave (SDM volume 1, 13.4: a 64-byte header after the legacy
# area, zero where nothing was saved before).
    .globl jk_wake
    .p2align 4
jk_wake:
    push rbp
    mov rbp, rsp
    pushfq
    .irp register, rax, rbx, rcx, rdx, rsi, rdi, r8, r9, r10, r11
    push \register
    .endr
    cld
    sub rsp, qword ptr [$xsave_size]
    and rsp, -64
    cmp qword ptr [$has_xsave], 0
    je 1f
    lea rdi, [rsp + 512]
    mov ecx, 8
    xor eax, eax
    rep stosq
    mov eax, -1
    mov edx, -1
    xsave [rsp]
    jmp 2f
1:  fxsave [rsp]
2:  mov rdi, qword ptr [rbp + 8]
    sub rdi, 5
    call jk_fetch
    mov rbx, rax
    cmp qword ptr [$has_xsave], 0
    je 3f
    mov eax, -1
    mov edx, -1
    xrstor [rsp]
    jmp 4f
3:  fxrstor [rsp]
4:  test rbx, rbx
    jz 5f
    mov qword ptr [rbp + 8], rbx
5:  lea rsp, [rbp - 88]
    .irp register, r11, r10, r9, r8, rdi, rsi, rdx, rcx
    pop \register
    .endr
    test rbx, rbx
    pop rbx
    pop rax
    jz 6f
    popfq
    pop rbp
    ret
6:  popfq
    pop rbp
    jmp jk_raise

# i64 jk_xsave_size(): bytes that xsave writes for what the system has enabled (cpuid leaf 13); 0
# where there is no xsave (leaf 1, ecx bit 27).
    .globl jk_xsave_size
jk_xsave_size:
    push rbx
    mov eax, 1
    xor ecx, ecx
    cpuid
    xor eax, eax
    bt ecx, 27
    jnc 1f
    mov eax, 13
    xor ecx, ecx
    cpuid
    mov eax, ebx
1:  pop rbx
    ret

# i64 jk_has_avx(): cpuid leaf 1, ecx: OSXSAVE and AVX, as AVX2 code checks before it runs.
    .globl jk_has_avx
jk_has_avx:
    push rbx
    mov eax, 1
    xor ecx, ecx
    cpuid
    shr ecx, 27
    xor eax, eax
    and ecx, 3
    cmp ecx, 3
    sete al
    pop rbx
    ret

# The end of a signal handler (psABI: the kernel's restorer; debuggers know these bytes).
    .p2align 4
    .globl jk_restorer
jk_restorer:
    mov rax, $SYS_rt_sigreturn
    syscall

# i64 jk_lifeline(stack_top, fd): a thread that the C library does not know of, all signals blocked;
# it runs jk_watch(fd).
    .globl jk_lifeline
    .p2align 4
jk_lifeline:
    push rbx
    sub rsp, 16
    mov rbx, rsi
    mov r9, rdi
    mov qword ptr [rsp], -1
    mov eax, $SYS_rt_sigprocmask
    mov edi, $SIG_SETMASK
    mov rsi, rsp
    lea rdx, [rsp + 8]
    mov r10d, $SIGSET_SIZE
    syscall
    mov eax, $SYS_clone
    mov edi, $CLONE_THREAD_FLAGS
    mov rsi, r9
    xor edx, edx
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jz 1f
    mov rbx, rax
    mov eax, $SYS_rt_sigprocmask
    mov edi, $SIG_SETMASK
    lea rsi, [rsp + 8]
    xor edx, edx
    mov r10d, $SIGSET_SIZE
    syscall
    mov rax, rbx
    add rsp, 16
    pop rbx
    ret
1:  mov rdi, rbx
    xor ebp, ebp
    call jk_watch
    hlt
    .att_syntax
