// RUN: mucc-opt %s -p fuse-epilogue --split-input-file | FileCheck %s

// Everything between loads and a store is one body, the accumulator its first argument.

// CHECK-LABEL: cutlass.program @one_body(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], bf16>
// CHECK-NEXT: %[[V3:[0-9]+]] = cutlass.compute %[[V1]], %[[V0]], %[[V2]] {
// CHECK-NEXT: ^bb0(%[[V4:[0-9]+]]: f32, %[[V5:[0-9]+]]: f32, %[[V6:[0-9]+]]: f32):
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.add %[[V4]], %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.gelu %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.mul %[[V8]], %[[V9]]
// CHECK-NEXT: %[[V11:[0-9]+]] = mu.sub %[[V5]], %[[V10]]
// CHECK-NEXT: cutlass.yield %[[V11]]
// CHECK: cutlass.store_d %[[V3]], %out : !mu.tensor<[M, N], bf16>
cutlass.program @one_body(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], bf16>, %r: !mu.tensor<[M, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "b", "r", "out"], num_inputs = 4 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.src_fetch %r : !mu.tensor<[M, N], bf16>
    %1 = cutlass.acc_fetch
    %2 = cutlass.row_broadcast %b : !mu.tensor<[N], bf16>
    %3 = mu.add %1, %2 : (f32, f32) -> f32
    %4 = mu.gelu %3 : (f32) -> f32
    %5 = mu.constant 2.000000e+00 : f64
    %6 = mu.mul %4, %5 : (f32, f32) -> f32
    %7 = mu.sub %0, %6 : (f32, f32) -> f32
    cutlass.store_d %7, %out : !mu.tensor<[M, N], bf16>
  }
}

// -----

// No arithmetic, no body.

// CHECK-LABEL: cutlass.program @no_body(
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: cutlass.store_d %[[V0]], %out : !mu.tensor<[M, N], bf16>
cutlass.program @no_body(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %out: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], bf16>
  }
}

// -----

// Two stored values share what they have in common only where that is stored, too.

// CHECK-LABEL: cutlass.program @shared(
// CHECK-NEXT: cutlass.gemm "a" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.compute %[[V0]] {
// CHECK-NEXT: ^bb0(%[[V2:[0-9]+]]: f32):
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.tanh %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.add %[[V3]], %[[V4]]
// CHECK-NEXT: cutlass.yield %[[V5]]
// CHECK: %[[V6:[0-9]+]] = cutlass.compute %[[V0]] {
// CHECK-NEXT: ^bb0(%[[V7:[0-9]+]]: f32):
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.tanh %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.mul %[[V8]], %[[V9]]
// CHECK-NEXT: cutlass.yield %[[V10]]
// CHECK: cutlass.store_d %[[V1]], %a : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V6]], %b : !mu.tensor<[M, N], bf16>
cutlass.program @shared(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %a: !mu.tensor<[M, N], bf16>, %b: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "a", "b"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "a" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = mu.tanh %0 : (f32) -> f32
    %2 = mu.constant 1.000000e+00 : f64
    %3 = mu.add %1, %2 : (f32, f32) -> f32
    %4 = mu.constant 2.000000e+00 : f64
    %5 = mu.mul %1, %4 : (f32, f32) -> f32
    cutlass.store_d %3, %a : !mu.tensor<[M, N], bf16>
    cutlass.aux_store %5, %b : !mu.tensor<[M, N], bf16>
  }
}

// -----

// A stored value is a cut: the other body takes it as an argument.

// CHECK-LABEL: cutlass.program @cut(
// CHECK-NEXT: cutlass.gemm "h" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.compute %[[V0]] {
// CHECK-NEXT: ^bb0(%[[V2:[0-9]+]]: f32):
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.tanh %[[V2]]
// CHECK-NEXT: cutlass.yield %[[V3]]
// CHECK: %[[V4:[0-9]+]] = cutlass.compute %[[V1]] {
// CHECK-NEXT: ^bb0(%[[V5:[0-9]+]]: f32):
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.mul %[[V5]], %[[V5]]
// CHECK-NEXT: cutlass.yield %[[V6]]
// CHECK: cutlass.store_d %[[V1]], %h : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V4]], %y : !mu.tensor<[M, N], bf16>
cutlass.program @cut(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %h: !mu.tensor<[M, N], bf16>, %y: !mu.tensor<[M, N], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "h", "y"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "h" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = mu.tanh %0 : (f32) -> f32
    %2 = mu.mul %1, %1 : (f32, f32) -> f32
    cutlass.store_d %1, %h : !mu.tensor<[M, N], bf16>
    cutlass.aux_store %2, %y : !mu.tensor<[M, N], bf16>
  }
}

