// RUN: mucc-opt %s -p mu-canonicalize --split-input-file | FileCheck %s
// RUN: mucc-opt %s -p canonicalize --split-input-file | FileCheck %s

// A matrix transposed twice is the matrix.

// CHECK-LABEL: @double_transpose(
// CHECK-NEXT: mu.return %x : !mu.tensor<[M, N], bf16, strides(1, _)>
mu.kernel @double_transpose(%x: !mu.tensor<[M, N], bf16, strides(1, _)>) -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %0 = mu.transpose %x : (!mu.tensor<[M, N], bf16, strides(1, _)>) -> !mu.tensor<[N, M], bf16, strides(_, 1)>
  %1 = mu.transpose %0 : (!mu.tensor<[N, M], bf16, strides(_, 1)>) -> !mu.tensor<[M, N], bf16, strides(1, _)>
  mu.return %1 : !mu.tensor<[M, N], bf16, strides(1, _)>
}

// -----

// Axes that are inserted and dropped again change nothing; others do.

// CHECK-LABEL: @squeezed_expansion(
// CHECK-NEXT: %[[E:[0-9]+]] = mu.expand %x axes [1]
// CHECK-NEXT: %[[S:[0-9]+]] = mu.squeeze %[[E]] axes [0]
// CHECK-NEXT: mu.return %x, %[[S]]
mu.kernel @squeezed_expansion(%x: !mu.tensor<[1, N], bf16>) -> (!mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16>)
    attributes {arg_names = ["x"], result_names = ["a", "b"], dims = ["N"]} {
  %0 = mu.expand %x axes [1] : (!mu.tensor<[1, N], bf16>) -> !mu.tensor<[1, 1, N], bf16>
  %1 = mu.squeeze %0 axes [1] : (!mu.tensor<[1, 1, N], bf16>) -> !mu.tensor<[1, N], bf16>
  %2 = mu.squeeze %0 axes [0] : (!mu.tensor<[1, 1, N], bf16>) -> !mu.tensor<[1, N], bf16>
  mu.return %1, %2 : !mu.tensor<[1, N], bf16>, !mu.tensor<[1, N], bf16>
}

// -----

// A product that is transposed and loses an axis stays: the layout of what is left is that of the transposed one.

// CHECK-LABEL: @squeezed_product(
// CHECK-NEXT: mu.matmul bf16 %x, %w
// CHECK-NEXT: mu.transpose
// CHECK-NEXT: mu.squeeze {{.*}} -> !mu.tensor<[N, M], bf16, col_major>
mu.kernel @squeezed_product(%x: !mu.tensor<[1, M, K], bf16>, %w: !mu.tensor<[1, K, N], bf16>) -> !mu.tensor<[N, M], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[1, M, K], bf16>, !mu.tensor<[1, K, N], bf16>) -> !mu.tensor<[1, M, N], bf16>
  %1 = mu.transpose %0 : (!mu.tensor<[1, M, N], bf16>) -> !mu.tensor<[1, N, M], bf16, col_major>
  %2 = mu.squeeze %1 axes [0] : (!mu.tensor<[1, N, M], bf16, col_major>) -> !mu.tensor<[N, M], bf16, col_major>
  mu.return %2 : !mu.tensor<[N, M], bf16, col_major>
}

// -----

// A transposed product turns into the product of the transposed factors, which are views.

