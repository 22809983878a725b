// RUN: mucc-opt %s --allow-unregistered-dialect --verify-diagnostics --parsing-diagnostics --split-input-file | FileCheck %s --match-full-lines

// Programs.

// CHECK: 1 names for 2 arguments
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x"], num_inputs = 1 : i64, dims = ["M"]} {

}

// -----

// CHECK: num_inputs is out of range
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 3 : i64, dims = ["M"]} {

}

// -----

// CHECK: guards belong to an entry of a kernel
cutlass.program @p(%x: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x"], num_inputs = 1 : i64, dims = ["M"], guards = [#cutlass.guard<M to 8>]} {

}

// -----

// CHECK: guards name unknown dims: N
cutlass.program @p(%x: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x"], num_inputs = 1 : i64, dims = ["M"], entry_of = "q", guards = [#cutlass.guard<N from 2>]} {

}

// -----

// CHECK: block arguments do not match the program's type
"cutlass.program"() ({
^bb0(%x: !mu.tensor<[M], f32>):
}) {sym_name = "p", function_type = (!mu.tensor<[M, M], f32>) -> (), target = "sm_90a", arg_names = ["x"], num_inputs = 1 : i64, dims = ["M"]} : () -> ()

// -----

// Contractions.

// CHECK: the cutlass.gemm stores nothing
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch
  }
}

// -----

// CHECK: more than one cutlass.store_d in an epilogue
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: more than one cutlass.acc_fetch of an accumulator in an epilogue
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch
    %b = cutlass.acc_fetch
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: more than one cutlass.src_fetch in an epilogue
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch
    %b = cutlass.src_fetch %x : !mu.tensor<[M, M], f32>
    %c = cutlass.src_fetch %x : !mu.tensor<[M, M], f32>
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: cutlass.load is no node of a cutlass.gemm
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch
    %b = cutlass.load %x : !mu.tensor<[M, M], f32>
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: cutlass.store is no node of a cutlass.gemm
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch
    cutlass.store %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// Pointwise and reduction kernels.

// CHECK: the cutlass.map stores nothing
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.map "m" space ["M", "M"] {
    %a = cutlass.load %x : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: cutlass.acc_fetch is no node of a cutlass.map
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.map "m" space ["M", "M"] {
    %acc = cutlass.acc_fetch
    cutlass.store %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: cutlass.reduced is no node of a cutlass.map
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.map "m" space ["M", "M"] {
    %a = cutlass.load %x : !mu.tensor<[M, M], f32>
    %reduced1 = cutlass.reduced sum %a
    cutlass.reduce_store %reduced1, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: the cutlass.reduce stores nothing
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.reduce "r" space ["M", "M"] axes [1] {
    %a = cutlass.load %x : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: cutlass.store is no node of a cutlass.reduce
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.reduce "r" space ["M", "M"] axes [1] {
    %a = cutlass.load %x : !mu.tensor<[M, M], f32>
    cutlass.store %a, %y : !mu.tensor<[M], f32>
  }
}

// -----

// Bodies.

// CHECK: one block argument per input
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.map "m" space ["M", "M"] {
    %a = cutlass.load %x : !mu.tensor<[M, M], f32>
    %c = cutlass.compute %a, %a {
    ^bb0(%0: f32):
      cutlass.yield %0
    }
    cutlass.store %c, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: cutlass.acc_fetch is not pointwise
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.map "m" space ["M", "M"] {
    %a = cutlass.load %x : !mu.tensor<[M, M], f32>
    %c = cutlass.compute %a {
    ^bb0(%0: f32):
      %1 = cutlass.acc_fetch
      cutlass.yield %1
    }
    cutlass.store %c, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: {{.*}}Expected `multiple_of`, `at_most`, or `at_least`.
"test.op"() {a = #cutlass.requirement<K times 8, "reason">} : () -> ()

// -----

// CHECK: a second accumulator without a second right operand
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  cutlass.gemm "g" tf32 %x, %x shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32> {
    %acc = cutlass.acc_fetch second
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
  }
}

// -----

// CHECK: right operands of a pair are f32[M, M] and f32[M, M] col_major
cutlass.program @p(%x: !mu.tensor<[M, M], f32>, %y: !mu.tensor<[M, M], f32>)
    attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = ["M"]} {
  %t = mu.transpose %x : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32, col_major>
  cutlass.gemm "g" tf32 %x, %x, %t shape <[M], [M], [M], []> : !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32, col_major> {
    %acc = cutlass.acc_fetch
    cutlass.store_d %acc, %y : !mu.tensor<[M, M], f32>
  }
}
