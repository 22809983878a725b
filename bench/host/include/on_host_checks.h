// Checks of each access of a device thread: g++ calls the functions at the end of this file for them.
//
// Races are found by vector clocks. What a thread releases, at a barrier or by an arrival, threads that acquire it have seen. Each byte
// knows its last writer and some of its last readers; two accesses of which neither has seen the other are a race. The blocks that
// run together are checked with each other: blocks that run one after the other count as ordered. Shuffles and votes order nothing.
// Copies by TMA are seen by those that wait for their barrier, and products of warpgroups read their operands until
// they are waited for.
#pragma once

namespace on_host {

// ---- reports ----------------------------------------------------------------------------------------------

inline char reports[1 << 13];
inline int reported = 0, quiet = 0;
inline char const* kernel_name = "";
constexpr int kMostReports = 16;
struct Known {
  void const* place;
  char const* format;
};
inline Known known[kMostReports];  // what has been reported

// Lets what the functions here do themselves pass without a check.
struct Quiet {
  ON_HOST_QUIET Quiet() { ++quiet; }
  ON_HOST_QUIET ~Quiet() { --quiet; }
};

ON_HOST_QUIET inline size_t offset_in_library(void const* place) {
  Dl_info info;
  return dladdr(place, &info) ? size_t(static_cast<char const*>(place) - static_cast<char const*>(info.dli_fbase)) : 0;
}

// Adds a line; what is wrong at one place in the code is reported once.
ON_HOST_QUIET inline void report(void const* place, char const* format, ...) {
  for (int i = 0; i < reported; ++i)
    if (known[i].place == place && known[i].format == format) return;
  if (reported >= kMostReports) return;
  known[reported++] = {place, format};
  size_t at = std::strlen(reports);
  auto room = [&] { return sizeof(reports) - at; };
  at += size_t(std::snprintf(reports + at, room(), "+0x%zx %s block %u,%u thread %u: ", offset_in_library(place), kernel_name,
                             blockIdx.x, blockIdx.y, threadIdx.x));
  if (at >= sizeof(reports)) return;
  va_list arguments;
  va_start(arguments, format);
  at += size_t(std::vsnprintf(reports + at, room(), format, arguments));
  va_end(arguments);
  if (at + 1 < sizeof(reports)) std::strcpy(reports + at, "\n");
}

// ---- clocks -----------------------------------------------------------------------------------------------

// A clock has a number for each thread, behind those some for barriers on which TMA arrives, and one for the products
// of each warp.
constexpr int kEngines = 64;
inline std::vector<uint32_t> memory_of_clocks;
inline uint32_t* clocks = nullptr;
inline int threads = 0, width = 0;
inline uint32_t base = 0, highest = 0;  // no access of an earlier block is later than `base`
ON_HOST_QUIET inline uint32_t* clock_of(int thread) { return clocks + size_t(thread) * width; }

ON_HOST_QUIET __attribute__((optimize("O3"))) inline void join(uint32_t* to, uint32_t const* from) {
  for (int i = 0; i < width; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
}

// Where threads meet again and again: a round has a clock, and so has the one behind it.
struct Meeting {
  std::vector<uint32_t> of[2];
  ON_HOST_QUIET uint32_t* clock(int round) {
    of[round & 1].resize(size_t(kMost) + kEngines + kMost / 32, 0);
    return of[round & 1].data();
  }
};
inline Meeting of_cluster, of_block[kTogether], of_warp[kMost / 32], of_named[kTogether][16];
inline std::map<uint32_t, Meeting> meetings[kTogether];
inline std::map<uint32_t, int> engines[kTogether];

ON_HOST_QUIET inline Meeting& of_barrier(uint32_t at) {
  Quiet const quiet_here;
  return meetings[block][at];
}
ON_HOST_QUIET inline void release(Meeting& meeting, int round) {
  Quiet const quiet_here;
  uint32_t* const own = clock_of(self());
  join(meeting.clock(round), own);
  uint32_t const now = ++own[self()];
  highest = now < highest ? highest : now;
}
ON_HOST_QUIET inline void acquire(Meeting& meeting, int round) {
  Quiet const quiet_here;
  join(clock_of(self()), meeting.clock(round));
}

// ---- accesses ---------------------------------------------------------------------------------------------

struct Read {
  uint32_t time;
  uint16_t by;
};
constexpr int kReaders = 4;
struct Cell {
  uint32_t time;
  uint16_t by, readers;
  Read read[kReaders];
};
struct Region {
  char const* begin;
  size_t bytes;
  int argument;
  Cell* cells;
};
ON_HOST_QUIET inline Cell* new_cells(size_t count) { return static_cast<Cell*>(std::calloc(count, sizeof(Cell))); }
constexpr int kMostRegions = 64;
inline Region regions[kMostRegions];
inline int region_count = 0;
inline Cell *dynamic_cells = nullptr, *static_cells = nullptr;
inline unsigned shared_bytes = 0;
inline char const* parameters_at = nullptr;

// A part of global memory that a launch may access: an argument, or the workspace (-1).
inline void add_region(void const* begin, size_t bytes, int argument) {
  Cell* const cells = new_cells(bytes);
  if (region_count == kMostRegions || (bytes && !cells)) {
    std::fprintf(stderr, "on_host: no memory for checks of %zu bytes\n", bytes);
    std::abort();
  }
  regions[region_count++] = {static_cast<char const*>(begin), bytes, argument, cells};
}
inline void drop_regions() {
  while (region_count) std::free(regions[--region_count].cells);
}

ON_HOST_QUIET inline bool has_seen(uint32_t const* clock, int by, uint32_t time) { return time <= base || clock[by] >= time; }

struct Access {
  bool writes;
  void const* place;
  int by;         // a thread, or an engine behind them
  uint32_t time;  // of the clock of `by`
};

ON_HOST_QUIET inline void race(Access const& access, char const* what, int other) {
  report(access.place, "%s races with a %s of thread %d", access.writes ? "a write" : "a read", what, other);
}
ON_HOST_QUIET inline void add_reader(Cell& cell, Access const& access, uint32_t const* clock) {
  int kept = 0;
  for (int r = 0; r < cell.readers; ++r) {
    Read const read = cell.read[r];
    if (read.by != access.by && !has_seen(clock, read.by, read.time)) cell.read[kept++] = read;
  }
  // Where there are too many one is forgotten, and a race with it is not found.
  int const place = kept == kReaders ? int(access.time % kReaders) : kept++;
  cell.read[place] = {access.time, uint16_t(access.by)};
  cell.readers = uint16_t(kept);
}
ON_HOST_QUIET inline void check_cell(Cell& cell, Access const& access, uint32_t const* clock, bool records) {
  if (!has_seen(clock, cell.by, cell.time)) race(access, "write", cell.by);
  if (access.writes)
    for (int r = 0; r < cell.readers; ++r)
      if (!has_seen(clock, cell.read[r].by, cell.read[r].time)) race(access, "read", cell.read[r].by);
  if (!records) return;
  if (access.writes)
    cell.time = access.time, cell.by = uint16_t(access.by), cell.readers = 0;
  else
    add_reader(cell, access, clock);
}

// The cells of what lies somewhere; null, and a report where nothing may be accessed there.
ON_HOST_QUIET inline Cell* cells_of(char const* at, size_t bytes, Access const& access) {
  char const* const verb = access.writes ? "writes" : "reads";
  if (size_t(at - statics) < statics_bytes) return static_cells + size_t(block) * statics_bytes + (at - statics);
  if (size_t const in_shared = size_t(at - dynamic[0]); in_shared < sizeof(dynamic)) {
    if (in_shared % kShared + bytes <= shared_bytes) return dynamic_cells + in_shared;
    report(access.place, "%s byte %zu of the %u of shared memory", verb, in_shared % kShared, shared_bytes);
    return nullptr;
  }
  if (size_t(at - image) < image_bytes || size_t(at - parameters_at) < size_t(1 << 16)) return nullptr;
  Region const* near = nullptr;
  for (int i = 0; i < region_count; ++i) {
    Region const& region = regions[i];
    if (size_t(at - region.begin) < region.bytes && size_t(at - region.begin) + bytes <= region.bytes)
      return region.cells + (at - region.begin);
    if (at + 4096 > region.begin && at < region.begin + region.bytes + 4096) near = &region;
  }
  if (near)
    report(access.place, "%s %zu bytes at %ld of the %zu of argument %d", verb, bytes, long(at - near->begin), near->bytes,
           near->argument);
  else
    report(access.place, "%s %zu bytes of no tensor", verb, bytes);
  return nullptr;
}
ON_HOST_QUIET inline void check(void const* at, size_t bytes, Access const& access, bool records) {
  Quiet const quiet_here;
  char const* const first = static_cast<char const*>(at);
  if (size_t(first - stacks) < size_t(kMost) * kStack) return;
  Cell* const cells = cells_of(first, bytes, access);
  uint32_t const* const clock = clock_of(self());
  for (size_t i = 0; cells && i < bytes; ++i) check_cell(cells[i], access, clock, records);
}
ON_HOST_QUIET inline Access own_access(bool writes, void const* place) {
  return {writes, place, self(), clock_of(self())[self()]};
}
ON_HOST_QUIET inline void accessed(void const* at, size_t bytes, bool writes, void const* place) {
  if (!on_device || quiet) return;
  Quiet const quiet_here;
  check(at, bytes, own_access(writes, place), true);
}

// An access that a function in the place of an instruction does, or one that is yet to be done.
ON_HOST_QUIET __attribute__((noinline)) inline void touch(void const* at, size_t bytes, bool writes) {
  check(at, bytes, own_access(writes, __builtin_return_address(0)), true);
}
ON_HOST_QUIET __attribute__((noinline)) inline void intend_to_write(void const* at, size_t bytes) {
  check(at, bytes, own_access(true, __builtin_return_address(0)), false);
}

// TMA writes to shared memory for a thread. Those that wait for a round of the barrier have seen it.
ON_HOST_QUIET __attribute__((noinline)) inline void copied_by_engine(uint32_t barrier, int round, void const* at, size_t bytes) {
  Quiet const quiet_here;
  auto const found = engines[block].emplace(barrier, int(engines[block].size()) % kEngines).first;
  int const engine = threads + found->second;
  check(at, bytes, {true, __builtin_return_address(0), engine, ++highest}, true);
  meetings[block][barrier].clock(round)[engine] = highest;
}

// ---- products of warpgroups ---------------------------------------------------------------------------------

// What a product reads it may read until it is waited for. Lane 0 of a warp stands for the warp, whose lanes have all seen that
// once they have waited.
struct Operand {
  void const* at;
  size_t bytes;
  int group;
};
inline std::vector<Operand> operands[kMost / 32];
inline int groups[kMost / 32];
inline uint32_t retired[kMost / 32];

ON_HOST_QUIET __attribute__((noinline)) inline void read_by_products(void const* at, size_t bytes) {
  if (threadIdx.x % 32) return;
  Quiet const quiet_here;
  check(at, bytes, own_access(false, __builtin_return_address(0)), false);
  operands[self() / 32].push_back({at, bytes, groups[self() / 32]});
}
ON_HOST_QUIET inline void commit_products() { groups[self() / 32] += threadIdx.x % 32 == 0; }

// All but the last `left` groups have been waited for.
ON_HOST_QUIET __attribute__((noinline)) inline void retire_products(int left) {
  if (threadIdx.x % 32) return;
  Quiet const quiet_here;
  int const warp = self() / 32;
  Access const access{false, __builtin_return_address(0), threads + kEngines + warp, ++highest};
  std::vector<Operand> still;
  for (Operand const& operand : operands[warp])
    if (operand.group < groups[warp] - left)
      check(operand.at, operand.bytes, access, true);
    else
      still.push_back(operand);
  operands[warp] = still, retired[warp] = highest;
}
ON_HOST_QUIET inline void see_products() { clock_of(self())[threads + kEngines + self() / 32] = retired[self() / 32]; }

// ---- launches -----------------------------------------------------------------------------------------------

ON_HOST_QUIET inline void name_launch(char const* name, void const* parameters) {
  kernel_name = name, parameters_at = static_cast<char const*>(parameters);
}
ON_HOST_QUIET inline void begin_checks(int count, unsigned shared) {
  if (!dynamic_cells) dynamic_cells = new_cells(sizeof(dynamic)), static_cells = new_cells(kTogether * statics_bytes);
  threads = count, width = count + kEngines + (count + 31) / 32, base = ++highest, shared_bytes = shared;
  memory_of_clocks.assign(size_t(count) * width, base);
  clocks = memory_of_clocks.data();
  ++highest;
  for (int t = 0; t < count; ++t) clock_of(t)[t] = highest;
  for (int w = 0; w < kMost / 32; ++w) operands[w].clear();
}
ON_HOST_QUIET inline void end_checks(int count) {
  for (int w = 0; w < (count + 31) / 32; ++w)
    if (!operands[w].empty()) report(&operands[w], "products that warp %d does not wait for", w);
}

}  // namespace on_host

// ---- what g++ calls ---------------------------------------------------------------------------------------

#define ON_HOST_SIZE(n)                                                                                                  \
  ON_HOST_QUIET void __tsan_read##n(void* at) { on_host::accessed(at, n, false, __builtin_return_address(0)); }           \
  ON_HOST_QUIET void __tsan_write##n(void* at) { on_host::accessed(at, n, true, __builtin_return_address(0)); }           \
  ON_HOST_QUIET void __tsan_unaligned_read##n(void* at) { on_host::accessed(at, n, false, __builtin_return_address(0)); } \
  ON_HOST_QUIET void __tsan_unaligned_write##n(void* at) { on_host::accessed(at, n, true, __builtin_return_address(0)); }

extern "C" {
ON_HOST_SIZE(1) ON_HOST_SIZE(2) ON_HOST_SIZE(4) ON_HOST_SIZE(8) ON_HOST_SIZE(16)
ON_HOST_QUIET void __tsan_read_range(void* at, size_t bytes) {
  on_host::accessed(at, bytes, false, __builtin_return_address(0));
}
ON_HOST_QUIET void __tsan_write_range(void* at, size_t bytes) {
  on_host::accessed(at, bytes, true, __builtin_return_address(0));
}
ON_HOST_QUIET void __tsan_init() {}
ON_HOST_QUIET void __tsan_func_entry(void*) {}
ON_HOST_QUIET void __tsan_func_exit() {}
ON_HOST_QUIET void __tsan_vptr_update(void** at, void* value) { *at = value; }
ON_HOST_QUIET uint64_t __tsan_atomic64_load(uint64_t const volatile* at, int) { return *at; }
ON_HOST_QUIET int __tsan_atomic64_compare_exchange_strong(uint64_t volatile* at, uint64_t* expected, uint64_t value, int, int) {
  if (*at != *expected) return *expected = *at, 0;
  return *at = value, 1;
}
ON_HOST_QUIET uint8_t __tsan_atomic8_load(uint8_t const volatile* at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }

// The place in the source comes first in what these are given.
struct OnHostSource {
  char const* file;
  uint32_t line, column;
};
ON_HOST_QUIET void __ubsan_handle_out_of_bounds(OnHostSource const* source, void* index) {
  if (on_host::on_device) on_host::report(source, "%s:%u: index %ld is out of bounds", source->file, source->line, long(index));
}
ON_HOST_QUIET void __ubsan_handle_type_mismatch_v1(OnHostSource const* source, void* at) {
  if (on_host::on_device) on_host::report(source, "%s:%u: the address %p is misaligned", source->file, source->line, at);
}
}
