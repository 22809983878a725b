// CUTLASS kernels: the epilogue nodes that CUTLASS has in another form, and the launch. The header of the kernel itself,
// cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized*.hpp, comes after this one.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder_decl.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/collective/builders/sm90_gmma_builder.inl>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>
#include <cutlass/gemm/kernel/tile_scheduler.hpp>
#include <mucc/launch.h>
#include <mucc/math.cuh>

#include <algorithm>
#include <climits>

namespace mucc::gemm {

namespace fusion = cutlass::epilogue::fusion;

inline constexpr auto kNearest = cutlass::FloatRoundStyle::round_to_nearest;

// A number of stages. The builder of mainloops with A in registers reads the number from `bytes`.
template <int N>
struct Stages : cutlass::gemm::collective::StageCount<N> {
  static constexpr int bytes = N;
};

// ---- pointwise work -------------------------------------------------------------------------------------

// Applies `Body::apply`, a function of floats, to each element of the fragments that a visitor hands over.
template <class Body>
struct Each {
  template <class Fragment>
  struct Function {
    template <class... Inputs>
    CUTLASS_DEVICE Fragment operator()(Inputs const&... inputs) const {
      Fragment result;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Fragment::kElements; ++i) result[i] = Body::apply(inputs[i]...);
      return result;
    }
  };
};
template <class Body, class Output = float>
using Compute = fusion::Sm90Compute<Each<Body>::template Function, Output, float, kNearest>;

struct Identity {
  static MUCC_DEVICE float apply(float x) { return x; }
};

// ---- further matrices -----------------------------------------------------------------------------------

// How an epilogue cuts its tile up, and how many pieces it has under way.
template <class TileShape, class ElementC, class ElementD, class Schedule>
using Tiles = cutlass::epilogue::collective::detail::EpilogueDescriptor<
    TileShape, cutlass::epilogue::collective::EpilogueTileAuto, ElementC, ElementD, Schedule>;

template <class Tiles, class Element, class Stride,
          class D = cutlass::epilogue::collective::detail::AuxLoadDescriptor<Tiles, Stride, Element>>
using AuxLoad = fusion::Sm90AuxLoad<D::Stages, typename D::EpilogueTile, Element, typename D::Stride,
                                    typename D::SmemLayoutAtom, typename D::CopyOpS2R>;

template <class Tiles, class Element, class Stride,
          class D = cutlass::epilogue::collective::detail::AuxStoreDescriptor<Tiles, Stride, Element>>
using AuxStore = fusion::Sm90AuxStore<D::Stages, typename D::EpilogueTile, Element, kNearest, typename D::Stride,
                                      typename D::SmemLayoutAtom, typename D::CopyOpR2S>;

// ---- reductions -----------------------------------------------------------------------------------------

// The steps of a reduction as CUTLASS's nodes call them: per element, between lanes, on memory.
template <class Reduction, class T>
struct Atomic {
  CUTLASS_DEVICE void operator()(T* p, T x) const { Reduction::atomic(p, x); }
};
template <class Reduction>
struct Steps {
  template <class T>
  struct Element {
    CUTLASS_DEVICE T operator()(T const& a, T const& b) const { return Reduction::combine(a, Reduction::first(b)); }
  };
  template <class Fragment>
  struct Lanes {
    CUTLASS_DEVICE Fragment operator()(Fragment const& a, Fragment const& b) const {
      Fragment result;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Fragment::kElements; ++i) result[i] = Reduction::combine(a[i], b[i]);
      return result;
    }
  };
  template <class T>
  using Memory = Atomic<Reduction, T>;
};

}  // namespace mucc::gemm

namespace cutlass {
template <class Reduction, class T>
struct is_atomic<mucc::gemm::Atomic<Reduction, T>> : platform::true_type {};
}  // namespace cutlass

