// RUN: mucc-opt %s -p decompose --split-input-file | FileCheck %s

// max(x, 0)

// CHECK-LABEL: mu.kernel @relu(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.max %x, %[[V0]]
// CHECK-NEXT: mu.return %[[V1]]
mu.kernel @relu(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.relu %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// x where x > 0, else slope * x

// CHECK-LABEL: mu.kernel @leaky_relu(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant 2.000000e-01 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.mul %x, %[[V0]]
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.cmp gt %x, %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.select %[[V3]], %x, %[[V1]]
// CHECK-NEXT: mu.return %[[V4]]
mu.kernel @leaky_relu(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.leaky_relu %x {slope = 2.000000e-01 : f64} : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// x where x > 0, else alpha * (exp(x) - 1); expm1 sees only what is not positive

// CHECK-LABEL: mu.kernel @elu(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.min %x, %[[V0]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.expm1 %[[V1]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cmp gt %x, %[[V0]]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.constant 2.000000e+00 : f64
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.mul %[[V4]], %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.select %[[V5]], %x, %[[V7]]
// CHECK-NEXT: mu.return %[[V8]]
mu.kernel @elu(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.elu %x {alpha = 2.000000e+00 : f64} : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// elu with fixed numbers, scaled

// CHECK-LABEL: mu.kernel @selu(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.min %x, %[[V0]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.expm1 %[[V1]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.cmp gt %x, %[[V0]]
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.constant 1.6732632423543772 : f64
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.mul %[[V4]], %[[V6]]
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.select %[[V5]], %x, %[[V7]]
// CHECK-NEXT: %[[V9:[0-9]+]] = mu.constant 1.0507009873554805 : f64
// CHECK-NEXT: %[[V10:[0-9]+]] = mu.mul %[[V8]], %[[V9]]
// CHECK-NEXT: mu.return %[[V10]]
mu.kernel @selu(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.selu %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// x * sigmoid(x)

// CHECK-LABEL: mu.kernel @silu(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.sigmoid %x
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.mul %x, %[[V0]]
// CHECK-NEXT: mu.return %[[V1]]
mu.kernel @silu(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.silu %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// x / (1 + |x|)

// CHECK-LABEL: mu.kernel @softsign(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.abs %x
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.add %[[V0]], %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.div %x, %[[V2]]
// CHECK-NEXT: mu.return %[[V3]]
mu.kernel @softsign(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.softsign %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// x * tanh(softplus(x))

// CHECK-LABEL: mu.kernel @mish(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.softplus %x {beta = 1.000000e+00 : f64}
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.tanh %[[V0]]
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.mul %x, %[[V1]]
// CHECK-NEXT: mu.return %[[V2]]
mu.kernel @mish(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.mish %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// clamp(x / 6 + 1/2, 0, 1)

// CHECK-LABEL: mu.kernel @hardsigmoid(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant 0.16666666666666666 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.mul %x, %[[V0]]
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.constant 5.000000e-01 : f64
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V1]], %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.max %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.min %[[V6]], %[[V5]]
// CHECK-NEXT: mu.return %[[V7]]
mu.kernel @hardsigmoid(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.hardsigmoid %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// x * hardsigmoid(x)

// CHECK-LABEL: mu.kernel @hardswish(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant 0.16666666666666666 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.mul %x, %[[V0]]
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.constant 5.000000e-01 : f64
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V1]], %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.constant 0.000000e+00 : f64
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.constant 1.000000e+00 : f64
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.max %[[V3]], %[[V4]]
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.min %[[V6]], %[[V5]]
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.mul %x, %[[V7]]
// CHECK-NEXT: mu.return %[[V8]]
mu.kernel @hardswish(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.hardswish %x : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// clamp(x, lo, hi) with numbers

// CHECK-LABEL: mu.kernel @hardtanh(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.constant -2.000000e+00 : f64
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.constant 3.000000e+00 : f64
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.max %x, %[[V0]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.min %[[V2]], %[[V1]]
// CHECK-NEXT: mu.return %[[V3]]
mu.kernel @hardtanh(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.hardtanh %x {lo = -2.000000e+00 : f64, hi = 3.000000e+00 : f64} : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// clamp(x, lo, hi) with values

// CHECK-LABEL: mu.kernel @clamp(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.max %x, %a
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.min %[[V0]], %b
// CHECK-NEXT: mu.return %[[V1]]
mu.kernel @clamp(%x: !mu.tensor<[M], bf16>, %a: f32, %b: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x", "a", "b"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.clamp %x, %a, %b : (!mu.tensor<[M], bf16>, f32, !mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %0 : !mu.tensor<[M], bf16>
}

// -----

// gelu and softplus are primitive

// CHECK-LABEL: mu.kernel @primitive(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.softplus %x {beta = 1.000000e+00 : f64}
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.gelu %[[V0]]
// CHECK-NEXT: mu.return %[[V1]]
mu.kernel @primitive(%x: !mu.tensor<[M], bf16>)
    -> !mu.tensor<[M], bf16>
    attributes {arg_names = ["x"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.softplus %x {beta = 1.000000e+00 : f64} : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  %1 = mu.gelu %0 : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>
  mu.return %1 : !mu.tensor<[M], bf16>
}
