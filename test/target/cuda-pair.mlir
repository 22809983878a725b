// RUN: mucc-opt %s -t cuda | FileCheck %s

// Two right operands: tiles of (N, 2) columns, and a stride that leads from one operand to the other.

builtin.module {
  cutlass.program @gated(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>, %b: !mu.tensor<[N], f32>, %out: !mu.tensor<[M, N], bf16>) attributes {target = "sm_90a", arg_names = ["x", "g", "u", "b", "out"], num_inputs = 4 : i64, dims = ["M", "N", "K"]} {
    %gt = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %ut = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    cutlass.gemm "out" bf16 %x, %gt, %ut shape <[M], [N], [K], []> tile <64, 128, 64> cluster <1, 1> mainloop pingpong stages 4 scheduler <persistent> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>, !mu.tensor<[K, N], bf16, col_major> {
      %bias = cutlass.row_broadcast %b : !mu.tensor<[N], f32>
      %up = cutlass.acc_fetch second
      %gate = cutlass.acc_fetch
      %y = cutlass.compute %bias, %up, %gate {
      ^bb0(%0: f32, %1: f32, %2: f32):
        %3 = mu.add %1, %0 : (f32, f32) -> f32
        %4 = mu.div %2, %3 : (f32, f32) -> f32
        cutlass.yield %4
      }
      cutlass.store_d %y, %out : !mu.tensor<[M, N], bf16>
    }
  }
}

// CHECK:      // gated.out: bf16 gemm M x N x K of a pair: tile 64x128x64, cluster 1x1, pingpong, 4 stages
// CHECK:      static MUCC_DEVICE float apply(float acc, float acc2, float b) {
// CHECK-NEXT:   float const v0 = acc2 + b;
// CHECK-NEXT:   float const v1 = mucc::div(acc, v0);
// CHECK:      using TileShape = cute::Shape<cute::Int<64>, cute::Shape<cute::Int<128>, cute::_2>, cute::Int<64>>;
// CHECK:      using StrideB = cute::Stride<cute::Stride<int64_t, int64_t>, cute::_1, cute::_0>;  // g: bf16[N, K]
// CHECK:      using Row_b = mucc::gemm::Row<float, 128>;
// CHECK-NEXT: using CollectiveEpilogue =
// CHECK-NEXT:     mucc::gemm::PairEpilogue<TileShape, 1, ElementD, StrideD, Body0, Row_b>;
// CHECK:      cute::Shape<int, cute::Shape<int, cute::_2>, int, int>, CollectiveMainloop, CollectiveEpilogue,
// CHECK:        p.b = {c.data(1), {K, 1, 0}};
// CHECK-NEXT:   p.b2 = {c.data(2), {K, 1, 0}};
