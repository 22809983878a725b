// RUN: mucc-opt %s | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | FileCheck %s --check-prefix=GENERIC

// Types: fixed and run-time extents, every dtype, every layout.

// CHECK-LABEL: mu.kernel @types(
// CHECK-SAME: %a: !mu.tensor<[], f32>
// CHECK-SAME: %b: !mu.tensor<[4096], bf16>
// CHECK-SAME: %c: !mu.tensor<[M, K], f16, col_major>
// CHECK-SAME: %d: !mu.tensor<[B, M, K], f32, strides(_, 1, _)>
// CHECK-SAME: %e: !mu.tensor<[M], f32, strides(2)>
// CHECK-SAME: %f: !mu.tensor<[M, K], f32>
// CHECK-SAME: %g: f32)
// CHECK-SAME: attributes {
// CHECK-SAME: bound = {K = 64 : i64}
// CHECK-SAME: promises = affine_set<(d0, d1, d2) : ((d2 mod 8) == 0, (d1 + -1) >= 0)>
mu.kernel @types(%a: !mu.tensor<[], f32>, %b: !mu.tensor<[4096], bf16>, %c: !mu.tensor<[M, K], f16, col_major>,
                 %d: !mu.tensor<[B, M, K], f32, strides(_, 1, _)>, %e: !mu.tensor<[M], f32, strides(2)>,
                 %f: !mu.tensor<[M, K], f32, row_major>, %g: f32) -> !mu.tensor<[], f32>
    attributes {arg_names = ["a", "b", "c", "d", "e", "f", "g"], result_names = ["out"], dims = ["B", "M", "K"],
                bound = {K = 64 : i64}, promises = affine_set<(d0, d1, d2) : (d2 mod 8 == 0, d1 - 1 >= 0)>} {
  mu.return %a : !mu.tensor<[], f32>
}

// Elementwise operations: on tensors, and on plain scalars.