// CHECK-LABEL: @transposed_product(
// CHECK-NEXT: %[[W:[0-9]+]] = mu.transpose %w : (!mu.tensor<[B, K, N], bf16>) -> !mu.tensor<[B, N, K], bf16, col_major>
// CHECK-NEXT: %[[X:[0-9]+]] = mu.transpose %x : (!mu.tensor<[B, M, K], bf16>) -> !mu.tensor<[B, K, M], bf16, col_major>
// CHECK-NEXT: %[[P:[0-9]+]] = mu.matmul bf16 %[[W]], %[[X]] : {{.*}} -> !mu.tensor<[B, N, M], bf16>
// CHECK-NEXT: mu.return %[[P]] : !mu.tensor<[B, N, M], bf16>
mu.kernel @transposed_product(%x: !mu.tensor<[B, M, K], bf16>, %w: !mu.tensor<[B, K, N], bf16>) -> !mu.tensor<[B, N, M], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["B", "M", "N", "K"]} {
  %0 = mu.matmul bf16 %x, %w : (!mu.tensor<[B, M, K], bf16>, !mu.tensor<[B, K, N], bf16>) -> !mu.tensor<[B, M, N], bf16>
  %1 = mu.transpose %0 : (!mu.tensor<[B, M, N], bf16>) -> !mu.tensor<[B, N, M], bf16, col_major>
  mu.return %1 : !mu.tensor<[B, N, M], bf16, col_major>
}

// -----

// Transposed factors of the product become plain again: (x @ w.T).T = w @ x.T.

