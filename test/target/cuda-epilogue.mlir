// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @big(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16>, %c: !mu.tensor<[M, N], bf16>, %e: !mu.tensor<[M, N], f16>, %r: !mu.tensor<[N], f32>, %q: !mu.tensor<[M, 1], bf16>, %s: !mu.tensor<[], f32>, %alpha: f32, %out: !mu.tensor<[M, N], bf16>, %z: !mu.tensor<[M, N], bf16>, %rs: !mu.tensor<[N], f32>, %cm: !mu.tensor<[M], f32>, %am: !mu.tensor<[], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "c", "e", "r", "q", "s", "alpha", "out", "z", "rs", "cm", "am"], num_inputs = 8 : i64, dims = ["M", "N", "K"]} {
    cutlass.gemm "out" bf16 %x, %w shape <[M], [N], [K], []> tile <128, 128, 64> cluster <2, 1> mainloop cooperative stages 3 scheduler <persistent> : !mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16> {
      %acc = cutlass.acc_fetch
      %c0 = cutlass.src_fetch %c : !mu.tensor<[M, N], bf16>
      %e0 = cutlass.aux_load %e : !mu.tensor<[M, N], f16>
      %r0 = cutlass.row_broadcast %r : !mu.tensor<[N], f32>
      %q0 = cutlass.col_broadcast %q : !mu.tensor<[M, 1], bf16>
      %s0 = cutlass.scalar_broadcast %s : !mu.tensor<[], f32>
      %a0 = cutlass.scalar_broadcast %alpha : f32
      %t = cutlass.compute %acc, %c0, %e0, %r0, %q0, %s0, %a0 {
      ^bb0(%0: f32, %1: f32, %2: f32, %3: f32, %4: f32, %5: f32, %6: f32):
        %7 = mu.mul %0, %6 : (f32, f32) -> f32
        %8 = mu.add %7, %1 : (f32, f32) -> f32
        %9 = mu.sub %8, %2 : (f32, f32) -> f32
        %10 = mu.mul %9, %3 : (f32, f32) -> f32
        %11 = mu.div %10, %4 : (f32, f32) -> f32
        %12 = mu.add %11, %5 : (f32, f32) -> f32
        cutlass.yield %12
      }
      cutlass.aux_store %t, %z : !mu.tensor<[M, N], bf16>
      %y = cutlass.compute %t {
      ^bb0(%0: f32):
        %1 = mu.sigmoid %0 : (f32) -> f32
        %2 = mu.mul %0, %1 : (f32, f32) -> f32
        cutlass.yield %2
      }
      cutlass.row_reduction sum %y, %rs : !mu.tensor<[N], f32>
      cutlass.col_reduction max %y, %cm : !mu.tensor<[M], f32>
      cutlass.scalar_reduction amax %y, %am : !mu.tensor<[], f32>
      cutlass.store_d %y, %out : !mu.tensor<[M, N], bf16>
    }
  }
}

// A value that is stored on its way stays in the tree: stores pass it on.
// CHECK:      using Source = fusion::Sm90SrcFetch<ElementC>;
// CHECK-NEXT: using Aux_e = mucc::gemm::AuxLoad<Tiles, cutlass::half_t, cute::Stride<int64_t, cute::_1, cute::_0>>;
// CHECK-NEXT: using Col_q = fusion::Sm90ColBroadcast<0, TileShape, cutlass::bfloat16_t, float, cute::Stride<cute::_1, cute::_0, cute::_0>>;
// CHECK-NEXT: using Row_r = fusion::Sm90RowBroadcast<0, TileShape, float, float, cute::Stride<cute::_0, cute::_1, cute::_0>>;
// CHECK-NEXT: using Scalar_alpha = fusion::Sm90ScalarBroadcast<float>;
// CHECK-NEXT: using Scalar_s = fusion::Sm90ScalarBroadcast<float, cute::Stride<cute::_0, cute::_0, cute::_0>>;
// CHECK-NEXT: using Aux_z = mucc::gemm::AuxStore<Tiles, cutlass::bfloat16_t, cute::Stride<int64_t, cute::_1, cute::_0>>;
// CHECK-NEXT: using Rows_rs = mucc::gemm::RowReduction<mucc::Sum, TileShape, cute::Stride<cute::_0, cute::_1, cute::_0>>;
// CHECK-NEXT: using Cols_cm = mucc::gemm::ColReduction<mucc::Max, TileShape, cute::Stride<cute::_1, cute::_0, cute::_0>>;
// CHECK-NEXT: using All_am = mucc::gemm::ScalarReduction<mucc::Amax, cute::Stride<cute::_0, cute::_0, cute::_0>>;
// CHECK-NEXT: using Tree0 = fusion::Sm90EVT<mucc::gemm::Compute<Body0, float>, Acc, Source, Aux_e, Col_q, Row_r, Scalar_alpha, Scalar_s>;
// CHECK-NEXT: using Tree1 = fusion::Sm90EVT<Aux_z, Tree0>;
// CHECK-NEXT: using Tree2 = fusion::Sm90EVT<mucc::gemm::Compute<Body1, float>, Tree1>;
// CHECK-NEXT: using Tree3 = fusion::Sm90EVT<Rows_rs, Tree2>;
// CHECK-NEXT: using Tree4 = fusion::Sm90EVT<Cols_cm, Tree3>;
// CHECK-NEXT: using Tree5 = fusion::Sm90EVT<All_am, Tree4>;
// CHECK-NEXT: using Visitor = Tree5;
// CHECK:      void arguments(mucc::gemm::Problem const& p, Kernel::Arguments& to) {
// CHECK:        Aux_e::Arguments const aux_e{p.extra[0].as<cutlass::half_t>(), cutlass::half_t(0), mucc::gemm::stride<cute::Stride<int64_t, cute::_1, cute::_0>>(p.extra[0])};
// CHECK:        Scalar_alpha::Arguments const scalar_alpha{{.*}}p.extra[3].value{{.*}};
// CHECK-NEXT:   Scalar_s::Arguments const scalar_s{{.*}}{p.extra[4].as<float>()}{{.*}};
// CHECK:        Cols_cm::Arguments const cols_cm{p.extra[7].as<float>(), mucc::identity::kMax, {{.*}}};
// CHECK:      int describe(mucc::Call const& c, mucc::gemm::Problem& p) {
// CHECK:        p.c = {c.data(2), {N, 1, 0}};
// CHECK:        p.extra[0] = {c.data(3), {N, 1, 0}};
// CHECK-NEXT:   p.extra[1] = {c.data(5)};
// CHECK:        p.extra[3] = {nullptr, {}, float(c.scalar(7))};
// Reductions start from their identity, in stream order.
// CHECK:      int run(mucc::Call const& c, void* scratch) {
// CHECK-NEXT:   int64_t const M = c.dims[0], N = c.dims[1];
// CHECK-NEXT:   if (mucc::fill(c, c.data<float>(10), mucc::identity::kSum, N) ||
// CHECK-NEXT:       mucc::fill(c, c.data<float>(11), mucc::identity::kMax, M) ||
// CHECK-NEXT:       mucc::fill(c, c.data<float>(12), mucc::identity::kAmax, 1))
// CHECK-NEXT:     return 1;
