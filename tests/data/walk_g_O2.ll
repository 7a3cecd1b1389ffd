; ModuleID = 'walk.c'
source_filename = "walk.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nofree norecurse nosync nounwind memory(read, inaccessiblemem: none, target_mem0: none, target_mem1: none) uwtable
define dso_local i32 @total(ptr noundef readonly captures(address_is_null) %0) local_unnamed_addr #0 !dbg !14 {
    #dbg_value(ptr %0, !26, !DIExpression(), !28)
    #dbg_value(i32 0, !27, !DIExpression(), !28)
  %2 = icmp eq ptr %0, null, !dbg !29
  br i1 %2, label %12, label %3, !dbg !30

3:                                                ; preds = %1, %3
  %4 = phi i32 [ %8, %3 ], [ 0, %1 ]
  %5 = phi ptr [ %10, %3 ], [ %0, %1 ]
    #dbg_value(i32 %4, !27, !DIExpression(), !28)
    #dbg_value(ptr %5, !26, !DIExpression(), !28)
  %6 = load i32, ptr %5, align 8, !dbg !31, !tbaa !33
    #dbg_value(i32 %6, !37, !DIExpression(), !42)
  %7 = shl nsw i32 %6, 1, !dbg !44
  %8 = add nsw i32 %7, %4, !dbg !45
    #dbg_value(i32 %8, !27, !DIExpression(), !28)
  %9 = getelementptr inbounds nuw i8, ptr %5, i64 8, !dbg !46
  %10 = load ptr, ptr %9, align 8, !dbg !47, !tbaa !48
    #dbg_value(ptr %10, !26, !DIExpression(), !28)
  %11 = icmp eq ptr %10, null, !dbg !49
  br i1 %11, label %12, label %3, !dbg !50, !llvm.loop !51

12:                                               ; preds = %3, %1
  %13 = phi i32 [ 0, %1 ], [ %8, %3 ], !dbg !28
  ret i32 %13, !dbg !55
}

; Function Attrs: mustprogress nofree norecurse nosync nounwind willreturn memory(argmem: read) uwtable
define dso_local range(i32 -2147483647, -2147483648) i32 @first(ptr noundef readonly captures(none) %0) local_unnamed_addr #1 !dbg !56 {
    #dbg_value(ptr %0, !58, !DIExpression(), !60)
  %2 = load i32, ptr %0, align 8, !dbg !61, !tbaa !33
    #dbg_value(i32 %2, !59, !DIExpression(), !60)
  %3 = add nsw i32 %2, 1, !dbg !62
  ret i32 %3, !dbg !63
}

attributes #0 = { nofree norecurse nosync nounwind memory(read, inaccessiblemem: none, target_mem0: none, target_mem1: none) uwtable "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" }
attributes #1 = { mustprogress nofree norecurse nosync nounwind willreturn memory(argmem: read) uwtable "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3, !4, !5, !6, !7, !8}
!llvm.ident = !{!9}
!llvm.errno.tbaa = !{!10}

