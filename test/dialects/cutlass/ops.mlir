// RUN: mucc-opt %s | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | FileCheck %s --check-prefix=GENERIC

// A contraction with every choice made, and every kind of load and store.

// CHECK-LABEL: cutlass.program @full(
// CHECK-SAME: %amax: !mu.tensor<[], f32>) attributes {target = "sm_90a",
// CHECK-SAME: num_inputs = 6 : i64, dims = ["M", "N", "K"], bound = {K = 4096 : i64},
// CHECK-SAME: promises = affine_set<(d0, d1, d2) : ((d2 mod 8) == 0)>,
// CHECK-SAME: requirements = [#cutlass.requirement<N multiple_of 8, "rows of 'out'">],
// CHECK-SAME: slots = {{\[\[}}!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32>], [!mu.tensor<[M, N], bf16>]]} {
// GENERIC: "cutlass.program"() ({
cutlass.program @full(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[N, K], bf16>, %r: !mu.tensor<[M, N], bf16>,
                      %b: !mu.tensor<[N], f32>, %c: !mu.tensor<[M], f32>, %alpha: f32,
                      %out: !mu.tensor<[M, N], bf16>, %rows: !mu.tensor<[N], f32>, %cols: !mu.tensor<[M], f32>,
                      %amax: !mu.tensor<[], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "r", "b", "c", "alpha", "out", "rows", "cols", "amax"],
                num_inputs = 6 : i64, dims = ["M", "N", "K"], bound = {K = 4096 : i64},
                promises = affine_set<(d0, d1, d2) : (d2 mod 8 == 0)>,
                requirements = [#cutlass.requirement<N multiple_of 8, "rows of 'out'">],
                slots = [[!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32>], [!mu.tensor<[M, N], bf16>]]} {
  %wt = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
  // CHECK: %t = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, N], bf16>
  // GENERIC: "cutlass.workspace"() <{slot = 0 : i64}> : () -> !mu.tensor<[M, N], bf16>
  %t = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, N], bf16>
  // CHECK-NEXT: cutlass.gemm "out" bf16 %x, %wt shape <[M], [N], [K], []> tile <128, 256, 64> cluster <2, 1>
  // CHECK-SAME: mainloop cooperative stages 4 : i64 scheduler <persistent, raster = along_n, swizzle = 2>
  // CHECK-SAME: : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major> {
  cutlass.gemm "out" bf16 %x, %wt shape <[M], [N], [K], []> tile <128, 256, 64> cluster <2, 1> mainloop cooperative
      stages 4 scheduler <persistent, raster = along_n, swizzle = 2>
      : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major> {
    // CHECK-NEXT: %acc = cutlass.acc_fetch
    %acc = cutlass.acc_fetch
    // CHECK-NEXT: %src = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
    %src = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
    // CHECK-NEXT: %aux = cutlass.aux_load %r : !mu.tensor<[M, N], bf16>
    %aux = cutlass.aux_load %r : !mu.tensor<[M, N], bf16>
    // CHECK-NEXT: %row = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
    %row = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
    // CHECK-NEXT: %col = cutlass.col_broadcast %c : !mu.tensor<[M], f32>
    %col = cutlass.col_broadcast %c : !mu.tensor<[M], f32>
    // CHECK-NEXT: %al = cutlass.scalar_broadcast %alpha : f32
    %al = cutlass.scalar_broadcast %alpha : f32
    // CHECK-NEXT: %y = cutlass.compute %acc, %src, %row {
    // CHECK-NEXT: ^bb0(%0: f32, %1: f32, %2: f32):
    %y = cutlass.compute %acc, %src, %row {
    ^bb0(%0: f32, %1: f32, %2: f32):
      %3 = mu.cmp gt %0, %1 : (f32, f32) -> i1
      %4 = mu.select %3, %0, %2 : (i1, f32, f32) -> f32
      // CHECK: cutlass.yield %4
      cutlass.yield %4
    }
    // CHECK: %z = cutlass.compute {
    %z = cutlass.compute {
      %0 = mu.constant 1.0
      cutlass.yield %0
    }
    // CHECK: cutlass.store_d %y, %out : !mu.tensor<[M, N], bf16>
    cutlass.store_d %y, %out : !mu.tensor<[M, N], bf16>
    // CHECK-NEXT: cutlass.aux_store %aux, %t : !mu.tensor<[M, N], bf16>
    cutlass.aux_store %aux, %t : !mu.tensor<[M, N], bf16>
    // CHECK-NEXT: cutlass.row_reduction sum %col, %rows : !mu.tensor<[N], f32>
    cutlass.row_reduction sum %col, %rows : !mu.tensor<[N], f32>
    // CHECK-NEXT: cutlass.col_reduction max %al, %cols : !mu.tensor<[M], f32>
    cutlass.col_reduction max %al, %cols : !mu.tensor<[M], f32>
    // CHECK-NEXT: cutlass.scalar_reduction amax %z, %amax : !mu.tensor<[], f32>
    // GENERIC: "cutlass.scalar_reduction"(%z, %amax) <{kind = #mu<reduction amax>}>
    cutlass.scalar_reduction amax %z, %amax : !mu.tensor<[], f32>
  }
}

