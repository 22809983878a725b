// RUN: mucc-opt %s -p form-stages --split-input-file | FileCheck %s

// A bias, an activation, a residual from a parameter: all in the epilogue.

// CHECK-LABEL: mu.kernel @fused(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.transpose %w
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.matmul bf16 %x, %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V2]], %b
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.gelu %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.add %[[V4]], %r
// CHECK-NEXT: mu.yield %[[V5]]
// CHECK: mu.return %[[V0]]
mu.kernel @fused(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[N, K], bf16>, %b: !mu.tensor<[N], bf16>, %r: !mu.tensor<[M, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "b", "r"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
  %1 = mu.matmul bf16 %x, %0 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.add %1, %b : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], bf16>) -> !mu.tensor<[M, N], bf16>
  %3 = mu.gelu %2 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %4 = mu.add %3, %r : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %4 : !mu.tensor<[M, N], bf16>
}

// -----

// Two contractions with pointwise work between: it joins the first, and the second reads what it stored.

// CHECK-LABEL: mu.kernel @chain(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.tanh %[[V1]]
// CHECK-NEXT: mu.yield %[[V2]]
// CHECK: %[[V3:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.matmul bf16 %[[V0]], %v
// CHECK-NEXT: mu.yield %[[V4]]
// CHECK: mu.return %[[V3]]
mu.kernel @chain(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %v: !mu.tensor<[N, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "v"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.tanh %0 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.matmul bf16 %1, %v : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %2 : !mu.tensor<[M, N], bf16>
}

// -----

// A gated pair: what needs both products joins the later one, the earlier product is stored.

// CHECK-LABEL: mu.kernel @gated(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.sigmoid %[[V1]]
// CHECK-NEXT: mu.yield %[[V2]]
// CHECK: %[[V3:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.matmul bf16 %x, %v
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.mul %[[V0]], %[[V4]]
// CHECK-NEXT: mu.yield %[[V5]]
// CHECK: mu.return %[[V3]]
mu.kernel @gated(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %v: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "v"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.sigmoid %0 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.matmul bf16 %x, %v : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %3 = mu.mul %1, %2 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %3 : !mu.tensor<[M, N], bf16>
}

// -----

// A value that two later stages need is stored once.

// CHECK-LABEL: mu.kernel @shared(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, K], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: %h = mu.exp %[[V1]]
// CHECK-NEXT: mu.yield %h
// CHECK: %[[V2:[0-9]+]] = mu.stage "a" contraction : !mu.tensor<[M, K], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul bf16 %[[V0]], %w
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: %[[V4:[0-9]+]] = mu.stage "b" contraction : !mu.tensor<[M, K], bf16> {
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.transpose %w
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.matmul bf16 %[[V0]], %[[V5]]
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.tanh %[[V6]]
// CHECK-NEXT: mu.yield %[[V7]]
// CHECK: mu.return %[[V2]], %[[V4]]
mu.kernel @shared(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, K], bf16>)
    -> (!mu.tensor<[M, K], bf16>, !mu.tensor<[M, K], bf16>)
    attributes {arg_names = ["x", "w"], result_names = ["a", "b"], dims = ["M", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, K], bf16>) -> !mu.tensor<[M, K], bf16>
  %h = mu.exp %0 : (!mu.tensor<[M, K], bf16>) -> !mu.tensor<[M, K], bf16>
  %1 = mu.matmul bf16 %h, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, K], bf16>) -> !mu.tensor<[M, K], bf16>
  %2 = mu.transpose %w : (!mu.tensor<[K, K], bf16>) -> !mu.tensor<[K, K], bf16, col_major>
  %3 = mu.matmul bf16 %h, %2 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, K], bf16, col_major>) -> !mu.tensor<[M, K], bf16>
  %4 = mu.tanh %3 : (!mu.tensor<[M, K], bf16>) -> !mu.tensor<[M, K], bf16>
  mu.return %1, %4 : !mu.tensor<[M, K], bf16>, !mu.tensor<[M, K], bf16>
}

// -----

// A pinned stage keeps its name, and its boundary: what reads h reads it from memory.

// CHECK-LABEL: mu.kernel @pinned(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "h" contraction pinned : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" map : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.exp %[[V0]]
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: mu.return %[[V2]]
mu.kernel @pinned(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %h = mu.pin "h" %0 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.exp %h : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %1 : !mu.tensor<[M, N], bf16>
}

