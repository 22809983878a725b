// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @red(%x: !mu.tensor<[B, M, N], bf16>, %r: !mu.tensor<[B, M], f32>, %c: !mu.tensor<[N], f32>, %f: !mu.tensor<[], f32>, %f2: !mu.tensor<[], f32>, %mid: !mu.tensor<[B, N], f32>) attributes {target = "sm_90a", arg_names = ["x", "r", "c", "f", "f2", "mid"], num_inputs = 1 : i64, dims = ["B", "M", "N"]} {
    cutlass.reduce "rows" space ["B", "M", "N"] axes [2] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %y0 = cutlass.compute %x0 {
      ^bb0(%0: f32):
        %1 = mu.mul %0, %0 : (f32, f32) -> f32
        cutlass.yield %1
      }
      cutlass.reduce_store sum %y0, %r : !mu.tensor<[B, M], f32>
    }
    cutlass.reduce "cols" space ["B", "M", "N"] axes [0, 1] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      cutlass.reduce_store max %x0, %c : !mu.tensor<[N], f32>
    }
    cutlass.reduce "all" space ["B", "M", "N"] axes [0, 1, 2] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      cutlass.reduce_store amax %x0, %f : !mu.tensor<[], f32>
      cutlass.reduce_store min %x0, %f2 : !mu.tensor<[], f32>
    }
    cutlass.reduce "mid" space ["B", "M", "N"] axes [1] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      cutlass.reduce_store sum %x0, %mid : !mu.tensor<[B, N], f32>
    }
  }
}

// The reduced axes come last, and adjacent ones are merged.
// CHECK-LABEL: namespace mu::red::rows {
// CHECK:       static constexpr int kRank = 2, kVector = 8, kThreads = 256;
// CHECK-NEXT:  static constexpr int kKept = 1;
// CHECK-NEXT:  static constexpr bool kRows = true, kDense = true;
// CHECK:       using Kinds = mucc::Reductions<mucc::Sum>;
// CHECK:       auto const y0_v = mucc::each<Body0>(x_v);
// CHECK:       mucc::reduce<mucc::Sum>(r, p, result[0], shared);
// CHECK:       return mucc::launch_reduce(c, "rows", codes, op, {{[{][{]}}B * M, N}}, mucc::fits(op.x, Op::kVector), fill);

// CHECK-LABEL: namespace mu::red::cols {
// CHECK:       static constexpr bool kRows = false, kDense = true;
// CHECK:       mucc::View<mucc::bf16, 2, mucc::Along::kUnit, 0> x;
// CHECK:       return mucc::launch_reduce(c, "cols", codes, op, {{[{][{]}}N, B * M}}, {{.*}}, fill);

// CHECK-LABEL: namespace mu::red::all {
// CHECK:       using Kinds = mucc::Reductions<mucc::Amax, mucc::Min>;
// CHECK:       return mucc::launch_reduce(c, "all", codes, op, {{[{][{]}}1, B * M * N}}, {{.*}}, fill);

// CHECK-LABEL: namespace mu::red::mid {
// CHECK:       {c.data<mucc::bf16>(0), {M * N, 1, N}},
// CHECK-NEXT:  {c.data<float>(5), {N, 1, 0}},
// CHECK:       return mucc::launch_reduce(c, "mid", codes, op, {{[{][{]}}B, N, M}}, {{.*}}, fill);
