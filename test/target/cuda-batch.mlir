// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @batch(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[N, K], bf16>, %b: !mu.tensor<[B, 1, N], bf16>, %y: !mu.tensor<[B, M, N], bf16>) attributes {target = "sm_90a", arg_names = ["x", "w", "b", "y"], num_inputs = 3 : i64, dims = ["B", "M", "N", "K"]} {
    %wt = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    cutlass.gemm "out" bf16 %x, %wt shape <[M], [N], [K], [B]> tile <128, 128, 64> cluster <1, 1> mainloop warpspecialized stages 5 scheduler <persistent> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, N], bf16, col_major> {
      %acc = cutlass.acc_fetch
      %bias = cutlass.row_broadcast %b : !mu.tensor<[B, 1, N], bf16>
      %y0 = cutlass.compute %acc, %bias {
      ^bb0(%0: f32, %1: f32):
        %3 = mu.add %0, %1 : (f32, f32) -> f32
        cutlass.yield %3
      }
      cutlass.store_d %y0, %y : !mu.tensor<[B, M, N], bf16>
    }
  }
  cutlass.program @chain(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[K, H], bf16, col_major>, %v: !mu.tensor<[H, N], bf16>, %y: !mu.tensor<[B, M, N], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "v", "y"], num_inputs = 3 : i64, dims = ["B", "M", "N", "K", "H"], bound = {H = 4096 : i64}, slots = [[!mu.tensor<[B, M, H], bf16>]]} {
    %h = cutlass.workspace slot 0 : i64 : !mu.tensor<[B, M, H], bf16>
    cutlass.gemm "hidden" bf16 %x, %w shape <[B, M], [H], [K], []> tile <128, 128, 64> cluster <2, 1> mainloop cooperative stages 4 scheduler <stream_k> : !mu.tensor<[B, M, K], bf16>, !mu.tensor<[K, H], bf16, col_major> {
      %acc = cutlass.acc_fetch
      cutlass.store_d %acc, %h : !mu.tensor<[B, M, H], bf16>
    }
    cutlass.gemm "out" bf16 %h, %v shape <[B, M], [N], [H], []> tile <128, 128, 64> cluster <1, 1> mainloop cooperative stages 4 scheduler <split_k, splits = 4> : !mu.tensor<[B, M, H], bf16>, !mu.tensor<[H, N], bf16> {
      %acc = cutlass.acc_fetch
      cutlass.store_d %acc, %y : !mu.tensor<[B, M, N], f32>
    }
  }
}

// One weight for all batches has no batch stride, not one that is 0 at run time, which TMA refuses.
// CHECK-LABEL: namespace mu::batch::out {
// CHECK:       using StrideA = cute::Stride<int64_t, cute::_1, int64_t>;  // x: bf16[B, M, K]
// CHECK:       using StrideB = cute::Stride<int64_t, cute::_1, cute::_0>;  // w: bf16[N, K]
// CHECK:       using Row_b = mucc::gemm::Row<cutlass::bfloat16_t, 128>;
// CHECK:       mucc::gemm::Epilogue<TileShape, 1, ElementD, StrideD, Body0, Row_b>;
// CHECK:       to.epilogue.thread = {{.*}}p.extra[0].stride[2]{{.*}}
// CHECK:       mucc::gemm::extent(c, "out", "L", B, p.batch))
// CHECK:       p.batched = true;
// CHECK-NEXT:  p.a = {c.data(0), {K, 1, K * M}};
// CHECK-NEXT:  p.b = {c.data(1), {K, 1, 0}};
// CHECK:       p.extra[0] = {c.data(2), {0, 1, N}};

// Intermediate tensors lie in slots of the workspace; what CUTLASS wants for itself comes after them.
// CHECK-LABEL: namespace mu::chain {
// CHECK:       struct Workspace {
// CHECK-NEXT:    int64_t slot0, end;
// CHECK-NEXT:    explicit Workspace(mucc::Call const& c) {
// CHECK-NEXT:      int64_t const B = c.dims[0], M = c.dims[1];
// CHECK-NEXT:      slot0 = 0;  // h: bf16[B, M, H]
// CHECK-NEXT:      end = slot0 + mucc::aligned(B * M * 8192);
// CHECK-LABEL: namespace mu::chain::hidden {
// CHECK:       mucc::gemm::Epilogue<TileShape, 2, ElementD, StrideD, Body0>;
// CHECK:       cutlass::gemm::StreamKScheduler>;
// CHECK:       mucc::gemm::set_splits<Kernel>(p, to);
// CHECK:       mucc::gemm::extent(c, "hidden", "M", B * M, p.m)
// CHECK:       p.d = {mucc::at(c, offsets.slot0), {4096, 1, 0}};
// CHECK-LABEL: namespace mu::chain::out {
// CHECK:       p.splits = 4;
// CHECK-NEXT:  p.split_k = true;
// CHECK:       {"H", 4096},
// CHECK:       int launch(mucc::Call const& c) {
// CHECK-NEXT:    void* const scratch = mucc::at(c, Workspace(c).end);
// CHECK-NEXT:    if (int failed = hidden::run(c, scratch)) return failed;
// CHECK-NEXT:    if (int failed = out::run(c, scratch)) return failed;
// CHECK:         for (int64_t need : {hidden::scratch_bytes(c), out::scratch_bytes(c)}) {
// CHECK:         return Workspace(c).end + scratch;
