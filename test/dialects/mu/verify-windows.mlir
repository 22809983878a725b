// RUN: mucc-opt %s --allow-unregistered-dialect --verify-diagnostics --parsing-diagnostics --split-input-file | FileCheck %s --match-full-lines

// CHECK: weights f32[8, 2, 3] of conv in 1 groups take 2 channels, but f32[N, 4, 9] has 4
%x, %w = "test.op"() : () -> (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 2, 3], f32>)
%0 = mu.conv tf32 %x, %w stride [1] pad [0] dilation [1] groups 1 : i64 : (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 2, 3], f32>) -> !mu.tensor<[N, 8, 7], f32>

// -----

// CHECK: mu.conv: 'stride' needs 1 numbers of at least 1
%x, %w = "test.op"() : () -> (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 4, 3], f32>)
%0 = mu.conv tf32 %x, %w stride [0] pad [0] dilation [1] groups 1 : i64 : (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 4, 3], f32>) -> !mu.tensor<[N, 8, 7], f32>

// -----

// CHECK: mu.conv: operands do not compute in bf16
%x, %w = "test.op"() : () -> (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 4, 3], f32>)
%0 = mu.conv bf16 %x, %w stride [1] pad [0] dilation [1] groups 1 : i64 : (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 4, 3], f32>) -> !mu.tensor<[N, 8, 7], f32>

// -----

// CHECK: mu.conv: result type f32[N, 8, 9] should be f32[N, 8, 7]
%x, %w = "test.op"() : () -> (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 4, 3], f32>)
%0 = mu.conv tf32 %x, %w stride [1] pad [0] dilation [1] groups 1 : i64 : (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[8, 4, 3], f32>) -> !mu.tensor<[N, 8, 9], f32>

// -----

// CHECK: mu.conv_transpose: 'output_pad' needs a number for each spatial axis
%x, %w = "test.op"() : () -> (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[4, 8, 3], f32>)
%0 = mu.conv_transpose tf32 %x, %w stride [1] pad [0] output_pad [] dilation [1] groups 1 : i64 : (!mu.tensor<[N, 4, 9], f32>, !mu.tensor<[4, 8, 3], f32>) -> !mu.tensor<[N, 8, 11], f32>

// -----

// CHECK: mu.pool: a mean is taken of neighbours, without dilation
%x = "test.op"() : () -> !mu.tensor<[N, 4, 9], f32>
%0 = mu.pool avg %x size [2] stride [2] pad [0] dilation [2] : (!mu.tensor<[N, 4, 9], f32>) -> !mu.tensor<[N, 4, 4], f32>

// -----

// CHECK: mu.pool: a divisor is that of a mean, and at least 1
%x = "test.op"() : () -> !mu.tensor<[N, 4, 9], f32>
%0 = mu.pool max %x size [2] stride [2] pad [0] dilation [1] divisor 2 : i64 : (!mu.tensor<[N, 4, 9], f32>) -> !mu.tensor<[N, 4, 4], f32>

// -----

// CHECK: a window of 12 does not fit axis 2 of f32[N, 4, 9], padded by 0
%x = "test.op"() : () -> !mu.tensor<[N, 4, 9], f32>
%0 = mu.pool max %x size [12] stride [2] pad [0] dilation [1] : (!mu.tensor<[N, 4, 9], f32>) -> !mu.tensor<[N, 4, 4], f32>

// -----

// CHECK: mu.softmax: the axis must be counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.softmax %x axis -1 : i64 : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 4], bf16>

// -----

// CHECK: mu.sort: result type bf16[M] should be s32[M]
%x = "test.op"() : () -> !mu.tensor<[M], bf16>
%0 = mu.sort positions %x axis 0 : i64 : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>

// -----

// CHECK: mu.scan: result type f32[M] should be bf16[M]
%x = "test.op"() : () -> !mu.tensor<[M], bf16>
%0 = mu.scan sum %x axis 0 : i64 : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], f32>

// -----

// CHECK: mu.normalize: axes must be sorted and counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.normalize standard %x axes [1, 0] eps 0.1 : f64 : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 4], bf16>

// -----

// CHECK: mu.partial_moments: the result is three f32 tensors of rows and cells
%x = "test.op"() : () -> !mu.tensor<[N, 12, 5, 4], bf16>
%0 = mu.partial_moments %x channel 1 : i64 : (!mu.tensor<[N, 12, 5, 4], bf16>) -> !mu.tensor<[2, N, 12, 2], f32>
