// RUN: mucc-opt %s --allow-unregistered-dialect --verify-diagnostics --parsing-diagnostics --split-input-file | FileCheck %s --match-full-lines

// CHECK: bf16[M, 4] cannot be reshaped to [M, 5]: there are not as many elements
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.reshape %x : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 5], bf16>

// -----

// CHECK: mu.reshape: result type f32[4, M] should be bf16[4, M]
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.reshape %x : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[4, M], f32>

// -----

// CHECK: mu.permute: axes must be counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.permute %x order [-1, 0] : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[4, M], bf16>

// -----

// CHECK: axis given twice in (1, 1)
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.permute %x order [1, 1] : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[4, 4], bf16>

// -----

// CHECK: slice 2:9:1 does not fit axis 1 of bf16[M, 4]
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.slice %x axis 1 : i64 bounds [#builtin.int<2>, #builtin.int<9>] step 1 : i64 : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 7], bf16>

// -----

// CHECK: mu.slice: an axis from the front, start and stop
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.slice %x axis 1 : i64 bounds [#builtin.int<2>] step 1 : i64 : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 1], bf16>

// -----

// CHECK: bf16[M, 4] and bf16[4, M] cannot be concatenated along axis 1
%x, %y = "test.op"() : () -> (!mu.tensor<[M, 4], bf16>, !mu.tensor<[4, M], bf16>)
%0 = mu.concat %x, %y axis 1 : i64 : (!mu.tensor<[M, 4], bf16>, !mu.tensor<[4, M], bf16>) -> !mu.tensor<[M, 8], bf16>

// -----

// CHECK: mu.concat: result type bf16[M, 4] should be bf16[M+8, 4]
%x, %y = "test.op"() : () -> (!mu.tensor<[M, 4], bf16>, !mu.tensor<[8, 4], bf16>)
%0 = mu.concat %x, %y axis 0 : i64 : (!mu.tensor<[M, 4], bf16>, !mu.tensor<[8, 4], bf16>) -> !mu.tensor<[M, 4], bf16>

// -----

// CHECK: 4 and 0 elements cannot pad axis 1 of bf16[M, 4] by reflect
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.pad reflect %x low [0, 4] high [0, 0] value 0.0 : f64 : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 8], bf16>

// -----

// CHECK: mu.flip: axes must be sorted and counted from the front
%x = "test.op"() : () -> !mu.tensor<[M, 4], bf16>
%0 = mu.flip %x axes [1, 0] : (!mu.tensor<[M, 4], bf16>) -> !mu.tensor<[M, 4], bf16>

// -----

// CHECK: a triangle needs a tensor with at least 2 axes, got bf16[M]
%x = "test.op"() : () -> !mu.tensor<[M], bf16>
%0 = mu.triangle lower %x diagonal 0 : i64 : (!mu.tensor<[M], bf16>) -> !mu.tensor<[M], bf16>

// -----

// CHECK: mu.iota: result type f32[M] should be s32[M]
%0 = mu.iota axis 0 : i64 : !mu.tensor<[M], f32>

// -----

// CHECK: mu.reduce: result type f32[] should be bool[]
%x = "test.op"() : () -> !mu.tensor<[M], i1>
%0 = mu.reduce any %x axes [0] : (!mu.tensor<[M], i1>) -> !mu.tensor<[], f32>

// -----

// CHECK: mu.arg_reduce: result type f32[] should be s32[]
%x = "test.op"() : () -> !mu.tensor<[M], f32>
%0 = mu.arg_reduce argmax %x axis 0 : i64 : (!mu.tensor<[M], f32>) -> !mu.tensor<[], f32>
