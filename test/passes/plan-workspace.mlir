// RUN: mucc-opt %s -p plan-workspace --split-input-file | FileCheck %s

// A chain alternates between two slots: a value is free once the launch that reads it is over.

// CHECK-LABEL: cutlass.program @chain(
// CHECK-SAME: slots = {{\[\[}}!mu.tensor<[M, M], bf16>], [!mu.tensor<[M, M], bf16>]]
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s0" bf16 %x, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V1]], %[[V0]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V2:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s1" bf16 %[[V0]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V3]], %[[V2]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V4:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s2" bf16 %[[V2]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V5]], %[[V4]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V6:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s3" bf16 %[[V4]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V7:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V7]], %[[V6]] : !mu.tensor<[M, M], bf16>
// CHECK: cutlass.gemm "out" bf16 %[[V6]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V8:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V8]], %out : !mu.tensor<[M, M], bf16>
cutlass.program @chain(%x: !mu.tensor<[M, M], bf16>, %w: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s0" bf16 %x, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], bf16>
  }
  %2 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s1" bf16 %0, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %3 = cutlass.acc_fetch
    cutlass.store_d %3, %2 : !mu.tensor<[M, M], bf16>
  }
  %4 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s2" bf16 %2, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %5 = cutlass.acc_fetch
    cutlass.store_d %5, %4 : !mu.tensor<[M, M], bf16>
  }
  %6 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s3" bf16 %4, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %7 = cutlass.acc_fetch
    cutlass.store_d %7, %6 : !mu.tensor<[M, M], bf16>
  }
  cutlass.gemm "out" bf16 %6, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %8 = cutlass.acc_fetch
    cutlass.store_d %8, %out : !mu.tensor<[M, M], bf16>
  }
}

// -----

// A value that lives on keeps its slot.

// CHECK-LABEL: cutlass.program @long_lived(
// CHECK-SAME: slots = {{\[\[}}!mu.tensor<[M, M], bf16>], [!mu.tensor<[M, M], bf16>], [!mu.tensor<[M, M], bf16>]]
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s0" bf16 %x, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V1]], %[[V0]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V2:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s1" bf16 %[[V0]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V3]], %[[V2]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V4:[0-9]+]] = cutlass.workspace slot 2 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "s2" bf16 %[[V2]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V5]], %[[V4]] : !mu.tensor<[M, M], bf16>
// CHECK: cutlass.gemm "out" bf16 %[[V4]], %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V6:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V7:[0-9]+]] = cutlass.src_fetch %[[V0]] : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: %[[V8:[0-9]+]] = cutlass.compute %[[V6]], %[[V7]] {
// CHECK-NEXT: ^bb0(%[[V9:[0-9]+]]: f32, %[[V10:[0-9]+]]: f32):
// CHECK-NEXT: %[[V11:[0-9]+]] = mu.add %[[V9]], %[[V10]]
// CHECK-NEXT: cutlass.yield %[[V11]]
// CHECK: cutlass.store_d %[[V8]], %out : !mu.tensor<[M, M], bf16>
cutlass.program @long_lived(%x: !mu.tensor<[M, M], bf16>, %w: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s0" bf16 %x, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], bf16>
  }
  %2 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s1" bf16 %0, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %3 = cutlass.acc_fetch
    cutlass.store_d %3, %2 : !mu.tensor<[M, M], bf16>
  }
  %4 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "s2" bf16 %2, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %5 = cutlass.acc_fetch
    cutlass.store_d %5, %4 : !mu.tensor<[M, M], bf16>
  }
  cutlass.gemm "out" bf16 %4, %w shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %6 = cutlass.acc_fetch
    %7 = cutlass.src_fetch %0 : !mu.tensor<[M, M], bf16>
    %8 = cutlass.compute %6, %7 {
    ^bb0(%9: f32, %10: f32):
      %11 = mu.add %9, %10 : (f32, f32) -> f32
      cutlass.yield %11
    }
    cutlass.store_d %8, %out : !mu.tensor<[M, M], bf16>
  }
}

