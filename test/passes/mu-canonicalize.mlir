// RUN: mucc-opt %s -p mu-canonicalize --print-debuginfo | FileCheck %s

// Patterns work to a fixed point, what is unused goes, and new operations stand where the matched ones did.

// CHECK-LABEL: mu.kernel @k(
// CHECK-NEXT: %[[V:[0-9]+]] = mu.transpose %x : {{.*}} loc("k.mcu":2:5)
// CHECK-NEXT: %[[W:[0-9]+]] = mu.transpose %x : {{.*}} loc("k.mcu":2:5)
// CHECK-NEXT: %[[P:[0-9]+]] = mu.matmul bf16 %[[V]], %[[W]] : {{.*}} loc("k.mcu":2:5)
// CHECK-NEXT: %[[S:[0-9]+]] = mu.mul %[[P]], %[[P]] : {{.*}} loc("k.mcu":3:7)
// CHECK-NEXT: mu.return %[[S]] : !mu.tensor<[M, M], bf16> loc("k.mcu":4:9)
mu.kernel @k(%x: !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %one = mu.constant 1.0 loc("k.mcu":1:1)
  %two = mu.add %one, %one : (f32, f32) -> f32 loc("k.mcu":1:2)
  %0 = mu.matmul bf16 %x, %x : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16> loc("k.mcu":2:3)
  %1 = mu.transpose %0 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16, col_major> loc("k.mcu":2:5)
  %2 = mu.neg %1 : (!mu.tensor<[M, M], bf16, col_major>) -> !mu.tensor<[M, M], bf16> loc("k.mcu":2:7)
  %3 = mu.neg %2 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16> loc("k.mcu":2:9)
  %4 = mu.pow %3, %two : (!mu.tensor<[M, M], bf16>, f32) -> !mu.tensor<[M, M], bf16> loc("k.mcu":3:7)
  mu.return %4 : !mu.tensor<[M, M], bf16> loc("k.mcu":4:9)
}
