// RUN: mucc-opt %s -p legalize-target --verify-diagnostics --split-input-file | FileCheck %s

// TMA moves whole granules of 16 bytes: run-time extents that are contiguous get a requirement.

// CHECK-LABEL: cutlass.program @required(
// CHECK-SAME: num_inputs = 2 : i64, dims = ["M", "N", "K"], requirements = [#cutlass.requirement<K multiple_of 8, "rows of 'x' are copied in multiples of 16 bytes">, #cutlass.requirement<N multiple_of 8, "rows of 'w' are copied in multiples of 16 bytes">]} {
// CHECK: cutlass.gemm "out"
cutlass.program @required(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}

// -----

// Four f32 elements are a granule; of two demands on one dim the stronger one is kept.

// CHECK-LABEL: cutlass.program @stronger(
// CHECK-SAME: num_inputs = 3 : i64, dims = ["M", "N", "K"], requirements = [#cutlass.requirement<K multiple_of 4, "rows of 'x' are copied in multiples of 16 bytes">, #cutlass.requirement<N multiple_of 8, "rows of 'r' are copied in multiples of 16 bytes">]} {
// CHECK: cutlass.gemm "out"
cutlass.program @stronger(%x: !mu.tensor<[M, K], f32>, %w: !mu.tensor<[N, K], f32>, %r: !mu.tensor<[M, N], bf16>, %out: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "r", "out"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
  %0 = mu.transpose %w : (!mu.tensor<[N, K], f32>) -> !mu.tensor<[K, N], f32, col_major>
  cutlass.gemm "out" tf32 %x, %0 shape <[M], [N], [K], []> : !mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32, col_major> {
    %1 = cutlass.acc_fetch
    %2 = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
    %3 = cutlass.compute %1, %2 {
    ^bb0(%4: f32, %5: f32):
      %6 = mu.add %4, %5 : (f32, f32) -> f32
      cutlass.yield %6
    }
    cutlass.store_d %3, %out : !mu.tensor<[M, N], f32>
  }
}

// -----

// What the caller promised is not demanded again, also where several promises make it up.

