builtin.module {
  mu.kernel @k(%x: !mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], f32> attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
    %0 = mu.stage "out" map : !mu.tensor<[M, N], f32> {
      %1 = mu.constant 0.000000e+00 : f64
      %2 = mu.max %x, %1 : (!mu.tensor<[M, N], f32>, f32) -> !mu.tensor<[M, N], f32>
      mu.yield %2 : !mu.tensor<[M, N], f32>
    }
    mu.return %0 : !mu.tensor<[M, N], f32>
  }
}
