// RUN: mucc-opt %s -p legalize-pipeline --verify-diagnostics --split-input-file | FileCheck %s

// As many stages as shared memory holds.

// CHECK-LABEL: cutlass.program @auto(
// CHECK: tile <128, 128, 64> cluster <1, 1> mainloop cooperative stages 6 : i64 scheduler <persistent, swizzle = 2>
cutlass.program @auto(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 128, 64> cluster <1, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "auto" for "sm_90a" {tile = #mu.tile<128, 128, 64>, cluster = #mu.cluster<1, 1>, mainloop = #mu<mainloop cooperative>}

// -----

// What else the epilogue keeps there leaves fewer.

// CHECK-LABEL: cutlass.program @fewer(
// CHECK: tile <128, 256, 64> cluster <1, 1> mainloop cooperative stages 3 : i64 scheduler <persistent, swizzle = 2>
cutlass.program @fewer(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %r: !mu.tensor<[M, N], f32>, %out: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "r", "out"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 256, 64> cluster <1, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = cutlass.src_fetch %r : !mu.tensor<[M, N], f32>
    %2 = cutlass.compute %0, %1 {
    ^bb0(%3: f32, %4: f32):
      %5 = mu.add %3, %4 : (f32, f32) -> f32
      cutlass.yield %5
    }
    cutlass.store_d %2, %out : !mu.tensor<[M, N], f32>
  }
}
mu.schedule "fewer" for "sm_90a" {tile = #mu.tile<128, 256, 64>, cluster = #mu.cluster<1, 1>, mainloop = #mu<mainloop cooperative>}

// -----

// A count that fits is kept.

// CHECK-LABEL: cutlass.program @fits(
// CHECK: tile <128, 128, 64> cluster <1, 1> mainloop cooperative stages 2 : i64 scheduler <persistent, swizzle = 2>
cutlass.program @fits(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 128, 64> cluster <1, 1> mainloop cooperative stages 2 : i64 scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "fits" for "sm_90a" {tile = #mu.tile<128, 128, 64>, cluster = #mu.cluster<1, 1>, mainloop = #mu<mainloop cooperative>, stages = 2 : i64}

// -----

// One that does not fit is an error.

// CHECK: error[MU3004]: pipeline needs 9 stages but 4 fit in 227 KB of shared memory
cutlass.program @deep(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 256, 64> cluster <1, 1> mainloop cooperative stages 9 : i64 scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "deep" for "sm_90a" {tile = #mu.tile<128, 256, 64>, cluster = #mu.cluster<1, 1>, mainloop = #mu<mainloop cooperative>, stages = 9 : i64}