// -----

// A pinned parameter is a copy.

// CHECK-LABEL: mu.kernel @pinned_param(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "c" map pinned : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: mu.yield %x
// CHECK: %[[V1:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.matmul bf16 %[[V0]], %w
// CHECK-NEXT: mu.yield %[[V2]]
// CHECK: mu.return %[[V1]]
mu.kernel @pinned_param(%x: !mu.tensor<[M, N], bf16>, %w: !mu.tensor<[N, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N"]} {
  %c = mu.pin "c" %x : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %0 = mu.matmul bf16 %c, %w : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// A pinned value of pointwise work is a map of that name.

// CHECK-LABEL: mu.kernel @pinned_map(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "c" map pinned : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.exp %x
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul bf16 %[[V0]], %w
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.add %[[V3]], %[[V0]]
// CHECK-NEXT: mu.yield %[[V4]]
// CHECK: mu.return %[[V2]]
mu.kernel @pinned_map(%x: !mu.tensor<[M, N], bf16>, %w: !mu.tensor<[N, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N"]} {
  %0 = mu.exp %x : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %c = mu.pin "c" %0 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.matmul bf16 %c, %w : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.add %1, %c : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %2 : !mu.tensor<[M, N], bf16>
}

// -----

// What needs a reduction of the stage's own value cannot join it: a map follows.

// CHECK-LABEL: mu.kernel @normalised(
// CHECK-NEXT: %[[V0:[0-9]+]], %[[V1:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M], f32>, !mu.tensor<[M, N], f32> {
// CHECK-NEXT: %y = mu.matmul bf16 %x, %w
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.cast %y
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.reduce sum %y axes [1]
// CHECK-NEXT: mu.yield %[[V3]], %[[V2]]
// CHECK: %[[V4:[0-9]+]] = mu.stage "out" map : !mu.tensor<[M, N], f32> {
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.expand %[[V0]] axes [1]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.div %[[V1]], %[[V5]]
// CHECK-NEXT: mu.yield %[[V6]]
// CHECK: mu.return %[[V4]]
mu.kernel @normalised(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[M, N], f32>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %y = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %0 = mu.cast %y : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
  %1 = mu.reduce sum %y axes [1] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M], f32>
  %2 = mu.expand %1 axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>
  %3 = mu.div %0, %2 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, 1], f32>) -> !mu.tensor<[M, N], f32>
  mu.return %3 : !mu.tensor<[M, N], f32>
}

// -----

// Pointwise work before a contraction is a map.

// CHECK-LABEL: mu.kernel @map_before(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" map : !mu.tensor<[M, K], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.abs %x
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul bf16 %[[V0]], %w
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: mu.return %[[V2]]
mu.kernel @map_before(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.abs %x : (!mu.tensor<[M, K], bf16>) -> !mu.tensor<[M, K], bf16>
  %1 = mu.matmul bf16 %0, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %1 : !mu.tensor<[M, N], bf16>
}

// -----

// Reductions along N, along M, and over both are part of the epilogue.

// CHECK-LABEL: mu.kernel @reductions(
// CHECK-NEXT: %[[V0:[0-9]+]], %[[V1:[0-9]+]], %[[V2:[0-9]+]] = mu.stage "rows" contraction : !mu.tensor<[M], f32>, !mu.tensor<[N], f32>, !mu.tensor<[], f32> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: %y = mu.exp %[[V3]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.reduce sum %y axes [1]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.reduce max %y axes [0]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.reduce amax %y axes [0, 1]
// CHECK-NEXT: mu.yield %[[V4]], %[[V5]], %[[V6]]
// CHECK: mu.return %[[V0]], %[[V1]], %[[V2]]
mu.kernel @reductions(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> (!mu.tensor<[M], f32>, !mu.tensor<[N], f32>, !mu.tensor<[], f32>)
    attributes {arg_names = ["x", "w"], result_names = ["rows", "columns", "all"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %y = mu.exp %0 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.reduce sum %y axes [1] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M], f32>
  %2 = mu.reduce max %y axes [0] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[N], f32>
  %3 = mu.reduce amax %y axes [0, 1] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[], f32>
  mu.return %1, %2, %3 : !mu.tensor<[M], f32>, !mu.tensor<[N], f32>, !mu.tensor<[], f32>
}

// -----

// A minimum is none that an epilogue can compute: a reduction kernel reads the stored product, in f32 as its result is.

// CHECK-LABEL: mu.kernel @minimum(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, N], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: %[[W1:[0-9]+]] = mu.cast %[[V1]]
// CHECK-NEXT: mu.yield %[[W1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" reduction : !mu.tensor<[M], f32> {
// CHECK-NEXT: %[[R2:[0-9]+]] = mu.retype %[[V0]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.reduce min %[[R2]] axes [1]
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: mu.return %[[V2]]
mu.kernel @minimum(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.reduce min %0 axes [1] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M], f32>
  mu.return %1 : !mu.tensor<[M], f32>
}

