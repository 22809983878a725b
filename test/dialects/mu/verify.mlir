// RUN: mucc-opt %s --allow-unregistered-dialect --verify-diagnostics --parsing-diagnostics --split-input-file | FileCheck %s --match-full-lines

// Types and attributes.

// CHECK: unsupported element type f64
"test.op"() {a = !mu.tensor<[M], f64>} : () -> ()

// -----

// CHECK: extents must be at least 1
"test.op"() {a = !mu.tensor<[M, 0], f32>} : () -> ()

// -----

// CHECK: col_major needs at least two axes
"test.op"() {a = !mu.tensor<[M], f32, col_major>} : () -> ()

// -----

// CHECK: 1 strides given for 2 axes
"test.op"() {a = !mu.tensor<[M, N], f32, strides(1)>} : () -> ()

// -----

// CHECK: unknown layout 'diagonal', expected row_major, col_major, strides(...) or sparse
"test.op"() {a = !mu.tensor<[M, N], f32, diagonal>} : () -> ()

// -----

// CHECK: a sparse tensor has two axes, not 3
"test.op"() {a = !mu.tensor<[B, M, K], bf16, sparse>} : () -> ()

// -----

// CHECK: a sparse matrix cannot hold s32
"test.op"() {a = !mu.tensor<[M, K], si32, sparse>} : () -> ()

// -----

// CHECK: the columns of a sparse bf16 matrix are a multiple of 16, not 24
"test.op"() {a = !mu.tensor<[M, 24], bf16, sparse>} : () -> ()

// -----

// CHECK: a sparse matrix has more than one row
"test.op"() {a = !mu.tensor<[32, 1], bf16, sparse_turned>} : () -> ()

// -----

