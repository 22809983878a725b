// RUN: mucc-opt %s | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | mucc-opt | FileCheck %s

// CHECK-LABEL: mu.kernel @convolutions(
mu.kernel @convolutions(%x: !mu.tensor<[N, 8, 16, 16], bf16>, %w: !mu.tensor<[12, 4, 3, 1], bf16>, %v: !mu.tensor<[8, 6, 2, 2], bf16>, %y: !mu.tensor<[N, 8, 5], f32>, %u: !mu.tensor<[4, 8, 5], f32>) -> (!mu.tensor<[N, 12, 8, 16], bf16>, !mu.tensor<[N, 12, 33, 33], bf16>, !mu.tensor<[N, 4, 5], f32>, !mu.tensor<[N, 8, 5], f32>)
    attributes {arg_names = ["x", "w", "v", "y", "u"], result_names = ["a", "b", "c", "d"], dims = ["N"]} {
  // CHECK-NEXT: mu.conv bf16 %x, %w stride [2, 1] pad [1, 0] dilation [1, 1] groups 2 : i64 : (!mu.tensor<[N, 8, 16, 16], bf16>, !mu.tensor<[12, 4, 3, 1], bf16>) -> !mu.tensor<[N, 12, 8, 16], bf16>
  %0 = mu.conv bf16 %x, %w stride [2, 1] pad [1, 0] dilation [1, 1] groups 2 : i64 : (!mu.tensor<[N, 8, 16, 16], bf16>, !mu.tensor<[12, 4, 3, 1], bf16>) -> !mu.tensor<[N, 12, 8, 16], bf16>
  // CHECK-NEXT: mu.conv_transpose bf16 %x, %v stride [2, 2] pad [0, 0] output_pad [1, 1] dilation [1, 1] groups 2 : i64 : (!mu.tensor<[N, 8, 16, 16], bf16>, !mu.tensor<[8, 6, 2, 2], bf16>) -> !mu.tensor<[N, 12, 33, 33], bf16>
  %1 = mu.conv_transpose bf16 %x, %v stride [2, 2] pad [0, 0] output_pad [1, 1] dilation [1, 1] groups 2 : i64 : (!mu.tensor<[N, 8, 16, 16], bf16>, !mu.tensor<[8, 6, 2, 2], bf16>) -> !mu.tensor<[N, 12, 33, 33], bf16>
  // CHECK-NEXT: mu.conv f32 %y, %u stride [1] pad [4] dilation [2] groups 1 : i64 : (!mu.tensor<[N, 8, 5], f32>, !mu.tensor<[4, 8, 5], f32>) -> !mu.tensor<[N, 4, 5], f32>
  %2 = mu.conv f32 %y, %u stride [1] pad [4] dilation [2] groups 1 : i64 : (!mu.tensor<[N, 8, 5], f32>, !mu.tensor<[4, 8, 5], f32>) -> !mu.tensor<[N, 4, 5], f32>
  mu.return %0, %1, %2, %y : !mu.tensor<[N, 12, 8, 16], bf16>, !mu.tensor<[N, 12, 33, 33], bf16>, !mu.tensor<[N, 4, 5], f32>, !mu.tensor<[N, 8, 5], f32>
}

