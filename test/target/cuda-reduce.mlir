// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @red(%x: !mu.tensor<[B, M, N], bf16>, %r: !mu.tensor<[B, M], f32>, %c: !mu.tensor<[N], f32>, %f: !mu.tensor<[], f32>, %f2: !mu.tensor<[], f32>, %mid: !mu.tensor<[B, N], f32>, %s: !mu.tensor<[B, M], bf16>, %i: !mu.tensor<[B, M], si32>) attributes {target = "sm_90a", arg_names = ["x", "r", "c", "f", "f2", "mid", "s", "i"], num_inputs = 1 : i64, dims = ["B", "M", "N"]} {
    cutlass.reduce "rows" space ["B", "M", "N"] axes [2] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %y0 = cutlass.compute %x0 {
      ^bb0(%0: f32):
        %1 = mu.mul %0, %0 : (f32, f32) -> f32
        cutlass.yield %1
      }
      %reduced1 = cutlass.reduced sum %y0
      cutlass.reduce_store %reduced1, %r : !mu.tensor<[B, M], f32>
    }
    cutlass.reduce "cols" space ["B", "M", "N"] axes [0, 1] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %reduced2 = cutlass.reduced max %x0
      cutlass.reduce_store %reduced2, %c : !mu.tensor<[N], f32>
    }
    cutlass.reduce "all" space ["B", "M", "N"] axes [0, 1, 2] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %reduced3 = cutlass.reduced amax %x0
      cutlass.reduce_store %reduced3, %f : !mu.tensor<[], f32>
      %reduced4 = cutlass.reduced min %x0
      cutlass.reduce_store %reduced4, %f2 : !mu.tensor<[], f32>
    }
    cutlass.reduce "mid" space ["B", "M", "N"] axes [1] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %reduced5 = cutlass.reduced sum %x0
      cutlass.reduce_store %reduced5, %mid : !mu.tensor<[B, N], f32>
    }
    %r1 = mu.expand %r axes [2] : (!mu.tensor<[B, M], f32>) -> !mu.tensor<[B, M, 1], f32>
    cutlass.reduce "behind" space ["B", "M", "N"] axes [2] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %r0 = cutlass.load %r1 : !mu.tensor<[B, M, 1], f32>
      %sum = cutlass.reduced sum %x0
      %least = cutlass.arg_reduced argmin %x0
      %y0 = cutlass.compute %sum, %r0 {
      ^bb0(%0: f32, %1: f32):
        %2 = mu.mul %0, %1 : (f32, f32) -> f32
        cutlass.yield %2
      }
      cutlass.reduce_store %y0, %s : !mu.tensor<[B, M], bf16>
      cutlass.reduce_store %least, %i : !mu.tensor<[B, M], si32>
    }
  }
}

// The reduced axes come last, and adjacent ones are merged.
// CHECK-LABEL: namespace mu::red::rows {
// CHECK:       static constexpr int kRank = 2, kVector = 8, kThreads = 256;
// CHECK-NEXT:  static constexpr int kKept = 1, kWords = 1, kStreams = 1;
// CHECK:       static constexpr bool kRows = true, kShifted = false;
// CHECK:       mucc::View<float, 2, mucc::Along::kAny> r;
// CHECK:       using Kinds = mucc::Reductions<mucc::Folded<mucc::Sum>>;
// CHECK:       auto const y0_v = mucc::each<Body0>(x_v);
// CHECK:       return {{[{][{]}}y0_v}};
// CHECK:       mucc::Lanes<V> const reduced_v(result[0]);
// CHECK:       mucc::store(r, p, reduced_v);
// CHECK:       mucc::reduce_warps<Op::kVector, uint32_t>(op, extents, shape);
// CHECK:       return mucc::launch_reduce(c, "rows", codes, op, {{[{][{]}}B * M, N}}, mucc::fits(op.x, Op::kVector), scratch);
// CHECK:       return mucc::reduce_scratch<Op>(c, {{[{][{]}}B * M, N}});

// CHECK-LABEL: namespace mu::red::cols {
// CHECK:       static constexpr bool kRows = false, kShifted = false;
// CHECK:       mucc::View<mucc::bf16, 2, mucc::Along::kUnit, 0> x;
// CHECK:       mucc::reduce_columns<1, uint64_t>(op, extents, shape);
// CHECK:       return mucc::launch_reduce(c, "cols", codes, op, {{[{][{]}}N, B * M}}, {{.*}}, scratch);

// CHECK-LABEL: namespace mu::red::all {
// CHECK:       kWords = 2, kStreams = 1;
// CHECK:       using Kinds = mucc::Reductions<mucc::Folded<mucc::Amax>, mucc::Folded<mucc::Min>>;
// CHECK:       return mucc::launch_reduce(c, "all", codes, op, {{[{][{]}}1, B * M * N}}, {{.*}}, scratch);

// CHECK-LABEL: namespace mu::red::mid {
// CHECK:       {c.data<mucc::bf16>(0), {M * N, 1, N}},
// CHECK-NEXT:  {c.data<float>(5), {N, 1, 0}},
// CHECK:       return mucc::launch_reduce(c, "mid", codes, op, {{[{][{]}}B, N, M}}, {{.*}}, scratch);

// Behind a reduction elements are computed one at a time, from what has the kept axes.
// CHECK-LABEL: namespace mu::red::behind {
// CHECK:       using Kinds = mucc::Reductions<mucc::Folded<mucc::Sum>, mucc::Indexed<mucc::Smaller>>;
// CHECK:       MUCC_DEVICE mucc::Values<V, 2> values
// CHECK-NEXT:  auto const x_v = mucc::load<V>(x, p);
// CHECK-NEXT:  return {{[{][{]}}x_v, x_v}};
// CHECK:       auto const r_v = mucc::load<V>(r, p);
// CHECK:       auto const y0_v = mucc::each<Body0>(reduced_v, r_v);
// CHECK-NEXT:  mucc::store(s, p, y0_v);
// CHECK-NEXT:  mucc::store(i, p, arg_reduced_v);
