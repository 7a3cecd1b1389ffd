; What the runtime itself runs under jk_enter, since the library below it may be in any state:
; tidying up after a cell that was stopped, checking that the library works, streams opened again.

; Give back the locks of stdio that abandoned frames of this thread held.
define internal void @unlock_stdio() #0 {
entry:
  %list = load volatile ptr, ptr $libc__IO_list_all
  %unknown = icmp eq ptr %list, null
  br i1 %unknown, label %done, label %begin
begin:
  %self = call i64 asm "movq %fs:16, $0", "=r"()
  %first = load volatile ptr, ptr %list
  br label %loop
loop:
  %file = phi ptr [ %first, %begin ], [ %next, %go_on ]
  %count = phi i64 [ 0, %begin ], [ %counted, %go_on ]
  %counted = add i64 %count, 1
  %end = icmp eq ptr %file, null
  %many = icmp ugt i64 %count, 100000
  %stop = or i1 %end, %many
  br i1 %stop, label %done, label %look
look:
  %lock_at = getelementptr i8, ptr %file, i64 $FILE_LOCK
  %lock = load volatile ptr, ptr %lock_at
  %next_at = getelementptr i8, ptr %file, i64 $FILE_CHAIN
  %next = load volatile ptr, ptr %next_at
  %lockless = icmp eq ptr %lock, null
  br i1 %lockless, label %go_on, label %owned
owned:
  %owner_at = getelementptr i8, ptr %lock, i64 $LOCK_OWNER
  %owner = load volatile i64, ptr %owner_at
  %held = icmp eq i64 %owner, %self
  br i1 %held, label %release, label %go_on
release:
  store volatile i64 0, ptr %owner_at
  %count_at = getelementptr i8, ptr %lock, i64 $LOCK_COUNT
  store volatile i32 0, ptr %count_at
  store atomic i32 0, ptr %lock seq_cst, align 4
  %word = ptrtoint ptr %lock to i64
  %r = call i64 @sys(i64 $SYS_futex, i64 %word, i64 $FUTEX_WAKE_PRIVATE, i64 $INT_MAX, i64 0, i64 0, i64 0)
  br label %go_on
go_on:
  br label %loop
done:
  ret void
}

; After a cell was stopped: what it printed so far belongs to it.
define internal void @tidy(i64 %fn, i64 %args, i64 %ret) #0 {
  call void @unlock_stdio()
  call void @flush()
  ; a library's exit() used up the handler that caught it
  %cause = load volatile i64, ptr $r_cause
  %used = icmp eq i64 %cause, $CAUSE_on_exit
  br i1 %used, label %register, label %done
register:
  %on_exit = load volatile ptr, ptr $libc_on_exit
  %r = call i32 %on_exit(ptr @jk_on_exit, ptr null)
  br label %done
done:
  ret void
}

; A small, a middling and a large block: the thread's cache, its heap, a mapping.
define internal void @allocate() #0 {
  %malloc = load volatile ptr, ptr $libc_malloc
  %free = load volatile ptr, ptr $libc_free
  %a = call ptr %malloc(i64 40)
  %b = call ptr %malloc(i64 5000)
  %c = call ptr %malloc(i64 300000)
  call void %free(ptr %b)
  call void %free(ptr %a)
  call void %free(ptr %c)
  ret void
}

; Opening a stream takes the lock of the list of streams.
define internal ptr @fresh(ptr %unused) #0 {
  %tid = call i64 @sys(i64 $SYS_gettid, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  store volatile i64 %tid, ptr $fresh_tid
  call void @allocate()
  %functions = alloca [4 x i64], align 8
  store [4 x i64] zeroinitializer, ptr %functions
  %mode = alloca i64, align 8
  store i64 114, ptr %mode
  %open = load volatile ptr, ptr $libc_fopencookie
  %stream = call ptr %open(ptr null, ptr %mode, ptr byval([4 x i64]) align 8 %functions)
  %close = load volatile ptr, ptr $libc_fclose
  %r = call i32 %close(ptr %stream)
  call void @flush_one(ptr $libc_stdout)
  call void @flush_one(ptr $libc_stderr)
  ret ptr null
}

; pthread_attr_t has 56 bytes (glibc); a small stack, for a limit of memory may be in force.
define internal void @health(i64 %fn, i64 %args, i64 %ret) #0 {
  store volatile i64 0, ptr $fresh_tid
  call void @allocate()
  %attributes = alloca [8 x i64], align 8
  %init = load volatile ptr, ptr $libc_pthread_attr_init
  %r0 = call i32 %init(ptr %attributes)
  %set_size = load volatile ptr, ptr $libc_pthread_attr_setstacksize
  %r1 = call i32 %set_size(ptr %attributes, i64 262144)
  %thread = alloca i64, align 8
  %create = load volatile ptr, ptr $libc_pthread_create
  %r2 = call i32 %create(ptr %thread, ptr %attributes, ptr @fresh, ptr null)
  %ok = icmp eq i32 %r2, 0
  br i1 %ok, label %join, label %sick
sick:
  call void asm sideeffect "ud2", ""()
  unreachable
join:
  %id = load i64, ptr %thread
  %pthread_join = load volatile ptr, ptr $libc_pthread_join
  %r3 = call i32 %pthread_join(i64 %id, ptr null)
  ret void
}

; A thunk: call `args` functions void() in a row, whose addresses are at `fn`.
define dso_local void @jk_each(ptr %list, i64 %count, i64 %ret) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  store volatile i64 %i, ptr $progress
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %at = getelementptr ptr, ptr %list, i64 %i
  %f = load ptr, ptr %at
  call void %f()
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

; A stream whose descriptor was opened again, but which fclose() ended: make it a new one.
define internal void @refit_one(ptr %word, i32 %fd, i64 %mode, i32 %buffering) #0 {
  %variable = load volatile ptr, ptr %word
  %stream = load volatile ptr, ptr %variable
  %none = icmp eq ptr %stream, null
  br i1 %none, label %new, label %look
look:
  %fd_at = getelementptr i8, ptr %stream, i64 $FILE_FD
  %now = load volatile i32, ptr %fd_at
  %ended = icmp slt i32 %now, 0
  br i1 %ended, label %new, label %done
new:
  %letters = alloca i64, align 8
  store i64 %mode, ptr %letters
  %fdopen = load volatile ptr, ptr $libc_fdopen
  %file = call ptr %fdopen(i32 %fd, ptr %letters)
  %failed = icmp eq ptr %file, null
  br i1 %failed, label %done, label %use
use:
  %setvbuf = load volatile ptr, ptr $libc_setvbuf
  %r = call i32 %setvbuf(ptr %file, ptr null, i32 %buffering, i64 0)
  store volatile ptr %file, ptr %variable
  br label %done
done:
  ret void
}

; 114 and 119 are the modes "r" and "w".
define internal void @refit(i64 %fn, i64 %args, i64 %ret) #0 {
  call void @refit_one(ptr $libc_stdin, i32 0, i64 114, i32 $LINE_BUFFERED)
  call void @refit_one(ptr $libc_stdout, i32 1, i64 119, i32 $LINE_BUFFERED)
  call void @refit_one(ptr $libc_stderr, i32 2, i64 119, i32 $UNBUFFERED)
  ret void
}