// CHECK-LABEL: mu.kernel @pools(
mu.kernel @pools(%x: !mu.tensor<[N, 8, 16, 17], f16>) -> (!mu.tensor<[N, 8, 8, 8], f16>, !mu.tensor<[N, 8, 8, 9], f16>, !mu.tensor<[N, 8, 8, 17], f16>, !mu.tensor<[N, 8, 16, 17], f16>)
    attributes {arg_names = ["x"], result_names = ["a", "b", "c", "d"], dims = ["N"]} {
  // CHECK-NEXT: mu.pool max %x size [2, 2] stride [2, 2] pad [0, 0] dilation [1, 1] : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 8, 8], f16>
  %0 = mu.pool max %x size [2, 2] stride [2, 2] pad [0, 0] dilation [1, 1] : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 8, 8], f16>
  // CHECK-NEXT: mu.pool max %x size [2, 2] stride [2, 2] pad [0, 0] dilation [1, 1] ceil : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 8, 9], f16>
  %1 = mu.pool max %x size [2, 2] stride [2, 2] pad [0, 0] dilation [1, 1] ceil : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 8, 9], f16>
  // CHECK-NEXT: mu.pool max %x size [2, 1] stride [2, 1] pad [0, 0] dilation [1, 3] : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 8, 17], f16>
  %2 = mu.pool max %x size [2, 1] stride [2, 1] pad [0, 0] dilation [1, 3] : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 8, 17], f16>
  // CHECK-NEXT: mu.pool avg %x size [3, 3] stride [1, 1] pad [1, 1] dilation [1, 1] : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 16, 17], f16>
  %3 = mu.pool avg %x size [3, 3] stride [1, 1] pad [1, 1] dilation [1, 1] : (!mu.tensor<[N, 8, 16, 17], f16>) -> !mu.tensor<[N, 8, 16, 17], f16>
  mu.return %0, %1, %2, %3 : !mu.tensor<[N, 8, 8, 8], f16>, !mu.tensor<[N, 8, 8, 9], f16>, !mu.tensor<[N, 8, 8, 17], f16>, !mu.tensor<[N, 8, 16, 17], f16>
}

// CHECK-LABEL: mu.kernel @means(
mu.kernel @means(%x: !mu.tensor<[N, 8, 16], f16>) -> !mu.tensor<[N, 8, 8], f16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["N"]} {
  // CHECK-NEXT: mu.pool avg %x size [2] stride [2] pad [0] dilation [1] ceil count_pad : (!mu.tensor<[N, 8, 16], f16>) -> !mu.tensor<[N, 8, 8], f16>
  %0 = mu.pool avg %x size [2] stride [2] pad [0] dilation [1] ceil count_pad : (!mu.tensor<[N, 8, 16], f16>) -> !mu.tensor<[N, 8, 8], f16>
  mu.return %0 : !mu.tensor<[N, 8, 8], f16>
}

// CHECK-LABEL: mu.kernel @moments(
mu.kernel @moments(%x: !mu.tensor<[N, 8, 5, 4], bf16>, %w: !mu.tensor<[12, 8, 1, 1], bf16>) -> (!mu.tensor<[3, N, 12, 2], f32>, !mu.tensor<[3, 12, 8], f32>)
    attributes {arg_names = ["x", "w"], result_names = ["each", "all"], dims = ["N"]} {
  %0 = mu.conv bf16 %x, %w stride [1, 1] pad [0, 0] dilation [1, 1] groups 1 : i64 : (!mu.tensor<[N, 8, 5, 4], bf16>, !mu.tensor<[12, 8, 1, 1], bf16>) -> !mu.tensor<[N, 12, 5, 4], bf16>
  // CHECK: mu.partial_moments %{{.*}} channel 1 : i64 : (!mu.tensor<[N, 12, 5, 4], bf16>) -> !mu.tensor<[3, N, 12, 2], f32>
  %1 = mu.partial_moments %0 channel 1 : i64 : (!mu.tensor<[N, 12, 5, 4], bf16>) -> !mu.tensor<[3, N, 12, 2], f32>
  // CHECK-NEXT: mu.partial_moments %{{.*}} channel 1 : i64 across : (!mu.tensor<[N, 12, 5, 4], bf16>) -> !mu.tensor<[3, 12, 8], f32>
  %2 = mu.partial_moments %0 channel 1 : i64 across : (!mu.tensor<[N, 12, 5, 4], bf16>) -> !mu.tensor<[3, 12, 8], f32>
  mu.return %1, %2 : !mu.tensor<[3, N, 12, 2], f32>, !mu.tensor<[3, 12, 8], f32>
}