// CHECK-LABEL: mu.kernel @elementwise(
// GENERIC: "mu.kernel"() ({
mu.kernel @elementwise(%x: !mu.tensor<[M, N], bf16>, %v: !mu.tensor<[N], f32>, %s: f32) -> !mu.tensor<[M, N], f32>
    attributes {arg_names = ["x", "v", "s"], result_names = ["out"], dims = ["M", "N"]} {
  // CHECK-NEXT: %c = mu.constant 5.000000e-01 : f64
  %c = mu.constant 0.5
  // CHECK-NEXT: %inf = mu.constant 0x7ff0000000000000 : f64
  %inf = mu.constant 0x7ff0000000000000 : f64
  // CHECK-NEXT: mu.add %x, %v : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
  %0 = mu.add %x, %v : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.sub %x, %s : (!mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
  %1 = mu.sub %x, %s : (!mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
  // CHECK-NEXT: mu.mul %s, %c : (f32, f32) -> f32
  %2 = mu.mul %s, %c : (f32, f32) -> f32
  // CHECK-NEXT: mu.div
  %3 = mu.div %0, %s : (!mu.tensor<[M, N], f32>, f32) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.min
  %4 = mu.min %0, %3 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.max
  %5 = mu.max %0, %3 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.pow
  %6 = mu.pow %0, %c : (!mu.tensor<[M, N], f32>, f32) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.neg %x : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  %7 = mu.neg %x : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
  // CHECK-NEXT: mu.abs %s : (f32) -> f32
  %8 = mu.abs %s : (f32) -> f32
  // CHECK-NEXT: mu.exp
  %9 = mu.exp %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.expm1
  %expm1 = mu.expm1 %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.log
  %10 = mu.log %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.log1p
  %log1p = mu.log1p %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.sqrt
  %11 = mu.sqrt %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.rsqrt
  %12 = mu.rsqrt %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.tanh
  %13 = mu.tanh %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.erf
  %14 = mu.erf %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.sigmoid
  %15 = mu.sigmoid %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.gelu %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  %16 = mu.gelu %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.gelu %v {approximate = #mu<approximation tanh>} : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // GENERIC: "mu.gelu"(%v) <{approximate = #mu<approximation tanh>}> : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  %17 = mu.gelu %v {approximate = #mu.approximation tanh} : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.softplus %v {beta = 2.000000e+00 : f64}
  %18 = mu.softplus %v {beta = 2.0 : f64} : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.relu
  %19 = mu.relu %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.leaky_relu %v {slope = 1.000000e-01 : f64}
  %20 = mu.leaky_relu %v {slope = 0.1 : f64} : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.elu %v {alpha = 1.000000e+00 : f64}
  %21 = mu.elu %v {alpha = 1.0 : f64} : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.selu
  %22 = mu.selu %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.silu
  %23 = mu.silu %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.softsign
  %24 = mu.softsign %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.mish
  %25 = mu.mish %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.hardsigmoid
  %26 = mu.hardsigmoid %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.hardswish
  %27 = mu.hardswish %v : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.hardtanh %v {hi = 2.000000e+00 : f64, lo = -1.000000e+00 : f64}
  %28 = mu.hardtanh %v {hi = 2.0 : f64, lo = -1.0 : f64} : (!mu.tensor<[N], f32>) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: mu.clamp %v, %c, %s : (!mu.tensor<[N], f32>, f32, f32) -> !mu.tensor<[N], f32>
  %29 = mu.clamp %v, %c, %s : (!mu.tensor<[N], f32>, f32, f32) -> !mu.tensor<[N], f32>
  // CHECK-NEXT: %[[LT:[0-9]+]] = mu.cmp lt %v, %s : (!mu.tensor<[N], f32>, f32) -> !mu.tensor<[N], i1>
  // GENERIC: "mu.cmp"(%v, %s) <{relation = #mu<relation lt>}>
  %30 = mu.cmp lt %v, %s : (!mu.tensor<[N], f32>, f32) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.cmp le
  %31 = mu.cmp le %v, %s : (!mu.tensor<[N], f32>, f32) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.cmp gt
  %32 = mu.cmp gt %v, %s : (!mu.tensor<[N], f32>, f32) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.cmp ge
  %33 = mu.cmp ge %v, %s : (!mu.tensor<[N], f32>, f32) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.cmp eq
  %34 = mu.cmp eq %v, %s : (!mu.tensor<[N], f32>, f32) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.cmp ne %s, %s : (f32, f32) -> i1
  %35 = mu.cmp ne %s, %s : (f32, f32) -> i1
  // CHECK-NEXT: mu.and %[[LT]], %{{.*}} : (!mu.tensor<[N], i1>, i1) -> !mu.tensor<[N], i1>
  %36 = mu.and %30, %35 : (!mu.tensor<[N], i1>, i1) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.or
  %37 = mu.or %30, %36 : (!mu.tensor<[N], i1>, !mu.tensor<[N], i1>) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.not
  %38 = mu.not %37 : (!mu.tensor<[N], i1>) -> !mu.tensor<[N], i1>
  // CHECK-NEXT: mu.select %{{.*}}, %x, %c : (!mu.tensor<[N], i1>, !mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
  %39 = mu.select %38, %x, %c : (!mu.tensor<[N], i1>, !mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
  // CHECK-NEXT: mu.cast %{{.*}} : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
  %40 = mu.cast %39 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.cast %{{.*}} : (i1) -> f16
  %41 = mu.cast %35 : (i1) -> f16
  mu.return %40 : !mu.tensor<[M, N], f32>
}

// Contractions, views, reductions, pins.

// CHECK-LABEL: mu.kernel @tensors(
mu.kernel @tensors(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[N, K], bf16>, %f: !mu.tensor<[K, K], f32>,
                   %h: !mu.tensor<[K, K], f16>, %s: f32, %t: !mu.tensor<[B, M, K], f32, strides(_, 1, 2)>)
    -> (!mu.tensor<[B, M, N], bf16>, !mu.tensor<[B], f32>)
    attributes {arg_names = ["x", "w", "f", "h", "s", "t"], result_names = ["y", "z"], dims = ["B", "M", "N", "K"]} {
  // CHECK: mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
  %0 = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
  // CHECK-NEXT: mu.transpose %{{.*}} : (!mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[N, K], bf16>
  %1 = mu.transpose %0 : (!mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[N, K], bf16>
  // CHECK-NEXT: mu.transpose %t : (!mu.tensor<[B, M, K], f32, strides(_, 1, 2)>) -> !mu.tensor<[B, K, M], f32, strides(_, 2, 1)>
  %2 = mu.transpose %t : (!mu.tensor<[B, M, K], f32, strides(_, 1, 2)>) -> !mu.tensor<[B, K, M], f32, strides(_, 2, 1)>
  // CHECK-NEXT: mu.matmul bf16 %x, %{{.*}} : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[B, M, N], bf16>
  // GENERIC: "mu.matmul"(%x, %{{.*}}) <{compute = #mu<compute bf16>}>
  %3 = mu.matmul bf16 %x, %0 : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[B, M, N], bf16>
  // CHECK-NEXT: mu.matmul tf32 %f, %f
  %4 = mu.matmul tf32 %f, %f : (!mu.tensor<[K, K], f32>, !mu.tensor<[K, K], f32>) -> !mu.tensor<[K, K], f32>
  // CHECK-NEXT: mu.matmul tf32x3 %f, %f
  %tf32x3 = mu.matmul tf32x3 %f, %f : (!mu.tensor<[K, K], f32>, !mu.tensor<[K, K], f32>) -> !mu.tensor<[K, K], f32>
  // CHECK-NEXT: mu.matmul f32 %f, %f
  %f32 = mu.matmul f32 %f, %f : (!mu.tensor<[K, K], f32>, !mu.tensor<[K, K], f32>) -> !mu.tensor<[K, K], f32>
  // CHECK-NEXT: mu.matmul f16 %h, %h
  %5 = mu.matmul f16 %h, %h : (!mu.tensor<[K, K], f16>, !mu.tensor<[K, K], f16>) -> !mu.tensor<[K, K], f16>
  // CHECK-NEXT: mu.expand %h axes [0, 3] : (!mu.tensor<[K, K], f16>) -> !mu.tensor<[1, K, K, 1], f16>
  // GENERIC: "mu.expand"(%h) <{axes = array<i64: 0, 3>}>
  %6 = mu.expand %h axes [0, 3] : (!mu.tensor<[K, K], f16>) -> !mu.tensor<[1, K, K, 1], f16>
  // CHECK-NEXT: mu.expand %s axes [0] : (f32) -> !mu.tensor<[1], f32>
  %7 = mu.expand %s axes [0] : (f32) -> !mu.tensor<[1], f32>
  // CHECK-NEXT: mu.squeeze %{{.*}} axes [0, 3] : (!mu.tensor<[1, K, K, 1], f16>) -> !mu.tensor<[K, K], f16>
  // GENERIC: "mu.squeeze"(%{{.*}}) <{axes = array<i64: 0, 3>}>
  %squeezed = mu.squeeze %6 axes [0, 3] : (!mu.tensor<[1, K, K, 1], f16>) -> !mu.tensor<[K, K], f16>
  // CHECK-NEXT: mu.broadcast %s : (f32) -> !mu.tensor<[M, 4], f32>
  %8 = mu.broadcast %s : (f32) -> !mu.tensor<[M, 4], f32>
  // CHECK-NEXT: mu.pin "h" %{{.*}} : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
  %9 = mu.pin "h" %3 : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
  // CHECK-NEXT: mu.pin "v" %{{.*}} : (!mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[K, N], bf16>
  %10 = mu.pin "v" %0 : (!mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[K, N], bf16>
  // CHECK-NEXT: mu.reduce sum %{{.*}} axes [1, 2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B], f32>
  %11 = mu.reduce sum %9 axes [1, 2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B], f32>
  // CHECK-NEXT: mu.reduce max
  %12 = mu.reduce max %9 axes [0] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.reduce min
  %13 = mu.reduce min %9 axes [0] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[M, N], f32>
  // CHECK-NEXT: mu.reduce amax %{{.*}} axes [0, 1, 2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[], f32>
  // GENERIC: "mu.reduce"(%{{.*}}) <{kind = #mu<reduction amax>, axes = array<i64: 0, 1, 2>}>
  %14 = mu.reduce amax %9 axes [0, 1, 2] : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[], f32>
  // CHECK-NEXT: mu.return %{{.*}}, %{{.*}} : !mu.tensor<[B, M, N], bf16>, !mu.tensor<[B], f32>
  mu.return %9, %11 : !mu.tensor<[B, M, N], bf16>, !mu.tensor<[B], f32>
}

// Stages of each kind.

// CHECK-LABEL: mu.kernel @stages(
mu.kernel @stages(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  // CHECK-NEXT: %h, %r = mu.stage "h" contraction : !mu.tensor<[M, M], f32>, !mu.tensor<[M], f32> {
  // GENERIC: "mu.stage"() <{stage_name = "h", kind = #mu<stage_kind contraction>}> ({
  %h, %r = mu.stage "h" contraction : !mu.tensor<[M, M], f32>, !mu.tensor<[M], f32> {
    // CHECK-NEXT: %[[P:[0-9]+]] = mu.matmul
    %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    %1 = mu.reduce sum %0 axes [1] : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M], f32>
    // CHECK: mu.yield %[[P]], %{{.*}} : !mu.tensor<[M, M], f32>, !mu.tensor<[M], f32>
    mu.yield %0, %1 : !mu.tensor<[M, M], f32>, !mu.tensor<[M], f32>
  }
  // CHECK: mu.stage "m" map pinned : !mu.tensor<[M, M], f32> {
  %m = mu.stage "m" map pinned : !mu.tensor<[M, M], f32> {
    %0 = mu.add %h, %r : (!mu.tensor<[M, M], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[M, M], f32>
    mu.yield %0 : !mu.tensor<[M, M], f32>
  }
  // CHECK: mu.stage "out" reduction : !mu.tensor<[M], f32> {
  %out = mu.stage "out" reduction : !mu.tensor<[M], f32> {
    %0 = mu.reduce max %m axes [0] : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M], f32>
    mu.yield %0 : !mu.tensor<[M], f32>
  }
  mu.return %out : !mu.tensor<[M], f32>
}

// Schedules.

// CHECK: mu.schedule "stages" for "sm_90a" {}
mu.schedule "stages" for "sm_90a" {}
// CHECK-NEXT: mu.schedule "stages" stage "h" for "sm_90a" {
// CHECK-SAME: cluster = #mu.cluster<2, 1>
// CHECK-SAME: mainloop = #mu<mainloop pingpong>
// CHECK-SAME: scheduler = #mu.scheduler<persistent, raster = along_n, swizzle = 2>
// CHECK-SAME: stages = 4 : i64
// CHECK-SAME: tile = #mu.tile<128, 256, 64>}
mu.schedule "stages" stage "h" for "sm_90a" {
  cluster = #mu.cluster<2, 1>, mainloop = #mu.mainloop pingpong,
  scheduler = #mu.scheduler<persistent, swizzle = 2, raster = along_n>, stages = 4 : i64, tile = #mu.tile<128, 256, 64>}
// CHECK-NEXT: scheduler = #mu.scheduler<persistent>}
mu.schedule "stages" for "sm_90a" {scheduler = #mu.scheduler<persistent, raster = heuristic, swizzle = 1>}
// CHECK-NEXT: {scheduler = #mu.scheduler<split_k, splits = 4>, mainloop = #mu<mainloop cooperative>}
mu.schedule "stages" for "sm_90a" {scheduler = #mu.scheduler<split_k, splits = 4>, mainloop = #mu.mainloop cooperative}
// CHECK-NEXT: {scheduler = #mu.scheduler<stream_k>, mainloop = #mu<mainloop multistage>}
mu.schedule "stages" for "sm_90a" {scheduler = #mu.scheduler<stream_k>, mainloop = #mu.mainloop multistage}
// CHECK-NEXT: {scheduler = #mu.scheduler<persistent, raster = along_m>, mainloop = #mu<mainloop warpspecialized>}
mu.schedule "stages" for "sm_90a" {scheduler = #mu.scheduler<persistent, raster = along_m>, mainloop = #mu.mainloop warpspecialized}