// CHECK-LABEL: @transposed_factor(
// CHECK-NEXT: %[[X:[0-9]+]] = mu.transpose %x
// CHECK-NEXT: mu.matmul bf16 %w, %[[X]]
// CHECK-NEXT: mu.return
mu.kernel @transposed_factor(%x: !mu.tensor<[M, K], bf16>, %w: !mu.tensor<[N, K], bf16>) -> !mu.tensor<[N, M], bf16>
    attributes {arg_names = ["x", "w"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.transpose %w : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
  %1 = mu.matmul bf16 %x, %0 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
  %2 = mu.transpose %1 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[N, M], bf16, col_major>
  mu.return %2 : !mu.tensor<[N, M], bf16, col_major>
}

// -----

// Not where the product is read as it is, too: it would be computed twice.

// CHECK-LABEL: @shared_product(
// CHECK-NEXT: %[[P:[0-9]+]] = mu.matmul bf16 %x, %x
// CHECK-NEXT: %[[T:[0-9]+]] = mu.transpose %[[P]]
// CHECK-NEXT: mu.return %[[P]], %[[T]]
mu.kernel @shared_product(%x: !mu.tensor<[M, M], bf16>) -> (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>)
    attributes {arg_names = ["x"], result_names = ["p", "t"], dims = ["M"]} {
  %0 = mu.matmul bf16 %x, %x : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
  %1 = mu.transpose %0 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16, col_major>
  mu.return %0, %1 : !mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16, col_major>
}

// -----

// A product transposed twice stays as it is.

// CHECK-LABEL: @product_transposed_twice(
// CHECK-NEXT: %[[P:[0-9]+]] = mu.matmul bf16 %x, %x
// CHECK-NEXT: mu.return %[[P]]
mu.kernel @product_transposed_twice(%x: !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.matmul bf16 %x, %x : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
  %1 = mu.transpose %0 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16, col_major>
  %2 = mu.transpose %1 : (!mu.tensor<[M, M], bf16, col_major>) -> !mu.tensor<[M, M], bf16>
  mu.return %2 : !mu.tensor<[M, M], bf16>
}

// -----

// CHECK-LABEL: @neutral_operands(
// CHECK-NEXT: mu.return %x, %x, %x, %x, %x, %x
mu.kernel @neutral_operands(%x: !mu.tensor<[M], bf16>)
    -> (!mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>)
    attributes {arg_names = ["x"], result_names = ["a", "b", "c", "d", "e", "f"], dims = ["M"]} {
  %zero = mu.constant 0.0
  %one = mu.constant 1.0
  %0 = mu.add %x, %zero : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %1 = mu.add %zero, %x : (f32, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  %2 = mu.sub %x, %zero : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %3 = mu.mul %x, %one : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %4 = mu.mul %one, %x : (f32, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  %5 = mu.div %x, %one : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  mu.return %0, %1, %2, %3, %4, %5 : !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>
}

// -----

// 0 - x and 1 / x are no x, nor is x + 1 or x * 0.

// CHECK-LABEL: @no_neutral_operand(
// CHECK-DAG: mu.sub %zero, %x
// CHECK-DAG: mu.div %one, %x
// CHECK-DAG: mu.add %x, %one
// CHECK-DAG: mu.mul %x, %zero
mu.kernel @no_neutral_operand(%x: !mu.tensor<[M], bf16>)
    -> (!mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>)
    attributes {arg_names = ["x"], result_names = ["a", "b", "c", "d"], dims = ["M"]} {
  %zero = mu.constant 0.0
  %one = mu.constant 1.0
  %0 = mu.sub %zero, %x : (f32, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  %1 = mu.div %one, %x : (f32, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  %2 = mu.add %x, %one : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %3 = mu.mul %x, %zero : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  mu.return %0, %1, %2, %3 : !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>
}

// -----

// A neutral operand that changes the type has to stay: the sum is row-major where x is not.

// CHECK-LABEL: @neutral_but_for_the_type(
// CHECK: mu.add %x, %zero
mu.kernel @neutral_but_for_the_type(%x: !mu.tensor<[M, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
  %zero = mu.constant 0.0
  %0 = mu.add %x, %zero : (!mu.tensor<[M, N], bf16, col_major>, f32) -> !mu.tensor<[M, N], bf16>
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// A choice between bools is logic.

// CHECK-LABEL: @chosen_condition(
// CHECK-NEXT: %[[C:[0-9]+]] = mu.cmp gt %x, %y
// CHECK-NEXT: %[[D:[0-9]+]] = mu.cmp lt %y, %y
// CHECK-NEXT: %[[A:[0-9]+]] = mu.and %[[D]], %[[C]] : (!mu.tensor<[N], i1>, !mu.tensor<[M, N], i1>) -> !mu.tensor<[M, N], i1>
// CHECK-NEXT: %[[N:[0-9]+]] = mu.not %[[D]]
// CHECK-NEXT: %[[B:[0-9]+]] = mu.and %[[N]], %[[D]]
// CHECK-NEXT: %[[O:[0-9]+]] = mu.or %[[A]], %[[B]] : (!mu.tensor<[M, N], i1>, !mu.tensor<[N], i1>) -> !mu.tensor<[M, N], i1>
// CHECK-NEXT: mu.select %[[O]], %x, %y
mu.kernel @chosen_condition(%x: !mu.tensor<[M, N], f32>, %y: !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
    attributes {arg_names = ["x", "y"], result_names = ["a"], dims = ["M", "N"]} {
  %0 = mu.cmp gt %x, %y : (!mu.tensor<[M, N], f32>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], i1>
  %1 = mu.cmp lt %y, %y : (!mu.tensor<[N], f32>, !mu.tensor<[N], f32>) -> !mu.tensor<[N], i1>
  %2 = mu.select %1, %0, %1 : (!mu.tensor<[N], i1>, !mu.tensor<[M, N], i1>, !mu.tensor<[N], i1>) -> !mu.tensor<[M, N], i1>
  %3 = mu.select %2, %x, %y : (!mu.tensor<[M, N], i1>, !mu.tensor<[M, N], f32>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
  mu.return %3 : !mu.tensor<[M, N], f32>
}

// -----

// CHECK-LABEL: @double_negation(
// CHECK-NEXT: %[[C:[0-9]+]] = mu.cmp gt %x, %x
// CHECK-NEXT: %[[S:[0-9]+]] = mu.select %[[C]], %x, %x
// CHECK-NEXT: %[[N:[0-9]+]] = mu.neg %x
// CHECK-NEXT: mu.return %[[S]], %[[N]]
mu.kernel @double_negation(%x: !mu.tensor<[M], f32>) -> (!mu.tensor<[M], f32>, !mu.tensor<[M], f32>)
    attributes {arg_names = ["x"], result_names = ["a", "b"], dims = ["M"]} {
  %0 = mu.cmp gt %x, %x : (!mu.tensor<[M], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[M], i1>
  %1 = mu.not %0 : (!mu.tensor<[M], i1>) -> !mu.tensor<[M], i1>
  %2 = mu.not %1 : (!mu.tensor<[M], i1>) -> !mu.tensor<[M], i1>
  %3 = mu.neg %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  %4 = mu.neg %3 : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  %5 = mu.select %2, %4, %x : (!mu.tensor<[M], i1>, !mu.tensor<[M], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  %6 = mu.neg %4 : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  mu.return %5, %6 : !mu.tensor<[M], f32>, !mu.tensor<[M], f32>
}

// -----

// The same rounding twice is one; different ones, and one alone, stay.

// CHECK-LABEL: @casts(
// CHECK-NEXT: %[[B:[0-9]+]] = mu.cast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], bf16>
// CHECK-NEXT: %[[H:[0-9]+]] = mu.cast %[[B]] : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], f16>
// CHECK-NEXT: %[[F:[0-9]+]] = mu.cast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
// CHECK-NEXT: mu.return %[[B]], %[[H]], %[[F]]
mu.kernel @casts(%x: !mu.tensor<[M], f32>) -> (!mu.tensor<[M], bf16>, !mu.tensor<[M], f16>, !mu.tensor<[M], f32>)
    attributes {arg_names = ["x"], result_names = ["b", "h", "f"], dims = ["M"]} {
  %0 = mu.cast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], bf16>
  %1 = mu.cast %0 : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  %2 = mu.cast %1 : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], f16>
  %3 = mu.cast %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  mu.return %1, %2, %3 : !mu.tensor<[M], bf16>, !mu.tensor<[M], f16>, !mu.tensor<[M], f32>
}

// -----

// Arithmetic on numbers is done at once: ((1 + 2) * 4 - -(3)) / 2 = 7.5.

// CHECK-LABEL: @constants(
// CHECK-NEXT: %[[C:[0-9]+]] = mu.constant 7.500000e+00 : f64
// CHECK-NEXT: %[[R:[0-9]+]] = mu.max %x, %[[C]]
// CHECK-NEXT: mu.return %[[R]]
mu.kernel @constants(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %one = mu.constant 1.0
  %two = mu.constant 2.0
  %three = mu.constant 3.0
  %four = mu.constant 4.0
  %0 = mu.add %one, %two : (f32, f32) -> f32
  %1 = mu.mul %0, %four : (f32, f32) -> f32
  %2 = mu.neg %three : (f32) -> f32
  %3 = mu.sub %1, %2 : (f32, f32) -> f32
  %4 = mu.div %3, %two : (f32, f32) -> f32
  %5 = mu.max %x, %4 : (!mu.tensor<[M], f32>, f32) -> !mu.tensor<[M], f32>
  mu.return %5 : !mu.tensor<[M], f32>
}

// -----

// A division by zero is left to the hardware.

// CHECK-LABEL: @division_by_zero(
// CHECK: mu.div %one, %zero : (f32, f32) -> f32
mu.kernel @division_by_zero(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %one = mu.constant 1.0
  %zero = mu.constant 0.0
  %0 = mu.div %one, %zero : (f32, f32) -> f32
  %1 = mu.min %x, %0 : (!mu.tensor<[M], f32>, f32) -> !mu.tensor<[M], f32>
  mu.return %1 : !mu.tensor<[M], f32>
}

// -----

// CHECK-LABEL: @powers(
// CHECK-NEXT: %three = mu.constant 3.0
// CHECK-NEXT: %[[S:[0-9]+]] = mu.mul %x, %x : (!mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
// CHECK-NEXT: %[[R:[0-9]+]] = mu.sqrt %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
// CHECK-NEXT: %[[C:[0-9]+]] = mu.pow %x, %three
// CHECK-NEXT: mu.return %x, %[[S]], %[[R]], %[[C]]
mu.kernel @powers(%x: !mu.tensor<[M], bf16>)
    -> (!mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>)
    attributes {arg_names = ["x"], result_names = ["a", "b", "c", "d"], dims = ["M"]} {
  %one = mu.constant 1.0
  %two = mu.constant 2.0
  %half = mu.constant 0.5
  %three = mu.constant 3.0
  %0 = mu.pow %x, %one : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %1 = mu.pow %x, %two : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %2 = mu.pow %x, %half : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  %3 = mu.pow %x, %three : (!mu.tensor<[M], bf16>, f32) -> !mu.tensor<[M], bf16>
  mu.return %0, %1, %2, %3 : !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>, !mu.tensor<[M], bf16>
}

// -----

// A power whose base is broadcast is no square: the result has another shape.

// CHECK-LABEL: @broadcast_power(
// CHECK: mu.pow %x, %{{.*}} : (!mu.tensor<[M, 1], bf16>, !mu.tensor<[N], bf16>) -> !mu.tensor<[M, N], bf16>
mu.kernel @broadcast_power(%x: !mu.tensor<[M, 1], bf16>, %y: !mu.tensor<[N], bf16>) -> !mu.tensor<[M, N], bf16>
    attributes {arg_names = ["x", "y"], result_names = ["out"], dims = ["M", "N"]} {
  %0 = mu.pow %x, %y : (!mu.tensor<[M, 1], bf16>, !mu.tensor<[N], bf16>) -> !mu.tensor<[M, N], bf16>
  mu.return %0 : !mu.tensor<[M, N], bf16>
}

// -----

// What nobody uses goes, but a pinned stage stays.

// CHECK-LABEL: @dead(
// CHECK-NEXT: %[[P:[0-9]+]] = mu.matmul
// CHECK-NEXT: mu.pin "kept" %[[P]]
// CHECK-NEXT: mu.return %x
mu.kernel @dead(%x: !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.matmul tf32 %x, %x : (!mu.tensor<[M, M], f32>, !mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %1 = mu.pin "kept" %0 : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %2 = mu.exp %1 : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M, M], f32>
  %3 = mu.reduce sum %2 axes [0] : (!mu.tensor<[M, M], f32>) -> !mu.tensor<[M], f32>
  mu.return %x : !mu.tensor<[M, M], f32>
}

// -----

// What is pinned under another shape is stored once, and read under that shape.

// CHECK-LABEL: @pinned_view(
// CHECK-NEXT: %[[E:[0-9]+]] = mu.exp %x : (!mu.tensor<[M, 2, 8], bf16>) -> !mu.tensor<[M, 2, 8], bf16>
// CHECK-NEXT: %[[P:[0-9]+]] = mu.pin "h" %[[E]] : (!mu.tensor<[M, 2, 8], bf16>) -> !mu.tensor<[M, 2, 8], bf16>
// CHECK-NEXT: %{{.*}} = mu.regroup %[[P]] : (!mu.tensor<[M, 2, 8], bf16>) -> !mu.tensor<[M, 16], bf16>
mu.kernel @pinned_view(%x: !mu.tensor<[M, 2, 8], bf16>) -> !mu.tensor<[M, 16], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.exp %x : (!mu.tensor<[M, 2, 8], bf16>) -> !mu.tensor<[M, 2, 8], bf16>
  %1 = mu.regroup %0 : (!mu.tensor<[M, 2, 8], bf16>) -> !mu.tensor<[M, 16], bf16>
  %2 = mu.pin "h" %1 : (!mu.tensor<[M, 16], bf16>) -> !mu.tensor<[M, 16], bf16>
  mu.return %2 : !mu.tensor<[M, 16], bf16>
}

// -----

// What is an integer already is not rounded again; the bits of a narrower integer are those of s32.

// CHECK-LABEL: @rounded(
// CHECK-NEXT: %[[F:[0-9]+]] = mu.floor %x
// CHECK-NEXT: %[[U:[0-9]+]] = mu.bitwise_not %u
// CHECK-NEXT: %[[V:[0-9]+]] = mu.bitwise_not %[[U]]
// CHECK-NEXT: mu.return %[[F]], %n, %n, %[[V]]
mu.kernel @rounded(%x: !mu.tensor<[M], f32>, %n: !mu.tensor<[M], si32>, %u: !mu.tensor<[M], ui8>)
    -> (!mu.tensor<[M], f32>, !mu.tensor<[M], si32>, !mu.tensor<[M], si32>, !mu.tensor<[M], si32>)
    attributes {arg_names = ["x", "n", "u"], result_names = ["a", "b", "c", "d"], dims = ["M"]} {
  %0 = mu.floor %x : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  %1 = mu.round %0 : (!mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
  %2 = mu.ceil %n : (!mu.tensor<[M], si32>) -> !mu.tensor<[M], si32>
  %3 = mu.bitwise_not %n : (!mu.tensor<[M], si32>) -> !mu.tensor<[M], si32>
  %4 = mu.bitwise_not %3 : (!mu.tensor<[M], si32>) -> !mu.tensor<[M], si32>
  %5 = mu.bitwise_not %u : (!mu.tensor<[M], ui8>) -> !mu.tensor<[M], si32>
  %6 = mu.bitwise_not %5 : (!mu.tensor<[M], si32>) -> !mu.tensor<[M], si32>
  mu.return %1, %2, %4, %6 : !mu.tensor<[M], f32>, !mu.tensor<[M], si32>, !mu.tensor<[M], si32>, !mu.tensor<[M], si32>
}

// -----

// Remainders and quotients of literals are computed, but not by zero.

// CHECK-LABEL: @literal_remainders(
// CHECK-DAG: %[[A:[0-9a-z]+]] = mu.constant 2.0{{0*}}e+00
// CHECK-DAG: mu.mul %x, %[[A]]
// CHECK-DAG: %[[B:[0-9a-z]+]] = mu.constant -1.0{{0*}}e+00
// CHECK-DAG: mu.mul %{{[0-9]+}}, %[[B]]
// CHECK-DAG: %[[C:[0-9a-z]+]] = mu.constant -3.0{{0*}}e+00
// CHECK-DAG: mu.mul %{{[0-9]+}}, %[[C]]
// CHECK-NOT: mu.fmod
// CHECK-NOT: mu.floor_divide
// CHECK: mu.remainder
// CHECK-NOT: mu.remainder
mu.kernel @literal_remainders(%x: !mu.tensor<[M], f32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["x"], result_names = ["a"], dims = ["M"]} {
  %a = mu.constant -7.0
  %b = mu.constant 3.0
  %zero = mu.constant 0.0
  %0 = mu.remainder %a, %b : (f32, f32) -> f32
  %1 = mu.mul %x, %0 : (!mu.tensor<[M], f32>, f32) -> !mu.tensor<[M], f32>
  %2 = mu.fmod %a, %b : (f32, f32) -> f32
  %3 = mu.mul %1, %2 : (!mu.tensor<[M], f32>, f32) -> !mu.tensor<[M], f32>
  %4 = mu.floor_divide %a, %b : (f32, f32) -> f32
  %5 = mu.mul %3, %4 : (!mu.tensor<[M], f32>, f32) -> !mu.tensor<[M], f32>
  %6 = mu.remainder %a, %zero : (f32, f32) -> f32
  %7 = mu.mul %5, %6 : (!mu.tensor<[M], f32>, f32) -> !mu.tensor<[M], f32>
  mu.return %7 : !mu.tensor<[M], f32>
}

// -----

// A sum of literals is a float. Next to an integer a whole literal would be an integer: the result would be one.

// CHECK-LABEL: @float_sum(
// CHECK: %[[S:[0-9]+]] = mu.sub
// CHECK: mu.mul %n, %[[S]] : (!mu.tensor<[M], si32>, f32) -> !mu.tensor<[M], f32>
mu.kernel @float_sum(%n: !mu.tensor<[M], si32>) -> !mu.tensor<[M], f32>
    attributes {arg_names = ["n"], result_names = ["a"], dims = ["M"]} {
  %a = mu.constant 4.0
  %b = mu.constant 1.0
  %0 = mu.sub %a, %b : (f32, f32) -> f32
  %1 = mu.mul %n, %0 : (!mu.tensor<[M], si32>, f32) -> !mu.tensor<[M], f32>
  mu.return %1 : !mu.tensor<[M], f32>
}
