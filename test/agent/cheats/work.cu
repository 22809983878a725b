// relu(x @ w.T + b): a block of 16 x 16 results, for the samples beside this file.
extern "C" __global__ void linear_relu_kernel(
        const float *x, const float *w, const float *b, float *y, int m, int n, int k) {
    __shared__ float left[16][17], right[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < k; start += 16) {
        int deep = start + threadIdx.x, other = blockIdx.x * 16 + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && deep < k ? x[row * k + deep] : 0;
        right[threadIdx.y][threadIdx.x] = other < n && deep < k ? w[other * k + deep] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[threadIdx.x][i];
        __syncthreads();
    }
    if (row < m && column < n) y[row * n + column] = fmaxf(sum + b[column], 0);
}

extern "C" void linear_relu(
        const float *x, const float *w, const float *b, float *y, int m, int n, int k, cudaStream_t stream) {
    dim3 blocks((n + 15) / 16, (m + 15) / 16), threads(16, 16);
    linear_relu_kernel<<<blocks, threads, 0, stream>>>(x, w, b, y, m, n, k);
}