// -----

// Pointwise work before a reduction of a parameter runs in the reduction's kernel.

// CHECK-LABEL: mu.kernel @lone_reduction(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "out" reduction : !mu.tensor<[N], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.mul %x, %x
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.reduce sum %[[V1]] axes [0]
// CHECK-NEXT: mu.yield %[[V2]]
// CHECK: mu.return %[[V0]]
mu.kernel @lone_reduction(%x: !mu.tensor<[M, N], bf16>)
    -> !mu.tensor<[N], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %0 = mu.mul %x, %x : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.reduce sum %0 axes [0] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[N], f32>
  mu.return %1 : !mu.tensor<[N], f32>
}

// -----

// Arithmetic on a row vector floats: every stage that needs it computes it.

// CHECK-LABEL: mu.kernel @floating(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: %c = mu.add %b, %b
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.add %[[V1]], %c
// CHECK-NEXT: mu.yield %[[V2]]
// CHECK: %[[V3:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.matmul bf16 %[[V0]], %v
// CHECK-NEXT: %c_1 = mu.add %b, %b
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.add %[[V4]], %c_1
// CHECK-NEXT: mu.yield %[[V5]]
// CHECK: mu.return %[[V3]]
mu.kernel @floating(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %v: !mu.tensor<[N, N], bf16>, %b: !mu.tensor<[N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "v", "b"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %c = mu.add %b, %b : (!mu.tensor<[N], bf16>, !mu.tensor<[N], bf16>) -> !mu.tensor<[N], bf16>
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.add %0, %c : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], bf16>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.matmul bf16 %1, %v : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %3 = mu.add %2, %c : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %3 : !mu.tensor<[M, N], bf16>
}

// -----

// A condition has no form in memory: it is computed again from the stored product.

// CHECK-LABEL: mu.kernel @condition(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul bf16 %x, %w
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul bf16 %x, %v
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %c = mu.cmp gt %[[V0]], %[[V4]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.select %c, %[[V3]], %[[V5]]
// CHECK-NEXT: mu.yield %[[V6]]
// CHECK: mu.return %[[V2]]
mu.kernel @condition(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %v: !mu.tensor<[K, N], bf16>)
    -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "w", "v"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %1 = mu.constant 0.000000e+00 : f64
  %c = mu.cmp gt %0, %1 : (!mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], i1>
  %2 = mu.matmul bf16 %x, %v : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %3 = mu.constant 0.000000e+00 : f64
  %4 = mu.select %c, %2, %3 : (!mu.tensor<[M, N], i1>, !mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
  mu.return %4 : !mu.tensor<[M, N], bf16>
}

// -----

// A transposed product that is read as it is, too, is turned by a map.

// CHECK-LABEL: mu.kernel @turned(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %y = mu.matmul tf32 %x, %x
// CHECK-NEXT: mu.yield %y
// CHECK: %[[V1:[0-9]+]] = mu.stage "out" map : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.transpose %[[V0]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V0]], %[[V2]]
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: mu.return %[[V1]]
mu.kernel @turned(%x: !mu.tensor<[M, M], f32>)
    -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %y = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %0 = mu.transpose %y : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32, col_major>
  %1 = mu.add %y, %0 : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32, col_major>) -> !mu.tensor<[M, M], f32>
  mu.return %1 : !mu.tensor<[M, M], f32>
}

// -----

// Returned parameters and views are copied; values of one shape share a map, named after the first.

