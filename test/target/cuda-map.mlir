// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @pw(%x: !mu.tensor<[B, M, N], bf16>, %b: !mu.tensor<[N], f32>, %t: !mu.tensor<[N, M], bf16>, %alpha: f32, %y: !mu.tensor<[B, M, N], bf16>, %z: !mu.tensor<[B, M, N], f32>) attributes {target = "sm_90a", arg_names = ["x", "b", "t", "alpha", "y", "z"], num_inputs = 4 : i64, dims = ["B", "M", "N"]} {
    %tt = mu.transpose %t : (!mu.tensor<[N, M], bf16>) -> !mu.tensor<[M, N], bf16, col_major>
    cutlass.map "out" space ["B", "M", "N"] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], bf16>
      %b0 = cutlass.load %b : !mu.tensor<[N], f32>
      %t0 = cutlass.load %tt : !mu.tensor<[M, N], bf16, col_major>
      %a0 = cutlass.load %alpha : f32
      %y0 = cutlass.compute %x0, %b0, %t0, %a0 {
      ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
        %k = mu.constant 5.000000e-01 : f64
        %k2 = mu.constant 3.000000e+00 : f64
        %4 = mu.mul %0, %1 : (f32, f32) -> f32
        %5 = mu.add %4, %2 : (f32, f32) -> f32
        %6 = mu.pow %5, %k2 : (f32, f32) -> f32
        %7 = mu.cmp gt %6, %3 : (f32, f32) -> i1
        %8 = mu.softplus %6 {beta = 1.0 : f64} : (f32) -> f32
        %9 = mu.tanh %8 : (f32) -> f32
        %10 = mu.cast %9 : (f32) -> bf16
        %11 = mu.cast %10 : (bf16) -> f32
        %12 = mu.select %7, %11, %k : (i1, f32, f32) -> f32
        %13 = mu.min %12, %0 : (f32, f32) -> f32
        %14 = mu.relu %13 : (f32) -> f32
        cutlass.yield %14
      }
      cutlass.store %y0, %y : !mu.tensor<[B, M, N], bf16>
      cutlass.store %y0, %z : !mu.tensor<[B, M, N], f32>
    }
  }
  cutlass.program @relu(%x: !mu.tensor<[B, M, N], f16>, %y: !mu.tensor<[B, M, N], f16>) attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["B", "M", "N"]} {
    cutlass.map "out" space ["B", "M", "N"] {
      %x0 = cutlass.load %x : !mu.tensor<[B, M, N], f16>
      %y0 = cutlass.compute %x0 {
      ^bb0(%0: f32):
        %1 = mu.relu %0 : (f32) -> f32
        cutlass.yield %1
      }
      cutlass.store %y0, %y : !mu.tensor<[B, M, N], f16>
    }
  }
}

// CHECK-LABEL: namespace mu::pw::out {
// CHECK:       static MUCC_DEVICE float apply(float x, float b, float t, float alpha) {
// CHECK-NEXT:    float const v0 = x * b;
// CHECK-NEXT:    float const v1 = v0 + t;
// CHECK-NEXT:    float const v2 = mucc::powi<3>(v1);
// CHECK-NEXT:    bool const v3 = v2 > alpha;
// CHECK-NEXT:    float const v4 = mucc::tanh_softplus(v2);
// CHECK-NEXT:    float const v5 = mucc::round_bf16(v4);
// CHECK-NEXT:    float const v6 = v3 ? v5 : 0.5f;
// CHECK-NEXT:    float const v7 = mucc::min(v6, x);
// CHECK-NEXT:    float const v8 = mucc::max(v7, 0.0f);
// CHECK-NEXT:    return v8;
// CHECK:       static constexpr int kRank = 3, kVector = 8, kThreads = 256;
// CHECK:       static constexpr int kTurned = 1, kDown = 64, kAcross = 64;
// CHECK:       mucc::View<mucc::bf16, 3, mucc::Along::kUnit> x;  // x: bf16[B, M, N]
// CHECK-NEXT:  mucc::View<float, 3, mucc::Along::kUnit> b;  // b: f32[N]
// CHECK-NEXT:  mucc::View<mucc::bf16, 3, mucc::Along::kAny> t;  // t: bf16[N, M]
// CHECK:       struct Work : Op {
// CHECK-NEXT:    struct Tiles {
// CHECK-NEXT:      mucc::OperandTile<mucc::bf16, kDown, kAcross> t;
// CHECK:         tiles.t.read<kThreads, kTurned>(t, space, p);
// CHECK:         auto const b_v = mucc::load<V>(b, p);
// CHECK-NEXT:    auto const t_v = p.tiles->t.template load<V>(p);
// CHECK:         mucc::store(y, p, y0_v);
// CHECK:       mu_pw_out_map_vector(Work const op, mucc::Extents<Op::kRank> const extents, uint32_t total) {
// CHECK-NEXT:    mucc::map_tiles<Op::kVector>(op, extents, total);
// CHECK:       {c.data<float>(1), {0, 0, 1}},
// CHECK-NEXT:  {c.data<mucc::bf16>(2), {0, 1, M}},
// CHECK:       return mucc::launch_map_tiles(c, "out", codes, op, {{[{][{]}}B, M, N}}, mucc::fits(op.x, Op::kVector) && mucc::fits(op.b, Op::kVector) && mucc::fits(op.y, Op::kVector) && mucc::fits(op.z, Op::kVector));

// Where all tensors are contiguous the axes become one.
// CHECK-LABEL: namespace mu::relu::out {
// CHECK:       static constexpr int kRank = 1, kVector = 8, kThreads = 256;
// CHECK:       return mucc::launch_map(c, "out", codes, op, {{[{][{]}}B * M * N}}, {{.*}});
