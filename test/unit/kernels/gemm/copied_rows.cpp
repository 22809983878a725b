// Runs the copies of mucc/copied.cuh on the host, a lane after the other: rows of A of any length, picked by number or
// not, among others that hold NaN. What the tiles in shared memory hold is A, and zeros outside of it.
//
// CONSTANTS and COPIES are the header's lines, with cp.async replaced by `copy`. Lanes that exchange the places of rows
// are left out: `kAll` holds.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <vector>

#define CUTLASS_DEVICE inline
#define CUTLASS_PRAGMA_UNROLL
#define CUTLASS_PRAGMA_NO_UNROLL

static std::vector<char> memory;  // shared
static void copy(uint32_t to, uint64_t from, int size, int wanted) {
  std::memset(&memory[to], 0, size);
  std::memcpy(&memory[to], reinterpret_cast<void const*>(from), wanted);
}
inline int __shfl_sync(unsigned, int, int, int) { return -1; }
inline void __syncwarp() {}

namespace cutlass::arch {
inline void cpasync_barrier_arrive_noinc() {}
}  // namespace cutlass::arch
namespace cute {
using std::get;
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline uint32_t cast_smem_ptr_to_uint(void const*) { return 0; }
template <int kMode, class Shape>
constexpr int size(Shape) {
  return Shape::of[kMode];
}
}  // namespace cute

struct State {
  int stage = 0;
  int index() const { return stage; }
  State& operator++() {
    ++stage;
    return *this;
  }
};
struct Pipeline {
  void producer_acquire(State) {}
  void producer_commit(State, void (*)()) {}
};
struct Storage {
  struct {
    void* data() { return nullptr; }
  } smem_A;
};

COPY

template <int kBytes, bool kGrouped, int kTileM>
struct Copies {
  using ElementA = uint16_t;
  struct TileShape {
    static constexpr int of[] = {kTileM, 64, 64};
  };
  using MainloopPipeline = Pipeline;
  using PipelineState = State;
  using TensorStorage = Storage;
  CONSTANTS
  struct Params {
    uint32_t pitch;
    char const* a;
    int64_t batch;
    int m, k_bytes;
    struct {
      int begin(int) const { return 2; }
      int end(int) const { return 9; }
    } groups;
    struct {
      int32_t const* rows;
      int count;
    } picked;
  };
  COPIES
};

static float widen(uint16_t bits) {
  uint32_t const wide = uint32_t(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

template <int kBytes, bool kGrouped, int kTileM>
bool agrees(int m, int k, bool picks) {
  using Own = Copies<kBytes, kGrouped, kTileM>;
  static_assert(Own::kAll);
  constexpr int kPer = kBytes / 2, kRows = kTileM + 5;
  int const pitch = (k + kPer - 1) / kPer * kPer + kPer, tiles = (k + 63) / 64;
  std::vector<uint16_t> a(kRows * pitch, 0x7FC0);  // NaN
  for (int row = 0; row < kRows; ++row)
    for (int i = 0; i < k; ++i) a[row * pitch + i] = uint16_t(0x3F80 + (row * 31 + i) % 128);
  std::vector<int32_t> rows(kRows);
  for (int row = 0; row < kRows; ++row) rows[row] = row % 4 == 3 ? kRows : (row * 7 + 3) % kRows;
  memory.assign(size_t(tiles) * Own::kStageBytes, char(0x7F));
  typename Own::Params params{uint32_t(pitch / kPer), reinterpret_cast<char const*>(a.data()), 0, m, 2 * k, {}, {}};
  if (picks) params.picked = {rows.data(), kRows};
  std::vector<int> numbers(tiles);
  for (int i = 0; i < tiles; ++i) numbers[i] = i;
  Storage storage;
  for (int lane = 0; lane < 32; ++lane) {
    std::tuple const at(0, 0, 0, 0);
    Own::template load_rows<0>(params, {}, {}, at, numbers.data(), tiles, lane, storage, [](State, int) {});
    Own::template load_rows<kTileM / 2>(params, {}, {}, at, numbers.data(), tiles, lane, storage, [](State, int) {});
  }
  int const begin = kGrouped ? 2 : 0, end = kGrouped ? 9 : m;
  for (int row = 0; row < kTileM; ++row)
    for (int i = 0; i < 64 * tiles; ++i) {
      int source = begin + row;
      bool inside = source < end && i < k;
      if (inside && picks) source = rows[source], inside = source < kRows;
      float const right = inside ? widen(a[source * pitch + i]) : 0;
      uint32_t place = i / 64 * Own::kStageBytes + row * 128 + i % 64 * 2;
      place ^= place >> 3 & 0x70;
      uint16_t bits;
      std::memcpy(&bits, &memory[place], 2);
      if (widen(bits) != right) {
        std::printf("copies of %d bytes, m %d, k %d: (%d, %d) is %g, right is %g\n", kBytes, m, k, row, i, widen(bits),
                    right);
        return false;
      }
    }
  return true;
}

int main() {
  for (int k : {1, 2, 3, 7, 8, 60, 63, 64, 65, 77, 130})
    for (bool picks : {false, true})
      for (int m : {1, 30, 128})
        if (!agrees<16, false, 128>(m, k, picks) || !agrees<16, true, 128>(m, k, picks) ||
            !agrees<8, false, 64>(m > 64 ? 64 : m, k, picks))
          return 1;
  return 0;
}