namespace mucc::gemm {

// A reduction node that expects its output to be filled with the identity already: CUTLASS's own filling links
// against the CUDA driver.
template <class Node>
struct Filled : Node {
  using Node::Node;
  template <class ProblemShape>
  static cutlass::Status initialize_workspace(ProblemShape const&, typename Node::Arguments const&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }
};

// Over M, into a vector along N.
template <class Reduction, class TileShape, class Stride>
using RowReduction =
    Filled<fusion::Sm90RowReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Lanes,
                                    Steps<Reduction>::template Memory, 0, TileShape, float, float, kNearest, Stride>>;

// Over N, into a vector along M.
template <class Reduction, class TileShape, class Stride>
using ColReduction =
    Filled<fusion::Sm90ColReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Lanes,
                                    Steps<Reduction>::template Memory, 0, TileShape, float, float, kNearest, Stride>>;

// Over M and N, into one number. CUTLASS's node has every thread go to memory; here a warp combines first.
template <class Reduction, class Stride>
struct ScalarReduction
    : Filled<fusion::Sm90ScalarReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Memory, float,
                                         float, kNearest, Stride>> {
  using Base = fusion::Sm90ScalarReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Memory,
                                           float, float, kNearest, Stride>;
  using Filled<Base>::Filled;

  template <class Coordinates, class Residue>
  struct Callbacks : Base::template ConsumerStoreCallbacks<Coordinates, Residue> {
    using Parent = typename Base::template ConsumerStoreCallbacks<Coordinates, Residue>;
    using Parent::Parent;
    CUTLASS_DEVICE void end() {
      CUTLASS_PRAGMA_UNROLL
      for (int lanes = 16; lanes > 0; lanes /= 2)
        this->scalar = Reduction::combine(this->scalar, __shfl_xor_sync(~0u, this->scalar, lanes));
      if (cutlass::canonical_lane_idx() == 0) Parent::end();
    }
  };

  template <bool ReferenceSrc, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(fusion::detail::ConsumerStoreArgs<Args...> const& args) {
    return Callbacks<decltype(args.tCcD), decltype(args.residue_tCcD)>(cute::get<3>(args.tile_coord_mnkl), args.tCcD,
                                                                       args.residue_tCcD, this->params);
  }
};

// ---- launch ---------------------------------------------------------------------------------------------

// What a launch needs, remembered for calls that repeat.
template <class Kernel>
struct Prepared {
  typename Kernel::Params params;
  typename Kernel::Arguments arguments;
  dim3 grid;
};

// A kernel as one device knows it.
struct Loaded {
  CUfunction function;
  int clusters;  // that run at once
};

// Loads the kernel, grants it its shared memory and counts its clusters; all once per device. Null and an error where
// it fails. Threads may do it at the same time: they find the same.
template <class Kernel>
Loaded const* load(int device) {
  constexpr int kDevices = 64;
  static std::atomic<Loaded const*> known[kDevices];
  if (device >= kDevices) return fail("MU6018", "device %d: at most %d are known", device, kDevices), nullptr;
  if (auto* ready = known[device].load(std::memory_order_acquire)) return ready;
  DeviceScope scope;
  if (scope.enter(device)) return nullptr;
  auto* kernel = cutlass::device_kernel<Kernel>;
  if (check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::SharedStorageSize),
                 "reserving shared memory"))
    return nullptr;
  using Cluster = typename Kernel::DispatchPolicy::ClusterShape;
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), cute::size<2>(Cluster{})};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), 1);
  config.blockDim = Kernel::get_block_shape();
  config.dynamicSmemBytes = Kernel::SharedStorageSize;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  if (check_cuda(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "counting the clusters that fit"))
    return nullptr;
  if (clusters < 1) return fail("MU6010", "a cluster of this kernel does not fit the device"), nullptr;
  cudaFunction_t function = nullptr;
  if (check_cuda(cudaGetFuncBySymbol(&function, reinterpret_cast<void const*>(kernel)), "loading the kernel"))
    return nullptr;
  auto* ready = new Loaded{function, clusters};  // kept: calls may come while the process ends
  known[device].store(ready, std::memory_order_release);
  return ready;
}