// CHECK: expected 3 sizes, got 2
"test.op"() {a = #mu.tile<128, 64>} : () -> ()

// -----

// CHECK: expected 2 sizes, got 3
"test.op"() {a = #mu.cluster<1, 1, 1>} : () -> ()

// -----

// CHECK: 'random' is not one of persistent, stream_k, split_k
"test.op"() {a = #mu.scheduler<random>} : () -> ()

// -----

// CHECK: 'across' is not one of along_m, along_n, heuristic
"test.op"() {a = #mu.scheduler<persistent, raster = across>} : () -> ()

// -----

// CHECK: splits must be at least 1
"test.op"() {a = #mu.scheduler<split_k, splits = 0>} : () -> ()

// -----

// CHECK: unknown scheduler parameter 'depth'
"test.op"() {a = #mu.scheduler<persistent, depth = 2>} : () -> ()

// -----

// Elementwise operations.

// CHECK: shapes [M, N] and [M] do not broadcast: N is not M
%x = "test.op"() : () -> !mu.tensor<[M, N], f32>
%y = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.add %x, %y : (!mu.tensor<[M, N], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[M, N], f32>

// -----

// CHECK: shapes [4, N] and [8, 1] do not broadcast: 4 is not 8
%x = "test.op"() : () -> !mu.tensor<[4, N], f32>
%y = "test.op"() : () -> !mu.tensor<[8, 1], f32>
%r = mu.add %x, %y : (!mu.tensor<[4, N], f32>, !mu.tensor<[8, 1], f32>) -> !mu.tensor<[4, N], f32>

// -----

// CHECK: mu.mul: result type bf16[M] should be f32[M]
%x = "test.op"() : () -> !mu.tensor<[M], bf16>
%y = "test.op"() : () -> !mu.tensor<[M], f16>
%r = mu.mul %x, %y : (!mu.tensor<[M], bf16>, !mu.tensor<[M], f16>) -> !mu.tensor<[M], bf16>

// -----

// CHECK: mu.exp: result type f32[N] should be f32[M]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.exp %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[N], f32>

// -----

// CHECK: mu.neg: result type f32[] should be f32
%x = "test.op"() : () -> f32
%r = mu.neg %x : (f32) -> !mu.tensor<[], f32>

// -----

// CHECK: arithmetic on a bool
%x = "test.op"() : () -> !mu.tensor<[M], i1>
%y = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.add %x, %y : (!mu.tensor<[M], i1>, !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: arithmetic on a bool
%x = "test.op"() : () -> !mu.tensor<[M], i1>
%r = mu.relu %x : (!mu.tensor<[M], i1>) -> !mu.tensor<[M], f32>

// -----

// CHECK: arithmetic on a bool
%x = "test.op"() : () -> i1
%y = "test.op"() : () -> f32
%r = mu.cmp lt %x, %y : (i1, f32) -> i1

// -----

// CHECK: mu.cmp: result type f32[M] should be bool[M]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.cmp lt %x, %x : (!mu.tensor<[M], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: expected a bool, got f32[M]
%x = "test.op"() : () -> !mu.tensor<[M], i1>
%y = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.and %x, %y : (!mu.tensor<[M], i1>, !mu.tensor<[M], f32>) -> !mu.tensor<[M], i1>

// -----

// CHECK: expected a bool, got f32[]
%x = "test.op"() : () -> f32
%r = mu.not %x : (f32) -> i1

// -----

// CHECK: expected a bool, got bf16[M]
%x = "test.op"() : () -> !mu.tensor<[M], bf16>
%r = mu.select %x, %x, %x : (!mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>

// -----

// CHECK: mu.select: result type f32[M] should be bf16[M]
%x = "test.op"() : () -> i1
%y = "test.op"() : () -> !mu.tensor<[M], bf16>
%z = "test.op"() : () -> f32
%r = mu.select %x, %y, %z : (i1, !mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], f32>

// -----

// CHECK: mu.clamp: result type f32[M] should be f32[M, N]
%x = "test.op"() : () -> !mu.tensor<[M, 1], f32>
%y = "test.op"() : () -> f32
%z = "test.op"() : () -> !mu.tensor<[N], f32>
%r = mu.clamp %x, %y, %z : (!mu.tensor<[M, 1], f32>, f32, !mu.tensor<[N], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: mu.cast: a number becomes a bool by comparison, not by cast
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.cast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], i1>

// -----

// CHECK: mu.cast: result type bf16[N] should be bf16[M]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.cast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[N], bf16>

// -----

// Contractions.

// CHECK: the left operand of @ needs at least two axes, got f32[K]
%x = "test.op"() : () -> !mu.tensor<[K], f32>
%y = "test.op"() : () -> !mu.tensor<[K, N], f32>
%r = mu.matmul tf32 %x, %y : (!mu.tensor<[K], f32>, !mu.tensor<[K, N], f32>) -> !mu.tensor<[N], f32>

// -----

// CHECK: the right operand of @ needs at least two axes, got f32[K]
%x = "test.op"() : () -> !mu.tensor<[M, K], f32>
%y = "test.op"() : () -> !mu.tensor<[K], f32>
%r = mu.matmul tf32 %x, %y : (!mu.tensor<[M, K], f32>, !mu.tensor<[K], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: inner extents of @ differ: [M, K] @ [N, K] has K against N
%x = "test.op"() : () -> !mu.tensor<[M, K], f32>
%y = "test.op"() : () -> !mu.tensor<[N, K], f32>
%r = mu.matmul tf32 %x, %y : (!mu.tensor<[M, K], f32>, !mu.tensor<[N, K], f32>) -> !mu.tensor<[M, N], f32>

// -----

// CHECK: operands of @ have dtypes bf16 and f16, but both must have the same one
%x = "test.op"() : () -> !mu.tensor<[M, K], bf16>
%y = "test.op"() : () -> !mu.tensor<[K, N], f16>
%r = mu.matmul bf16 %x, %y : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], f16>) -> !mu.tensor<[M, N], f32>

// -----

// CHECK: bool operands cannot be multiplied by @
%x = "test.op"() : () -> !mu.tensor<[M, K], i1>
%y = "test.op"() : () -> !mu.tensor<[K, N], i1>
%r = mu.matmul bf16 %x, %y : (!mu.tensor<[M, K], i1>, !mu.tensor<[K, N], i1>) -> !mu.tensor<[M, N], f32>

// -----

// CHECK: batch extents of @ differ: [B, M, K] @ [C, K, N]
%x = "test.op"() : () -> !mu.tensor<[B, M, K], f32>
%y = "test.op"() : () -> !mu.tensor<[C, K, N], f32>
%r = mu.matmul tf32 %x, %y : (!mu.tensor<[B, M, K], f32>, !mu.tensor<[C, K, N], f32>) -> !mu.tensor<[B, M, N], f32>

// -----

// CHECK: mu.matmul: result type f32[N, M] should be f32[M, N]
%x = "test.op"() : () -> !mu.tensor<[M, K], f32>
%y = "test.op"() : () -> !mu.tensor<[K, N], f32>
%r = mu.matmul tf32 %x, %y : (!mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32>) -> !mu.tensor<[N, M], f32>

// -----

// CHECK: mu.matmul: bf16 operands do not compute in f16
%x = "test.op"() : () -> !mu.tensor<[M, K], bf16>
%y = "test.op"() : () -> !mu.tensor<[K, N], bf16>
%r = mu.matmul f16 %x, %y : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>

// -----

// CHECK: mu.matmul: f32 operands do not compute in bf16
%x = "test.op"() : () -> !mu.tensor<[M, K], f32>
%y = "test.op"() : () -> !mu.tensor<[K, N], f32>
%r = mu.matmul bf16 %x, %y : (!mu.tensor<[M, K], f32>, !mu.tensor<[K, N], f32>) -> !mu.tensor<[M, N], f32>

// -----

// Views, reductions, pins.

// CHECK: `.T` needs at least two axes, got f32[M]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.transpose %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: mu.transpose: result type f32[N, M] should be f32[N, M] col_major
%x = "test.op"() : () -> !mu.tensor<[M, N], f32>
%r = mu.transpose %x : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[N, M], f32>

// -----

// CHECK: mu.expand: result type f32[1, M] should be f32[M, 1]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.expand %x axes [1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[1, M], f32>

// -----

// CHECK: axis 2 is out of range for 2 axes
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.expand %x axes [2] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>

// -----

// CHECK: mu.expand: axes must be sorted and counted from the front
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.expand %x axes [-1] : (!mu.tensor<[M], f32>) -> !mu.tensor<[M, 1], f32>

// -----

// CHECK: axis 0 of f32[M, 1] cannot be dropped: its extent is not 1
%x = "test.op"() : () -> !mu.tensor<[M, 1], f32>
%r = mu.squeeze %x axes [0] : (!mu.tensor<[M, 1], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: mu.squeeze: axes must be sorted and counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, 1], f32>
%r = mu.squeeze %x axes [-1] : (!mu.tensor<[M, 1], f32>) -> !mu.tensor<[M], f32>

// -----

// The layout of what is left is that of memory.
// CHECK: mu.squeeze: result type f32[M, N] should be f32[M, N] col_major
%x = "test.op"() : () -> !mu.tensor<[1, M, N], f32, col_major>
%r = mu.squeeze %x axes [0] : (!mu.tensor<[1, M, N], f32, col_major>) -> !mu.tensor<[M, N], f32>

// -----

// CHECK: mu.squeeze: result type f32[M, N] col_major should be f32[M, N]
%x = "test.op"() : () -> !mu.tensor<[M, 1, N], f32, col_major>
%r = mu.squeeze %x axes [1] : (!mu.tensor<[M, 1, N], f32, col_major>) -> !mu.tensor<[M, N], f32, col_major>

// -----

// CHECK: f32[M] does not broadcast to [1]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%r = mu.broadcast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[1], f32>

// -----

// CHECK: mu.broadcast: result type bf16[M] should be f32[M]
%x = "test.op"() : () -> f32
%r = mu.broadcast %x : (f32) -> !mu.tensor<[M], bf16>

// -----

// CHECK: mu.reduce: axes must be sorted and counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, N], f32>
%r = mu.reduce sum %x axes [-1] : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: mu.reduce: axes must be sorted and counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, N], f32>
%r = mu.reduce sum %x axes [1, 0] : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[], f32>

// -----

// CHECK: axis 2 is out of range for 2 axes
%x = "test.op"() : () -> !mu.tensor<[M, N], f32>
%r = mu.reduce sum %x axes [2] : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M], f32>

// -----

// CHECK: axis given twice in (0, 0)
%x = "test.op"() : () -> !mu.tensor<[M, N], f32>
%r = mu.reduce sum %x axes [0, 0] : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[N], f32>

// -----

// CHECK: mu.reduce: result type bf16[N] should be f32[N]
%x = "test.op"() : () -> !mu.tensor<[M, N], bf16>
%r = mu.reduce sum %x axes [0] : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[N], bf16>

// -----

// CHECK: reduction of a bool
%x = "test.op"() : () -> !mu.tensor<[M], i1>
%r = mu.reduce sum %x axes [0] : (!mu.tensor<[M], i1>) -> !mu.tensor<[], f32>

// -----

// CHECK: a bool cannot be stored
%x = "test.op"() : () -> !mu.tensor<[M], i1>
%r = mu.pin "h" %x : (!mu.tensor<[M], i1>) -> !mu.tensor<[M], i1>

// -----

// CHECK: mu.pin: result type f32[M, N] col_major should be f32[M, N]
%x = "test.op"() : () -> !mu.tensor<[M, N], f32, col_major>
%r = mu.pin "h" %x : (!mu.tensor<[M, N], f32, col_major>) -> !mu.tensor<[M, N], f32, col_major>

// -----

// Kernels.

// CHECK: 0 names for 1 parameters
mu.kernel @k(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = [], result_names = ["out"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], f32>
}

// -----

// CHECK: 2 names for 1 results
mu.kernel @k(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x"], result_names = ["a", "b"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], f32>
}

// -----

// CHECK: block arguments do not match the kernel's type
"mu.kernel"() ({
^bb0(%x: !mu.tensor<[N], f32>):
  "mu.return"(%x) : (!mu.tensor<[N], f32>) -> ()
}) {sym_name = "k", function_type = (!mu.tensor<[M], f32>) -> !mu.tensor<[N], f32>, arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} : () -> ()

// -----

// CHECK: a kernel ends with mu.return
mu.kernel @k(%x: !mu.tensor<[M], f32>, %y: f32) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x", "y"], result_names = ["out"], dims = ["M", "N"]} {
  cutlass.yield %y
}

// -----

// CHECK: returned values do not match the kernel's type
mu.kernel @k(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M, N], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], f32>
}

// -----

// CHECK: returned values do not match the kernel's type
mu.kernel @k(%x: !mu.tensor<[M], bf16>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], bf16>
}

// -----

// CHECK: parameters are tensors or f32 scalars, not bf16
mu.kernel @k(%x: !mu.tensor<[M], f32>, %y: bf16) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x", "y"], result_names = ["out"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], f32>
}

// -----

// CHECK: a bool cannot be stored
mu.kernel @k(%x: !mu.tensor<[M], f32>, %y: !mu.tensor<[M], i1>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x", "y"], result_names = ["out"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], f32>
}

// -----

// CHECK: undeclared dim 'K'
mu.kernel @k(%x: !mu.tensor<[M], f32>, %y: !mu.tensor<[M, K], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x", "y"], result_names = ["out"], dims = ["M", "N"]} {
  mu.return %x : !mu.tensor<[M], f32>
}

// -----

// CHECK: 'mu.return' expects parent op 'mu.kernel'
%x = "test.op"() : () -> !mu.tensor<[M], f32>
mu.return %x : !mu.tensor<[M], f32>

// -----

// Stages.

// CHECK: a stage ends with mu.yield
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" map : !mu.tensor<[M, M], f32> {
    %0 = mu.constant 1.0
    cutlass.yield %0
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: yielded values do not match the stage's results
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" map : !mu.tensor<[M], f32> {
    mu.yield %x : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: a contraction stage holds 1 or 2 contractions, not 0
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" contraction : !mu.tensor<[M, M], f32> {
    mu.yield %x : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: a contraction stage holds 1 or 2 contractions, not 3
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" contraction : !mu.tensor<[M, M], f32> {
    %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    %1 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    %2 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    mu.yield %2 : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// Right operands of different layout, then left operands that differ.

// CHECK: the contractions of a pair share their left operand and look alike
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" contraction : !mu.tensor<[M, M], f32> {
    %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    %t = mu.transpose %x : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32, col_major>
    %1 = mu.matmul tf32 %x, %t : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32, col_major>) -> !mu.tensor<[M, M], f32>
    mu.yield %1 : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: the contractions of a pair share their left operand and look alike
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" contraction : !mu.tensor<[M, M], f32> {
    %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    %t = mu.transpose %x : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32, col_major>
    %1 = mu.matmul tf32 %t, %x : (!mu.tensor<[M, M], f32, col_major>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    mu.yield %1 : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: a map stage holds 0 contractions, not 1
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" map : !mu.tensor<[M, M], f32> {
    %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    mu.yield %0 : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: a reduction stage has no anchor
mu.kernel @k(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %h = mu.stage "h" reduction : !mu.tensor<[M, M], f32> {
    mu.yield %x : !mu.tensor<[M, M], f32>
  }
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// CHECK: 'mu.yield' expects parent op 'mu.stage'
%x = "test.op"() : () -> !mu.tensor<[M], f32>
mu.yield %x : !mu.tensor<[M], f32>

// -----

// Schedules.

// CHECK: unknown schedule setting 'depth'
mu.schedule "k" for "sm_90a" {depth = 4 : i64}

// -----

// CHECK: schedule setting 'tile' is no mu.tile
mu.schedule "k" for "sm_90a" {tile = #mu.cluster<1, 1>}

// -----

// CHECK: schedule setting 'stages' is no integer
mu.schedule "k" for "sm_90a" {stages = "auto"}

// -----

// CHECK: a sparse matrix can be an operand of a product only
mu.kernel @f(%w: !mu.tensor<[N, K], bf16, sparse>) -> !mu.tensor<[K, N], bf16> attributes {arg_names = ["w"], result_names = ["out"], dims = ["N", "K"]} {
  %0 = mu.transpose %w : (!mu.tensor<[N, K], bf16, sparse>) -> !mu.tensor<[K, N], bf16, sparse_turned>
  %1 = mu.relu %0 : (!mu.tensor<[K, N], bf16, sparse_turned>) -> !mu.tensor<[K, N], bf16>
  mu.return %1 : !mu.tensor<[K, N], bf16>
}

// -----

// CHECK: the 2:4 pattern of a sparse operand of @ lies along K
mu.kernel @f(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[K, N], bf16, sparse>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, sparse>) -> !mu.tensor<[M, N], bf16>
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// CHECK: mu.bitwise_and: result type u8[M] should be s32[M]
mu.kernel @k(%u: !mu.tensor<[M], ui8>) -> !mu.tensor<[M], ui8>
    attributes {arg_names = ["u"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.bitwise_and %u, %u : (!mu.tensor<[M], ui8>, !mu.tensor<[M], ui8>) -> !mu.tensor<[M], ui8>
  mu.return %0 : !mu.tensor<[M], ui8>
}

// -----

// CHECK: expected integers, got f32[M]
mu.kernel @k(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M], si32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.bitwise_not %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], si32>
  mu.return %0 : !mu.tensor<[M], si32>
}

// -----

// CHECK: table s32[B, N] does not say which pages of f16[4, P, 16, 64] each sequence has
mu.kernel @f(%q: !mu.tensor<[B, 4, M, 64], f16>, %k: !mu.tensor<[4, P, 16, 64], f16>, %t: !mu.tensor<[B, N], si32>) -> !mu.tensor<[B, 4, M, 64], f16> attributes {arg_names = ["q", "k", "t"], result_names = ["out"], dims = ["B", "M", "P", "N"]} {
  %0 = mu.attention %q, %k, %k pages %t : !mu.tensor<[B, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 64], f16> -> !mu.tensor<[B, 4, M, 64], f16>
  mu.return %0 : !mu.tensor<[B, 4, M, 64], f16>
}

// -----

// CHECK: table s32[B, 1, N] does not say which pages of f16[4, 40, 64] each sequence has
mu.kernel @f(%q: !mu.tensor<[B, 4, M, 64], f16>, %k: !mu.tensor<[4, 40, 64], f16>, %t: !mu.tensor<[B, 1, N], si32>) -> !mu.tensor<[B, 4, M], f32> attributes {arg_names = ["q", "k", "t"], result_names = ["out"], dims = ["B", "M", "N"]} {
  %0 = mu.attention_logsumexp %q, %k pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, 40, 64], f16> -> !mu.tensor<[B, 4, M], f32>
  mu.return %0 : !mu.tensor<[B, 4, M], f32>
}

// -----

// CHECK: mask f32[M, 8*N] does not broadcast to the scores [B, 4, M, 16*N]
mu.kernel @f(%q: !mu.tensor<[B, 4, M, 64], f16>, %k: !mu.tensor<[4, P, 16, 64], f16>, %t: !mu.tensor<[B, 1, N], si32>, %m: !mu.tensor<[M, "8*N"], f32>) -> !mu.tensor<[B, 4, M, 64], f16> attributes {arg_names = ["q", "k", "t", "m"], result_names = ["out"], dims = ["B", "M", "P", "N"]} {
  %0 = mu.attention %q, %k, %k mask %m : !mu.tensor<[M, "8*N"], f32> pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 64], f16> -> !mu.tensor<[B, 4, M, 64], f16>
  mu.return %0 : !mu.tensor<[B, 4, M, 64], f16>
}

// -----

// CHECK: scores f16[B, 4, M, 8*N] are not those of queries and keys, f16[B, 4, M, 16*N]
mu.kernel @f(%q: !mu.tensor<[B, 4, M, 64], f16>, %k: !mu.tensor<[4, P, 16, 64], f16>, %t: !mu.tensor<[B, 1, N], si32>, %s: !mu.tensor<[B, 4, M, "8*N"], f16>) -> !mu.tensor<[B, 4, M, 64], f16> attributes {arg_names = ["q", "k", "t", "s"], result_names = ["out"], dims = ["B", "M", "P", "N"]} {
  %0 = mu.scored_attention %q, %k, %k scores %s pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[B, 4, M, "8*N"], f16> -> !mu.tensor<[B, 4, M, 64], f16>
  mu.return %0 : !mu.tensor<[B, 4, M, 64], f16>
}
