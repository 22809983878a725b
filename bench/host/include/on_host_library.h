// The library that a program becomes: its entries, its launches, and stand-ins for contractions.
#pragma once

#include <mucc/check.h>
#include <mucc/problem.h>
#include <mucc/program.h>
#include <mucc/tensor_map.h>

#include "on_host_matrices.h"

#include <type_traits>
#include <utility>

namespace on_host {

inline int sm_count = 0, sm_shared = 228 << 10;  // that plans are made for
inline int launches = 0;                 // so far

// ---- kernels and contractions -----------------------------------------------------------------------------

// Lists that are searched from the start: g++ would compile maps by name anew with each program, in a fifth of its time.
using Entry = void (*)(void**);
// Runs kernels instead of the C++ that is compiled here: null, or what went wrong.
using Runner = char const* (*)(char const* name, unsigned const* grid, int threads, int together, int shared, void** parameters);
inline Runner runner = nullptr;
struct Registered {
  char const* name;
  Entry entry;
  bool ordered;  // blocks wait for those of smaller numbers
};
inline std::vector<Registered> entries;
inline Registered const* entry_of(char const* name) {
  for (Registered const& known : entries)
    if (!std::strcmp(known.name, name)) return &known;
  std::fprintf(stderr, "on_host: no kernel %s\n", name);
  std::abort();
}

// Stand-ins by kernel and stage, or by what describes the problem: the entries of a kernel have stages of the same names.
using Contraction = char const* (*)(mucc::gemm::Problem const&);
using Describe = int (*)(mucc::Call const&, mucc::gemm::Problem&);
struct StandIn {
  char const *kernel, *stage;
  Describe describe;
  Contraction run;
};
inline std::vector<StandIn> contractions;
inline Contraction contraction_of(char const* kernel, char const* stage, Describe describe) {
  for (StandIn const& known : contractions)
    if (known.describe ? known.describe == describe : !std::strcmp(known.kernel, kernel) && !std::strcmp(known.stage, stage))
      return known.run;
  std::fprintf(stderr, "on_host: no contraction %s of %s\n", stage, kernel);
  std::abort();
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** p, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<A>*>(p[I])...);
}
template <class... A>
void call(void (*kernel)(A...), void** p) {
  call(kernel, p, std::index_sequence_for<A...>{});
}

inline int contract(mucc::Call const& c, mucc::gemm::Stage const& stage, void*) {
  mucc::gemm::Problem problem;
  if (stage.describe(c, problem)) return 1;
  char const* wrong = contraction_of(c.kernel->name, stage.name, stage.describe)(problem);
  return wrong ? mucc::fail("MU9001", "%s", wrong) : 0;
}
inline int64_t no_scratch(mucc::Call const&, mucc::gemm::Stage const&) { return 0; }

// What TMA asks of a matrix that the kernel maps: whole granules between its rows, even of one row.
inline bool maps(mucc::gemm::Operand const& m, int unit, int bytes, bool batched) {
  if (reinterpret_cast<uintptr_t>(m.data) % 16) return false;
  for (int i = 0; i < (batched ? 3 : 2); ++i)
    if (i != unit && m.stride[i] * bytes % 16) return false;
  return true;
}

// Whether a column is in a range, which an operand of no tensor gives as its first strides.
inline bool in_range(mucc::gemm::Operand const& range, int64_t column) {
  return range.stride[0] <= column && column < range.stride[0] + range.stride[1];
}

}  // namespace on_host