// CHECK-LABEL: mu.kernel @returns(
// CHECK-NEXT: %[[V0:[0-9]+]], %[[V1:[0-9]+]] = mu.stage "a" map : !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.neg %x
// CHECK-NEXT: mu.yield %x, %[[V2]]
// CHECK: %[[V3:[0-9]+]] = mu.stage "b" map : !mu.tensor<[N, M], bf16> {
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.transpose %x
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cast %[[V4]]
// CHECK-NEXT: mu.yield %[[V5]]
// CHECK: %[[V6:[0-9]+]] = mu.stage "d" map : !mu.tensor<[1, N], bf16> {
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.expand %v axes [0]
// CHECK-NEXT: mu.yield %[[V7]]
// CHECK: mu.return %[[V0]], %[[V3]], %[[V1]], %[[V6]]
mu.kernel @returns(%x: !mu.tensor<[M, N], bf16>, %v: !mu.tensor<[N], bf16>)
    -> (!mu.tensor<[M, N], bf16>, !mu.tensor<[N, M], bf16>, !mu.tensor<[M, N], bf16>, !mu.tensor<[1, N], bf16>)
    attributes {arg_names = ["x", "v"], result_names = ["a", "b", "c", "d"], dims = ["M", "N"]} {
  %0 = mu.transpose %x : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[N, M], bf16, col_major>
  %1 = mu.neg %x : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.expand %v axes [0] : (!mu.tensor<[N], bf16>) -> !mu.tensor<[1, N], bf16>
  %3 = mu.cast %0 : (!mu.tensor<[N, M], bf16, col_major>) -> !mu.tensor<[N, M], bf16>
  mu.return %x, %3, %1, %2 : !mu.tensor<[M, N], bf16>, !mu.tensor<[N, M], bf16>, !mu.tensor<[M, N], bf16>, !mu.tensor<[1, N], bf16>
}

// -----

// A value returned twice is stored once.

// CHECK-LABEL: mu.kernel @twice(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "a" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %y = mu.matmul tf32 %x, %x
// CHECK-NEXT: mu.yield %y
// CHECK: mu.return %[[V0]], %[[V0]]
mu.kernel @twice(%x: !mu.tensor<[M, M], f32>)
    -> (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>)
    attributes {arg_names = ["x"], result_names = ["a", "b"], dims = ["M"]} {
  %y = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  mu.return %y, %y : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>
}

// -----

// Names: the pinned one, then the results', then numbers that are free.

// CHECK-LABEL: mu.kernel @names(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s1" contraction pinned : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul tf32 %x, %x
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "s2" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %h = mu.matmul tf32 %[[V0]], %x
// CHECK-NEXT: mu.yield %h
// CHECK: %[[V3:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %g = mu.matmul tf32 %[[V2]], %[[V2]]
// CHECK-NEXT: mu.yield %g
// CHECK: %[[V4:[0-9]+]] = mu.stage "y" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.matmul tf32 %[[V3]], %[[V3]]
// CHECK-NEXT: mu.yield %[[V5]]
// CHECK: mu.return %[[V3]], %[[V4]]
mu.kernel @names(%x: !mu.tensor<[M, M], f32>)
    -> (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>)
    attributes {arg_names = ["x"], result_names = ["s0", "y"], dims = ["M"]} {
  %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %s1 = mu.pin "s1" %0 : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %h = mu.matmul tf32 %s1, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %g = mu.matmul tf32 %h, %h : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %1 = mu.matmul tf32 %g, %g : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  mu.return %g, %1 : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>
}

// -----

// Every kernel of a module has stages, and names, of its own.

// CHECK-LABEL: mu.kernel @first(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul tf32 %x, %x
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul tf32 %[[V0]], %x
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: mu.return %[[V2]]
// CHECK-LABEL: mu.kernel @second(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.matmul tf32 %x, %x
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: %[[V2:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, M], f32> {
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.matmul tf32 %[[V0]], %x
// CHECK-NEXT: mu.yield %[[V3]]
// CHECK: mu.return %[[V2]]
mu.kernel @first(%x: !mu.tensor<[M, M], f32>)
    -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %1 = mu.matmul tf32 %0, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  mu.return %1 : !mu.tensor<[M, M], f32>
}
mu.kernel @second(%x: !mu.tensor<[M, M], f32>)
    -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %1 = mu.matmul tf32 %0, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  mu.return %1 : !mu.tensor<[M, M], f32>
}
