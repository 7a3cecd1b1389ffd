; ModuleID = 'walk.c'
source_filename = "walk.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

%struct.node = type { i32, ptr }

; Function Attrs: noinline nounwind optnone uwtable
define dso_local i32 @total(ptr noundef %0) #0 !dbg !10 {
  %2 = alloca ptr, align 8
  %3 = alloca i32, align 4
  store ptr %0, ptr %2, align 8
    #dbg_declare(ptr %2, !22, !DIExpression(), !23)
    #dbg_declare(ptr %3, !24, !DIExpression(), !25)
  store i32 0, ptr %3, align 4, !dbg !25
  br label %4, !dbg !26

4:                                                ; preds = %7, %1
  %5 = load ptr, ptr %2, align 8, !dbg !27
  %6 = icmp ne ptr %5, null, !dbg !26
  br i1 %6, label %7, label %17, !dbg !26

7:                                                ; preds = %4
  %8 = load ptr, ptr %2, align 8, !dbg !28
  %9 = getelementptr inbounds nuw %struct.node, ptr %8, i32 0, i32 0, !dbg !30
  %10 = load i32, ptr %9, align 8, !dbg !30
  %11 = call i32 @twice(i32 noundef %10), !dbg !31
  %12 = load i32, ptr %3, align 4, !dbg !32
  %13 = add nsw i32 %12, %11, !dbg !32
  store i32 %13, ptr %3, align 4, !dbg !32
  %14 = load ptr, ptr %2, align 8, !dbg !33
  %15 = getelementptr inbounds nuw %struct.node, ptr %14, i32 0, i32 1, !dbg !34
  %16 = load ptr, ptr %15, align 8, !dbg !34
  store ptr %16, ptr %2, align 8, !dbg !35
  br label %4, !dbg !26, !llvm.loop !36

17:                                               ; preds = %4
  %18 = load i32, ptr %3, align 4, !dbg !39
  ret i32 %18, !dbg !40
}

; Function Attrs: noinline nounwind optnone uwtable
define internal i32 @twice(i32 noundef %0) #0 !dbg !41 {
  %2 = alloca i32, align 4
  store i32 %0, ptr %2, align 4
    #dbg_declare(ptr %2, !44, !DIExpression(), !45)
  %3 = load i32, ptr %2, align 4, !dbg !46
  %4 = mul nsw i32 2, %3, !dbg !47
  ret i32 %4, !dbg !48
}

; Function Attrs: noinline nounwind optnone uwtable
define dso_local i32 @first(ptr noundef %0) #0 !dbg !49 {
  %2 = alloca ptr, align 8
  %3 = alloca i32, align 4
  store ptr %0, ptr %2, align 8
    #dbg_declare(ptr %2, !50, !DIExpression(), !51)
    #dbg_declare(ptr %3, !52, !DIExpression(), !53)
  %4 = load ptr, ptr %2, align 8, !dbg !54
  %5 = getelementptr inbounds nuw %struct.node, ptr %4, i32 0, i32 0, !dbg !55
  %6 = load i32, ptr %5, align 8, !dbg !55
  store i32 %6, ptr %3, align 4, !dbg !53
  %7 = load i32, ptr %3, align 4, !dbg !56
  %8 = add nsw i32 %7, 1, !dbg !57
  ret i32 %8, !dbg !58
}

attributes #0 = { noinline nounwind optnone uwtable "frame-pointer"="all" "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3, !4, !5, !6, !7, !8}
!llvm.ident = !{!9}