// -----

// Among free slots, one that held a value of the same size is taken.

// CHECK-LABEL: cutlass.program @sizes(
// CHECK-SAME: slots = {{\[\[}}!mu.tensor<[M, M], f32>], [!mu.tensor<[N, N], bf16>]]
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, M], f32>
// CHECK-NEXT: cutlass.gemm "a" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V1]], %[[V0]] : !mu.tensor<[M, M], f32>
// CHECK: %[[V2:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[N, N], bf16>
// CHECK-NEXT: cutlass.gemm "b" bf16 %y, %y shape <[N], [N], [N], []> : !mu.tensor<[N, N], bf16>, !mu.tensor<[N, N], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V3]], %[[V2]] : !mu.tensor<[N, N], bf16>
// CHECK: cutlass.map "p" space ["M", "M"] {
// CHECK-NEXT: %[[V4:[0-9]+]] = cutlass.load %[[V0]] : !mu.tensor<[M, M], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.compute %[[V4]] {
// CHECK-NEXT: ^bb0(%[[V6:[0-9]+]]: f32):
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.mul %[[V6]], %[[V7]]
// CHECK-NEXT: cutlass.yield %[[V8]]
// CHECK: cutlass.store %[[V5]], %p : !mu.tensor<[M, M], f32>
// CHECK: cutlass.map "q" space ["N", "N"] {
// CHECK-NEXT: %[[V9:[0-9]+]] = cutlass.load %[[V2]] : !mu.tensor<[N, N], bf16>
// CHECK-NEXT: %[[V10:[0-9]+]] = cutlass.compute %[[V9]] {
// CHECK-NEXT: ^bb0(%[[V11:[0-9]+]]: f32):
// CHECK-NEXT: %[[V12:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V13:[0-9]+]] = mu.mul %[[V11]], %[[V12]]
// CHECK-NEXT: cutlass.yield %[[V13]]
// CHECK: cutlass.store %[[V10]], %q : !mu.tensor<[N, N], bf16>
// CHECK: %[[V14:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[N, N], bf16>
// CHECK-NEXT: cutlass.gemm "c" bf16 %q, %y shape <[N], [N], [N], []> : !mu.tensor<[N, N], bf16>, !mu.tensor<[N, N], bf16> {
// CHECK-NEXT: %[[V15:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V15]], %[[V14]] : !mu.tensor<[N, N], bf16>
// CHECK: cutlass.gemm "r" bf16 %[[V14]], %y shape <[N], [N], [N], []> : !mu.tensor<[N, N], bf16>, !mu.tensor<[N, N], bf16> {
// CHECK-NEXT: %[[V16:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V16]], %r : !mu.tensor<[N, N], bf16>
cutlass.program @sizes(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[N, N], bf16>, %p: !mu.tensor<[M, M], f32>, %q: !mu.tensor<[N, N], bf16>, %r: !mu.tensor<[N, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "y", "p", "q", "r"], num_inputs = 2 : i64, dims = ["M", "N"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], f32>
  cutlass.gemm "a" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], f32>
  }
  %2 = cutlass.workspace : !mu.tensor<[N, N], bf16>
  cutlass.gemm "b" bf16 %y, %y shape <[N], [N], [N], []> : !mu.tensor<[N, N], bf16>, !mu.tensor<[N, N], bf16> {
    %3 = cutlass.acc_fetch
    cutlass.store_d %3, %2 : !mu.tensor<[N, N], bf16>
  }
  cutlass.map "p" space ["M", "M"] {
    %4 = cutlass.load %0 : !mu.tensor<[M, M], f32>
    %5 = cutlass.compute %4 {
    ^bb0(%6: f32):
      %7 = mu.constant 2.000000e+00 : f64
      %8 = mu.mul %6, %7 : (f32, f32) -> f32
      cutlass.yield %8
    }
    cutlass.store %5, %p : !mu.tensor<[M, M], f32>
  }
  cutlass.map "q" space ["N", "N"] {
    %9 = cutlass.load %2 : !mu.tensor<[N, N], bf16>
    %10 = cutlass.compute %9 {
    ^bb0(%11: f32):
      %12 = mu.constant 2.000000e+00 : f64
      %13 = mu.mul %11, %12 : (f32, f32) -> f32
      cutlass.yield %13
    }
    cutlass.store %10, %q : !mu.tensor<[N, N], bf16>
  }
  %14 = cutlass.workspace : !mu.tensor<[N, N], bf16>
  cutlass.gemm "c" bf16 %q, %y shape <[N], [N], [N], []> : !mu.tensor<[N, N], bf16>, !mu.tensor<[N, N], bf16> {
    %15 = cutlass.acc_fetch
    cutlass.store_d %15, %14 : !mu.tensor<[N, N], bf16>
  }
  cutlass.gemm "r" bf16 %14, %y shape <[N], [N], [N], []> : !mu.tensor<[N, N], bf16>, !mu.tensor<[N, N], bf16> {
    %16 = cutlass.acc_fetch
    cutlass.store_d %16, %r : !mu.tensor<[N, N], bf16>
  }
}

