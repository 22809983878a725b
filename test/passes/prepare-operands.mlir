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

// -----

// Rows that TMA cannot copy: what is read is copied with padded rows before the kernel, what is stored after it.

// CHECK-LABEL: cutlass.program @rows(
// CHECK-NEXT: %[[T:[0-9]+]] = mu.transpose %w
// CHECK-NEXT: %[[A:[0-9]+]] = cutlass.workspace : !mu.tensor<[M, 100], bf16, padded(8)>
// CHECK-NEXT: cutlass.map "out.pad_a" space ["M", #builtin.int<100>] {
// CHECK-NEXT:   %[[X:[0-9]+]] = cutlass.load %x
// CHECK-NEXT:   cutlass.store %[[X]], %[[A]] : !mu.tensor<[M, 100], bf16, padded(8)>
// CHECK-NEXT: }
// CHECK-NEXT: %[[B:[0-9]+]] = cutlass.workspace : !mu.tensor<[100, 9], bf16, padded_columns(8)>
// CHECK-NEXT: cutlass.map "out.pad_b" space [#builtin.int<100>, #builtin.int<9>] {
// CHECK-NEXT:   %[[W:[0-9]+]] = cutlass.load %[[T]]
// CHECK-NEXT:   cutlass.store %[[W]], %[[B]] : !mu.tensor<[100, 9], bf16, padded_columns(8)>
// CHECK-NEXT: }
// CHECK-NEXT: %[[C:[0-9]+]] = cutlass.workspace : !mu.tensor<[M, 9], f32, padded(4)>
// CHECK-NEXT: cutlass.map "out.pad_c" space ["M", #builtin.int<9>] {
// CHECK-NEXT:   %[[R:[0-9]+]] = cutlass.load %r
// CHECK-NEXT:   cutlass.store %[[R]], %[[C]] : !mu.tensor<[M, 9], f32, padded(4)>
// CHECK-NEXT: }
// CHECK-NEXT: %[[D:[0-9]+]] = cutlass.workspace : !mu.tensor<[M, 9], bf16, padded(8)>
// CHECK-NEXT: cutlass.gemm "out" bf16 %x, %[[T]] prepared %[[A]], %[[B]] shape <[M], [9], [100], []>
// CHECK-NEXT:   %[[ACC:[0-9]+]] = cutlass.acc_fetch
// CHECK-NEXT:   %[[S:[0-9]+]] = cutlass.src_fetch %[[C]] : !mu.tensor<[M, 9], f32, padded(4)>
// CHECK:        cutlass.store_d %{{[0-9]+}}, %[[D]] : !mu.tensor<[M, 9], bf16, padded(8)>
// CHECK-NEXT: }
// CHECK-NEXT: cutlass.map "out.unpad" space ["M", #builtin.int<9>] {
// CHECK-NEXT:   %[[Y:[0-9]+]] = cutlass.load %[[D]]
// CHECK-NEXT:   cutlass.store %[[Y]], %out : !mu.tensor<[M, 9], bf16>
cutlass.program @rows(%x: !mu.tensor<[M, 100], bf16>, %w: !mu.tensor<[9, 100], bf16>, %r: !mu.tensor<[M, 9], f32>, %out: !mu.tensor<[M, 9], bf16>)
    attributes {target = "sm_90a", arg_names = ["x", "w", "r", "out"], num_inputs = 3 : i64, dims = ["M"]} {
  %0 = mu.transpose %w : (!mu.tensor<[9, 100], bf16>) -> !mu.tensor<[100, 9], bf16, col_major>
  cutlass.gemm "out" bf16 %x, %0 shape <[M], [9], [100], []> tile <128, 32, 64> cluster <1, 1> mainloop cooperative
      stages 4 : i64 scheduler <persistent> : !mu.tensor<[M, 100], bf16>, !mu.tensor<[100, 9], bf16, col_major> {
    %1 = cutlass.acc_fetch
    %2 = cutlass.src_fetch %r : !mu.tensor<[M, 9], f32>
    %3 = cutlass.compute %1, %2 {
    ^bb0(%4: f32, %5: f32):
      %6 = mu.add %4, %5 : (f32, f32) -> f32
      cutlass.yield %6
    }
    cutlass.store_d %3, %out : !mu.tensor<[M, 9], bf16>
  }
}