// CHECK-LABEL: cutlass.program @promised(
// CHECK-SAME: num_inputs = 2 : i64, dims = ["M", "N", "K"], promises = affine_set<(d0, d1, d2) : ((d2 mod 16) == 0, (d1 mod 12) == 0, (d1 mod 8) == 0)>} {
// CHECK: cutlass.gemm "out"
cutlass.program @promised(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"], promises = affine_set<(d0, d1, d2) : ((d2 mod 16) == 0, (d1 mod 12) == 0, (d1 mod 8) == 0)>} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}

// -----

// A weaker promise is not enough, nor one about a sum.

// CHECK-LABEL: cutlass.program @weak(
// CHECK-SAME: num_inputs = 2 : i64, dims = ["M", "N", "K"], promises = affine_set<(d0, d1, d2) : ((d2 mod 4) == 0, (d1 + (d0 mod 8)) == 0)>, requirements = [#cutlass.requirement<K multiple_of 8, "rows of 'x' are copied in multiples of 16 bytes">, #cutlass.requirement<N multiple_of 8, "rows of 'w' are copied in multiples of 16 bytes">]} {
// CHECK: cutlass.gemm "out"
cutlass.program @weak(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"], promises = affine_set<(d0, d1, d2) : ((d2 mod 4) == 0, (d1 + (d0 mod 8)) == 0)>} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}

// -----

// Fixed extents that are whole granules need nothing; rows and batches may have any extent.

// CHECK-LABEL: cutlass.program @fixed(
// CHECK-SAME: num_inputs = 2 : i64, dims = ["B", "M"], bound = {M = 3 : i64}} {
// CHECK: cutlass.gemm "out"
cutlass.program @fixed(%x: !mu.tensor<[B, 3, 64], bf16>, %w: !mu.tensor<[B, 64, 72], bf16>, %out: !mu.tensor<[B, 3, 72], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["B", "M"], bound = {M = 3 : i64}} {
  cutlass.gemm "out" bf16 %x, %w shape <[3], [72], [64], [B]> : !mu.tensor<[B, 3, 64], bf16>, !mu.tensor<[B, 64, 72], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[B, 3, 72], bf16>
  }
}

// -----

// Vectors, reductions, pointwise and reduction kernels are no matter of TMA.

// CHECK-LABEL: cutlass.program @vectors(
// CHECK-SAME: num_inputs = 5 : i64, dims = ["M", "N"]} {
// CHECK: cutlass.gemm "s"
cutlass.program @vectors(%x: !mu.tensor<[M, 8], bf16>, %w: !mu.tensor<[8, 16], bf16>, %b: !mu.tensor<[16], f32>, %c: !mu.tensor<[M], f32>, %y: !mu.tensor<[M, N], bf16>, %s: !mu.tensor<[16], f32>, %t: !mu.tensor<[M, N], f32>, %u: !mu.tensor<[N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "b", "c", "y", "s", "t", "u"], num_inputs = 5 : i64, dims = ["M", "N"]} {
  %0 = mu.expand %c axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>
  cutlass.gemm "s" bf16 %x, %w shape <[M], [16], [8], []> : !mu.tensor<[M, 8], bf16>, !mu.tensor<[8, 16], bf16> {
    %1 = cutlass.acc_fetch
    %2 = cutlass.row_broadcast %b : !mu.tensor<[16], f32>
    %3 = cutlass.col_broadcast %0 : !mu.tensor<[M, 1], f32>
    %4 = cutlass.compute %1, %2, %3 {
    ^bb0(%5: f32, %6: f32, %7: f32):
      %8 = mu.add %5, %6 : (f32, f32) -> f32
      %9 = mu.add %8, %7 : (f32, f32) -> f32
      cutlass.yield %9
    }
    cutlass.row_reduction sum %4, %s : !mu.tensor<[16], f32>
  }
  cutlass.reduce "u" space ["M", "N"] axes [0] {
    %10 = cutlass.load %y : !mu.tensor<[M, N], bf16>
    %reduced1 = cutlass.reduced max %10
    cutlass.reduce_store %reduced1, %u : !mu.tensor<[N], f32>
  }
  cutlass.map "t" space ["M", "N"] {
    %11 = cutlass.load %y : !mu.tensor<[M, N], bf16>
    %12 = cutlass.compute %11 {
    ^bb0(%13: f32):
      %14 = mu.constant 2.000000e+00 : f64
      %15 = mu.mul %13, %14 : (f32, f32) -> f32
      cutlass.yield %15
    }
    cutlass.store %12, %t : !mu.tensor<[M, N], f32>
  }
}

// -----

// A fixed extent that breaks a granule is an error.

// CHECK: error[MU3101]: rows of 'x' have 100 bf16 elements, 200 bytes, but TMA copies whole multiples of 16 bytes
cutlass.program @odd(%x: !mu.tensor<[M, 100], bf16>, %w: !mu.tensor<[100, 8], bf16>, %out: !mu.tensor<[M, 8], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [8], [100], []> : !mu.tensor<[M, 100], bf16>, !mu.tensor<[100, 8], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, 8], bf16>
  }
}

// -----

// Every tensor with such rows is named: outputs, sources, and what lies transposed.

// CHECK: error[MU3101]: rows of 'w' have 9 bf16 elements, 18 bytes, but TMA copies whole multiples of 16 bytes
// CHECK: error[MU3101]: rows of 'r' have 9 f32 elements, 36 bytes, but TMA copies whole multiples of 16 bytes
// CHECK: error[MU3101]: rows of 'out' have 9 bf16 elements, 18 bytes, but TMA copies whole multiples of 16 bytes
cutlass.program @odd_all(%x: !mu.tensor<[8, M], bf16>, %w: !mu.tensor<[8, 9], bf16>, %r: !mu.tensor<[M, 9], f32>, %out: !mu.tensor<[M, 9], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "r", "out"], num_inputs = 3 : i64, dims = ["M"]} {
  %0 = mu.transpose %x : (!mu.tensor<[8, M], bf16>) -> !mu.tensor<[M, 8], bf16, col_major>
  cutlass.gemm "out" bf16 %0, %w shape <[M], [9], [8], []> : !mu.tensor<[M, 8], bf16, col_major>, !mu.tensor<[8, 9], bf16> {
    %1 = cutlass.acc_fetch
    %2 = cutlass.src_fetch %r : !mu.tensor<[M, 9], f32>
    %3 = cutlass.compute %1, %2 {
    ^bb0(%4: f32, %5: f32):
      %6 = mu.add %4, %5 : (f32, f32) -> f32
      cutlass.yield %6
    }
    cutlass.store_d %3, %out : !mu.tensor<[M, 9], bf16>
  }
}

