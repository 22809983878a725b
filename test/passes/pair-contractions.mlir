// RUN: mucc-opt %s -p pair-contractions --split-input-file | FileCheck %s

// The two products of a gated unit: one stage, whose epilogue has both accumulators.

// CHECK-LABEL: mu.kernel @gated(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.transpose %g
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.matmul bf16 %x, %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.sigmoid %[[V2]]
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.mul %[[V2]], %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.transpose %u
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.matmul bf16 %x, %[[V5]]
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.mul %[[V4]], %[[V6]]
// CHECK-NEXT: mu.yield %[[V7]]
// CHECK: mu.return %[[V0]]
mu.kernel @gated(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "g", "u"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %3 = mu.sigmoid %2 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %4 = mu.mul %2, %3 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %4 : !mu.tensor<[M, N], bf16>
  }
  %5 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %6 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %7 = mu.matmul bf16 %x, %6 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %8 = mu.mul %0, %7 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %8 : !mu.tensor<[M, N], bf16>
  }
  mu.return %5 : !mu.tensor<[M, N], bf16>
}

// -----

// Vectors and numbers on both sides.

// CHECK-LABEL: mu.kernel @vectors(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK-NEXT: %[[V1:[0-9]+]] = mu.transpose %g
// CHECK-NEXT: %[[V2:[0-9]+]] = mu.matmul bf16 %x, %[[V1]]
// CHECK-NEXT: %[[V3:[0-9]+]] = mu.add %[[V2]], %b
// CHECK-NEXT: %[[V4:[0-9]+]] = mu.gelu %[[V3]]
// CHECK-NEXT: %[[V5:[0-9]+]] = mu.transpose %u
// CHECK-NEXT: %[[V6:[0-9]+]] = mu.matmul bf16 %x, %[[V5]]
// CHECK-NEXT: %[[V7:[0-9]+]] = mu.mul %[[V6]], %s
// CHECK-NEXT: %[[V8:[0-9]+]] = mu.mul %[[V4]], %[[V7]]
// CHECK: mu.return %[[V0]]
mu.kernel @vectors(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>, %b: !mu.tensor<[N], f32>, %s: f32) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "g", "u", "b", "s"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, N], f32> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %3 = mu.add %2, %b : (!mu.tensor<[M, N], bf16>, !mu.tensor<[N], f32>) -> !mu.tensor<[M, N], f32>
    %4 = mu.gelu %3 : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], f32>
    mu.yield %4 : !mu.tensor<[M, N], f32>
  }
  %5 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %6 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %7 = mu.matmul bf16 %x, %6 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %8 = mu.mul %7, %s : (!mu.tensor<[M, N], bf16>, f32) -> !mu.tensor<[M, N], bf16>
    %9 = mu.mul %0, %8 : (!mu.tensor<[M, N], f32>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], f32>
    %10 = mu.cast %9 : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], bf16>
    mu.yield %10 : !mu.tensor<[M, N], bf16>
  }
  mu.return %5 : !mu.tensor<[M, N], bf16>
}

// -----

// The epilogue reads matrices too.

// CHECK-LABEL: mu.kernel @source(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
// CHECK: %[[V1:[0-9]+]] = mu.add %{{[0-9]+}}, %r
// CHECK-NEXT: mu.yield %[[V1]]
// CHECK: mu.return %[[V0]]
mu.kernel @source(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>, %r: !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "g", "u", "r"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %3 = mu.sigmoid %2 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %4 = mu.mul %2, %3 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %4 : !mu.tensor<[M, N], bf16>
  }
  %5 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %6 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %7 = mu.matmul bf16 %x, %6 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %8 = mu.mul %0, %7 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %9 = mu.add %8, %r : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %9 : !mu.tensor<[M, N], bf16>
  }
  mu.return %5 : !mu.tensor<[M, N], bf16>
}

// -----

// What others need of the first stage is stored beside the result.

// CHECK-LABEL: mu.kernel @kept(
// CHECK-NEXT: %[[V0:[0-9]+]], %[[V1:[0-9]+]] = mu.stage "y" contraction : !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16> {
// CHECK: %[[H:[0-9a-z]+]] = mu.matmul bf16 %x,
// CHECK: %[[Y:[0-9]+]] = mu.mul %[[H]],
// CHECK-NEXT: mu.yield %[[Y]], %[[H]]
// CHECK: mu.return %[[V1]], %[[V0]]
mu.kernel @kept(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>) -> (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) attributes {arg_names = ["x", "g", "u"], result_names = ["h", "y"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "h" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %h = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    mu.yield %h : !mu.tensor<[M, N], bf16>
  }
  %2 = mu.stage "y" contraction : !mu.tensor<[M, N], bf16> {
    %3 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %4 = mu.matmul bf16 %x, %3 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %5 = mu.mul %0, %4 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %5 : !mu.tensor<[M, N], bf16>
  }
  mu.return %0, %2 : !mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>
}

// -----

// A stage that the user pinned stays apart.

// CHECK-LABEL: mu.kernel @pinned(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "h" contraction pinned :
// CHECK: = mu.stage "out" contraction :
mu.kernel @pinned(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "g", "u"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "h" contraction pinned : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    mu.yield %2 : !mu.tensor<[M, N], bf16>
  }
  %3 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %4 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %5 = mu.matmul bf16 %x, %4 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %6 = mu.mul %0, %5 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %6 : !mu.tensor<[M, N], bf16>
  }
  mu.return %3 : !mu.tensor<[M, N], bf16>
}