// Launches through the driver: the runtime's cudaLaunchKernelExC takes 1.5 us longer for these kernels.
template <class Kernel>
int start(Loaded const& loaded, dim3 grid, cudaStream_t stream, typename Kernel::Params const& params,
          char const* stage) {
  using Launch = CUresult(CUlaunchConfig const*, CUfunction, void**, void**);
  static std::atomic<void*> known{nullptr};
  auto* launch_kernel = driver_function<Launch>("cuLaunchKernelEx", 11060, known);
  if (!launch_kernel) return 1;
  using Cluster = typename Kernel::DispatchPolicy::ClusterShape;
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {cute::size<0>(Cluster{}), cute::size<1>(Cluster{}), cute::size<2>(Cluster{})};
  dim3 const block = Kernel::get_block_shape();
  CUlaunchConfig config{};
  config.gridDimX = grid.x, config.gridDimY = grid.y, config.gridDimZ = grid.z;
  config.blockDimX = block.x, config.blockDimY = block.y, config.blockDimZ = block.z;
  config.sharedMemBytes = Kernel::SharedStorageSize;
  config.hStream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  void* parameters[] = {const_cast<typename Kernel::Params*>(&params)};
  CUresult const result = launch_kernel(&config, loaded.function, parameters, nullptr);
  if (result == CUDA_SUCCESS) return 0;
  return fail("MU6016", "stage %s: the CUDA driver refused the launch, error %d", stage, int(result));
}

// The device as the tile scheduler sees it.
template <class Kernel>
int hardware(Call const& c, cutlass::KernelHardwareInfo& info) {
  Loaded const* loaded = load<Kernel>(c.device);
  if (!loaded) return 1;
  info.device_id = c.device;
  info.sm_count = c.sm_count;
  info.max_active_clusters = loaded->clusters;
  return 0;
}

// An extent of the problem, the product of those of some axes, as CUTLASS counts it.
inline int extent(Call const& c, char const* stage, char const* name, int64_t value, int& out) {
  if (value > INT_MAX)
    return fail("MU6007", "%s, stage %s: %s = %lld is above 2147483647", c.kernel->name, stage, name,
                static_cast<long long>(value));
  out = int(value);
  return 0;
}

// cute reports a refused tensor map on stderr only; one that was made is never all zeros.
inline bool is_made(cute::TmaDescriptor const* map) {
  static constexpr char none[sizeof(cute::TmaDescriptor)] = {};
  return std::memcmp(map, none, sizeof(none)) != 0;
}
template <class Kernel>
bool maps_are_made(typename Kernel::Params const& p) {
  bool good = is_made(p.mainloop.tma_load_a.get_tma_descriptor()) && is_made(p.mainloop.tma_load_b.get_tma_descriptor());
  if constexpr (!cute::is_void_v<typename Kernel::ElementC>)
    good = good && is_made(p.epilogue.tma_load_c.get_tma_descriptor());
  if constexpr (!cute::is_void_v<typename Kernel::ElementD>)
    good = good && is_made(p.epilogue.tma_store_d.get_tma_descriptor());
  return good;
}

// The workspace that CUTLASS wants for itself, in bytes; negative with an error set.
template <class Kernel, class Describe>
int64_t scratch(Call const& c, Describe const& describe) {
  typename Kernel::Arguments arguments;
  if (describe(c, arguments)) return -1;
  return int64_t(Kernel::get_workspace_size(arguments));
}

// Launches a kernel. `describe(c, arguments)` fills in what the call says; a call that repeats one of the last few
// skips it, and the making of tensor maps with it.
template <class Kernel, class Describe>
int launch(Call const& c, char const* stage, Memo<Prepared<Kernel>>& memo, void* workspace, Describe const& describe) {
  auto const* ready = memo.find(c);
  if (!ready) {
    Prepared<Kernel> made;
    if (describe(c, made.arguments)) return 1;
    if (!Kernel::can_implement(made.arguments))
      return fail("MU6010", "%s, stage %s: CUTLASS cannot run this problem", c.kernel->name, stage);
    made.params = Kernel::to_underlying_arguments(made.arguments, workspace);
    if (!maps_are_made<Kernel>(made.params))
      return fail("MU6010", "%s, stage %s: the driver refused a tensor map", c.kernel->name, stage);
    made.grid = Kernel::get_grid_shape(made.params);
    ready = memo.store(c, made);
  }
  if (Kernel::initialize_workspace(ready->arguments, workspace, stream_of(c)) != cutlass::Status::kSuccess)
    return check_cuda(cudaErrorUnknown, "clearing the workspace");
  Loaded const* loaded = load<Kernel>(c.device);
  return loaded ? start<Kernel>(*loaded, ready->grid, stream_of(c), ready->params, stage) : 1;
}

}  // namespace mucc::gemm
