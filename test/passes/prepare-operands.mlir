// RUN: mucc-opt %s -p prepare-operands --split-input-file | FileCheck %s

// Parts of f32 operands side by side along K, in padded rows; B is turned so that K is contiguous. The kernel
// says what it reads, and still what it computes.

// CHECK-LABEL: cutlass.program @parts(
// CHECK-NEXT: %[[T:[0-9]+]] = mu.transpose %w
// CHECK-NEXT: %[[A:[0-9]+]] = cutlass.workspace : !mu.tensor<[M, 3, K], f32, padded(4)>
// CHECK-NEXT: cutlass.map "out.split_a" space ["M", "K"] {
// CHECK-NEXT:   %[[X:[0-9]+]] = cutlass.load %x : !mu.tensor<[M, K], f32>
// CHECK-NEXT:   cutlass.store_parts %[[X]], %[[A]] parts ["low", "high", "high"] : !mu.tensor<[M, 3, K], f32, padded(4)>
// CHECK-NEXT: }
// CHECK-NEXT: %[[B:[0-9]+]] = cutlass.workspace : !mu.tensor<[N, 3, K], f32, padded(4)>
// CHECK-NEXT: cutlass.map "out.split_b" space ["N", "K"] {
// CHECK-NEXT:   %[[W:[0-9]+]] = cutlass.load %[[T]] : !mu.tensor<[N, K], f32, col_major>
// CHECK-NEXT:   cutlass.store_parts %[[W]], %[[B]] parts ["high", "low", "high"]
// CHECK-NEXT: }
// CHECK-NEXT: cutlass.gemm "out" tf32x3 %x, %w prepared %[[A]], %[[B]] shape <[M], [N], [K], []> tile <128, 128, 32>
cutlass.program @parts(%x: !mu.tensor<[M, K], f32>, %w: !mu.tensor<[K, N], f32>, %out: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" tf32x3 %x, %w shape <[M], [N], [K], []> tile <128, 128, 32> cluster <1, 1> mainloop cooperative
      stages 4 : i64 scheduler <persistent> : !mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], f32>
  }
}

// -----

// The multistage mainloop splits what it loads itself.

// CHECK-LABEL: cutlass.program @own(
// CHECK-NEXT: cutlass.gemm "out" tf32x3 %x, %w shape <[M]
cutlass.program @own(%x: !mu.tensor<[M, K], f32>, %w: !mu.tensor<[K, N], f32>, %out: !mu.tensor<[M, N], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "out"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
  cutlass.gemm "out" tf32x3 %x, %w shape <[M], [N], [K], []> tile <128, 128, 16> cluster <1, 1> mainloop multistage
      stages 3 : i64 scheduler <persistent> : !mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32> {
    %0 = cutlass.acc_fetch
    cutlass.store_d %0, %out : !mu.tensor<[M, N], f32>
  }
}
