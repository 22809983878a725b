// RUN: mucc-opt %s -t cuda | FileCheck %s

// A kernel with exchanged operands computes D' = B' A': its rows are our columns. What is a row to us is a
// column to it, and the other way round.

builtin.module {
  cutlass.program @few(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[N, K], bf16>, %b: !mu.tensor<[N], f32>, %s: !mu.tensor<[M], f32>, %y: !mu.tensor<[M, N], bf16>) attributes {target = "sm_90a", arg_names = ["x", "w", "b", "s", "y"], num_inputs = 4 : i64, dims = ["M", "N", "K"]} {
    %0 = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %1 = mu.expand %s axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>
    cutlass.gemm "out" bf16 %x, %0 shape <[M], [N], [K], []> tile <128, 16, 64> cluster <2, 1> mainloop cooperative stages 4 scheduler <persistent, raster = along_m> exchange on : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major> {
      %acc = cutlass.acc_fetch
      %bias = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
      %scale = cutlass.col_broadcast %1 : !mu.tensor<[M, 1], f32>
      %v = cutlass.compute %acc, %bias, %scale {
      ^bb0(%a: f32, %p: f32, %q: f32):
        %sum = mu.add %a, %p : (f32, f32) -> f32
        %product = mu.mul %sum, %q : (f32, f32) -> f32
        cutlass.yield %product
      }
      cutlass.store_d %v, %y : !mu.tensor<[M, N], bf16>
    }
  }
  cutlass.program @sums(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %y: !mu.tensor<[M, N], bf16>, %r: !mu.tensor<[M], f32>, %c: !mu.tensor<[N], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "y", "r", "c"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
    cutlass.gemm "y" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 64, 64> cluster <1, 1> mainloop pingpong stages 4 scheduler <persistent> exchange on : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
      %acc = cutlass.acc_fetch
      cutlass.col_reduction sum %acc, %r : !mu.tensor<[M], f32>
      cutlass.row_reduction max %acc, %c : !mu.tensor<[N], f32>
      cutlass.store_d %acc, %y : !mu.tensor<[M, N], bf16>
    }
  }
}

// CHECK:       // few.out: bf16 gemm N x M x K (of the transposed result): tile 128x16x64, cluster 2x1
// CHECK-LABEL: namespace mu::few::out {
// CHECK:       using TileShape = cute::Shape<cute::Int<128>, cute::Int<16>, cute::Int<64>>;
// CHECK:       using StrideA = cute::Stride<int64_t, cute::_1, cute::_0>;  // w: bf16[N, K]
// CHECK:       using StrideB = cute::Stride<int64_t, cute::_1, cute::_0>;  // x: bf16[M, K]
// CHECK:       using StrideD = cute::Stride<cute::_1, int64_t, cute::_0>;
// CHECK-DAG:   using Row_s = mucc::gemm::Row<float, 16>;
// CHECK-DAG:   using Col_b = mucc::gemm::Column<float, 2>;
// CHECK:       mucc::gemm::Epilogue<TileShape, 2, ElementD, StrideD,
// CHECK:       p.a = {c.data(1), {K, 1, 0}};
// CHECK-NEXT:  p.b = {c.data(0), {K, 1, 0}};
// CHECK-NEXT:  p.d = {c.data(4), {1, N, 0}};
// CHECK:       p.raster = mucc::gemm::Raster::kAlongM;

// CHECK-LABEL: namespace mu::sums::y {
// CHECK-DAG:   using Rows_r = mucc::gemm::RowReduction<mucc::Sum,
// CHECK-DAG:   using Cols_c = mucc::gemm::ColReduction<mucc::Max,
// CHECK:       mucc::fill(c, c.data<float>(3), mucc::identity::kSum, M)
// CHECK:       mucc::fill(c, c.data<float>(4), mucc::identity::kMax, N)
