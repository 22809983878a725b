// Barriers in shared memory, asynchronous copies, and copies by tensor maps (TMA).
#pragma once

#include "on_host_threads.h"

namespace on_host {

// ---- copies of threads ----------------------------------------------------------------------------------------

// Copies arrive when a thread waits for them; with a seed half of them arrive at once.
struct Piece {
  char* to;
  char const* from;
  bool wanted;
  int group;
};
inline std::vector<Piece> pieces[kMost];
inline int copy_groups[kMost];

inline void arrive_at_last(Piece const& piece) {
  touch(piece.to, 16, true);
  if (piece.wanted)
    std::memcpy(piece.to, piece.from, 16);
  else
    std::memset(piece.to, 0, 16);
}
inline void copy_piece(void* to, void const* from, bool wanted) {
  Quiet const quiet_here;
  if (uintptr_t(to) % 16 || (wanted && uintptr_t(from) % 16)) report(__builtin_return_address(0), "a copy is misaligned");
  if (wanted) touch(from, 16, false);
  Piece const piece{static_cast<char*>(to), static_cast<char const*>(from), wanted, copy_groups[self()]};
  if (seed && drawn(2)) return arrive_at_last(piece);
  intend_to_write(to, 16);
  pieces[self()].push_back(piece);
}
inline void commit_copies() { ++copy_groups[self()]; }
inline void wait_copies(int left) {
  Quiet const quiet_here;
  std::vector<Piece>& own = pieces[self()];
  size_t arrived = 0;
  while (arrived < own.size() && own[arrived].group < copy_groups[self()] - left) arrive_at_last(own[arrived++]);
  own.erase(own.begin(), own.begin() + long(arrived));
}

// Words by which blocks tell each other their sums: they order nothing, and one read at any time is right.
ON_HOST_QUIET inline void store_word(uint64_t* at, uint64_t word) { *at = word; }
ON_HOST_QUIET inline uint64_t load_word(uint64_t const* at) {
  pause();
  return *at;
}

// 16 bytes that are read at once.
inline void read_words(void* to, void const* from) {
  if (uintptr_t(from) % 16) report(__builtin_return_address(0), "a read of 16 bytes is misaligned");
  touch(from, 16, false);
  std::memcpy(to, from, 16);
}

// ---- barriers -------------------------------------------------------------------------------------------------

struct Barrier {
  int count, pending, bytes, phase;
  void look() {
    if (pending == 0 && bytes == 0) pending = count, ++phase;
  }
};
inline Barrier barriers_at[kTogether][kShared / 8];
inline Barrier& barrier_at(uint32_t at) {
  Barrier& barrier = barriers_at[block][at / 8];
  if (barrier.count <= 0 || at % 8 || at >= kShared) std::abort();  // nobody has started it
  return barrier;
}
inline void start_barrier(uint32_t at, int count) { barriers_at[block][at / 8] = {count, count, 0, 0}; }
inline void expect(uint32_t at, int bytes) {
  Barrier& barrier = barrier_at(at);
  release(of_barrier(at), barrier.phase);
  barrier.bytes += bytes;
  --barrier.pending;
  barrier.look();
}
inline void await(uint32_t at, int parity) {
  while ((barrier_at(at).phase & 1) == parity) pause();
  acquire(of_barrier(at), parity);
}

// A number in the shared memory of a block of the cluster.
inline float shared_of(uint32_t at) {
  float x;
  std::memcpy(&x, dynamic[at >> 24] + (at & 0xffffff), 4);
  return x;
}

// ---- copies by TMA ---------------------------------------------------------------------------------------------

__attribute__((optimize("O2"))) inline uint32_t swizzled(uint32_t at) { return at ^ (at >> 7 & 7) << 4; }

// A tensor map; axes beyond `rank` have one element. Of positions it has the corners and steps, too, and only two axes of
// `box`.
struct Map {
  char const* data;
  int8_t rank, size, swizzles;
  uint8_t box_less_one[5];
  uint32_t extents[5];
  int64_t strides[5];
  int16_t lower[3], upper[3], steps[3];
  int box(int a) const { return box_less_one[a] + 1; }
};
inline void copy_element(Map const& map, uint32_t barrier, char* to, char const* from, bool inside) {
  if (inside) touch(from, size_t(map.size), false);
  copied_by_engine(barrier, barrier_at(barrier).phase, to, size_t(map.size));
  std::memset(to, 0, size_t(map.size));
  if (!inside) return;
  std::memcpy(to, from, size_t(map.size));
  if (map.size < 4) return;
  uint32_t bits;
  std::memcpy(&bits, to, 4);
  bits = bits + 0x1000u & ~0x1fffu;  // tf32
  std::memcpy(to, &bits, 4);
}
inline void copied(uint32_t barrier, int bytes) {
  Barrier& at = barrier_at(barrier);
  at.bytes -= bytes;
  at.look();
}
inline void copy_tile(uint32_t to, void const* given, uint32_t barrier, int element, int row, int const* leading) {
  Quiet const quiet_here;
  Map const& map = *static_cast<Map const*>(given);
  int const first[5] = {element, row, leading[0], leading[1], leading[2]};
  if (element * map.size % 16) std::abort();  // an H100 takes it for an illegal instruction
  int total = 1;
  for (int a = 0; a < map.rank; ++a) total *= map.box(a);
  for (int i = 0; i < total; ++i) {
    bool inside = true;
    char const* from = map.data;
    for (int a = 0, rest = i; a < map.rank; rest /= map.box(a), ++a) {
      int64_t const at = first[a] + rest % map.box(a);
      inside = inside && at >= 0 && at < int64_t(map.extents[a]);
      from += map.size * at * map.strides[a];
    }
    uint32_t const place = map.swizzles ? swizzled(uint32_t(to + i / map.box(0) * 128 + map.size * (i % map.box(0))))
                                        : uint32_t(to + map.size * i);
    copy_element(map, barrier, dynamic[block] + place, from, inside);
  }
  copied(barrier, total * map.size);
}
inline void copy_positions(uint32_t to, void const* given, uint32_t barrier, int channel, int const* first, int batch,
                           uint16_t const* tap) {
  Quiet const quiet_here;
  Map const& map = *static_cast<Map const*>(given);
  int const axes = map.rank - 2;
  int at[3];
  for (int a = 0; a < axes; ++a) {
    at[a] = first[a];
    // It has to be one of the positions, and the tap a number of so many bits.
    if (at[a] < map.lower[a] || (at[a] - map.lower[a]) % map.steps[a] || tap[a] >> 16 / axes) std::abort();
    if (at[a] > int64_t(map.extents[1 + a]) - 1 + map.upper[a]) std::abort();
  }
  for (int r = 0; r < map.box(1); ++r) {
    bool inside = batch < int64_t(map.extents[1 + axes]);
    int64_t offset = batch * map.strides[1 + axes];
    for (int a = 0; a < axes; ++a) {
      int const index = at[a] + tap[a];
      inside = inside && index >= 0 && index < int64_t(map.extents[1 + a]);
      offset += index * map.strides[1 + a];
    }
    for (int e = 0; e < map.box(0); ++e)
      copy_element(map, barrier, dynamic[block] + swizzled(uint32_t(to + r * 128 + map.size * e)),
                   map.data + map.size * (offset + channel + e), inside && channel + e < int64_t(map.extents[0]));
    int a = 0;
    for (; a < axes; ++a) {
      at[a] += map.steps[a];
      if (at[a] <= int64_t(map.extents[1 + a]) - 1 + map.upper[a]) break;
      at[a] = map.lower[a];
    }
    if (a == axes) ++batch;
  }
  copied(barrier, map.box(0) * map.box(1) * map.size);
}

}  // namespace on_host