// -----

// Whichever is stored first.

// CHECK-LABEL: cutlass.program @cut_later(
// CHECK-NEXT: cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.compute %[[V0]] {
// CHECK-NEXT: ^bb0(%[[V3:[0-9]+]]: f32):
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.tanh %[[V3]]
// CHECK-NEXT: cutlass.yield %[[V4]]
// CHECK: %[[V5:[0-9]+]] = cutlass.compute %[[V2]], %[[V1]] {
// CHECK-NEXT: ^bb0(%[[V6:[0-9]+]]: f32, %[[V7:[0-9]+]]: f32):
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.mul %[[V6]], %[[V6]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.add %[[V8]], %[[V7]]
// CHECK-NEXT: cutlass.yield %[[V9]]
// CHECK: cutlass.scalar_reduction amax %[[V2]], %a : !mu.tensor<[], f32>
// CHECK-NEXT: cutlass.store_d %[[V5]], %y : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V2]], %h : !mu.tensor<[M, N], bf16>
cutlass.program @cut_later(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], f32>, %y: !mu.tensor<[M, N], bf16>, %h: !mu.tensor<[M, N], bf16>, %a: !mu.tensor<[], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "b", "y", "h", "a"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = mu.tanh %0 : (f32) -> f32
    cutlass.scalar_reduction amax %1, %a : !mu.tensor<[], f32>
    %2 = mu.mul %1, %1 : (f32, f32) -> f32
    %3 = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
    %4 = mu.add %2, %3 : (f32, f32) -> f32
    %5 = mu.cast %4 : (f32) -> bf16
    %6 = mu.cast %5 : (bf16) -> f32
    cutlass.store_d %4, %y : !mu.tensor<[M, N], bf16>
    cutlass.aux_store %1, %h : !mu.tensor<[M, N], bf16>
  }
}

// -----

// Conditions stay inside of bodies.

// CHECK-LABEL: cutlass.program @condition(
// CHECK-NEXT: cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.compute %[[V0]], %[[V1]] {
// CHECK-NEXT: ^bb0(%[[V3:[0-9]+]]: f32, %[[V4:[0-9]+]]: f32):
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cmp gt %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.cmp lt %[[V3]], %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.not %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.and %[[V5]], %[[V8]]
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.cast %[[V9]]
// CHECK-NEXT: cutlass.yield %[[V10]]
// CHECK: %[[V11:[0-9]+]] = cutlass.compute %[[V0]], %[[V1]] {
// CHECK-NEXT: ^bb0(%[[V12:[0-9]+]]: f32, %[[V13:[0-9]+]]: f32):
// CHECK-NEXT: %[[V14:[0-9]+]] = mu.cmp gt %[[V12]], %[[V13]]
// CHECK-NEXT: %[[V15:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V16:[0-9]+]] = mu.cmp lt %[[V12]], %[[V15]]
// CHECK-NEXT: %[[V17:[0-9]+]] = mu.not %[[V16]]
// CHECK-NEXT: %[[V18:[0-9]+]] = mu.and %[[V14]], %[[V17]]
// CHECK-NEXT: %[[V19:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V20:[0-9]+]] = mu.select %[[V18]], %[[V12]], %[[V19]]
// CHECK-NEXT: cutlass.yield %[[V20]]
// CHECK: cutlass.col_reduction sum %[[V2]], %s : !mu.tensor<[M], f32>
// CHECK-NEXT: cutlass.store_d %[[V11]], %y : !mu.tensor<[M, N], bf16>
cutlass.program @condition(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], f32>, %y: !mu.tensor<[M, N], bf16>, %s: !mu.tensor<[M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "b", "y", "s"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
    %2 = mu.cmp gt %0, %1 : (f32, f32) -> i1
    %3 = mu.constant 0.000000e+00 : f64
    %4 = mu.cmp lt %0, %3 : (f32, f32) -> i1
    %5 = mu.not %4 : (i1) -> i1
    %6 = mu.and %2, %5 : (i1, i1) -> i1
    %7 = mu.cast %6 : (i1) -> f32
    cutlass.col_reduction sum %7, %s : !mu.tensor<[M], f32>
    %8 = mu.constant 0.000000e+00 : f64
    %9 = mu.select %6, %0, %8 : (i1, f32, f32) -> f32
    cutlass.store_d %9, %y : !mu.tensor<[M, N], bf16>
  }
}