!0 = distinct !DICompileUnit(language: DW_LANG_C11, file: !1, producer: "clang version 22.1.8", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug, splitDebugInlining: false, nameTableKind: None)
!1 = !DIFile(filename: "walk.c", directory: "/src")
!2 = !{i32 7, !"Dwarf Version", i32 5}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !{i32 1, !"wchar_size", i32 4}
!5 = !{i32 8, !"PIC Level", i32 2}
!6 = !{i32 7, !"PIE Level", i32 2}
!7 = !{i32 7, !"uwtable", i32 2}
!8 = !{i32 7, !"debug-info-assignment-tracking", i1 true}
!9 = !{!"clang version 22.1.8"}
!10 = !{!11, !11, i64 0}
!11 = !{!"int", !12, i64 0}
!12 = !{!"omnipotent char", !13, i64 0}
!13 = !{!"Simple C/C++ TBAA"}
!14 = distinct !DISubprogram(name: "total", scope: !1, file: !1, line: 9, type: !15, scopeLine: 9, flags: DIFlagPrototyped | DIFlagAllCallsDescribed, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0, retainedNodes: !25, keyInstructions: true)
!15 = !DISubroutineType(types: !16)
!16 = !{!17, !18}
!17 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!18 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !19, size: 64)
!19 = !DIDerivedType(tag: DW_TAG_const_type, baseType: !20)
!20 = distinct !DICompositeType(tag: DW_TAG_structure_type, name: "node", file: !1, line: 3, size: 128, elements: !21)
!21 = !{!22, !23}
!22 = !DIDerivedType(tag: DW_TAG_member, name: "value", scope: !20, file: !1, line: 3, baseType: !17, size: 32)
!23 = !DIDerivedType(tag: DW_TAG_member, name: "next", scope: !20, file: !1, line: 3, baseType: !24, size: 64, offset: 64)
!24 = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: !20, size: 64)
!25 = !{!26, !27}
!26 = !DILocalVariable(name: "n", arg: 1, scope: !14, file: !1, line: 9, type: !18)
!27 = !DILocalVariable(name: "sum", scope: !14, file: !1, line: 10, type: !17)
!28 = !DILocation(line: 0, scope: !14)
!29 = !DILocation(line: 11, column: 5, scope: !14, atomGroup: 8, atomRank: 1)
!30 = !DILocation(line: 11, column: 5, scope: !14, atomGroup: 9, atomRank: 1)
!31 = !DILocation(line: 12, column: 25, scope: !32)
!32 = distinct !DILexicalBlock(scope: !14, file: !1, line: 11, column: 15)
!33 = !{!34, !11, i64 0}
!34 = !{!"node", !11, i64 0, !35, i64 8}
!35 = !{!"p1 _ZTS4node", !36, i64 0}
!36 = !{!"any pointer", !12, i64 0}
!37 = !DILocalVariable(name: "x", arg: 1, scope: !38, file: !1, line: 5, type: !17)
!38 = distinct !DISubprogram(name: "twice", scope: !1, file: !1, line: 5, type: !39, scopeLine: 5, flags: DIFlagPrototyped | DIFlagAllCallsDescribed, spFlags: DISPFlagLocalToUnit | DISPFlagDefinition | DISPFlagOptimized, unit: !0, retainedNodes: !41, keyInstructions: true)
!39 = !DISubroutineType(types: !40)
!40 = !{!17, !17}
!41 = !{!37}
!42 = !DILocation(line: 0, scope: !38, inlinedAt: !43)
!43 = distinct !DILocation(line: 12, column: 16, scope: !32)
!44 = !DILocation(line: 6, column: 14, scope: !38, inlinedAt: !43, atomGroup: 1, atomRank: 2)
!45 = !DILocation(line: 12, column: 13, scope: !32, atomGroup: 4, atomRank: 2)
!46 = !DILocation(line: 13, column: 16, scope: !32)
!47 = !DILocation(line: 13, column: 16, scope: !32, atomGroup: 5, atomRank: 2)
!48 = !{!34, !35, i64 8}
!49 = !DILocation(line: 11, column: 5, scope: !14, atomGroup: 2, atomRank: 1)
!50 = !DILocation(line: 11, column: 5, scope: !14, atomGroup: 3, atomRank: 1)
!51 = distinct !{!51, !52, !53, !54}
!52 = !DILocation(line: 11, column: 5, scope: !14)
!53 = !DILocation(line: 14, column: 5, scope: !14)
!54 = !{!"llvm.loop.mustprogress"}
!55 = !DILocation(line: 15, column: 5, scope: !14, atomGroup: 7, atomRank: 1)
!56 = distinct !DISubprogram(name: "first", scope: !1, file: !1, line: 18, type: !15, scopeLine: 18, flags: DIFlagPrototyped | DIFlagAllCallsDescribed, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0, retainedNodes: !57, keyInstructions: true)
!57 = !{!58, !59}
!58 = !DILocalVariable(name: "n", arg: 1, scope: !56, file: !1, line: 18, type: !18)
!59 = !DILocalVariable(name: "v", scope: !56, file: !1, line: 19, type: !17)
!60 = !DILocation(line: 0, scope: !56)
!61 = !DILocation(line: 19, column: 16, scope: !56, atomGroup: 1, atomRank: 2)
!62 = !DILocation(line: 20, column: 14, scope: !56, atomGroup: 3, atomRank: 2)
!63 = !DILocation(line: 20, column: 5, scope: !56, atomGroup: 3, atomRank: 1)