!0 = distinct !DICompileUnit(language: DW_LANG_C11, file: !1, producer: "clang version 22.1.8", isOptimized: false, runtimeVersion: 0, emissionKind: FullDebug, splitDebugInlining: false, nameTableKind: None)
!1 = !DIFile(filename: "walk.c", directory: "/src")
!2 = !{i32 7, !"Dwarf Version", i32 5}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !{i32 1, !"wchar_size", i32 4}
!5 = !{i32 8, !"PIC Level", i32 2}
!6 = !{i32 7, !"PIE Level", i32 2}
!7 = !{i32 7, !"uwtable", i32 2}
!8 = !{i32 7, !"frame-pointer", i32 2}
!9 = !{!"clang version 22.1.8"}
!10 = distinct !DISubprogram(name: "total", scope: !1, file: !1, line: 9, type: !11, scopeLine: 9, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !0, retainedNodes: !21)
!11 = !DISubroutineType(types: !12)
!12 = !{!13, !14}
!13 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!14 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !15, size: 64)
!15 = !DIDerivedType(tag: DW_TAG_const_type, baseType: !16)
!16 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "node", file: !1, line: 3, size: 128, elements: !17)
!17 = !{!18, !19}
!18 = !DIDerivedType(tag: DW_TAG_member, name: "value", scope: !16, file: !1, line: 3, baseType: !13, size: 32)
!19 = !DIDerivedType(tag: DW_TAG_member, name: "next", scope: !16, file: !1, line: 3, baseType: !20, size: 64, offset: 64)
!20 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !16, size: 64)
!21 = !{}
!22 = !DILocalVariable(name: "n", arg: 1, scope: !10, file: !1, line: 9, type: !14)
!23 = !DILocation(line: 9, column: 30, scope: !10)
!24 = !DILocalVariable(name: "sum", scope: !10, file: !1, line: 10, type: !13)
!25 = !DILocation(line: 10, column: 9, scope: !10)
!26 = !DILocation(line: 11, column: 5, scope: !10)
!27 = !DILocation(line: 11, column: 12, scope: !10)
!28 = !DILocation(line: 12, column: 22, scope: !29)
!29 = distinct !DILexicalBlock(scope: !10, file: !1, line: 11, column: 15)
!30 = !DILocation(line: 12, column: 25, scope: !29)
!31 = !DILocation(line: 12, column: 16, scope: !29)
!32 = !DILocation(line: 12, column: 13, scope: !29)
!33 = !DILocation(line: 13, column: 13, scope: !29)
!34 = !DILocation(line: 13, column: 16, scope: !29)
!35 = !DILocation(line: 13, column: 11, scope: !29)
!36 = distinct !{!36, !26, !37, !38}
!37 = !DILocation(line: 14, column: 5, scope: !10)
!38 = !{!"llvm.loop.mustprogress"}
!39 = !DILocation(line: 15, column: 12, scope: !10)
!40 = !DILocation(line: 15, column: 5, scope: !10)
!41 = distinct !DISubprogram(name: "twice", scope: !1, file: !1, line: 5, type: !42, scopeLine: 5, flags: DIFlagPrototyped, spFlags: DISPFlagLocalToUnit | DISPFlagDefinition, unit: !0, retainedNodes: !21)
!42 = !DISubroutineType(types: !43)
!43 = !{!13, !13}
!44 = !DILocalVariable(name: "x", arg: 1, scope: !41, file: !1, line: 5, type: !13)
!45 = !DILocation(line: 5, column: 22, scope: !41)
!46 = !DILocation(line: 6, column: 16, scope: !41)
!47 = !DILocation(line: 6, column: 14, scope: !41)
!48 = !DILocation(line: 6, column: 5, scope: !41)
!49 = distinct !DISubprogram(name: "first", scope: !1, file: !1, line: 18, type: !11, scopeLine: 18, flags: DIFlagPrototyped, spFlags: DISPFlagDefinition, unit: !0, retainedNodes: !21)
!50 = !DILocalVariable(name: "n", arg: 1, scope: !49, file: !1, line: 18, type: !14)
!51 = !DILocation(line: 18, column: 30, scope: !49)
!52 = !DILocalVariable(name: "v", scope: !49, file: !1, line: 19, type: !13)
!53 = !DILocation(line: 19, column: 9, scope: !49)
!54 = !DILocation(line: 19, column: 13, scope: !49)
!55 = !DILocation(line: 19, column: 16, scope: !49)
!56 = !DILocation(line: 20, column: 12, scope: !49)
!57 = !DILocation(line: 20, column: 14, scope: !49)
!58 = !DILocation(line: 20, column: 5, scope: !49)
