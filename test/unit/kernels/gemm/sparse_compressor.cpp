// Packs a matrix with CUTLASS's own compressor, run on the host: reads rows x columns elements from stdin, writes the
// stored values and then the metadata. CASES are types, tile K of the kernel that would read them, and sizes; the first
// argument is the number of one.
#include <cute/tensor.hpp>
#include <cutlass/cluster_launch.hpp>
#include <cutlass/cuda_host_adapter.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/gemm/collective/builders/sm90_common.inl>
#include <cutlass/gemm/collective/builders/sm90_sparse_config.inl>
#include <cutlass/kernel_hardware_info.h>
#include <cutlass/numeric_types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {
struct Index {
  int x = 0, y = 0, z = 0;
} grid_size, block_size, block_index, thread_index;
void wait() {}
}  // namespace

// What nvcc knows of itself, the shim for g++ declares only.
#define gridDim grid_size
#define blockDim block_size
#define blockIdx block_index
#define threadIdx thread_index
#define __syncthreads wait
#define private public
#include <cutlass/transform/kernel/sm90_sparse_gemm_compressor.hpp>
#undef private

template <class Element, int kTileK, int kRows, int kColumns>
int pack() {
  using Raw = cute::conditional_t<cute::is_same_v<Element, float>, cutlass::tfloat32_t, Element>;
  using Sum = cute::conditional_t<cute::is_same_v<Element, int8_t>, int32_t, float>;
  using Tile = cute::Shape<cute::_64, cute::_64, cute::Int<kTileK>>;
  using Traits = cute::MMA_Traits<decltype(cute::GMMA::ss_op_selector_sparse<Raw, Raw, Sum, Tile>())>;
  using Config = cutlass::Sm90GemmSparseConfig<typename Traits::ValTypeA, cute::GMMA::Major::K, typename Traits::ValTypeE,
                                               decltype(cute::min(cute::Int<kTileK>{}, cute::_128{}))>;
  using Problem = cute::Shape<int, int, int, int>;
  using Compressor =
      cutlass::transform::kernel::SM90StructuredSparseCompressor<Problem, Element, cutlass::layout::RowMajor, Config>;

  Problem const problem{kRows, 64, kColumns, 1};
  std::vector<Element> dense(static_cast<size_t>(kRows) * kColumns);
  if (std::fread(dense.data(), sizeof(Element), dense.size(), stdin) != dense.size()) return 1;
  size_t const metadata = cute::cosize(Config::fill_layoutE(problem)) / typename Compressor::ElementEMmaSparsity{};
  std::vector<Element> values(cute::cosize(Config::fill_layoutA(problem)) / 2);
  std::vector<unsigned char> packed(metadata);
  typename Compressor::Params params{};
  params.problem_shape = problem;
  params.transform = {dense.data(), {int64_t(kColumns), {}, {}}, values.data(), packed.data()};
  dim3 const grid = Compressor::get_grid_shape(params);
  gridDim = {int(grid.x), int(grid.y), 1}, blockDim = {Compressor::MaxThreadsPerBlock, 1, 1};
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y) {
      std::vector<unsigned char> shared(Compressor::SharedStorageSize);
      // Threads run one after another, and nothing waits for others: what one of them needs is there the next time.
      for (int round = 0; round < 3; ++round)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) Compressor::run(params, shared.data());
    }
  std::fwrite(values.data(), sizeof(Element), values.size(), stdout);
  std::fwrite(packed.data(), 1, packed.size(), stdout);
  return 0;
}

int main(int, char** arguments) {
  int (*const cases[])() = {CASES};
  return cases[std::atoi(arguments[1])]();
}
