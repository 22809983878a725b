// RUN: mucc-opt %s -p convert-to-cutlass --split-input-file | FileCheck %s

// Row, column, scalar and matrix operands: each has its node. The first matrix is C, a further one auxiliary.

// CHECK-LABEL: cutlass.program @patterns(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.expand %c axes [1]
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.scalar_broadcast %alpha : f32
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.mul %[[V1]], %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.add %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V6:[0-9]+]] = cutlass.col_broadcast %[[V0]] : !mu.tensor<[M, 1], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.add %[[V5]], %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: %[[V9:[0-9]+]] = cutlass.scalar_broadcast %beta : !mu.tensor<[], f32>
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.mul %[[V8]], %[[V9]]
// CHECK-NEXT: %[[V11:[0-9]+]] = mu.add %[[V7]], %[[V10]]
// CHECK-NEXT: %[[V12:[0-9]+]] = cutlass.aux_load %q : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: %[[V13:[0-9]+]] = mu.add %[[V11]], %[[V12]]
// CHECK-NEXT: %[[V14:[0-9]+]] = mu.cast %[[V13]]
// CHECK-NEXT: %[[V15:[0-9]+]] = mu.cast %[[V14]]
// CHECK-NEXT: cutlass.store_d %[[V13]], %out : !mu.tensor<[M, N], bf16>
mu.kernel @patterns(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], f32>, %c: !mu.tensor<[M], f32>, %r: !mu.tensor<[M, N], bf16>, %q: !mu.tensor<[M, N], bf16>, %alpha: f32, %beta: !mu.tensor<[], f32>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "b", "c", "r", "q", "alpha", "beta"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %2 = mu.mul %1, %alpha : (!mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
    %3 = mu.add %2, %b : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
    %4 = mu.expand %c axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>
    %5 = mu.add %3, %4 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[M, N], f32>
    %6 = mu.mul %r, %beta : (!mu.tensor<[M, N], bf16>, !mu.tensor<[], f32>) -> !mu.tensor<[M, N], bf16>
    %7 = mu.add %5, %6 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
    %8 = mu.add %7, %q : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
    %9 = mu.cast %8 : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], bf16>
    mu.yield %9 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// Extents of 1 broadcast: [M, 1] is a column, [1, N] a row, [1, 1] a number, whichever way they are turned.

// CHECK-LABEL: cutlass.program @ones(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.transpose %d
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.transpose %t
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.col_broadcast %c : !mu.tensor<[M, 1], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.row_broadcast %r : !mu.tensor<[1, N], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.add %[[V4]], %[[V5]]
// CHECK-NEXT: %[[V7:[0-9]+]] = cutlass.scalar_broadcast %s : !mu.tensor<[1, 1], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.add %[[V6]], %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = cutlass.col_broadcast %[[V0]] : !mu.tensor<[M, 1], f32, col_major>
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.add %[[V8]], %[[V9]]
// CHECK-NEXT: %[[V11:[0-9]+]] = cutlass.row_broadcast %[[V1]] : !mu.tensor<[1, N], f32, col_major>
// CHECK-NEXT: %[[V12:[0-9]+]] = mu.add %[[V10]], %[[V11]]
// CHECK-NEXT: %[[V13:[0-9]+]] = mu.cast %[[V12]]
// CHECK-NEXT: %[[V14:[0-9]+]] = mu.cast %[[V13]]
// CHECK-NEXT: cutlass.store_d %[[V12]], %out : !mu.tensor<[M, N], bf16>
mu.kernel @ones(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %c: !mu.tensor<[M, 1], f32>, %r: !mu.tensor<[1, N], f32>, %s: !mu.tensor<[1, 1], f32>, %d: !mu.tensor<[1, M], f32>, %t: !mu.tensor<[N, 1], f32>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "c", "r", "s", "d", "t"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %2 = mu.add %1, %c : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[M, N], f32>
    %3 = mu.add %2, %r : (!mu.tensor<[M, N], f32>, !mu.tensor<[1, N], f32>) -> !mu.tensor<[M, N], f32>
    %4 = mu.add %3, %s : (!mu.tensor<[M, N], f32>, !mu.tensor<[1, 1], f32>) -> !mu.tensor<[M, N], f32>
    %5 = mu.transpose %d : (!mu.tensor<[1, M], f32>) -> !mu.tensor<[M, 1], f32, col_major>
    %6 = mu.add %4, %5 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, 1], f32, col_major>) -> !mu.tensor<[M, N], f32>
    %7 = mu.transpose %t : (!mu.tensor<[N, 1], f32>) -> !mu.tensor<[1, N], f32, col_major>
    %8 = mu.add %6, %7 : (!mu.tensor<[M, N], f32>, !mu.tensor<[1, N], f32, col_major>) -> !mu.tensor<[M, N], f32>
    %9 = mu.cast %8 : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], bf16>
    mu.yield %9 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// A matrix with one row is loaded as a row.

