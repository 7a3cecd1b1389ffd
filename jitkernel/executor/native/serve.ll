; Requests served one after another (process.py sends them), and the watch for the kernel
; process's end.

; Where code that has changed runs as it was, the system is asked for the text's protection once more.
define internal void @renew_text() #0 {
  %stale = load volatile i64, ptr $text_stale
  %current = icmp eq i64 %stale, 0
  br i1 %current, label %done, label %renew
renew:
  call void @lock_text()
  call void @open_text()
  br label %done
done:
  ret void
}

; Pages of the data zone are made accessible when something is there, in one piece from its start.
define internal void @open_data() #0 {
  %high = load volatile i64, ptr $data_high
  %open = load volatile i64, ptr $data_open
  %enough = icmp ule i64 %high, %open
  br i1 %enough, label %done, label %more
more:
  %size = sub i64 %high, %open
  %r = call i64 @sys(i64 $SYS_mprotect, i64 %open, i64 %size, i64 $PROT_READ_WRITE, i64 0, i64 0, i64 0)
  store volatile i64 %high, ptr $data_open
  br label %done
done:
  ret void
}

; The unwinder finds functions by another table from here on, if there is another: before threads go
; on.  What it has registered stays as it is (child.py, KnownCode).
define dso_local void @jk_renew_unwind() #0 {
  %table = load volatile i64, ptr $unwind_table
  %none = icmp eq i64 %table, 0
  br i1 %none, label %done, label %renew
renew:
  %flags = load volatile i64, ptr $unwind_flags
  %object = load volatile ptr, ptr $unwind_object
  %at_flags = getelementptr i8, ptr %object, i64 $OBJECT_FLAGS
  store atomic i64 %flags, ptr %at_flags seq_cst, align 8
  %at_table = getelementptr i8, ptr %object, i64 $OBJECT_TABLE
  store atomic i64 %table, ptr %at_table seq_cst, align 8
  br label %done
done:
  ret void
}

define internal i64 @inode(i64 %fd) #0 {
  %stat = alloca [18 x i64], align 8
  %at = getelementptr i64, ptr %stat, i64 1
  store volatile i64 0, ptr %at
  %s = ptrtoint ptr %stat to i64
  %r = call i64 @sys(i64 $SYS_fstat, i64 %fd, i64 %s, i64 0, i64 0, i64 0, i64 0)
  %inode = load volatile i64, ptr %at
  ret i64 %inode
}

; Open a standard stream again that the cell closed; 1 when that was done.
define internal i64 @reopen(i64 %fd, ptr %keep) #0 {
  %r = call i64 @sys(i64 $SYS_fcntl, i64 %fd, i64 $F_GETFD, i64 0, i64 0, i64 0, i64 0)
  %open = icmp ne i64 %r, -$EBADF
  br i1 %open, label %good, label %closed
good:
  ret i64 0
closed:
  %from = load volatile i64, ptr %keep
  %d = call i64 @sys(i64 $SYS_dup2, i64 %from, i64 %fd, i64 0, i64 0, i64 0, i64 0)
  %failed = icmp slt i64 %d, 0
  br i1 %failed, label %hopeless, label %back
hopeless:
  %x = call i64 @sys(i64 $SYS_exit_group, i64 $NO_SOCKET, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
back:
  ret i64 1
}

; Run one of health.ll's functions, the cell's record kept; 1 where it was stopped.
define internal i64 @run_service(ptr %function) #0 {
  store volatile i64 1, ptr $record_kept
  store volatile i64 1, ptr $service
  %address = ptrtoint ptr %function to i64
  %stopped = call i32 @jk_enter(i64 %address, i64 0, i64 0, i64 0)
  store volatile i64 0, ptr $service
  store volatile i64 0, ptr $record_kept
  %stopped64 = zext i32 %stopped to i64
  ret i64 %stopped64
}

; Answer a request: kind, seq, 1 if the cell was stopped, 1 if the runtime could not tidy up,
; 1 if descriptors were opened again.  The kernel process finds the same in shared memory where
; the socket is gone; then this process has no more use.
define internal void @reply(i64 %op, i64 %seq, i64 %stopped, i64 %sick) #0 {
  store volatile i64 %stopped, ptr $done_stopped
  store volatile i64 %sick, ptr $done_sick
  store volatile i64 %seq, ptr $done_seq
  %r0 = call i64 @reopen(i64 0, ptr $keep_0)
  %r1 = call i64 @reopen(i64 1, ptr $keep_1)
  %r2 = call i64 @reopen(i64 2, ptr $keep_2)
  %r01 = or i64 %r0, %r1
  %reopened = or i64 %r01, %r2
  %as_were = icmp eq i64 %reopened, 0
  br i1 %as_were, label %check, label %fit
fit:
  %unfit = call i64 @run_service(ptr @refit)
  br label %check
check:
  %socket = load volatile i64, ptr $socket
  %inode = call i64 @inode(i64 %socket)
  %expected = load volatile i64, ptr $socket_inode
  %good = icmp eq i64 %inode, %expected
  br i1 %good, label %send, label %lost