// -----

// Where there is none, a slot holds values of several types.

// CHECK-LABEL: cutlass.program @mixed(
// CHECK-SAME: slots = {{\[\[}}!mu.tensor<[M, M], f32>, !mu.tensor<[M, N], f32>], [!mu.tensor<[M, N], f32>]]
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, M], f32>
// CHECK-NEXT: cutlass.gemm "a" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V1]], %[[V0]] : !mu.tensor<[M, M], f32>
// CHECK: %[[V2:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[M, N], f32>
// CHECK-NEXT: cutlass.gemm "b" tf32 %[[V0]], %v shape <[M], [N], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, N], f32> {
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V3]], %[[V2]] : !mu.tensor<[M, N], f32>
// CHECK: %[[V4:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, N], f32>
// CHECK-NEXT: cutlass.map "c" space ["M", "N"] {
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.load %[[V2]] : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = cutlass.compute %[[V5]] {
// CHECK-NEXT: ^bb0(%[[V7:[0-9]+]]: f32):
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.mul %[[V7]], %[[V8]]
// CHECK-NEXT: cutlass.yield %[[V9]]
// CHECK: cutlass.store %[[V6]], %[[V4]] : !mu.tensor<[M, N], f32>
// CHECK: %[[V10:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[M, N], f32>
// CHECK-NEXT: cutlass.map "d" space ["M", "N"] {
// CHECK-NEXT: %[[V11:[0-9]+]] = cutlass.load %[[V4]] : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V12:[0-9]+]] = cutlass.compute %[[V11]] {
// CHECK-NEXT: ^bb0(%[[V13:[0-9]+]]: f32):
// CHECK-NEXT: %[[V14:[0-9]+]] = mu.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[V15:[0-9]+]] = mu.add %[[V13]], %[[V14]]
// CHECK-NEXT: cutlass.yield %[[V15]]
// CHECK: cutlass.store %[[V12]], %[[V10]] : !mu.tensor<[M, N], f32>
// CHECK: cutlass.gemm "out" tf32 %x, %[[V10]] shape <[M], [N], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, N], f32> {
// CHECK-NEXT: %[[V16:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V16]], %out : !mu.tensor<[M, N], f32>
cutlass.program @mixed(%x: !mu.tensor<[M, M], f32>, %v: !mu.tensor<[M, N], f32>, %out: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "v", "out"], num_inputs = 2 : i64, dims = ["M", "N"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], f32>
  cutlass.gemm "a" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], f32>
  }
  %2 = cutlass.workspace : !mu.tensor<[M, N], f32>
  cutlass.gemm "b" tf32 %0, %v shape <[M], [N], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, N], f32> {
    %3 = cutlass.acc_fetch
    cutlass.store_d %3, %2 : !mu.tensor<[M, N], f32>
  }
  %4 = cutlass.workspace : !mu.tensor<[M, N], f32>
  cutlass.map "c" space ["M", "N"] {
    %5 = cutlass.load %2 : !mu.tensor<[M, N], f32>
    %6 = cutlass.compute %5 {
    ^bb0(%7: f32):
      %8 = mu.constant 2.000000e+00 : f64
      %9 = mu.mul %7, %8 : (f32, f32) -> f32
      cutlass.yield %9
    }
    cutlass.store %6, %4 : !mu.tensor<[M, N], f32>
  }
  %10 = cutlass.workspace : !mu.tensor<[M, N], f32>
  cutlass.map "d" space ["M", "N"] {
    %11 = cutlass.load %4 : !mu.tensor<[M, N], f32>
    %12 = cutlass.compute %11 {
    ^bb0(%13: f32):
      %14 = mu.constant 1.000000e+00 : f64
      %15 = mu.add %13, %14 : (f32, f32) -> f32
      cutlass.yield %15
    }
    cutlass.store %12, %10 : !mu.tensor<[M, N], f32>
  }
  cutlass.gemm "out" tf32 %x, %10 shape <[M], [N], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, N], f32> {
    %16 = cutlass.acc_fetch
    cutlass.store_d %16, %out : !mu.tensor<[M, N], f32>
  }
}