// CHECK-LABEL: cutlass.program @one_row(
// CHECK-NEXT: cutlass.gemm "h" bf16 %x, %w shape <[1], [N], [K], []> : !mu.tensor<[1, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.max %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.row_broadcast %r : !mu.tensor<[1, N], bf16>
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V2]], %[[V3]]
// CHECK-NEXT: cutlass.store_d %[[V0]], %h : !mu.tensor<[1, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V4]], %y : !mu.tensor<[1, N], bf16>
mu.kernel @one_row(%x: !mu.tensor<[1, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %r: !mu.tensor<[1, N], bf16>)
    -> (!mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16>)
    attributes {arg_names = ["x", "w", "r"], result_names = ["h", "y"], dims = ["N", "K"]} {
  %0, %1 = mu.stage "h" contraction : !mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16> {
    %h = mu.matmul bf16 %x, %w : (!mu.tensor<[1, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[1, N], bf16>
    %2 = mu.constant 0.000000e+00 : f64
    %3 = mu.max %h, %2 : (!mu.tensor<[1, N], bf16>, f32) -> !mu.tensor<[1, N], bf16>
    %4 = mu.add %3, %r : (!mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16>) -> !mu.tensor<[1, N], bf16>
    mu.yield %h, %4 : !mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16>
  }
  mu.return %0, %1 : !mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16>
}

// -----

// Batches: biases for all of them and for each, numbers for each.

// CHECK-LABEL: cutlass.program @batched(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.add %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.row_broadcast %r : !mu.tensor<[B, 1, N], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.col_broadcast %c : !mu.tensor<[M, 1], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.add %[[V4]], %[[V5]]
// CHECK-NEXT: %[[V7:[0-9]+]] = cutlass.scalar_broadcast %s : !mu.tensor<[B, 1, 1], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.add %[[V6]], %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.cast %[[V8]]
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.cast %[[V9]]
// CHECK-NEXT: cutlass.store_d %[[V8]], %out : !mu.tensor<[B, M, N], bf16>
mu.kernel @batched(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[B, K, N], bf16>, %b: !mu.tensor<[N], f32>, %r: !mu.tensor<[B, 1, N], f32>, %c: !mu.tensor<[M, 1], f32>, %s: !mu.tensor<[B, 1, 1], f32>)
    -> !mu.tensor<[B, M, N], bf16>
    attributes {arg_names = ["x", "w", "b", "r", "c", "s"], result_names = ["out"], dims = ["B", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    %2 = mu.add %1, %b : (!mu.tensor<[B, M, N], bf16>, !mu.tensor<[N], f32>) -> !mu.tensor<[B, M, N], f32>
    %3 = mu.add %2, %r : (!mu.tensor<[B, M, N], f32>, !mu.tensor<[B, 1, N], f32>) -> !mu.tensor<[B, M, N], f32>
    %4 = mu.add %3, %c : (!mu.tensor<[B, M, N], f32>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[B, M, N], f32>
    %5 = mu.add %4, %s : (!mu.tensor<[B, M, N], f32>, !mu.tensor<[B, 1, 1], f32>) -> !mu.tensor<[B, M, N], f32>
    %6 = mu.cast %5 : (!mu.tensor<[B, M, N], f32>) -> !mu.tensor<[B, M, N], bf16>
    mu.yield %6 : !mu.tensor<[B, M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, M, N], bf16>
}

// -----

// A residual without the batch axis is read where it lies, once for every batch.

// CHECK-LABEL: cutlass.program @batched_residual(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V2]], %[[V3]]
// CHECK-NEXT: cutlass.store_d %[[V4]], %out : !mu.tensor<[B, M, N], bf16>
mu.kernel @batched_residual(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[B, K, N], bf16>, %r: !mu.tensor<[M, N], bf16>)
    -> !mu.tensor<[B, M, N], bf16>
    attributes {arg_names = ["x", "w", "r"], result_names = ["out"], dims = ["B", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    %2 = mu.add %1, %r : (!mu.tensor<[B, M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    mu.yield %2 : !mu.tensor<[B, M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, M, N], bf16>
}

// -----

// Where the right operand has no batch axis, the batches of the left one are rows of one product.

// CHECK-LABEL: cutlass.program @flat(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.expand %c axes [2]
// CHECK-NEXT: cutlass.gemm "y" bf16 %x, %w shape <[B, M], [N], [K], []> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V1]], %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = cutlass.col_broadcast %[[V0]] : !mu.tensor<[B, M, 1], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.add %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V6:[0-9]+]] = cutlass.src_fetch %r : !mu.tensor<[B, M, N], bf16>
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.add %[[V5]], %[[V6]]
// CHECK-NEXT: cutlass.col_reduction sum %[[V7]], %s : !mu.tensor<[B, M], f32>
// CHECK-NEXT: cutlass.scalar_reduction amax %[[V7]], %a : !mu.tensor<[], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.cast %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.cast %[[V8]]
// CHECK-NEXT: cutlass.store_d %[[V7]], %y : !mu.tensor<[B, M, N], bf16>
mu.kernel @flat(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], f32>, %c: !mu.tensor<[B, M], f32>, %r: !mu.tensor<[B, M, N], bf16>)
    -> (!mu.tensor<[B, M, N], bf16>, !mu.tensor<[B, M], f32>, !mu.tensor<[], f32>)
    attributes {arg_names = ["x", "w", "b", "c", "r"], result_names = ["y", "s", "a"], dims = ["B", "M", "N", "K"]} {
  %0, %1, %2 = mu.stage "y" contraction : !mu.tensor<[B, M], f32>, !mu.tensor<[], f32>, !mu.tensor<[B, M, N], bf16> {
    %3 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    %4 = mu.add %3, %b : (!mu.tensor<[B, M, N], bf16>, !mu.tensor<[N], f32>) -> !mu.tensor<[B, M, N], f32>
    %5 = mu.expand %c axes [2] : (!mu.tensor<[B, M], f32>) -> !mu.tensor<[B, M, 1], f32>
    %6 = mu.add %4, %5 : (!mu.tensor<[B, M, N], f32>, !mu.tensor<[B, M, 1], f32>) -> !mu.tensor<[B, M, N], f32>
    %y = mu.add %6, %r : (!mu.tensor<[B, M, N], f32>, !mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, M, N], f32>
    %7 = mu.reduce sum %y axes [2] : (!mu.tensor<[B, M, N], f32>) -> !mu.tensor<[B, M], f32>
    %8 = mu.reduce amax %y axes [0, 1, 2] : (!mu.tensor<[B, M, N], f32>) -> !mu.tensor<[], f32>
    %9 = mu.cast %y : (!mu.tensor<[B, M, N], f32>) -> !mu.tensor<[B, M, N], bf16>
    mu.yield %7, %8, %9 : !mu.tensor<[B, M], f32>, !mu.tensor<[], f32>, !mu.tensor<[B, M, N], bf16>
  }
  mu.return %2, %0, %1 : !mu.tensor<[B, M, N], bf16>, !mu.tensor<[B, M], f32>, !mu.tensor<[], f32>
}

// -----

// Also with a single row per batch.

// CHECK-LABEL: cutlass.program @flat_row(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[B, 1], [N], [K], []> : !mu.tensor<[B, 1, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.src_fetch %r : !mu.tensor<[B, 1, N], bf16>
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.add %[[V0]], %[[V1]]
// CHECK-NEXT: cutlass.store_d %[[V2]], %out : !mu.tensor<[B, 1, N], bf16>
mu.kernel @flat_row(%x: !mu.tensor<[B, 1, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %r: !mu.tensor<[B, 1, N], bf16>)
    -> !mu.tensor<[B, 1, N], bf16>
    attributes {arg_names = ["x", "w", "r"], result_names = ["out"], dims = ["B", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, 1, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, 1, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[B, 1, N], bf16>
    %2 = mu.add %1, %r : (!mu.tensor<[B, 1, N], bf16>, !mu.tensor<[B, 1, N], bf16>) -> !mu.tensor<[B, 1, N], bf16>
    mu.yield %2 : !mu.tensor<[B, 1, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, 1, N], bf16>
}

// -----

// A column that repeats for every batch forbids that.

// CHECK-LABEL: cutlass.program @not_flat_column(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.col_broadcast %c : !mu.tensor<[M, 1], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.add %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.cast %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.cast %[[V3]]
// CHECK-NEXT: cutlass.store_d %[[V2]], %out : !mu.tensor<[B, M, N], bf16>
mu.kernel @not_flat_column(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %c: !mu.tensor<[M, 1], f32>)
    -> !mu.tensor<[B, M, N], bf16>
    attributes {arg_names = ["x", "w", "c"], result_names = ["out"], dims = ["B", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    %2 = mu.add %1, %c : (!mu.tensor<[B, M, N], bf16>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[B, M, N], f32>
    %3 = mu.cast %2 : (!mu.tensor<[B, M, N], f32>) -> !mu.tensor<[B, M, N], bf16>
    mu.yield %3 : !mu.tensor<[B, M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, M, N], bf16>
}

// -----

// So does a left operand that does not lie row after row, and a reduction over the rows of each batch.

// CHECK-LABEL: cutlass.program @not_flat_layout(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.transpose %x
// CHECK-NEXT: cutlass.gemm "out" bf16 %[[V0]], %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], bf16, col_major>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V1]], %out : !mu.tensor<[B, M, N], bf16>
// CHECK-LABEL: cutlass.program @not_flat_reduction(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.row_reduction sum %[[V0]], %out : !mu.tensor<[B, N], f32>
mu.kernel @not_flat_layout(%x: !mu.tensor<[B, K, M], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[B, M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["B", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, M, N], bf16> {
    %1 = mu.transpose %x : (!mu.tensor<[B, K, M], bf16>) -> !mu.tensor<[B, M, K], bf16, col_major>
    %2 = mu.matmul bf16 %1, %w : (!mu.tensor<[B, M, K], bf16, col_major>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    mu.yield %2 : !mu.tensor<[B, M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, M, N], bf16>
}
mu.kernel @not_flat_reduction(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[B, N], f32>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["B", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, N], f32> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    %2 = mu.reduce sum %1 axes [1] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, N], f32>
    mu.yield %2 : !mu.tensor<[B, N], f32>
  }
  mu.return %0 : !mu.tensor<[B, N], f32>
}

// -----

// Transposed operands are views: the layouts say what is contiguous.

// CHECK-LABEL: cutlass.program @transposed(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.transpose %x
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.transpose %w
// CHECK-NEXT: cutlass.gemm "out" bf16 %[[V0]], %[[V1]] shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16, col_major>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V2]], %out : !mu.tensor<[M, N], bf16>
mu.kernel @transposed(%x: !mu.tensor<[K, M], bf16>, %w: !mu.tensor<[N, K], bf16, col_major>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %x : (!mu.tensor<[K, M], bf16>) -> !mu.tensor<[M, K], bf16, col_major>
    %2 = mu.transpose %w : (!mu.tensor<[N, K], bf16, col_major>) -> !mu.tensor<[K, N], bf16>
    %3 = mu.matmul bf16 %1, %2 : (!mu.tensor<[M, K], bf16, col_major>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %3 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// A transposed residual is loaded as it lies.

// CHECK-LABEL: cutlass.program @transposed_residual(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.transpose %r
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.src_fetch %[[V0]] : !mu.tensor<[M, N], bf16, col_major>
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V1]], %[[V2]]
// CHECK-NEXT: cutlass.store_d %[[V3]], %out : !mu.tensor<[M, N], bf16>
mu.kernel @transposed_residual(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %r: !mu.tensor<[N, M], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "r"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %2 = mu.transpose %r : (!mu.tensor<[N, M], bf16>) -> !mu.tensor<[M, N], bf16, col_major>
    %3 = mu.add %1, %2 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    mu.yield %3 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// An operand that has no contiguous axis among its last two, or half of the batch axes, is copied first.

// CHECK-LABEL: cutlass.program @strided(
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace : !mu.tensor<[M, K], bf16>
// CHECK-NEXT: cutlass.map "out.copy0" space ["M", "K"] {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, K], bf16, strides(_, 2)>
// CHECK-NEXT: cutlass.store %[[V1]], %[[V0]] : !mu.tensor<[M, K], bf16>
// CHECK: cutlass.gemm "out" bf16 %[[V0]], %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, strides(_, 1)> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V2]], %out : !mu.tensor<[M, N], bf16>
// CHECK-LABEL: cutlass.program @half_batched(
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace : !mu.tensor<[B, H, M, K], bf16>
// CHECK-NEXT: cutlass.map "out.copy0" space ["B", "H", "M", "K"] {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.load %x : !mu.tensor<[H, M, K], bf16>
// CHECK-NEXT: cutlass.store %[[V1]], %[[V0]] : !mu.tensor<[B, H, M, K], bf16>
// CHECK: cutlass.gemm "out" bf16 %[[V0]], %w shape <[M], [N], [K], [B, H]> : !mu.tensor<[B, H, M, K], bf16>, !mu.tensor<[B, H, K, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V2]], %out : !mu.tensor<[B, H, M, N], bf16>
mu.kernel @strided(%x: !mu.tensor<[M, K], bf16, strides(_, 2)>, %w: !mu.tensor<[K, N], bf16, strides(_, 1)>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16, strides(_, 2)>, !mu.tensor<[K, N], bf16, strides(_, 1)>) -> !mu.tensor<[M, N], bf16>
    mu.yield %1 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[M, N], bf16>
}
mu.kernel @half_batched(%x: !mu.tensor<[H, M, K], bf16>, %w: !mu.tensor<[B, H, K, N], bf16>)
    -> !mu.tensor<[B, H, M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["B", "H", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, H, M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[H, M, K], bf16>, !mu.tensor<[B, H, K, N], bf16>) -> !mu.tensor<[B, H, M, N], bf16>
    mu.yield %1 : !mu.tensor<[B, H, M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, H, M, N], bf16>
}

// -----

// A vector with a run-time stride is copied, as a vector.

// CHECK-LABEL: cutlass.program @strided_bias(
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace : !mu.tensor<[1, N], f32>
// CHECK-NEXT: cutlass.map "out.copy0" space [#builtin.int<1>, "N"] {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.load %b : !mu.tensor<[N], f32, strides(_)>
// CHECK-NEXT: cutlass.store %[[V1]], %[[V0]] : !mu.tensor<[1, N], f32>
// CHECK: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.row_broadcast %[[V0]] : !mu.tensor<[1, N], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cast %[[V4]]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.cast %[[V5]]
// CHECK-NEXT: cutlass.store_d %[[V4]], %out : !mu.tensor<[M, N], bf16>
mu.kernel @strided_bias(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], f32, strides(_)>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "b"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %2 = mu.add %1, %b : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32, strides(_)>) -> !mu.tensor<[M, N], f32>
    %3 = mu.cast %2 : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], bf16>
    mu.yield %3 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// Batch axes with strides of their own do not fold into one.

// CHECK-LABEL: cutlass.program @strided_batch(
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace : !mu.tensor<[B, H, M, N], bf16>
// CHECK-NEXT: cutlass.map "out.copy0" space ["B", "H", "M", "N"] {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.load %r : !mu.tensor<[B, H, M, N], bf16, strides(_, _, _, 1)>
// CHECK-NEXT: cutlass.store %[[V1]], %[[V0]] : !mu.tensor<[B, H, M, N], bf16>
// CHECK: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], [B, H]> : !mu.tensor<[B, H, M, K], bf16>, !mu.tensor<[B, H, K, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.src_fetch %[[V0]] : !mu.tensor<[B, H, M, N], bf16>
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.aux_load %q : !mu.tensor<[B, H, M, N], bf16>
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.add %[[V4]], %[[V5]]
// CHECK-NEXT: cutlass.store_d %[[V6]], %out : !mu.tensor<[B, H, M, N], bf16>
mu.kernel @strided_batch(%x: !mu.tensor<[B, H, M, K], bf16>, %w: !mu.tensor<[B, H, K, N], bf16>, %r: !mu.tensor<[B, H, M, N], bf16, strides(_, _, _, 1)>, %q: !mu.tensor<[B, H, M, N], bf16>)
    -> !mu.tensor<[B, H, M, N], bf16>
    attributes {arg_names = ["x", "w", "r", "q"], result_names = ["out"], dims = ["B", "H", "M", "N", "K"]} {
  %0 = mu.stage "out" contraction : !mu.tensor<[B, H, M, N], bf16> {
    %1 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, H, M, K], bf16>, !mu.tensor<[B, H, K, N], bf16>) -> !mu.tensor<[B, H, M, N], bf16>
    %2 = mu.add %1, %r : (!mu.tensor<[B, H, M, N], bf16>, !mu.tensor<[B, H, M, N], bf16, strides(_, _, _, 1)>) -> !mu.tensor<[B, H, M, N], bf16>
    %3 = mu.add %2, %q : (!mu.tensor<[B, H, M, N], bf16>, !mu.tensor<[B, H, M, N], bf16>) -> !mu.tensor<[B, H, M, N], bf16>
    mu.yield %3 : !mu.tensor<[B, H, M, N], bf16>
  }
  mu.return %0 : !mu.tensor<[B, H, M, N], bf16>
}

// -----

// One value for two outputs is stored to both: the second place is an auxiliary store.

// CHECK-LABEL: cutlass.program @outputs(
// CHECK-NEXT: cutlass.gemm "a" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.exp %[[V0]]
// CHECK-NEXT: cutlass.store_d %[[V0]], %a : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V0]], %c : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V1]], %b : !mu.tensor<[M, N], bf16>
mu.kernel @outputs(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>)
    attributes {arg_names = ["x", "w"], result_names = ["a", "b", "c"], dims = ["M", "N", "K"]} {
  %0, %1 = mu.stage "a" contraction : !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16> {
    %y = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %2 = mu.exp %y : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %y, %2 : !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>
  }
  mu.return %0, %1, %0 : !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>
}

// -----

// Reductions alone: the product itself is never stored.

// CHECK-LABEL: cutlass.program @reductions(
// CHECK-NEXT: cutlass.gemm "rows" bf16 %x, %w shape <[M], [N], [K], [B]> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.col_reduction sum %[[V0]], %rows : !mu.tensor<[B, M], f32>
// CHECK-NEXT: cutlass.row_reduction max %[[V0]], %columns : !mu.tensor<[B, N], f32>
// CHECK-NEXT: cutlass.scalar_reduction sum %[[V0]], %each : !mu.tensor<[B], f32>
// CHECK-NEXT: cutlass.scalar_reduction amax %[[V0]], %all : !mu.tensor<[], f32>
// CHECK-NEXT: cutlass.row_reduction sum %[[V0]], %common : !mu.tensor<[N], f32>
mu.kernel @reductions(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[B, K, N], bf16>)
    -> (!mu.tensor<[B, M], f32>, !mu.tensor<[B, N], f32>, !mu.tensor<[B], f32>, !mu.tensor<[], f32>, !mu.tensor<[N], f32>)
    attributes {arg_names = ["x", "w"], result_names = ["rows", "columns", "each", "all", "common"], dims = ["B", "M", "N", "K"]} {
  %0, %1, %2, %3, %4 = mu.stage "rows" contraction : !mu.tensor<[B, M], f32>, !mu.tensor<[B, N], f32>, !mu.tensor<[B], f32>, !mu.tensor<[], f32>, !mu.tensor<[N], f32> {
    %y = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
    %5 = mu.reduce sum %y axes [2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, M], f32>
    %6 = mu.reduce max %y axes [1] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, N], f32>
    %7 = mu.reduce sum %y axes [1, 2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B], f32>
    %8 = mu.reduce amax %y axes [0, 1, 2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[], f32>
    %9 = mu.reduce sum %y axes [0, 1] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[N], f32>
    mu.yield %5, %6, %7, %8, %9 : !mu.tensor<[B, M], f32>, !mu.tensor<[B, N], f32>, !mu.tensor<[B], f32>, !mu.tensor<[], f32>, !mu.tensor<[N], f32>
  }
  mu.return %0, %1, %2, %3, %4 : !mu.tensor<[B, M], f32>, !mu.tensor<[B, N], f32>, !mu.tensor<[B], f32>, !mu.tensor<[], f32>, !mu.tensor<[N], f32>
}

// -----

// An explicit rounding is a cast and a cast back; a store at that dtype does it anyway.

// CHECK-LABEL: cutlass.program @casts(
// CHECK-NEXT: cutlass.gemm "a" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.cast %[[V0]]
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.cast %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.mul %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cast %[[V4]]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.cast %[[V5]]
// CHECK-NEXT: cutlass.store_d %[[V2]], %a : !mu.tensor<[M, N], f32>
// CHECK-NEXT: cutlass.aux_store %[[V4]], %b : !mu.tensor<[M, N], bf16>
mu.kernel @casts(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>)
    attributes {arg_names = ["x", "w"], result_names = ["a", "b"], dims = ["M", "N", "K"]} {
  %0, %1 = mu.stage "a" contraction : !mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16> {
    %2 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %3 = mu.cast %2 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f16>
    %y = mu.cast %3 : (!mu.tensor<[M, N], f16>) -> !mu.tensor<[M, N], f32>
    %4 = mu.constant 2.000000e+00 : f64
    %5 = mu.mul %y, %4 : (!mu.tensor<[M, N], f32>, f32) -> !mu.tensor<[M, N], f32>
    %6 = mu.cast %5 : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], bf16>
    mu.yield %y, %6 : !mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>
  }
  mu.return %0, %1 : !mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>
}

// -----

// A condition that is cast is a number at once.

// CHECK-LABEL: cutlass.program @bool_cast(
// CHECK-NEXT: cutlass.map "out" space ["M", "N"] {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.cmp gt %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.cast %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cmp lt %[[V0]], %[[V4]]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.cast %[[V5]]
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.cast %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.add %[[V3]], %[[V7]]
// CHECK-NEXT: cutlass.store %[[V8]], %out : !mu.tensor<[M, N], f32>
mu.kernel @bool_cast(%x: !mu.tensor<[M, N], f32>)
    -> !mu.tensor<[M, N], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %0 = mu.stage "out" map : !mu.tensor<[M, N], f32> {
    %1 = mu.constant 0.000000e+00 : f64
    %2 = mu.cmp gt %x, %1 : (!mu.tensor<[M, N], f32>, f32) -> !mu.tensor<[M, N], i1>
    %3 = mu.cast %2 : (!mu.tensor<[M, N], i1>) -> !mu.tensor<[M, N], f32>
    %4 = mu.constant 1.000000e+00 : f64
    %5 = mu.cmp lt %x, %4 : (!mu.tensor<[M, N], f32>, f32) -> !mu.tensor<[M, N], i1>
    %6 = mu.cast %5 : (!mu.tensor<[M, N], i1>) -> !mu.tensor<[M, N], bf16>
    %7 = mu.add %3, %6 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
    mu.yield %7 : !mu.tensor<[M, N], f32>
  }
  mu.return %0 : !mu.tensor<[M, N], f32>
}

// -----

// Map and reduction kernels load whatever broadcasts to their space.

// CHECK-LABEL: cutlass.program @pointwise(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.expand %c axes [1]
// CHECK-NEXT: cutlass.reduce "z" space ["M", "N"] axes [0] {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.load %[[V0]] : !mu.tensor<[M, 1], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.mul %[[V1]], %[[V2]]
// CHECK-NEXT: %[[R0:.*]] = cutlass.reduced min %[[V3]]
// CHECK-NEXT: cutlass.reduce_store %[[R0]], %z : !mu.tensor<[N], f32>
// CHECK: %[[V4:[0-9]+]] = mu.expand %c axes [1]
// CHECK-NEXT: cutlass.map "y" space ["M", "N"] {
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = cutlass.load %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.add %[[V5]], %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = cutlass.load %[[V4]] : !mu.tensor<[M, 1], f32>
// CHECK-NEXT: %[[V9:[0-9]+]] = cutlass.load %s : f32
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.mul %[[V8]], %[[V9]]
// CHECK-NEXT: %[[V11:[0-9]+]] = mu.add %[[V7]], %[[V10]]
// CHECK-NEXT: cutlass.store %[[V11]], %y : !mu.tensor<[M, N], f32>
mu.kernel @pointwise(%x: !mu.tensor<[M, N], f32>, %b: !mu.tensor<[N], f32>, %c: !mu.tensor<[M], f32>, %s: f32)
    -> (!mu.tensor<[M, N], f32>, !mu.tensor<[N], f32>)
    attributes {arg_names = ["x", "b", "c", "s"], result_names = ["y", "z"], dims = ["M", "N"]} {
  %0 = mu.stage "z" reduction : !mu.tensor<[N], f32> {
    %1 = mu.expand %c axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>
    %2 = mu.mul %x, %1 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[M, N], f32>
    %3 = mu.reduce min %2 axes [0] : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[N], f32>
    mu.yield %3 : !mu.tensor<[N], f32>
  }
  %4 = mu.stage "y" map : !mu.tensor<[M, N], f32> {
    %5 = mu.add %x, %b : (!mu.tensor<[M, N], f32>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
    %6 = mu.expand %c axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>
    %7 = mu.mul %6, %s : (!mu.tensor<[M, 1], f32>, f32) -> !mu.tensor<[M, 1], f32>
    %8 = mu.add %5, %7 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[M, N], f32>
    mu.yield %8 : !mu.tensor<[M, N], f32>
  }
  mu.return %4, %0 : !mu.tensor<[M, N], f32>, !mu.tensor<[N], f32>
}

// -----

// Intermediates are tensors of the workspace; an output that a later stage reads is none.

// CHECK-LABEL: cutlass.program @chain(
// CHECK-NEXT: cutlass.gemm "h" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V0]], %h : !mu.tensor<[M, M], bf16>
// CHECK: %[[V1:[0-9]+]] = cutlass.workspace : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s0" bf16 %h, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V2]], %[[V1]] : !mu.tensor<[M, M], bf16>
// CHECK: cutlass.gemm "y" bf16 %[[V1]], %h shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V3]], %y : !mu.tensor<[M, M], bf16>
mu.kernel @chain(%x: !mu.tensor<[M, M], bf16>)
    -> (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>)
    attributes {arg_names = ["x"], result_names = ["h", "y"], dims = ["M"]} {
  %0 = mu.stage "h" contraction : !mu.tensor<[M, M], bf16> {
    %h = mu.matmul bf16 %x, %x : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %h : !mu.tensor<[M, M], bf16>
  }
  %1 = mu.stage "s0" contraction : !mu.tensor<[M, M], bf16> {
    %g = mu.matmul bf16 %0, %x : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %g : !mu.tensor<[M, M], bf16>
  }
  %2 = mu.stage "y" contraction : !mu.tensor<[M, M], bf16> {
    %3 = mu.matmul bf16 %1, %0 : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %3 : !mu.tensor<[M, M], bf16>
  }
  mu.return %0, %2 : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>
}
