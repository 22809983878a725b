// RUN: mucc-opt %s -t cuda | FileCheck %s

builtin.module {
  cutlass.program @voidd(%x: !mu.tensor<[M, K], f16>, %w: !mu.tensor<[K, N], f16>, %rs: !mu.tensor<[N], f32>, %am: !mu.tensor<[], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "rs", "am"], num_inputs = 2 : i64, dims = ["M", "N", "K"]} {
    cutlass.gemm "out" f16 %x, %w shape <[M], [N], [K], []> tile <128, 128, 64> cluster <1, 1> mainloop cooperative stages 5 scheduler <persistent> : !mu.tensor<[M, K], f16>, !mu.tensor<[K, N], f16> {
      %acc = cutlass.acc_fetch
      %y = cutlass.compute %acc {
      ^bb0(%0: f32):
        %1 = mu.abs %0 : (f32) -> f32
        cutlass.yield %1
      }
      cutlass.row_reduction sum %y, %rs : !mu.tensor<[N], f32>
      %y2 = cutlass.compute %y {
      ^bb0(%0: f32):
        %1 = mu.exp %0 : (f32) -> f32
        cutlass.yield %1
      }
      cutlass.scalar_reduction min %y2, %am : !mu.tensor<[], f32>
    }
  }
  cutlass.program @dag(%x: !mu.tensor<[M, K], f16>, %w: !mu.tensor<[K, N], f16>, %b: !mu.tensor<[N], f16>, %y: !mu.tensor<[M, N], f16>, %z: !mu.tensor<[M, N], f32>) attributes {target = "sm_90a", arg_names = ["x", "w", "b", "y", "z"], num_inputs = 3 : i64, dims = ["M", "N", "K"]} {
    cutlass.gemm "out" f16 %x, %w shape <[M], [N], [K], []> tile <64, 128, 64> cluster <1, 2> mainloop pingpong stages 4 scheduler <persistent, raster = along_m> : !mu.tensor<[M, K], f16>, !mu.tensor<[K, N], f16> {
      %acc = cutlass.acc_fetch
      %b0 = cutlass.row_broadcast %b : !mu.tensor<[N], f16>
      %y0 = cutlass.compute %acc, %b0 {
      ^bb0(%0: f32, %1: f32):
        %2 = mu.add %0, %1 : (f32, f32) -> f32
        cutlass.yield %2
      }
      %z0 = cutlass.compute %y0 {
      ^bb0(%0: f32):
        %1 = mu.tanh %0 : (f32) -> f32
        cutlass.yield %1
      }
      cutlass.aux_store %z0, %z : !mu.tensor<[M, N], f32>
      cutlass.store_d %y0, %y : !mu.tensor<[M, N], f16>
    }
  }
}

// Nothing is stored as D.
// CHECK-LABEL: namespace mu::voidd::out {
// CHECK:       using ElementD = void;
// CHECK:       struct Visitor : Tree3 {
// CHECK-NEXT:    using ElementAux = cutlass::bfloat16_t;
// CHECK-NEXT:    using Tree3::Tree3;
// CHECK-NEXT:  };
// CHECK-NOT:   p.d =

// D is needed again after it is stored: no tree, and the last node repeats it.
// CHECK-LABEL: namespace mu::dag::out {
// CHECK:       using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecialized;
// CHECK-NEXT:  using Tiles = mucc::gemm::Tiles<TileShape, ElementC, ElementD, EpilogueSchedule, cutlass::epilogue::collective::EpilogueTileAuto>;
// CHECK:       using Graph = fusion::Sm90TopologicalVisitor<float, cute::tuple<cute::seq<>, cute::seq<>, cute::seq<0, 1>, cute::seq<2>, cute::seq<3>, cute::seq<2>>, Acc, Row_b, mucc::gemm::Compute<Body0, float>, mucc::gemm::Compute<Body1, float>, Aux_z, mucc::gemm::Compute<mucc::gemm::Identity, ElementD>>;
// CHECK:       Graph::Arguments const graph{{[{][{][}]}}, row_b, {}, {}, aux_z, {}};
// CHECK:       p.raster = mucc::gemm::Raster::kAlongM;
