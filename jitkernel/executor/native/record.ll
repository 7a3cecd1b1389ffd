; What happened to a cell, written to shared memory: signal, registers, a copy of the stack.

; Copy the stack from sp up, page by page: what is not mapped (an overflow) is copied as zeros.  A
; large frame that overflows it ends below the stack, within the gap of 1 MB that Linux leaves there.
define internal void @copy_stack(i64 %sp) #0 {
  %top = load volatile i64, ptr $saved_rsp
  %own = load volatile i64, ptr $stack_size
  %room = add i64 %own, 1048576
  %depth = sub i64 %top, %sp
  %outside = icmp ugt i64 %depth, %room
  %large = icmp ugt i64 %depth, $STACK_SIZE
  %fits = select i1 %large, i64 $STACK_SIZE, i64 %depth
  %size = select i1 %outside, i64 0, i64 %fits
  store volatile i64 %top, ptr $r_stack_top
  store volatile i64 %size, ptr $r_stack_size
  %vector = alloca i64, align 8
  %v = ptrtoint ptr %vector to i64
  %end = add i64 %sp, %size
  br label %loop
loop:
  %at = phi i64 [ %sp, %0 ], [ %next, %copied ]
  %more = icmp ult i64 %at, %end
  br i1 %more, label %page, label %done
page:
  %start = and i64 %at, -4096
  %stop = add i64 %start, 4096
  %last = icmp ugt i64 %stop, %end
  %next = select i1 %last, i64 %end, i64 %stop
  %part = sub i64 %next, %at
  %gone = sub i64 %at, %sp
  %to = add i64 $stack_copy, %gone
  %mapped = call i64 @sys(i64 $SYS_mincore, i64 %start, i64 4096, i64 %v, i64 0, i64 0, i64 0)
  %bad = icmp slt i64 %mapped, 0
  br i1 %bad, label %missing, label %present
missing:
  call void @zero(i64 %to, i64 %part)
  br label %copied
present:
  call void @copy(i64 %to, i64 %at, i64 %part)
  br label %copied
copied:
  br label %loop
done:
  ret void
}

define internal void @record(i64 %kind, i64 %cause, i64 %thread, i64 %library, i64 %pc, i64 %sp) #0 {
  store volatile i64 %kind, ptr $r_kind
  store volatile i64 %cause, ptr $r_cause
  store volatile i64 %thread, ptr $r_thread
  store volatile i64 %library, ptr $r_library
  store volatile i64 %pc, ptr $r_pc
  store volatile i64 %sp, ptr $r_sp
  call void @copy_stack(i64 %sp)
  fence seq_cst
  %seq = load volatile i64, ptr $seq
  store volatile i64 %seq, ptr $r_seq
  ret void
}

; Whether this thread may write the record: the cell's thread does unless the record is kept, any
; other only where nobody did.
define internal i1 @take_record(i1 %mine) #0 {
  %kept = load volatile i64, ptr $record_kept
  %open = icmp eq i64 %kept, 0
  %r = cmpxchg ptr $record_taken, i64 0, i64 1 seq_cst seq_cst
  %first = extractvalue { i64, i1 } %r, 1
  %may = or i1 %first, %mine
  %yes = and i1 %may, %open
  ret i1 %yes
}

define internal void @record_signal(i64 %signal, ptr %info, ptr %context) #0 {
  %code_at = getelementptr i8, ptr %info, i64 $SI_CODE
  %code = load i32, ptr %code_at
  %code64 = sext i32 %code to i64
  %address = call i64 @word(ptr %info, i64 $SI_ADDR)
  %error = call i64 @word(ptr %context, i64 $UC_ERR)
  %trap = call i64 @word(ptr %context, i64 $UC_TRAPNO)
  store volatile i64 %signal, ptr $r_signal
  store volatile i64 %code64, ptr $r_code
  store volatile i64 %address, ptr $r_address
  store volatile i64 %error, ptr $r_error
  store volatile i64 %trap, ptr $r_trap
  store volatile i64 0, ptr $r_status
  store volatile i64 0, ptr $r_stub
  store volatile i64 0, ptr $r_caller
  %saved = getelementptr i8, ptr %context, i64 $UC_REGISTERS
  %from = ptrtoint ptr %saved to i64
  call void @copy(i64 $r_reg_r8, i64 %from, i64 $UC_REGISTERS_SIZE)
  ret void
}
