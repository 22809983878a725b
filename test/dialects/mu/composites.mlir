// RUN: mucc-opt %s | mucc-opt | FileCheck %s
// RUN: mucc-opt %s --print-op-generic | mucc-opt | FileCheck %s

// CHECK-LABEL: mu.kernel @composites(
mu.kernel @composites(%x: !mu.tensor<[M, 4, 6], bf16>, %y: !mu.tensor<[M, 6], f32>) -> (!mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[4], f32>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>)
    attributes {arg_names = ["x", "y"], result_names = ["a", "b", "c", "d", "e", "f", "g"], dims = ["M"]} {
  // CHECK-NEXT: mu.scan sum %x axis 1 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %0 = mu.scan sum %x axis 1 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  // CHECK-NEXT: mu.scan prod %x axis 2 : i64 reverse exclusive : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %1 = mu.scan prod %x axis 2 : i64 reverse exclusive : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  // CHECK-NEXT: mu.sort %x axis 1 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %s = mu.sort %x axis 1 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  // CHECK-NEXT: mu.sort positions %x axis 2 : i64 descending count 3 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 3], si32>
  %t = mu.sort positions %x axis 2 : i64 descending count 3 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 3], si32>
  // CHECK-NEXT: mu.softmax %x axis 2 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %2 = mu.softmax %x axis 2 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  // CHECK-NEXT: mu.log_softmax %x axis 0 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %3 = mu.log_softmax %x axis 0 : i64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  // CHECK-NEXT: mu.logsumexp %x axes [0, 2] : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[4], f32>
  %4 = mu.logsumexp %x axes [0, 2] : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[4], f32>
  // CHECK-NEXT: mu.normalize standard %x axes [1, 2] eps 1.000000e-05 : f64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %5 = mu.normalize standard %x axes [1, 2] eps 1.000000e-05 : f64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  // CHECK-NEXT: mu.normalize rms %x axes [2] eps 1.000000e-03 : f64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  %6 = mu.normalize rms %x axes [2] eps 1.000000e-03 : f64 : (!mu.tensor<[M, 4, 6], bf16>) -> !mu.tensor<[M, 4, 6], bf16>
  mu.return %0, %1, %2, %3, %4, %5, %6 : !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[4], f32>, !mu.tensor<[M, 4, 6], bf16>, !mu.tensor<[M, 4, 6], bf16>
}

// CHECK-LABEL: mu.kernel @attentions(
mu.kernel @attentions(%q: !mu.tensor<[M, 64], f16>, %k: !mu.tensor<[N, 64], f16>, %v: !mu.tensor<[N, 32], f16>, %m: !mu.tensor<[M, N], f32>, %i: !mu.tensor<[M, 5], si32>, %s: !mu.tensor<[1, 1], f32>) -> (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 32], f16>, !mu.tensor<[M, 5], f16>)
    attributes {arg_names = ["q", "k", "v", "m", "i", "s"], result_names = ["a", "b", "c"], dims = ["M", "N"]} {
  // CHECK-NEXT: mu.attention %q, %k, %v scale 1.250000e-01 : f64 : !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16> -> !mu.tensor<[M, 32], f16>
  %0 = mu.attention %q, %k, %v scale 1.250000e-01 : f64 : !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16> -> !mu.tensor<[M, 32], f16>
  // CHECK-NEXT: mu.attention %q, %k, %v mask %m : !mu.tensor<[M, N], f32> sinks %s : !mu.tensor<[1, 1], f32> scale 1.000000e+00 : f64 causal : !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16> -> !mu.tensor<[M, 32], f16>
  %1 = mu.attention %q, %k, %v mask %m : !mu.tensor<[M, N], f32> sinks %s : !mu.tensor<[1, 1], f32> scale 1.000000e+00 : f64 causal : !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16> -> !mu.tensor<[M, 32], f16>
  // CHECK-NEXT: mu.take_along %q index %i axis 1 : i64 : (!mu.tensor<[M, 64], f16>, !mu.tensor<[M, 5], si32>) -> !mu.tensor<[M, 5], f16>
  %2 = mu.take_along %q index %i axis 1 : i64 : (!mu.tensor<[M, 64], f16>, !mu.tensor<[M, 5], si32>) -> !mu.tensor<[M, 5], f16>
  mu.return %0, %1, %2 : !mu.tensor<[M, 32], f16>, !mu.tensor<[M, 32], f16>, !mu.tensor<[M, 5], f16>
}

// The scale of a run-time extent is 1 / sqrt(D).
// CHECK-LABEL: mu.kernel @open_attention(
mu.kernel @open_attention(%q: !mu.tensor<[M, D], f16>) -> !mu.tensor<[M, D], f16>
    attributes {arg_names = ["q"], result_names = ["a"], dims = ["M", "D"]} {
  // CHECK-NEXT: mu.attention %q, %q, %q causal : !mu.tensor<[M, D], f16>, !mu.tensor<[M, D], f16>, !mu.tensor<[M, D], f16> -> !mu.tensor<[M, D], f16>
  %0 = mu.attention %q, %q, %q causal : !mu.tensor<[M, D], f16>, !mu.tensor<[M, D], f16>, !mu.tensor<[M, D], f16> -> !mu.tensor<[M, D], f16>
  mu.return %0 : !mu.tensor<[M, D], f16>
}