namespace mucc {

inline int make_map(on_host::Map& map, void const* data, Mapped element, int rank, int64_t const* extents,
                    int64_t const* strides, int const* box, bool swizzles) {
  map = {static_cast<char const*>(data), int8_t(rank), int8_t(bytes_of(element)), swizzles, {}, {}, {}, {}, {}, {}};
  for (int a = 0; a < rank; ++a) {
    map.extents[a] = uint32_t(extents[a]), map.strides[a] = strides[a];
    if (extents[a] < 1 || (a > 0 && (strides[a] <= 0 || strides[a] * map.size % 16)))
      return fail("MU9001", "TMA cannot map axis %d", a);
    if (box[a] < 1 || box[a] > 256) return fail("MU9001", "TMA cannot copy %d elements along axis %d", box[a], a);
    map.box_less_one[a] = uint8_t(box[a] - 1);
  }
  if (reinterpret_cast<uintptr_t>(data) % 16) return fail("MU9001", "TMA cannot map the address");
  if (box[0] * map.size % 16) return fail("MU9001", "TMA cannot copy rows of %d elements", box[0]);
  if (swizzles && box[0] * map.size > 128) return fail("MU9001", "TMA cannot swizzle rows of %d elements", box[0]);
  return 0;
}
inline int map_boxes(Call const&, void* to, void const* data, Mapped element, int rank, int64_t const* extents,
                     int64_t const* strides, int const* box) {
  on_host::Map map;
  if (make_map(map, data, element, rank, extents, strides, box, false)) return 1;
  static_assert(sizeof(map) <= 128);
  std::memcpy(to, &map, sizeof(map));
  return 0;
}
inline int map_tiles(Call const&, void* to, void const* data, Mapped element, int rank, int64_t const* extents,
                     int64_t const* strides, int columns, int rows) {
  on_host::Map map;
  int const box[5] = {columns, rows, 1, 1, 1};
  if (make_map(map, data, element, rank, extents, strides, box, true)) return 1;
  std::memcpy(to, &map, sizeof(map));
  return 0;
}
inline int map_positions(Call const&, void* to, void const* data, Mapped element, int rank, int64_t const* extents,
                         int64_t const* strides, int const* lower, int const* upper, int const* steps, int columns,
                         int rows) {
  on_host::Map map;
  int const box[5] = {columns, rows, 1, 1, 1};
  if (make_map(map, data, element, rank, extents, strides, box, true)) return 1;
  int const axes = rank - 2, most = 1 << (16 / axes - 1);
  for (int a = 0; a < axes; ++a) {
    map.lower[a] = int16_t(lower[a]), map.upper[a] = int16_t(upper[a]), map.steps[a] = int16_t(steps[a]);
    bool fits = lower[a] >= -most && lower[a] < most && upper[a] >= -most && upper[a] < most;
    fits = fits && steps[a] >= 1 && steps[a] <= 8 && lower[a] <= extents[1 + a] - 1 + upper[a];
    if (!fits) return fail("MU9001", "TMA cannot walk along axis %d", a);
  }
  std::memcpy(to, &map, sizeof(map));
  return 0;
}

// The order in which blocks run: that of the hardware, or another one with a seed where none waits for those before it.
inline std::vector<unsigned> order_of_blocks(unsigned count, unsigned together, bool ordered) {
  bool const any = on_host::seed && !ordered;
  std::vector<unsigned> order;
  for (unsigned x = 0; x < count; x += together) order.push_back(x);
  for (size_t i = order.size(); any && i > 1; --i)
    std::swap(order[i - 1], order[on_host::drawn(uint32_t(i))]);
  return order;
}

inline int start(Call const&, char const*, Code& code, Geometry const& g, void** parameters) {
  if (on_host::runner) {
    ++on_host::launches;
    unsigned const blocks = g.together ? g.grid[0] : g.cluster[0] ? g.cluster[0] : 1;
    char const* wrong = on_host::runner(code.name, g.grid, int(g.block), int(blocks), int(g.shared), parameters);
    return wrong ? fail("MU9001", "%s", wrong) : 0;
  }
  on_host::Registered const* const kernel = on_host::entry_of(code.name);
  on_host::body = kernel->entry;
  on_host::given = parameters;
  on_host::name_launch(code.name, __builtin_frame_address(0));
  ++on_host::launches;
  gridDim = {g.grid[0], g.grid[1], g.grid[2]};
  unsigned const together = g.together ? g.grid[0] : g.cluster[0] ? g.cluster[0] : 1;
  if (together > on_host::kTogether || together * g.block > on_host::kMost)
    return fail("MU9001", "%u blocks cannot run together", together);
  for (unsigned y = 0; y < g.grid[1]; ++y)
    for (unsigned x : order_of_blocks(g.grid[0], together, kernel->ordered)) {
      blockIdx = {x, y, 0};
      if (!on_host::run_blocks(int(g.block), int(together), g.shared))
        return fail("MU9001", "threads of %s wait for each other forever", code.name);
    }
  return 0;
}

inline int fill(Call const&, float* data, float value, int64_t count, int64_t rows, int64_t pitch) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < count; ++i) data[r * pitch + i] = value;
  return 0;
}