lost:
  %x1 = call i64 @sys(i64 $SYS_exit_group, i64 $NO_SOCKET, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
send:
  store volatile i64 %reopened, ptr $answered_reopened
  %before = atomicrmw xchg ptr $answered, i64 %seq seq_cst, align 8
  %watched = load atomic i64, ptr $watched seq_cst, align 8
  %seen = icmp ne i64 %watched, 0
  br i1 %seen, label %done, label %tell
tell:
  %frame = alloca [8 x i64], align 8
  %w1 = insertvalue [8 x i64] zeroinitializer, i64 %seq, 1
  %w2 = insertvalue [8 x i64] %w1, i64 %stopped, 2
  %w3 = insertvalue [8 x i64] %w2, i64 %sick, 3
  %w4 = insertvalue [8 x i64] %w3, i64 %reopened, 4
  store [8 x i64] %w4, ptr %frame
  store i64 %op, ptr %frame
  %at = ptrtoint ptr %frame to i64
  br label %try
try:
  %r = call i64 @sys(i64 $SYS_sendto, i64 %socket, i64 %at, i64 $HEAD_SIZE, i64 $MSG_NOSIGNAL, i64 0, i64 0)
  %sent = icmp eq i64 %r, $HEAD_SIZE
  br i1 %sent, label %done, label %unsent
unsent:
  switch i64 %r, label %gone [ i64 -$EINTR, label %try
                               i64 -$EAGAIN, label %full ]
full:
  %room = call i64 @await(i64 %socket, i64 $POLLOUT)
  br label %try
gone:
  call void @reap()
  unreachable
done:
  ret void
}

; Look for the next request in the frame for a while, since the kernel process often has one soon:
; to wake this process takes longer than the most calls.  1 where one has come; else it may come on
; the socket.  A request that came both ways is served once.
define internal i1 @listen() #0 {
  %patience = load volatile i64, ptr $patience
  %hasty = icmp eq i64 %patience, 0
  br i1 %hasty, label %none, label %begin
begin:
  store atomic i64 0, ptr $bell seq_cst, align 8
  %was = atomicrmw xchg ptr $listening, i64 1 seq_cst, align 8
  %start = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %bell = load atomic i64, ptr $bell seq_cst, align 8
  %quiet = icmp eq i64 %bell, 0
  br i1 %quiet, label %wait, label %end
wait:
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %start
  %more = icmp ult i64 %spent, %patience
  br i1 %more, label %look, label %end
end:
  %is = atomicrmw xchg ptr $listening, i64 0 seq_cst, align 8
  %rung = atomicrmw xchg ptr $bell, i64 0 seq_cst, align 8
  %seq = call i64 @word(ptr $frame, i64 8)
  %here = icmp eq i64 %rung, %seq
  %last = load volatile i64, ptr $seq
  %new = icmp ne i64 %rung, %last
  %come = and i1 %here, %new
  ret i1 %come
none:
  ret i1 0
}

declare i64 @llvm.readcyclecounter()

; Wait for POLLIN or POLLOUT, on a socket too that a cell has made one that does not wait; poll's
; result.
define internal i64 @await(i64 %fd, i64 %events) #0 {
  %pollfd = alloca i64, align 8
  %shifted = shl i64 %events, 32
  %wanted = or i64 %fd, %shifted
  store volatile i64 %wanted, ptr %pollfd
  %p = ptrtoint ptr %pollfd to i64
  %r = call i64 @sys(i64 $SYS_poll, i64 %p, i64 1, i64 -1, i64 0, i64 0, i64 0)
  ret i64 %r
}

; Serve requests; returns the length of the first one that is for the Python part.
define dso_local i64 @jk_serve() #0 {
entry:
  br label %loop
loop:
  %rung = call i1 @listen()
  br i1 %rung, label %read, label %receive
receive:
  %socket = load volatile i64, ptr $socket
  %n = call i64 @sys(i64 $SYS_recvfrom, i64 %socket, i64 $frame, i64 $FRAME_SIZE, i64 0, i64 0, i64 0)
  switch i64 %n, label %came [ i64 -$EINTR, label %receive
                               i64 -$EAGAIN, label %idle ]
idle:
  %arrived = call i64 @await(i64 %socket, i64 $POLLIN)
  br label %receive
came:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %read, label %end
end:
  call void @reap()
  unreachable
read:
  %size = phi i64 [ $HEAD_SIZE, %loop ], [ %n, %came ]
  %op = load volatile i64, ptr $frame
  %seq = call i64 @word(ptr $frame, i64 8)
  switch i64 %op, label %python [ i64 $CALL, label %call
                                  i64 $CHECK, label %check
                                  i64 $PARK, label %park
                                  i64 $UNPARK, label %unpark ]
python:
  ret i64 %size

call:
  %last = load volatile i64, ptr $seq
  %again = icmp eq i64 %seq, %last
  br i1 %again, label %receive, label %serve
