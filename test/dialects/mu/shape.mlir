// RUN: mucc-opt %s | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | mucc-opt | FileCheck %s

// CHECK-LABEL: mu.kernel @moves(
mu.kernel @moves(%x: !mu.tensor<[B, 4, 6], bf16>, %w: !mu.tensor<[B, 2, 6], bf16>, %s: f32) -> !mu.tensor<[B, 4, 6], bf16>
    attributes {arg_names = ["x", "w", "s"], result_names = ["out"], dims = ["B"]} {
  // CHECK-NEXT: mu.reshape %x : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 24], bf16>
  %0 = mu.reshape %x : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 24], bf16>
  // CHECK-NEXT: mu.reshape %s : (f32) -> !mu.tensor<[1, 1], f32>
  %1 = mu.reshape %s : (f32) -> !mu.tensor<[1, 1], f32>
  // CHECK-NEXT: mu.permute %x order [2, 0, 1] : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[6, B, 4], bf16>
  %2 = mu.permute %x order [2, 0, 1] : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[6, B, 4], bf16>
  // CHECK-NEXT: mu.slice %x axis 2 : i64 bounds [#builtin.int<1>, #builtin.int<6>] step 2 : i64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 3], bf16>
  %3 = mu.slice %x axis 2 : i64 bounds [#builtin.int<1>, #builtin.int<6>] step 2 : i64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 3], bf16>
  // CHECK-NEXT: mu.concat %x, %w axis 1 : i64 : (!mu.tensor<[B, 4, 6], bf16>, !mu.tensor<[B, 2, 6], bf16>) -> !mu.tensor<[B, 6, 6], bf16>
  %4 = mu.concat %x, %w axis 1 : i64 : (!mu.tensor<[B, 4, 6], bf16>, !mu.tensor<[B, 2, 6], bf16>) -> !mu.tensor<[B, 6, 6], bf16>
  // CHECK-NEXT: mu.pad reflect %x low [0, 0, 2] high [0, 1, 0] value 0.000000e+00 : f64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 5, 8], bf16>
  %5 = mu.pad reflect %x low [0, 0, 2] high [0, 1, 0] value 0.0 : f64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 5, 8], bf16>
  // CHECK-NEXT: mu.flip %x axes [0, 2] : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 6], bf16>
  %6 = mu.flip %x axes [0, 2] : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 6], bf16>
  // CHECK-NEXT: mu.roll %x by -1 : i64 axis 1 : i64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 6], bf16>
  %7 = mu.roll %x by -1 : i64 axis 1 : i64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 6], bf16>
  // CHECK-NEXT: mu.triangle lower %x diagonal -1 : i64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 6], bf16>
  %8 = mu.triangle lower %x diagonal -1 : i64 : (!mu.tensor<[B, 4, 6], bf16>) -> !mu.tensor<[B, 4, 6], bf16>
  // CHECK-NEXT: mu.iota axis 1 : i64 : !mu.tensor<[B, 4], si32>
  %9 = mu.iota axis 1 : i64 : !mu.tensor<[B, 4], si32>
  // CHECK-NEXT: mu.full 2.500000e+00 : f64 : !mu.tensor<[B], f16>
  %10 = mu.full 2.5 : f64 : !mu.tensor<[B], f16>
  mu.return %x : !mu.tensor<[B, 4, 6], bf16>
}

// CHECK-LABEL: mu.kernel @reductions(
mu.kernel @reductions(%x: !mu.tensor<[M, 6], bf16>) -> !mu.tensor<[M, 6], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  // CHECK-NEXT: mu.reduce mean %x axes [1] : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[M], f32>
  %0 = mu.reduce mean %x axes [1] : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[M], f32>
  // CHECK-NEXT: mu.reduce prod %x axes [0, 1] : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[], f32>
  %1 = mu.reduce prod %x axes [0, 1] : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[], f32>
  // CHECK-NEXT: mu.cmp gt %x, %x
  %2 = mu.cmp gt %x, %x : (!mu.tensor<[M, 6], bf16>, !mu.tensor<[M, 6], bf16>) -> !mu.tensor<[M, 6], i1>
  // CHECK-NEXT: mu.reduce any %{{.*}} axes [0] : (!mu.tensor<[M, 6], i1>) -> !mu.tensor<[6], i1>
  %3 = mu.reduce any %2 axes [0] : (!mu.tensor<[M, 6], i1>) -> !mu.tensor<[6], i1>
  // CHECK-NEXT: mu.reduce all
  %4 = mu.reduce all %2 axes [] : (!mu.tensor<[M, 6], i1>) -> !mu.tensor<[M, 6], i1>
  // CHECK-NEXT: mu.variance %x axes [0, 1] correction 1.000000e+00 : f64 : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[], f32>
  %5 = mu.variance %x axes [0, 1] correction 1.0 : f64 : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[], f32>
  // CHECK-NEXT: mu.arg_reduce argmin %x axis 0 : i64 : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[6], si32>
  %6 = mu.arg_reduce argmin %x axis 0 : i64 : (!mu.tensor<[M, 6], bf16>) -> !mu.tensor<[6], si32>
  mu.return %x : !mu.tensor<[M, 6], bf16>
}
