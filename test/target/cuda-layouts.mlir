// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @l00(%x: !mu.tensor<[M, K], f32>, %w: !mu.tensor<[K, N], f32>, %y: !mu.tensor<[M, N], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "y"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
    
    
    cutlass.gemm "out" tf32 %x, %w shape <[M], [N], [K], []> tile <128, 128, 32> cluster <1, 1> mainloop cooperative stages 4 scheduler <persistent> exchange on : !mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32> {
      %acc = cutlass.acc_fetch
      cutlass.store_d %acc, %y : !mu.tensor<[M, N], f32>
    }
  }
  cutlass.program @l01(%x: !mu.tensor<[M, K], f32>, %w: !mu.tensor<[N, K], f32>, %y: !mu.tensor<[M, N], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "y"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
    
    %wt = mu.transpose %w : (!mu.tensor<[N, K], f32>) -> !mu.tensor<[K, N], f32, col_major>
    cutlass.gemm "out" tf32 %x, %wt shape <[M], [N], [K], []> tile <128, 128, 32> cluster <1, 1> mainloop cooperative stages 4 scheduler <persistent> : !mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32, col_major> {
      %acc = cutlass.acc_fetch
      cutlass.store_d %acc, %y : !mu.tensor<[M, N], f32>
    }
  }
  cutlass.program @strided(%x: !mu.tensor<[M, K], bf16, strides(_, 1)>, %w: !mu.tensor<[K, N], bf16, strides(1, _)>, %y: !mu.tensor<[M, N], bf16, strides(_, 1)>) attributes {target = "sm_90a", arg_names = ["x", "w", "y"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
    cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <64, 64, 64> cluster <1, 1> mainloop pingpong stages 6 scheduler <persistent> : !mu.tensor<[M, K], bf16, strides(_, 1)>, !mu.tensor<[K, N], bf16, strides(1, _)> {
      %acc = cutlass.acc_fetch
      cutlass.store_d %acc, %y : !mu.tensor<[M, N], bf16, strides(_, 1)>
    }
  }
}

// f32 operands multiply as tf32, which CUTLASS can read here in the exchanged order only: D' = B' A'.
// CHECK-LABEL: namespace mu::l00::out {
// CHECK:       using ElementA = float;  // multiplied as tf32
// CHECK-NEXT:  using StrideA = cute::Stride<cute::_1, int64_t, cute::_0>;  // w: f32[K, N]
// CHECK:       using StrideB = cute::Stride<int64_t, cute::_1, cute::_0>;  // x: f32[M, K]
// CHECK:       using StrideD = cute::Stride<cute::_1, int64_t, cute::_0>;
// CHECK:       mucc::gemm::extent(c, "out", "N", N, p.m)
// CHECK:       mucc::gemm::extent(c, "out", "M", M, p.n)

// CHECK-LABEL: namespace mu::l01::out {
// CHECK:       using StrideA = cute::Stride<int64_t, cute::_1, cute::_0>;  // x: f32[M, K]
// CHECK:       using StrideB = cute::Stride<int64_t, cute::_1, cute::_0>;  // w: f32[N, K]

// Strides that are known at run time only.
// CHECK-LABEL: namespace mu::strided::out {
// CHECK:       p.a = {c.data(0), {c.stride(0, 0), 1, 0}};
// CHECK:       p.b = {c.data(1), {c.stride(1, 1), 1, 0}};
// CHECK:       p.d = {c.data(2), {c.stride(2, 0), 1, 0}};
// CHECK:       mucc::strides({-1, 1}), 16),
// CHECK-NEXT:  {{.*}}mucc::strides({1, -1}), 16),