serve:
  store volatile i64 0, ptr $record_taken
  store volatile i64 0, ptr $record_kept
  store volatile i64 0, ptr $service
  store volatile i64 0, ptr $progress
  store volatile i64 0, ptr $r_seq
  store volatile i64 0, ptr $lock_owner
  store volatile i64 %seq, ptr $seq
  call void @jk_renew_unwind()
  call void @renew_text()
  call void @open_data()
  %thunk = call i64 @word(ptr $frame, i64 16)
  %fn = call i64 @word(ptr $frame, i64 24)
  %args = call i64 @word(ptr $frame, i64 32)
  ; A forked child returns through the same thunk: what it leaves there is its own affair.
  %own = load volatile i64, ptr $own_result
  %stopped = call i32 @jk_enter(i64 %thunk, i64 %fn, i64 %args, i64 %own)
  %ok = icmp eq i32 %stopped, 0
  br i1 %ok, label %hand_over, label %clean
hand_over:
  %ret = call i64 @word(ptr $frame, i64 40)
  %bytes = call i64 @word(ptr $frame, i64 48)
  %from = load volatile i64, ptr $own_result
  call void @copy(i64 %ret, i64 %from, i64 %bytes)
  br label %answer
clean:
  %untidy = call i64 @run_service(ptr @tidy)
  br label %answer
answer:
  %sick = phi i64 [ 0, %hand_over ], [ %untidy, %clean ]
  %stopped64 = zext i32 %stopped to i64
  ; not what a register held: a cell that wrote past its frames wrote over what jk_enter saved
  %answered = load volatile i64, ptr $seq
  call void @reply(i64 $CALL, i64 %answered, i64 %stopped64, i64 %sick)
  br label %loop

park:
  %parked = load volatile i64, ptr $parked
  %already = icmp ne i64 %parked, 0
  br i1 %already, label %held, label %hold
hold:
  %before = call i64 @mask_signals(i64 $SIG_BLOCK, i64 $ALL_SIGNALS)
  store volatile i64 %before, ptr $park_mask
  store volatile i64 1, ptr $parked
  br label %held
held:
  %threads = call i64 @word(ptr $frame, i64 16)
  %any = icmp ne i64 %threads, 0
  br i1 %any, label %close, label %parked_all
close:
  call void @lock_text()
  br label %parked_all
parked_all:
  call void @reply(i64 $PARK, i64 %seq, i64 0, i64 0)
  br label %loop
unpark:
  call void @open_data()
  call void @jk_renew_unwind()
  call void @unlock_text()
  %was = load volatile i64, ptr $parked
  %free = icmp eq i64 %was, 0
  br i1 %free, label %let_go, label %let_signals
let_signals:
  store volatile i64 0, ptr $parked
  %back = load volatile i64, ptr $park_mask
  %held_back = call i64 @mask_signals(i64 $SIG_SETMASK, i64 %back)
  br label %let_go
let_go:
  call void @reply(i64 $UNPARK, i64 %seq, i64 0, i64 0)
  br label %loop

check:
  %bad = call i64 @run_service(ptr @health)
  call void @reply(i64 $CHECK, i64 %seq, i64 0, i64 %bad)
  br label %loop
}

; The thread that outlives nothing: when the kernel process ends, `fd` becomes readable, and this
; process turns into the program that ends its descendants and then itself.  The descriptors of the
; program are its own affair.
define dso_local void @jk_watch(i64 %fd) #0 {
entry:
  %unshared = call i64 @sys(i64 $SYS_unshare, i64 $CLONE_FILES, i64 0, i64 0, i64 0, i64 0, i64 0)
  %apart = icmp eq i64 %unshared, 0
  br i1 %apart, label %close, label %shares
shares:
  store atomic i64 $LIFELINE_SHARES, ptr $lifeline_state seq_cst, align 8
  br label %wait
close:
  %below = sub i64 %fd, 1
  %above = add i64 %fd, 1
  %first = icmp eq i64 %fd, 0
  br i1 %first, label %rest, label %lower
lower:
  %r1 = call i64 @sys(i64 $SYS_close_range, i64 0, i64 %below, i64 0, i64 0, i64 0, i64 0)
  br label %rest
rest:
  %r2 = call i64 @sys(i64 $SYS_close_range, i64 %above, i64 $UINT_MAX, i64 0, i64 0, i64 0, i64 0)
  store atomic i64 $LIFELINE_APART, ptr $lifeline_state seq_cst, align 8
  br label %wait
wait:
  %n = call i64 @await(i64 %fd, i64 $POLLIN)
  %woke = icmp sgt i64 %n, 0
  br i1 %woke, label %end, label %wait
end:
  call void @reap()
  unreachable
}

; Become the program that ends what the kernel process left behind.
define internal void @reap() #0 {
  %path = load volatile i64, ptr $reaper_path
  %argv = load volatile i64, ptr $reaper_argv
  %envp = load volatile i64, ptr $reaper_envp
  %r3 = call i64 @sys(i64 $SYS_execve, i64 %path, i64 %argv, i64 %envp, i64 0, i64 0, i64 0)
  %r4 = call i64 @sys(i64 $SYS_kill, i64 0, i64 $SIGKILL, i64 0, i64 0, i64 0, i64 0)
  %r5 = call i64 @sys(i64 $SYS_exit_group, i64 $SIGKILL, i64 0, i64 0, i64 0, i64 0, i64 0)
  unreachable
}