// -----

// A transposed view keeps its tensor alive.

// CHECK-LABEL: cutlass.program @view(
// CHECK-SAME: slots = {{\[\[}}!mu.tensor<[M, M], bf16>], [!mu.tensor<[M, M], bf16>], [!mu.tensor<[M, M], bf16>]]
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.workspace slot 0 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "a" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V1]], %[[V0]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V2:[0-9]+]] = cutlass.workspace slot 1 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "b" bf16 %[[V0]], %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V3]], %[[V2]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V4:[0-9]+]] = cutlass.workspace slot 2 : i64 : !mu.tensor<[M, M], bf16>
// CHECK-NEXT: cutlass.gemm "c" bf16 %[[V2]], %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V5:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V5]], %[[V4]] : !mu.tensor<[M, M], bf16>
// CHECK: %[[V6:[0-9]+]] = mu.transpose %[[V0]]
// CHECK-NEXT: cutlass.gemm "out" bf16 %[[V4]], %[[V6]] shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16, col_major> {
// CHECK-NEXT: %[[V7:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V7]], %out : !mu.tensor<[M, M], bf16>
cutlass.program @view(%x: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "out"], num_inputs = 1 : i64, dims = ["M"]} {
  %0 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "a" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %1 = cutlass.acc_fetch
    cutlass.store_d %1, %0 : !mu.tensor<[M, M], bf16>
  }
  %2 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "b" bf16 %0, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %3 = cutlass.acc_fetch
    cutlass.store_d %3, %2 : !mu.tensor<[M, M], bf16>
  }
  %4 = cutlass.workspace : !mu.tensor<[M, M], bf16>
  cutlass.gemm "c" bf16 %2, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %5 = cutlass.acc_fetch
    cutlass.store_d %5, %4 : !mu.tensor<[M, M], bf16>
  }
  %6 = mu.transpose %0 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16, col_major>
  cutlass.gemm "out" bf16 %4, %6 shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16, col_major> {
    %7 = cutlass.acc_fetch
    cutlass.store_d %7, %out : !mu.tensor<[M, M], bf16>
  }
}

// -----

// Nothing to plan.

// CHECK-LABEL: cutlass.program @none(
// CHECK-SAME: slots = []
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V0]], %out : !mu.tensor<[M, M], bf16>
cutlass.program @none(%x: !mu.tensor<[M, M], bf16>, %out: !mu.tensor<[M, M], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "out"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "out" bf16 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, M], bf16>
  }
}
