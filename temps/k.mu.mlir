builtin.module {
  mu.kernel @k(%x: !mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], f32> attributes {arg_names = ["x"], result_names = ["out"], dims = ["M", "N"]} {
    %0 = mu.relu %x : (!mu.tensor<[M, N], f32>) -> !mu.tensor<[M, N], f32>
    mu.return %0 : !mu.tensor<[M, N], f32>
  }
}
