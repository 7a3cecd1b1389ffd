; What surrounds user code: the handlers installed, output flushed, a forked child ended; and the
; text zone's lock.  entry.s has jk_enter itself.

; Install a handler (0: the default action) for a signal, every signal blocked while it runs.
define internal void @handle(i64 %signal, i64 %handler) #0 {
  %act = alloca [4 x i64], align 8
  store i64 %handler, ptr %act
  %flags = getelementptr i64, ptr %act, i64 1
  store i64 $SA_FLAGS, ptr %flags
  %restorer = getelementptr i64, ptr %act, i64 2
  store i64 ptrtoint (ptr @jk_restorer to i64), ptr %restorer
  %mask = getelementptr i64, ptr %act, i64 3
  store i64 -1, ptr %mask
  %a = ptrtoint ptr %act to i64
  %r = call i64 @sys(i64 $SYS_rt_sigaction, i64 %signal, i64 %a, i64 0, i64 $SIGSET_SIZE, i64 0, i64 0)
  ret void
}

; A handler of the program's runs session code on whatever thread its signal meets.  It must not
; while that code is written, nor while that thread has a turn (wake.ll) that the handler may want.

; Block or unblock signals, or set which are blocked; those that were before.
define internal i64 @mask_signals(i64 %how, i64 %signals) #0 {
  %set = alloca i64, align 8
  %old = alloca i64, align 8
  store volatile i64 %signals, ptr %set
  store volatile i64 0, ptr %old
  %s = ptrtoint ptr %set to i64
  %o = ptrtoint ptr %old to i64
  %r = call i64 @sys(i64 $SYS_rt_sigprocmask, i64 %how, i64 %s, i64 %o, i64 $SIGSET_SIZE, i64 0, i64 0)
  %was = load volatile i64, ptr %old
  ret i64 %was
}

; What every entry renews, whatever the last cell did to signals.
define dso_local void @jk_arm() #0 {
  %h = ptrtoint ptr @jk_handler to i64
  call void @handle(i64 $SIGSEGV, i64 %h)
  call void @handle(i64 $SIGBUS, i64 %h)
  call void @handle(i64 $SIGFPE, i64 %h)
  call void @handle(i64 $SIGILL, i64 %h)
  call void @handle(i64 $SIGTRAP, i64 %h)
  call void @handle(i64 $SIGABRT, i64 %h)
  call void @handle(i64 $SIGINTERRUPT, i64 %h)
  store volatile i64 0, ptr $trap_handler
  %r1 = call i64 @sys(i64 $SYS_sigaltstack, i64 $alt_stack, i64 0, i64 0, i64 0, i64 0, i64 0)
  ; unblock them, and remember what is blocked then
  %was = call i64 @mask_signals(i64 $SIG_UNBLOCK, i64 $OUR_SIGNALS)
  %now = and i64 %was, $OTHER_SIGNALS
  store volatile i64 %now, ptr $saved_mask
  ret void
}

; User code returned.  In a forked child that is the end of it: only the parent answers.
define dso_local void @jk_leave() #0 {
  %pid = call i64 @sys(i64 $SYS_getpid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %ours = load volatile i64, ptr $pid
  %same = icmp eq i64 %pid, %ours
  br i1 %same, label %parent, label %child
child:
  %fflush = load volatile ptr, ptr $libc_fflush
  %r = call i32 %fflush(ptr null)
  %x = load volatile ptr, ptr $libc__exit
  call void %x(i32 0)
  unreachable
parent:
  call void @flush()
  store volatile i64 0, ptr $running
  call void @unlock_text()
  ret void
}

; A thread that was stopped is back on its own stack.
define dso_local void @jk_settle() #0 {
  %here = load volatile ptr, ptr $upcall
  %other = icmp eq ptr %here, null
  br i1 %other, label %settle, label %done  ; no signal brought it there
settle:
  %mask = load volatile i64, ptr $saved_mask
  %r = call i64 @mask_signals(i64 $SIG_SETMASK, i64 %mask)
  call void @unlock_text()
  br label %done
done:
  ret void
}

; Write out what the program printed, drop the input that it left unread.  Not fflush(NULL): that
; waits for every stream's lock, and a thread of the user's may hold one while it waits to read.
define internal void @flush() #0 {
  call void @flush_one(ptr $libc_stdout)
  call void @flush_one(ptr $libc_stderr)
  %variable = load volatile ptr, ptr $libc_stdin
  %stdin = load volatile ptr, ptr %variable
  %none = icmp eq ptr %stdin, null
  br i1 %none, label %done, label %look
look:
  %lock_at = getelementptr i8, ptr %stdin, i64 $FILE_LOCK
  %lock = load volatile ptr, ptr %lock_at
  %lockless = icmp eq ptr %lock, null
  br i1 %lockless, label %purge, label %held
held:
  %word = load volatile i32, ptr %lock
  %busy = icmp ne i32 %word, 0
  br i1 %busy, label %done, label %purge
purge:
  %fpurge = load volatile ptr, ptr $libc___fpurge
  call void %fpurge(ptr %stdin)
  %clear = load volatile ptr, ptr $libc_clearerr_unlocked
  call void %clear(ptr %stdin)  ; the next cell's input has not ended
  br label %done
