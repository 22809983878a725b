// RUN: mucc-opt %s -p legalize-tile --verify-diagnostics --split-input-file | FileCheck %s

// A combination that the target has passes unchanged; the stage count is no matter of this pass.

// CHECK-LABEL: cutlass.program @legal(
// CHECK: tile <128, 256, 64> cluster <2, 1> mainloop cooperative stages 99 : i64 scheduler <persistent, swizzle = 2>
cutlass.program @legal(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 256, 64> cluster <2, 1> mainloop cooperative stages 99 : i64 scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "legal" for "sm_90a" {tile = #mu.tile<128, 256, 64>, cluster = #mu.cluster<2, 1>, mainloop = #mu<mainloop cooperative>, stages = 99 : i64}

// -----

// A tile that no instruction has.

// CHECK: error[MU3001]: tile M = 100 is not a multiple of 128, as the cooperative mainloop needs
cutlass.program @tile(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <100, 256, 64> cluster <1, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "tile" for "sm_90a" {tile = #mu.tile<100, 256, 64>, cluster = #mu.cluster<1, 1>, mainloop = #mu<mainloop cooperative>}

// -----

// A cluster that does not exist.

// CHECK: error[MU3008]: cluster 3x1 is not made of powers of two
cutlass.program @cluster(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 128, 64> cluster <3, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "cluster" for "sm_90a" {tile = #mu.tile<128, 128, 64>, cluster = #mu.cluster<3, 1>, mainloop = #mu<mainloop cooperative>}

// -----

// A tile that this mainloop cannot share out.

// CHECK: error[MU3001]: tile M = 64 is not a multiple of 128, as the cooperative mainloop needs
cutlass.program @mainloop(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <64, 128, 64> cluster <1, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "mainloop" for "sm_90a" {tile = #mu.tile<64, 128, 64>, cluster = #mu.cluster<1, 1>, mainloop = #mu<mainloop cooperative>}

// -----

// All contractions of all kernels are checked before the pass gives up.

// CHECK: error[MU3001]: tile M = 100 is not a multiple of 128, as the cooperative mainloop needs
// CHECK: error[MU3001]: tile M = 100 is not a multiple of 128, as the cooperative mainloop needs
// CHECK: error[MU3008]: cluster 3x1 is not made of powers of two
cutlass.program @first(%x: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "out"], num_inputs = 1 : i64, dims = ["M"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "h" bf16 %x, %x shape <[M], [M], [M], []> tile <100, 128, 64> cluster <1, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], bf16>
  }
  cutlass.gemm "out" bf16 %0, %x shape <[M], [M], [M], []> tile <100, 128, 64> cluster <1, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %2 = cutlass.acc_fetch
    cutlass.store_d %2, %out : !mu.tensor<[M, M], bf16>
  }
}
cutlass.program @second(%x: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "out"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "out" bf16 %x, %x shape <[M], [M], [M], []> tile <128, 256, 64> cluster <3, 1> mainloop cooperative scheduler <persistent, swizzle = 2> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, M], bf16>
  }
}
mu.schedule "first" for "sm_90a" {tile = #mu.tile<100, 128, 64>, mainloop = #mu<mainloop cooperative>}
mu.schedule "second" for "sm_90a" {cluster = #mu.cluster<3, 1>}
