// RUN: mucc-opt %s | mucc-opt | FileCheck %s

mu.kernel @f(%x: !mu.tensor<[T, K], bf16>, %w: !mu.tensor<[E, K, N], bf16>, %o: !mu.tensor<[E], si32>, %r: !mu.tensor<[M, J], si32>, %p: !mu.tensor<[T], si32>) -> (!mu.tensor<[M, J, N], bf16>, !mu.tensor<[64, N], bf16>) attributes {arg_names = ["x", "w", "o", "r", "p"], result_names = ["y", "z"], dims = ["T", "E", "N", "K", "M", "J"]} {
  // CHECK: %0 = mu.grouped_matmul bf16 %x, %w offsets %o : !mu.tensor<[T, K], bf16>, !mu.tensor<[E, K, N], bf16>, !mu.tensor<[E], si32> -> !mu.tensor<[T, N], bf16>
  %0 = mu.grouped_matmul bf16 %x, %w offsets %o : !mu.tensor<[T, K], bf16>, !mu.tensor<[E, K, N], bf16>, !mu.tensor<[E], si32> -> !mu.tensor<[T, N], bf16>
  // CHECK: %1 = mu.gather %0 rows %r : (!mu.tensor<[T, N], bf16>, !mu.tensor<[M, J], si32>) -> !mu.tensor<[M, J, N], bf16>
  %1 = mu.gather %0 rows %r : (!mu.tensor<[T, N], bf16>, !mu.tensor<[M, J], si32>) -> !mu.tensor<[M, J, N], bf16>
  // CHECK: %2 = mu.scatter %0 rows %p extent #builtin.int<64> : (!mu.tensor<[T, N], bf16>, !mu.tensor<[T], si32>) -> !mu.tensor<[64, N], bf16>
  %2 = mu.scatter %0 rows %p extent #builtin.int<64> : (!mu.tensor<[T, N], bf16>, !mu.tensor<[T], si32>) -> !mu.tensor<[64, N], bf16>
  mu.return %1, %2 : !mu.tensor<[M, J, N], bf16>, !mu.tensor<[64, N], bf16>
}