// -----

// So does a schedule for the first of them.

// CHECK-LABEL: mu.kernel @scheduled(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction :
// CHECK: = mu.stage "out" contraction :
mu.kernel @scheduled(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "g", "u"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %3 = mu.tanh %2 : (!mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %3 : !mu.tensor<[M, N], bf16>
  }
  %4 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %5 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %6 = mu.matmul bf16 %x, %5 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %7 = mu.mul %0, %6 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %7 : !mu.tensor<[M, N], bf16>
  }
  mu.return %4 : !mu.tensor<[M, N], bf16>
}
mu.schedule "scheduled" stage "s0" for "sm_90a" {cluster = #mu.cluster<1, 1>}

// -----

// So do right operands that lie in memory differently,

// CHECK-LABEL: mu.kernel @layouts(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction :
// CHECK: = mu.stage "out" contraction :
mu.kernel @layouts(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "g", "u"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    mu.yield %2 : !mu.tensor<[M, N], bf16>
  }
  %3 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %4 = mu.matmul bf16 %x, %u : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16>) -> !mu.tensor<[M, N], bf16>
    %5 = mu.mul %0, %4 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %5 : !mu.tensor<[M, N], bf16>
  }
  mu.return %3 : !mu.tensor<[M, N], bf16>
}

// -----

// or other left operands.

// CHECK-LABEL: mu.kernel @lefts(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction :
// CHECK: = mu.stage "out" contraction :
mu.kernel @lefts(%x: !mu.tensor<[M, K], bf16>, %z: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[N, K], bf16>, %u: !mu.tensor<[N, K], bf16>) -> !mu.tensor<[M, N], bf16> attributes {arg_names = ["x", "z", "g", "u"], result_names = ["out"], dims = ["M", "N", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, N], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    mu.yield %2 : !mu.tensor<[M, N], bf16>
  }
  %3 = mu.stage "out" contraction : !mu.tensor<[M, N], bf16> {
    %4 = mu.transpose %u : (!mu.tensor<[N, K], bf16>) -> !mu.tensor<[K, N], bf16, col_major>
    %5 = mu.matmul bf16 %z, %4 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, N], bf16, col_major>) -> !mu.tensor<[M, N], bf16>
    %6 = mu.mul %0, %5 : (!mu.tensor<[M, N], bf16>, !mu.tensor<[M, N], bf16>) -> !mu.tensor<[M, N], bf16>
    mu.yield %6 : !mu.tensor<[M, N], bf16>
  }
  mu.return %3 : !mu.tensor<[M, N], bf16>
}

// -----

// A product that the other one meets transposed is no partner,

// CHECK-LABEL: mu.kernel @turned(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction :
// CHECK: = mu.stage "out" contraction :
mu.kernel @turned(%x: !mu.tensor<[M, K], bf16>, %g: !mu.tensor<[M, K], bf16>, %u: !mu.tensor<[M, K], bf16>) -> !mu.tensor<[M, M], bf16> attributes {arg_names = ["x", "g", "u"], result_names = ["out"], dims = ["M", "K"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, M], bf16> {
    %1 = mu.transpose %g : (!mu.tensor<[M, K], bf16>) -> !mu.tensor<[K, M], bf16, col_major>
    %2 = mu.matmul bf16 %x, %1 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, M], bf16, col_major>) -> !mu.tensor<[M, M], bf16>
    %3 = mu.tanh %2 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %3 : !mu.tensor<[M, M], bf16>
  }
  %4 = mu.stage "out" contraction : !mu.tensor<[M, M], bf16> {
    %5 = mu.transpose %u : (!mu.tensor<[M, K], bf16>) -> !mu.tensor<[K, M], bf16, col_major>
    %6 = mu.matmul bf16 %x, %5 : (!mu.tensor<[M, K], bf16>, !mu.tensor<[K, M], bf16, col_major>) -> !mu.tensor<[M, M], bf16>
    %7 = mu.transpose %0 : (!mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16, col_major>
    %8 = mu.mul %7, %6 : (!mu.tensor<[M, M], bf16, col_major>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %8 : !mu.tensor<[M, M], bf16>
  }
  mu.return %4 : !mu.tensor<[M, M], bf16>
}

// -----

// nor is one that the other multiplies with.

// CHECK-LABEL: mu.kernel @operand(
// CHECK-NEXT: %[[V0:[0-9]+]] = mu.stage "s0" contraction :
// CHECK: = mu.stage "out" contraction :
mu.kernel @operand(%x: !mu.tensor<[M, M], bf16>, %g: !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16> attributes {arg_names = ["x", "g"], result_names = ["out"], dims = ["M"]} {
  %0 = mu.stage "s0" contraction : !mu.tensor<[M, M], bf16> {
    %h = mu.matmul bf16 %x, %g : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %h : !mu.tensor<[M, M], bf16>
  }
  %1 = mu.stage "out" contraction : !mu.tensor<[M, M], bf16> {
    %2 = mu.matmul bf16 %x, %0 : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    %3 = mu.mul %0, %2 : (!mu.tensor<[M, M], bf16>, !mu.tensor<[M, M], bf16>) -> !mu.tensor<[M, M], bf16>
    mu.yield %3 : !mu.tensor<[M, M], bf16>
  }
  mu.return %1 : !mu.tensor<[M, M], bf16>
}
