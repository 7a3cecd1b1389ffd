; A forked child has its own variables, as every process has, although the data zone is memory that
; the kernel process shares: before a fork what the zone holds is copied, and the child puts the copy
; in its place.  glibc calls these three (child.py registers them; pthread_atfork(3)).
;
; What they remember is in private memory, at `fork_own`, since the control block is shared: where
; the copy is, a lock, whether this is a child already, and from the fourth word on the path of the
; slab's file, whose holes are not copied.  Where the file cannot be opened, or there is no room for
; the copy, the child shares the zone.

define internal i64 @own_word(i64 %offset) #1 {
  %own = load volatile i64, ptr $fork_own
  %at = add i64 %own, %offset
  ret i64 %at
}

define dso_local void @jk_before_fork() #0 {
entry:
  %slot = call i64 @own_word(i64 0)
  %lock_at = call i64 @own_word(i64 8)
  %lock = inttoptr i64 %lock_at to ptr
  %child_at = call i64 @own_word(i64 16)
  %child = inttoptr i64 %child_at to ptr
  %is_child = load volatile i64, ptr %child
  %again = icmp ne i64 %is_child, 0
  br i1 %again, label %done, label %take
take:  ; of threads that fork at once; one that was stopped meanwhile does not give it back
  %tries = phi i64 [ 0, %entry ], [ %tried, %busy ]
  %r = cmpxchg ptr %lock, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %r, 1
  %long = icmp uge i64 %tries, 100000
  %go = or i1 %mine, %long
  br i1 %go, label %free, label %busy
busy:
  %y = call i64 @sys(i64 $SYS_sched_yield, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %tried = add i64 %tries, 1
  br label %take
free:
  call void @drop_copy()
  %start = load volatile i64, ptr $data_start
  %stop = load volatile i64, ptr $data_stop
  %first = load volatile i64, ptr $data_offset
  %size = sub i64 %stop, %start
  %open = load volatile i64, ptr $data_open
  %used = sub i64 %open, %start
  %last = add i64 %first, %used
  %path = call i64 @own_word(i64 24)
  %fd = call i64 @sys(i64 $SYS_openat, i64 $AT_FDCWD, i64 %path, i64 $O_RDONLY_CLOEXEC, i64 0, i64 0, i64 0)
  %shut = icmp slt i64 %fd, 0
  br i1 %shut, label %done, label %room
room:
  %copy = call i64 @sys(i64 $SYS_mmap, i64 0, i64 %size, i64 $PROT_READ_WRITE, i64 $MAP_PRIVATE_ANONYMOUS_NORESERVE, i64 -1, i64 0)
  %full = icmp ugt i64 %copy, -4096
  br i1 %full, label %close, label %next
next:
  %at = phi i64 [ %first, %room ], [ %hole, %piece ]
  %data = call i64 @sys(i64 $SYS_lseek, i64 %fd, i64 %at, i64 $SEEK_DATA, i64 0, i64 0, i64 0)
  %none = icmp slt i64 %data, 0
  %over = icmp sge i64 %data, %last
  %end = or i1 %none, %over
  br i1 %end, label %keep, label %until
until:
  %found = call i64 @sys(i64 $SYS_lseek, i64 %fd, i64 %data, i64 $SEEK_HOLE, i64 0, i64 0, i64 0)
  %far = icmp sgt i64 %found, %last
  %hole = select i1 %far, i64 %last, i64 %found
  %some = icmp sgt i64 %hole, %data
  br i1 %some, label %piece, label %keep
piece:
  %offset = sub i64 %data, %first
  %from = add i64 %start, %offset
  %to = add i64 %copy, %offset
  %bytes = sub i64 %hole, %data
  call void @copy(i64 %to, i64 %from, i64 %bytes)
  br label %next
keep:
  %word = inttoptr i64 %slot to ptr
  store volatile i64 %copy, ptr %word
  br label %close
close:
  %c = call i64 @sys(i64 $SYS_close, i64 %fd, i64 0, i64 0, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}

define internal void @drop_copy() #0 {
  %slot = call i64 @own_word(i64 0)
  %word = inttoptr i64 %slot to ptr
  %copy = load volatile i64, ptr %word
  %none = icmp eq i64 %copy, 0
  br i1 %none, label %done, label %drop
drop:
  store volatile i64 0, ptr %word
  %start = load volatile i64, ptr $data_start
  %stop = load volatile i64, ptr $data_stop
  %size = sub i64 %stop, %start
  %r = call i64 @sys(i64 $SYS_munmap, i64 %copy, i64 %size, i64 0, i64 0, i64 0, i64 0)
  br label %done
done:
  ret void
}

define dso_local void @jk_after_fork() #0 {
  %n = atomicrmw add ptr $forks, i64 1 seq_cst
  call void @drop_copy()
  %lock_at = call i64 @own_word(i64 8)
  %lock = inttoptr i64 %lock_at to ptr
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}

define dso_local void @jk_in_child() #0 {
  %slot = call i64 @own_word(i64 0)
  %word = inttoptr i64 %slot to ptr
  %copy = load volatile i64, ptr %word
  %none = icmp eq i64 %copy, 0
  br i1 %none, label %done, label %put
put:
  %start = load volatile i64, ptr $data_start
  %stop = load volatile i64, ptr $data_stop
  %size = sub i64 %stop, %start
  %r = call i64 @sys(i64 $SYS_mremap, i64 %copy, i64 %size, i64 %size, i64 $MREMAP_MAYMOVE_FIXED, i64 %start, i64 0)
  %child_at = call i64 @own_word(i64 16)
  %child = inttoptr i64 %child_at to ptr
  store volatile i64 1, ptr %child
  store volatile i64 0, ptr %word
  br label %done
done:
  %lock_at = call i64 @own_word(i64 8)
  %lock = inttoptr i64 %lock_at to ptr
  store atomic i64 0, ptr %lock seq_cst, align 8
  ret void
}