// -----

// A rounding that the store does anyway is no part of a body; one that matters is.

// CHECK-LABEL: cutlass.program @rounding(
// CHECK-NEXT: cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.compute %[[V0]], %[[V1]] {
// CHECK-NEXT: ^bb0(%[[V3:[0-9]+]]: f32, %[[V4:[0-9]+]]: f32):
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.add %[[V3]], %[[V4]]
// CHECK-NEXT: cutlass.yield %[[V5]]
// CHECK: %[[V6:[0-9]+]] = cutlass.compute %[[V2]] {
// CHECK-NEXT: ^bb0(%[[V7:[0-9]+]]: f32):
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.cast %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.cast %[[V8]]
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V11:[0-9]+]] = mu.mul %[[V9]], %[[V10]]
// CHECK-NEXT: cutlass.yield %[[V11]]
// CHECK: cutlass.store_d %[[V2]], %y : !mu.tensor<[M, N], bf16>
// CHECK-NEXT: cutlass.aux_store %[[V6]], %z : !mu.tensor<[M, N], f32>
cutlass.program @rounding(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %b: !mu.tensor<[N], f32>, %y: !mu.tensor<[M, N], bf16>, %z: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "b", "y", "z"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
    %0 = cutlass.acc_fetch
    %1 = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
    %2 = mu.add %0, %1 : (f32, f32) -> f32
    %3 = mu.cast %2 : (f32) -> bf16
    %4 = mu.cast %3 : (bf16) -> f32
    %5 = mu.constant 2.000000e+00 : f64
    %6 = mu.mul %4, %5 : (f32, f32) -> f32
    cutlass.store_d %2, %y : !mu.tensor<[M, N], bf16>
    cutlass.aux_store %6, %z : !mu.tensor<[M, N], f32>
  }
}

// -----

// Map and reduction kernels have bodies as well.

// CHECK-LABEL: cutlass.program @pointwise(
// CHECK-NEXT: cutlass.reduce "z" space ["M", "N"] axes [0] {
// CHECK-NEXT: %[[V0:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = cutlass.load %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = cutlass.compute %[[V0]], %[[V1]] {
// CHECK-NEXT: ^bb0(%[[V3:[0-9]+]]: f32, %[[V4:[0-9]+]]: f32):
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.mul %[[V3]], %[[V4]]
// CHECK-NEXT: cutlass.yield %[[V5]]
// CHECK: %[[R0:.*]] = cutlass.reduced sum %[[V2]]
// CHECK: cutlass.reduce_store %[[R0]], %z : !mu.tensor<[N], f32>
// CHECK: cutlass.map "y" space ["M", "N"] {
// CHECK-NEXT: %[[V6:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, N], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = cutlass.load %b : !mu.tensor<[N], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = cutlass.compute %[[V6]], %[[V7]] {
// CHECK-NEXT: ^bb0(%[[V9:[0-9]+]]: f32, %[[V10:[0-9]+]]: f32):
// CHECK-NEXT: %[[V11:[0-9]+]] = mu.exp %[[V9]]
// CHECK-NEXT: %[[V12:[0-9]+]] = mu.add %[[V11]], %[[V10]]
// CHECK-NEXT: cutlass.yield %[[V12]]
// CHECK: cutlass.store %[[V8]], %y : !mu.tensor<[M, N], f32>
cutlass.program @pointwise(%x: !mu.tensor<[M, N], f32>, %b: !mu.tensor<[N], f32>, %y: !mu.tensor<[M, N], f32>, %z: !mu.tensor<[N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "b", "y", "z"], num_inputs = 2 : i64, dims = ["M", "N"]} {
  cutlass.reduce "z" space ["M", "N"] axes [0] {
    %0 = cutlass.load %x : !mu.tensor<[M, N], f32>
    %1 = cutlass.load %b : !mu.tensor<[N], f32>
    %2 = mu.mul %0, %1 : (f32, f32) -> f32
    %reduced1 = cutlass.reduced sum %2
    cutlass.reduce_store %reduced1, %z : !mu.tensor<[N], f32>
  }
  cutlass.map "y" space ["M", "N"] {
    %3 = cutlass.load %x : !mu.tensor<[M, N], f32>
    %4 = mu.exp %3 : (f32) -> f32
    %5 = cutlass.load %b : !mu.tensor<[N], f32>
    %6 = mu.add %4, %5 : (f32, f32) -> f32
    cutlass.store %6, %y : !mu.tensor<[M, N], f32>
  }
}
