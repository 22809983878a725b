// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @linear_gelu(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[N, K], bf16>, %b: !mu.tensor<[N], bf16>, %out: !mu.tensor<[M, N], bf16>) attributes {target = "sm_90a", arg_names = ["x", "w", "b", "out"], num_inputs = 3 : i64, dims = ["M", "N", "K"], requirements = [#cutlass.requirement<K multiple_of 8, "TMA needs 16-byte rows of x">]} {
    %wt = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    cutlass.gemm "out" bf16 %x, %wt shape <[M], [N], [K], []> tile <128, 256, 64> cluster <2, 1> mainloop cooperative stages 4 scheduler <persistent, raster = along_n, swizzle = 2> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major> {
      %acc = cutlass.acc_fetch
      %bias = cutlass.row_broadcast %b : !mu.tensor<[N], bf16>
      %y = cutlass.compute %acc, %bias {
      ^bb0(%0: f32, %1: f32):
        %3 = mu.add %0, %1 : (f32, f32) -> f32
        %4 = mu.gelu %3 : (f32) -> f32
        cutlass.yield %4
      }
      cutlass.store_d %y, %out : !mu.tensor<[M, N], bf16>
    }
  }
}

// CHECK:      // Made by `mucc - --emit=cu`
// CHECK:      #include <mucc/launch.h>
// CHECK-NEXT: #include <mucc/problem.h>
// CHECK-NEXT: #include <mucc/gemm_launch.h>
// CHECK-NEXT: #include <cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp>
// CHECK:      // linear_gelu.out: bf16 gemm M x N x K: tile 128x256x64, cluster 2x1, cooperative, 4 stages
// CHECK-NEXT: namespace mu::linear_gelu::out {
// CHECK:      struct Body0 {
// CHECK-NEXT:   static MUCC_DEVICE float apply(float acc, float b) {
// CHECK-NEXT:     float const v0 = acc + b;
// CHECK-NEXT:     float const v1 = mucc::gelu_erf(v0);
// CHECK-NEXT:     return v1;
// CHECK:      using TileShape = cute::Shape<cute::Int<128>, cute::Int<256>, cute::Int<64>>;
// CHECK-NEXT: using ClusterShape = cute::Shape<cute::Int<2>, cute::Int<1>, cute::Int<1>>;
// CHECK-NEXT: using ElementA = cutlass::bfloat16_t;  // multiplied as bf16
// CHECK-NEXT: using StrideA = cute::Stride<int64_t, cute::_1, cute::_0>;  // x: bf16[M, K]
// CHECK-NEXT: using ElementB = cutlass::bfloat16_t;
// CHECK-NEXT: using StrideB = cute::Stride<int64_t, cute::_1, cute::_0>;  // w: bf16[N, K]
// CHECK-NEXT: using ElementC = void;
// One row-major matrix from one body, vectors and numbers: our own collective does it.
// CHECK:      using Row_b = mucc::gemm::Row<cutlass::bfloat16_t, 256>;
// CHECK-NEXT: using CollectiveEpilogue =
// CHECK-NEXT:     mucc::gemm::Epilogue<TileShape, 2, ElementD, StrideD, Body0, Row_b>;
// CHECK:      mucc::gemm::Stages<4>
// CHECK:      static_assert(sizeof(typename Kernel::SharedStorage) <= 232448,
// CHECK:      void arguments(mucc::gemm::Problem const& p, Kernel::Arguments& to) {
// CHECK-NEXT:   mucc::gemm::begin_arguments<Kernel>(p, to);
// CHECK-NEXT:   to.epilogue.thread = {{[{][{][{]}}p.extra[0].as<cutlass::bfloat16_t>(), p.extra[0].stride[2]}}};
// CHECK:      int describe(mucc::Call const& c, mucc::gemm::Problem& p) {
// CHECK-NEXT:   int64_t const M = c.dims[0], N = c.dims[1], K = c.dims[2];
// CHECK:        p.b = {c.data(1), {K, 1, 0}};
// CHECK:        p.extra[0] = {c.data(2)};
// CHECK-NEXT:   p.swizzle = 2;
// CHECK-NEXT:   p.raster = mucc::gemm::Raster::kAlongN;
// CHECK:      mucc::tensor_in("b", mucc::kBF16, {mucc::dim(1)}, mucc::row_major(), 2),
// CHECK-NEXT: mucc::tensor_out("out", mucc::kBF16, {mucc::dim(0), mucc::dim(1)}, mucc::row_major(), 16),
// CHECK:      bool holds0(int64_t const* d) { return d[2] % 8 == 0; }  // K % 8 == 0
// CHECK:      {"K % 8 == 0", holds0, "TMA needs 16-byte rows of x"},
// CHECK:      int64_t workspace(mucc::Call const&) { return 0; }
// CHECK:      MUCC_KERNEL(linear_gelu, mu::linear_gelu::args, mu::linear_gelu::dims, mu::linear_gelu::promises,
// CHECK:      MUCC_MODULE(R"manifest({