// CHECK-LABEL: mu.kernel @gradients(
mu.kernel @gradients(%q: !mu.tensor<[M, 64], f16>, %k: !mu.tensor<[N, 64], f16>, %v: !mu.tensor<[N, 32], f16>, %m: !mu.tensor<[M, N], f32>, %y: !mu.tensor<[M, 32], f16>, %dy: !mu.tensor<[M, 32], f16>) -> (!mu.tensor<[M], f32>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>)
    attributes {arg_names = ["q", "k", "v", "m", "y", "dy"], result_names = ["a", "b", "c", "d"], dims = ["M", "N"]} {
  // CHECK-NEXT: mu.attention_logsumexp %q, %k mask %m : !mu.tensor<[M, N], f32> scale 1.000000e+00 : f64 causal : !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16> -> !mu.tensor<[M], f32>
  %0 = mu.attention_logsumexp %q, %k mask %m : !mu.tensor<[M, N], f32> scale 1.000000e+00 : f64 causal : !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16> -> !mu.tensor<[M], f32>
  // CHECK-NEXT: mu.attention_gradient query %dy, %q, %k, %v, %{{.*}}, %y scale 1.250000e-01 : f64 : (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>, !mu.tensor<[M], f32>, !mu.tensor<[M, 32], f16>) -> !mu.tensor<[M, 64], f16>
  %1 = mu.attention_gradient query %dy, %q, %k, %v, %0, %y scale 1.250000e-01 : f64 : (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>, !mu.tensor<[M], f32>, !mu.tensor<[M, 32], f16>) -> !mu.tensor<[M, 64], f16>
  // CHECK-NEXT: mu.attention_gradient key %dy, %q, %k, %v, %{{.*}}, %{{.*}} mask %m scale 1.250000e-01 : f64 : (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>, !mu.tensor<[M], f32>, !mu.tensor<[M], f32>, !mu.tensor<[M, N], f32>) -> !mu.tensor<[N, 64], f16>
  %2 = mu.attention_gradient key %dy, %q, %k, %v, %0, %0 mask %m scale 1.250000e-01 : f64 : (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>, !mu.tensor<[M], f32>, !mu.tensor<[M], f32>, !mu.tensor<[M, N], f32>) -> !mu.tensor<[N, 64], f16>
  // CHECK-NEXT: mu.attention_backward value %dy, %q, %k, %v, %{{.*}}, %{{.*}} scale 1.250000e-01 : f64 causal : (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>, !mu.tensor<[M], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[N, 32], f16>
  %3 = mu.attention_backward value %dy, %q, %k, %v, %0, %0 scale 1.250000e-01 : f64 causal : (!mu.tensor<[M, 32], f16>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>, !mu.tensor<[M], f32>, !mu.tensor<[M], f32>) -> !mu.tensor<[N, 32], f16>
  mu.return %0, %1, %2, %3 : !mu.tensor<[M], f32>, !mu.tensor<[M, 64], f16>, !mu.tensor<[N, 64], f16>, !mu.tensor<[N, 32], f16>
}

// Keys and values may have the rows of all pages, of which a table names those of each sequence.
// CHECK-LABEL: mu.kernel @pages(
mu.kernel @pages(%q: !mu.tensor<[B, 4, M, 64], f16>, %k: !mu.tensor<[4, P, 16, 64], f16>, %v: !mu.tensor<[4, P, 16, 32], f16>, %t: !mu.tensor<[B, 1, N], si32>, %m: !mu.tensor<[M, "16*N"], f32>) -> (!mu.tensor<[B, 4, M, 32], f16>, !mu.tensor<[B, 4, M], f32>, !mu.tensor<[B, 4, M, 32], f16>)
    attributes {arg_names = ["q", "k", "v", "t", "m"], result_names = ["a", "b", "c"], dims = ["B", "M", "P", "N"]} {
  // CHECK-NEXT: mu.attention %q, %k, %v mask %m : !mu.tensor<[M, "16*N"], f32> pages %t : !mu.tensor<[B, 1, N], si32> scale 1.250000e-01 : f64 : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 32], f16> -> !mu.tensor<[B, 4, M, 32], f16>
  %0 = mu.attention %q, %k, %v mask %m : !mu.tensor<[M, "16*N"], f32> pages %t : !mu.tensor<[B, 1, N], si32> scale 1.250000e-01 : f64 : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 32], f16> -> !mu.tensor<[B, 4, M, 32], f16>
  // CHECK-NEXT: mu.attention_logsumexp %q, %k pages %t : !mu.tensor<[B, 1, N], si32> causal : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16> -> !mu.tensor<[B, 4, M], f32>
  %1 = mu.attention_logsumexp %q, %k pages %t : !mu.tensor<[B, 1, N], si32> causal : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16> -> !mu.tensor<[B, 4, M], f32>
  // CHECK-NEXT: %[[S:.*]] = mu.scores %q, %k pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16> -> !mu.tensor<[B, 4, M, "16*N"], f16>
  %2 = mu.scores %q, %k pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16> -> !mu.tensor<[B, 4, M, "16*N"], f16>
  // CHECK-NEXT: mu.scored_attention %q, %k, %v scores %[[S]] pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 32], f16>, !mu.tensor<[B, 4, M, "16*N"], f16> -> !mu.tensor<[B, 4, M, 32], f16>
  %3 = mu.scored_attention %q, %k, %v scores %2 pages %t : !mu.tensor<[B, 1, N], si32> : !mu.tensor<[B, 4, M, 64], f16>, !mu.tensor<[4, P, 16, 64], f16>, !mu.tensor<[4, P, 16, 32], f16>, !mu.tensor<[B, 4, M, "16*N"], f16> -> !mu.tensor<[B, 4, M, 32], f16>
  mu.return %0, %1, %3 : !mu.tensor<[B, 4, M, 32], f16>, !mu.tensor<[B, 4, M], f32>, !mu.tensor<[B, 4, M, 32], f16>
}