done:
  ret void
}

; A thread of the program's may keep a stream's lock, for ever: it is given a moment, then what was
; printed waits until it lets go, and the reply says who keeps it.
define internal void @flush_one(ptr %word) #0 {
  %time = alloca [2 x i64], align 8
  %variable = load volatile ptr, ptr %word
  %stream = load volatile ptr, ptr %variable
  %none = icmp eq ptr %stream, null
  br i1 %none, label %done, label %try
try:
  %tries = phi i64 [ 0, %0 ], [ %tried, %wait ]
  %trylock = load volatile ptr, ptr $libc_ftrylockfile
  %busy = call i32 %trylock(ptr %stream)
  %free = icmp eq i32 %busy, 0
  br i1 %free, label %flush, label %kept
flush:
  %fflush = load volatile ptr, ptr $libc_fflush
  %r = call i32 %fflush(ptr %stream)
  %unlock = load volatile ptr, ptr $libc_funlockfile
  call void %unlock(ptr %stream)
  br label %done
kept:
  %tried = add i64 %tries, 1
  %enough = icmp ugt i64 %tried, 20
  br i1 %enough, label %tell, label %wait
wait:
  store i64 0, ptr %time
  %nanoseconds = getelementptr i64, ptr %time, i64 1
  store i64 1000000, ptr %nanoseconds
  %t = ptrtoint ptr %time to i64
  %s = call i64 @sys(i64 $SYS_nanosleep, i64 %t, i64 0, i64 0, i64 0, i64 0, i64 0)
  br label %try
tell:
  %lock_at = getelementptr i8, ptr %stream, i64 $FILE_LOCK
  %lock = load volatile ptr, ptr %lock_at
  %owner = call i64 @word(ptr %lock, i64 $LOCK_OWNER)
  %fd_at = getelementptr i8, ptr %stream, i64 $FILE_FD
  %fd = load volatile i32, ptr %fd_at
  %fd64 = sext i32 %fd to i64
  store volatile i64 %fd64, ptr $lock_fd
  store volatile i64 %owner, ptr $lock_owner
  br label %done
done:
  ret void
}

; The text zone is not executable while an interrupt waits for a library to return, and while the
; kernel process writes text although the user's own threads run.

; An emulator takes time for each page: there it is only as much as there is code.
define internal i64 @text_size() #1 {
  %start = load volatile i64, ptr $text_start
  %all = load volatile i64, ptr $text_stop
  %used = load volatile i64, ptr $text_stale
  %is_all = icmp eq i64 %used, 0
  %stop = select i1 %is_all, i64 %all, i64 %used
  %size = sub i64 %stop, %start
  ret i64 %size
}

define internal void @lock_text() #0 {
  %start = load volatile i64, ptr $text_start
  %size = call i64 @text_size()
  store atomic i32 1, ptr $text_locked seq_cst, align 4
  %r = call i64 @sys(i64 $SYS_mprotect, i64 %start, i64 %size, i64 $PROT_READ, i64 0, i64 0, i64 0)
  ret void
}

define internal void @unlock_text() #0 {
  ; not while code is on its way: who asked for it opens the zone again
  %asking = load atomic i64, ptr $wake_tid seq_cst, align 8
  %nobody = icmp eq i64 %asking, 0
  br i1 %nobody, label %look, label %done
look:
  %locked = load atomic i32, ptr $text_locked seq_cst, align 4
  %free = icmp eq i32 %locked, 0
  br i1 %free, label %done, label %unlock
unlock:
  call void @open_text()
  br label %done
done:
  ret void
}

define internal void @open_text() #0 {
  %start = load volatile i64, ptr $text_start
  %size = call i64 @text_size()
  %r1 = call i64 @sys(i64 $SYS_mprotect, i64 %start, i64 %size, i64 $PROT_READ_EXEC, i64 0, i64 0, i64 0)
  store atomic i32 0, ptr $text_locked seq_cst, align 4
  %r2 = call i64 @sys(i64 $SYS_futex, i64 $text_locked, i64 $FUTEX_WAKE_PRIVATE, i64 $INT_MAX, i64 0, i64 0, i64 0)
  ret void
}

; A thread of the user's own that runs session code meanwhile waits here, then tries again.  Where
; nobody has the zone closed any more, somebody closed it in the instant in which another opened it
; and said so last: then the thread opens it, or it would be here for ever.
define internal void @wait_for_text() #0 {
  %first = load atomic i32, ptr $text_locked seq_cst, align 4
  %asking = load atomic i64, ptr $wake_tid seq_cst, align 8
  %closed = icmp ne i32 %first, 0
  %asked = icmp ne i64 %asking, 0
  %wanted = or i1 %closed, %asked
  br i1 %wanted, label %again, label %left
again:
  %locked = load atomic i32, ptr $text_locked seq_cst, align 4
  %free = icmp eq i32 %locked, 0
  br i1 %free, label %done, label %wait
wait:
  %r = call i64 @sys(i64 $SYS_futex, i64 $text_locked, i64 $FUTEX_WAIT_PRIVATE, i64 1, i64 0, i64 0, i64 0)
  br label %again
left:
  call void @open_text()
  br label %done
done:
  ret void
}