// Nothing chosen yet; batches, and leading axes taken as rows.

// CHECK-LABEL: cutlass.program @open(
cutlass.program @open(%x: !mu.tensor<[B, M, K], f16>, %w: !mu.tensor<[B, K, N], f16>, %v: !mu.tensor<[K, N], f16>,
                      %y: !mu.tensor<[B, M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "v", "y"], num_inputs = 3 : i64, dims = ["B", "M", "N", "K"]} {
  // CHECK-NEXT: cutlass.gemm "b" f16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], f16>, !mu.tensor<[B, K, N], f16> {
  cutlass.gemm "b" f16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], f16>, !mu.tensor<[B, K, N], f16> {
    %acc = cutlass.acc_fetch
    cutlass.store_d %acc, %y : !mu.tensor<[B, M, N], f32>
  }
  // CHECK: cutlass.gemm "f" f16 %x, %v shape <[B, M], [N], [K], []> scheduler <stream_k, splits = 2>
  cutlass.gemm "f" f16 %x, %v shape <[B, M], [N], [K], []> scheduler <stream_k, splits = 2>
      : !mu.tensor<[B, M, K], f16>, !mu.tensor<[K, N], f16> {
    %acc = cutlass.acc_fetch
    cutlass.store_d %acc, %y : !mu.tensor<[B, M, N], f32>
  }
}

// Pointwise and reduction kernels.

// CHECK-LABEL: cutlass.program @pointwise(
cutlass.program @pointwise(%x: !mu.tensor<[M, 8], f32>, %y: !mu.tensor<[M, 8], f32>, %s: !mu.tensor<[8], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y", "s"], num_inputs = 1 : i64, dims = ["M"]} {
  // CHECK-NEXT: cutlass.map "m" space ["M", #builtin.int<8>] {
  cutlass.map "m" space ["M", #builtin.int<8>] {
    // CHECK-NEXT: %a = cutlass.load %x : !mu.tensor<[M, 8], f32>
    %a = cutlass.load %x : !mu.tensor<[M, 8], f32>
    // CHECK-NEXT: %b = mu.exp %a : (f32) -> f32
    %b = mu.exp %a : (f32) -> f32
    // CHECK-NEXT: cutlass.store %b, %y : !mu.tensor<[M, 8], f32>
    cutlass.store %b, %y : !mu.tensor<[M, 8], f32>
  }
  // CHECK: cutlass.reduce "r" space ["M", #builtin.int<8>] axes [0] {
  cutlass.reduce "r" space ["M", #builtin.int<8>] axes [0] {
    %a = cutlass.load %y : !mu.tensor<[M, 8], f32>
    // CHECK: %[[R:.*]] = cutlass.reduced min %{{.*}}
    // CHECK-NEXT: cutlass.reduce_store %[[R]], %s : !mu.tensor<[8], f32>
    %reduced1 = cutlass.reduced min %a
    cutlass.reduce_store %reduced1, %s : !mu.tensor<[8], f32>
  }
}

// Two right operands.

// CHECK-LABEL: cutlass.program @pair(
cutlass.program @pair(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[K, N], bf16>, %u: !mu.tensor<[K, N], bf16>,
                      %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "g", "u", "out"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
  // CHECK-NEXT: cutlass.gemm "out" bf16 %x, %g, %u shape <[M], [N], [K], []>
  // CHECK-SAME: : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>, !mu.tensor<[K, N], bf16> {
  // GENERIC: "cutlass.gemm"(%x, %g, %u)
  cutlass.gemm "out" bf16 %x, %g, %u shape <[M], [N], [K], []>
      : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>, !mu.tensor<[K, N], bf16> {
    // CHECK-NEXT: %first = cutlass.acc_fetch
    %first = cutlass.acc_fetch
    // CHECK-NEXT: %second = cutlass.acc_fetch second
    %second = cutlass.acc_fetch second
    %y = cutlass.compute %first, %second {
    ^bb0(%0: f32, %1: f32):
      %2 = mu.mul %0, %1 : (f32, f32) -> f32
      cutlass.yield %2
    }
    cutlass.store_d %y, %out : !mu.tensor<[M, N], bf16>
  }
}

// An entry of a kernel, for two boxes of sizes.
// CHECK-LABEL: cutlass.program @of_few_rows
// CHECK-SAME: entry_of = "rows", guards = [#cutlass.guard<M to 8>, #cutlass.guard<M from 9 to 16, N from 64>]
cutlass.program @of_few_rows(%x: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x"], num_inputs = 1 : i64, dims = ["M", "N"], entry_of = "rows",
                guards = [#cutlass.guard<M to 8>, #cutlass.guard<M from 9 to 16, N from 64>]} {

}
