// RUN: mucc-opt %s -p select-schedule --verify-diagnostics --split-input-file | FileCheck %s

// Without a schedule the target chooses everything but the stage count.

// CHECK-LABEL: cutlass.program @free(
// CHECK: cutlass.gemm "out"
// CHECK: tile <128, 256, 64> cluster <2, 1> mainloop cooperative scheduler <persistent, swizzle = 2>
cutlass.program @free(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}

// -----

// What the user set stays, the rest is chosen to go with it.

// CHECK-LABEL: cutlass.program @part(
// CHECK: cutlass.gemm "out"
// CHECK: tile <64, 128, 64> cluster <2, 1> mainloop pingpong scheduler <persistent>
cutlass.program @part(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "part" for "sm_90a" {tile = #mu.tile<64, 128, 64>, mainloop = #mu<mainloop pingpong>}

// -----

// A whole schedule is taken as it is, with its stage count.

// CHECK-LABEL: cutlass.program @whole(
// CHECK: cutlass.gemm "out"
// CHECK: tile <128, 256, 64> cluster <2, 1> mainloop cooperative stages 3 : i64 scheduler <stream_k, splits = 2>
cutlass.program @whole(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}
mu.schedule "whole" for "sm_90a" {tile = #mu.tile<128, 256, 64>, cluster = #mu.cluster<2, 1>, mainloop = #mu<mainloop cooperative>, stages = 3 : i64, scheduler = #mu.scheduler<stream_k, splits = 2>}

// -----

// A kernel's schedule holds for all its contractions, a stage's wins over it.

// CHECK-LABEL: cutlass.program @two(
// CHECK: cutlass.gemm "h"
// CHECK: tile <128, 64, 64> cluster <1, 1> mainloop pingpong scheduler <persistent, swizzle = 2>
// CHECK: cutlass.gemm "out"
// CHECK: tile <64, 64, 64> cluster <1, 1> mainloop pingpong scheduler <persistent>
cutlass.program @two(%x: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "out"], num_inputs = 1 : i64, dims = ["M"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "h" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], bf16>
  }
  cutlass.gemm "out" bf16 %0, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %2 = cutlass.acc_fetch
    cutlass.store_d %2, %out : !mu.tensor<[M, M], bf16>
  }
}
mu.schedule "two" stage "h" for "sm_90a" {tile = #mu.tile<128, 64, 64>}
mu.schedule "two" for "sm_90a" {tile = #mu.tile<64, 64, 64>, cluster = #mu.cluster<1, 1>}

// -----

// Map and reduction kernels have no schedule.

// CHECK-LABEL: cutlass.program @none(
// CHECK: cutlass.reduce "z" space ["M", "N"]
// CHECK: cutlass.map "y" space ["M", "N"]
cutlass.program @none(%x: !mu.tensor<[M, N], bf16>, %y: !mu.tensor<[M, N], bf16>, %z: !mu.tensor<[M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y", "z"], num_inputs = 1 : i64, dims = ["M", "N"]} {
  cutlass.reduce "z" space ["M", "N"] axes [1] {
    %0 = cutlass.load %x : !mu.tensor<[M, N], bf16>
    %reduced1 = cutlass.reduced sum %0
    cutlass.reduce_store %reduced1, %z : !mu.tensor<[M], f32>
  }
  cutlass.map "y" space ["M", "N"] {
    %1 = cutlass.load %x : !mu.tensor<[M, N], bf16>
    %2 = cutlass.compute %1 {
    ^bb0(%3: f32):
      %4 = mu.neg %3 : (f32) -> f32
      cutlass.yield %4
    }
    cutlass.store %2, %y : !mu.tensor<[M, N], bf16>
  }
}

// -----

// A schedule for another target, or for another kernel, does not count.

// CHECK-LABEL: cutlass.program @others(
// CHECK: tile <128, 256, 64> cluster <2, 1> mainloop cooperative scheduler <persistent, swizzle = 2>
cutlass.program @others(%x: !mu.tensor<[M, M], bf16>, %y: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "y" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %y : !mu.tensor<[M, M], bf16>
  }
}
mu.schedule "others" for "sm_100a" {tile = #mu.tile<64, 64, 64>}
mu.schedule "another" for "sm_90a" {tile = #mu.tile<64, 64, 64>}

// -----

// A schedule for a stage that has no contraction, or that is not there, is an error, as is one for a kernel
// without contractions. One for another target is not looked at.

// CHECK: error[MU2001]: stage 'm' of kernel 'wrong' has no contraction to schedule
// CHECK-NEXT: error[MU2001]: stage 'z' of kernel 'wrong' does not exist
// CHECK-NEXT: error[MU2001]: kernel 'wrong' has no contraction to schedule
cutlass.program @wrong(%x: !mu.tensor<[M, M], bf16>, %y: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.map "m" space ["M", "M"] {
    %0 = cutlass.load %x : !mu.tensor<[M, M], bf16>
    cutlass.store %0, %y : !mu.tensor<[M, M], bf16>
  }
}
mu.schedule "wrong" stage "m" for "sm_90a" {tile = #mu.tile<64, 64, 64>}
mu.schedule "wrong" stage "z" for "sm_90a" {tile = #mu.tile<64, 64, 64>}
mu.schedule "wrong" for "sm_90a" {tile = #mu.tile<64, 64, 64>}
mu.schedule "wrong" stage "z" for "sm_100a" {tile = #mu.tile<64, 64, 64>}

// -----

// Few rows become the columns of the kernel's tile, unless a tile is set: it counts the product as it stands.

// CHECK-LABEL: cutlass.program @tokens(
// CHECK: tile <64, 16, 128> cluster <2, 1> mainloop pingpong scheduler <persistent> exchange on
cutlass.program @tokens(%x: !mu.tensor<[16, 4096], bf16>, %w: !mu.tensor<[4096, 4096], bf16>, %y: !mu.tensor<[16, 4096], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "y"], num_inputs = 2 : i64, dims = []} {
  cutlass.gemm "y" bf16 %x, %w shape <[16], [4096], [4096], []> : !mu.tensor<[16, 4096], bf16>, !mu.tensor<[4096, 4096], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %y : !mu.tensor<[16, 4096], bf16>
  }
}

// -----

// CHECK-LABEL: cutlass.program @tiled(
// CHECK: tile <64, 32, 64>
// CHECK-NOT: exchange
cutlass.program @tiled(%x: !mu.tensor<[16, 4096], bf16>, %w: !mu.tensor<[4096, 4096], bf16>, %y: !mu.tensor<[16, 4096], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "y"], num_inputs = 2 : i64, dims = []} {
  cutlass.gemm "y" bf16 %x, %w shape <[16], [4096], [4096], []> : !mu.tensor<[16, 4096], bf16>, !mu.tensor<[4096, 4096], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %y : !mu.tensor<[16, 4096], bf16>
  }
}
mu.schedule "tiled" for "sm_90a" {tile = #mu.tile<64, 32, 64>}
