// RUN: not mucc-opt %s -t cuda --split-input-file 2>&1 | FileCheck %s

// A workspace that has no place yet.
builtin.module {
  cutlass.program @unplanned(%x: !mu.tensor<[N], f32>, %y: !mu.tensor<[N], f32>) attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["N"]} {
    %h = cutlass.workspace : !mu.tensor<[N], f32>
    cutlass.map "h" space ["N"] {
      %0 = cutlass.load %x : !mu.tensor<[N], f32>
      cutlass.store %0, %h : !mu.tensor<[N], f32>
    }
  }
}
// CHECK: a workspace without a slot: plan-workspace has not run