// Indices are drawn to fit.
inline int check_ends(Call const&, int, int64_t) { return 0; }
inline int check_rows(Call const&, int, int64_t, bool) { return 0; }

inline int check_c(Call& c, const MuccTensor* args, int n) {
  const Kernel& k = *c.kernel;
  c.sm_count = on_host::sm_count, c.sm_shared = on_host::sm_shared;
  if (n != k.args.size) return fail_count(k, n);
  start_dims(c);
  int first = -1;
  for (int i = 0; i < n; ++i)
    if (is_tensor(k.args[i]) ? check_tensor(c, i, args[i], first) : check_scalar(c, i, args[i])) return 1;
  return check_dims(c);
}

// What kernels may access: each argument from its first element to its last, and the workspace.
inline void add_regions(MuccTensor const* args, int n, void const* workspace, size_t bytes) {
  for (int i = 0; i < n; ++i) {
    MuccTensor const& t = args[i];
    if (t.device.type != MUCC_DEVICE_CUDA) continue;
    int64_t last = 0, dense = 1;
    for (int a = t.ndim - 1; a >= 0; dense *= t.shape[a--]) last += (t.shape[a] - 1) * (t.strides ? t.strides[a] : dense);
    on_host::add_region(static_cast<char const*>(t.data) + t.byte_offset, size_t(last + 1) * t.dtype.bits / 8, i);
  }
  on_host::add_region(workspace, bytes, -1);
}

inline int call_c(const Kernel& k, const MuccTensor* args, int n, void*, size_t, void*) noexcept {
  Call c(k);
  if (check_c(c, args, n)) return 1;
  int64_t const bytes = (k.workspace(c) + 511) / 256 * 256;
  std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(256, bytes), std::free);
  std::memset(memory.get(), 0xFF, bytes);
  c.workspace = memory.get();
  c.workspace_bytes = size_t(bytes);
  add_regions(args, n, memory.get(), size_t(bytes));
  int const failed = k.launch(c);
  on_host::drop_regions();
  return failed;
}
inline int64_t workspace_c(const Kernel&, const MuccTensor*, int) noexcept { return 0; }
inline int call_ffi(const Kernel&, const ffi::Any*, int, ffi::Any*) noexcept { return 1; }
inline int workspace_ffi(const Kernel&, const ffi::Any*, int, ffi::Any*) noexcept { return 1; }
inline int entry_ffi(const Kernel&, Entry, const ffi::Any*, int, ffi::Any*) noexcept { return 1; }
inline int entry_c(const Kernel& k, Entry entry, const MuccTensor* args, int n) noexcept {
  Call c(k);
  return check_c(c, args, n) ? -1 : entry(c.dims);
}

}  // namespace mucc

MUCC_DOOR void on_host_sm_count(int count) { on_host::sm_count = count; }
MUCC_DOOR void on_host_runner(on_host::Runner runner) { on_host::runner = runner; }
MUCC_DOOR int on_host_launches() { return on_host::launches; }
MUCC_DOOR void on_host_sm_shared(int bytes) { on_host::sm_shared = bytes; }
MUCC_DOOR const char* mucc_last_error(void) { return mucc::last_error.text; }
// With a seed other than 0 threads and blocks run in another order.
MUCC_DOOR void on_host_seed(unsigned long long seed) { on_host::seed = seed; }
#if defined(ON_HOST_CHECKS)
// What has been found since the last call, a line for each place.
MUCC_DOOR const char* on_host_reports() {
  static std::string found;
  found = on_host::reports;
  on_host::reports[0] = '\0', on_host::reported = 0;
  return found.c_str();
}
#endif