// -----

// An intermediate is one of the compiler's own.

// CHECK: error[MU3101]: rows of an intermediate have 9 bf16 elements, 18 bytes, but TMA copies whole multiples of 16 bytes
// CHECK: error[MU3101]: rows of an intermediate have 9 bf16 elements, 18 bytes, but TMA copies whole multiples of 16 bytes
// CHECK: error[MU3101]: rows of 'v' have 9 bf16 elements, 18 bytes, but TMA copies whole multiples of 16 bytes
cutlass.program @odd_intermediate(%x: !mu.tensor<[M, 8], bf16>, %w: !mu.tensor<[9, 8], bf16>, %v: !mu.tensor<[8, 9], bf16>, %out: !mu.tensor<[M, 8], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "v", "out"], num_inputs = 3 : i64, dims = ["M"]} {
  %0 = mu.transpose %w : (!mu.tensor<[9, 8], bf16>) -> !mu.tensor<[8, 9], bf16, col_major>
  %1 = cutlass.workspace : !mu.tensor<[M, 9], bf16>
  cutlass.gemm "s0" bf16 %x, %0 shape <[M], [9], [8], []> : !mu.tensor<[M, 8], bf16>, !mu.tensor<[8, 9], bf16, col_major> {
    %2 = cutlass.acc_fetch
    cutlass.store_d %2, %1 : !mu.tensor<[M, 9], bf16>
  }
  %3 = mu.transpose %v : (!mu.tensor<[8, 9], bf16>) -> !mu.tensor<[9, 8], bf16, col_major>
  cutlass.gemm "out" bf16 %1, %3 shape <[M], [8], [9], []> : !mu.tensor<[M, 9], bf16>, !mu.tensor<[9, 8], bf16, col_major> {
    %4 = cutlass.acc_fetch
    cutlass.store_d %4, %out : !mu.tensor<[M, 8], bf16>
  }
}

// -----

// Without TMA, rows are accessed by what is known of them; a free stride is checked at every call.

// CHECK-LABEL: cutlass.program @multistage(
// CHECK-SAME: num_inputs = 3 : i64, dims = ["M", "N", "K"], promises = affine_set<(d0, d1, d2) : ((d2 mod 4) == 0)>} {
// CHECK: cutlass.gemm "out"{{.*}} mainloop multistage {{.*}}granules [8, 2, 4, 16]
cutlass.program @multistage(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %r: !mu.tensor<[M, N], f32>, %out: !mu.tensor<[M, 24], bf16, strides(_, 1)>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "r", "out"], num_inputs = 3 : i64, dims = ["M", "N", "K"], promises = affine_set<(d0, d1, d2) : ((d2 mod 4) == 0)>} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [24], [K], []> mainloop multistage : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = cutlass.src_fetch %r : !mu.tensor<[M, N], f32>
    %2 = cutlass.compute %0, %1 {
    ^bb0(%3: f32, %4: f32):
      %5 = mu.add %3, %4 : (f32, f32) -> f32
      cutlass.yield %5
    }
    cutlass.store_d %2, %out : !mu.tensor<[M, 24], bf16, strides(_, 1)>
  }
}

// -----

// What is promised may rule whole granules out.

// CHECK: error[MU3101]: rows of 'x' are never a multiple of 8 bf16 elements, as is promised of K, but TMA copies whole multiples of 16 bytes
cutlass.program @odd_promise(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, 8], bf16>, %out: !mu.tensor<[M, 8], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "K"], promises = affine_set<(d0, d1) : (((d1 mod 2) - 1) == 0)>} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [8], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, 8], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, 8], bf16>
  }
}
