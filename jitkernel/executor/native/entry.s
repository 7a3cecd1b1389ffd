# The executor's runtime, the part that must be written in instructions: entering user code,
# coming back from it in any state, and the ways in from user code.  The .ll files have the rest.
# `$name` is the control word of that name (control.py), relative to the program counter; `$NAME` a
# number (abi.py).
    .intel_syntax noprefix
    .text

# i32 jk_enter(thunk, fn, args, ret): 0 = returned, 1 = recovered, see the record.
    .globl jk_enter
    .p2align 4
jk_enter:
    push rbp
    mov rbp, rsp
    push rbx
    push r12
    push r13
    push r14
    push r15
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
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
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
    .globl jk_exit, jk__exit, jk__Exit, jk_quick_exit, jk_pthread_exit, jk_abort
    .globl jk_stack_chk_fail, jk_raise, jk_on_exit
jk_exit:
    mov esi, $CAUSE_exit
    jmp jk_quit
jk__exit:
    mov esi, $CAUSE__exit
    jmp jk_quit
jk__Exit:
    mov esi, $CAUSE__Exit
    jmp jk_quit
jk_quick_exit:
    mov esi, $CAUSE_quick_exit
    jmp jk_quit
jk_pthread_exit:
    mov esi, $CAUSE_pthread_exit
    jmp jk_quit
jk_abort:
    mov esi, $CAUSE_abort
    jmp jk_quit
jk_stack_chk_fail:
    mov esi, $CAUSE_stack_chk_fail
    jmp jk_quit
# Called by the 16-byte stub of a symbol that nobody defines.
jk_raise:
    mov esi, $CAUSE_undefined
    jmp jk_quit
# Registered with on_exit(): a library is ending the process.
jk_on_exit:
    mov esi, $CAUSE_on_exit
jk_quit:
    cld
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rbp
    push rsi
    push rdi
    mov rdx, rsp
    mov rbx, rsp
    and rsp, -16
    call jk_note
    test eax, eax
    jnz jk_recover
    mov rsp, rbx
    pop rdi
    pop rsi
    pop rbp
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
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
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
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
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
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

# i64 jk_lifeline(stack_top, fd): a thread with descriptors of its own that the C library does not
# know of, all signals blocked; it runs jk_watch(fd).
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
    mov edi, $CLONE_THREAD
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
