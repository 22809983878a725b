// Copies from memory to a stage of shared memory: x for the rows of a tile, weights for its columns.
#pragma once

#include <mucc/conv_copy.cuh>
#include <mucc/conv_tile.cuh>

namespace mucc::conv {

// Loads x for the rows of a tile, stage by stage. Where `kVector`, whole pieces are copied; else each thread has the
// elements of one row, so that neighbouring threads read neighbouring positions.
template <class Work, bool kVector>
struct LoadX;

template <class Work>
struct LoadX<Work, true> {
  using T = typename Work::Element;
  using At = Tile<Work>;
  using Own = Share<Work, At::kM>;
  Problem<T> const& problem;
  Line const* lines;
  Cursor<Work> cursor;
  T const* from[Own::kCount];  // null where there is nothing to read

  MUCC_DEVICE LoadX(Problem<T> const& problem, Walk<Work> const& walk, Line const* lines)
      : problem(problem), lines(lines), cursor(walk, Own::piece() * At::kPiece) {
    aim();
  }
  MUCC_DEVICE void aim() {
    int64_t const offset = cursor.x_offset(problem);
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      Line const line = lines[Own::row(i)];
      from[i] = cursor.left > 0 && cursor.present(problem, line.in) ? problem.x + (line.offset + offset) : nullptr;
    }
  }
  MUCC_DEVICE void begin(char* stage) {
    bool const inside = cursor.left > 0;
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      bool const present = inside && from[i] != nullptr;
      copy_piece(stage + At::place(Own::row(i), Own::piece()), present ? from[i] + cursor.channel : problem.x, present);
    }
    if (cursor.template advance<At::kK>()) aim();
  }
  MUCC_DEVICE void end(char*) const {}
  MUCC_DEVICE void pass(char*) const {}
};

template <class Work>
struct LoadX<Work, false> {
  using T = typename Work::Element;
  using At = Tile<Work>;
  static constexpr int kThreads = At::kThreads, kEach = kThreads / At::kM > 1 ? kThreads / At::kM : 1;
  static constexpr int kCount = At::kPieces / kEach;
  static_assert(kThreads % At::kM == 0, "each row has threads of its own");
  Problem<T> const& problem;
  Line const line;
  Cursor<Work> cursor;
  Piece<T> held[kCount];

  MUCC_DEVICE static int row() { return int(threadIdx.x) % At::kM; }
  MUCC_DEVICE static int piece(int i) { return int(threadIdx.x) / At::kM * kCount + i; }
  MUCC_DEVICE LoadX(Problem<T> const& problem, Walk<Work> const& walk, Line const* lines)
      : problem(problem), line(lines[row()]), cursor(walk, piece(0) * At::kPiece) {}

  MUCC_DEVICE T element(Cursor<Work> const& at) const {
    bool const inside = at.left > 0 && at.present(problem, line.in);
    return inside ? problem.x[line.offset + at.x_offset(problem) + at.channel * problem.x_channel] : T{};
  }
  // The next piece, the `i`-th of a stage.
  MUCC_DEVICE Piece<T> fetch(int i) {
    Piece<T> found;
#pragma unroll
    for (int e = 0; e < At::kPiece; ++e) {
      if constexpr (Cursor<Work>::kDivides) {
        // Elements do not wait for the one before.
        found.of.of[e] = element({cursor.walk, cursor.walk.depth - cursor.left + i * At::kPiece + e});
      } else {
        found.of.of[e] = element(cursor);
        cursor.template advance<1>();
      }
    }
    return found;
  }
  MUCC_DEVICE void next_stage() {
    if constexpr (Cursor<Work>::kDivides) {
      cursor.left -= At::kK;
    } else if constexpr (kEach > 1) {
      cursor.template advance<At::kK - At::kK / kEach>();
    }
  }
  MUCC_DEVICE void put(char* stage, int i, Piece<T> const& value) const {
    *reinterpret_cast<Piece<T>*>(stage + At::place(row(), piece(i))) = value;
  }
  MUCC_DEVICE void begin(char*) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) held[i] = fetch(i);
    next_stage();
  }
  MUCC_DEVICE void end(char* stage) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) put(stage, i, held[i]);
  }
  // Both at once, with few registers.
  MUCC_DEVICE void pass(char* stage) {
#pragma unroll 1
    for (int i = 0; i < kCount; ++i) put(stage, i, fetch(i));
    next_stage();
  }
};

// Loads the weights of the columns of a tile, stage by stage: whole pieces, or element by element. With kHolds elements are
// held until `end`.
template <class Work, bool kVector, bool kHolds>
struct LoadW {
  using T = typename Work::Element;
  using At = Tile<Work>;
  using Own = Share<Work, At::kN>;
  Problem<T> const& problem;
  Cursor<Work> cursor;
  T const* w;  // of the thread's first column
  int columns;
  int64_t offset;
  // Single bytes are stored at once: each that is held takes a register.
  static constexpr bool kHeld = !kVector && kHolds && sizeof(T) > 1;
  Piece<T> held[kHeld ? Own::kCount : 1];

  MUCC_DEVICE LoadW(Problem<T> const& problem, Walk<Work> const& walk, int64_t column, int64_t group)
      : problem(problem), cursor(walk, Own::piece() * At::kPiece) {
    int64_t const first = column + Own::row(0);
    w = problem.w + group * problem.w_group + first * problem.w_output;
    columns = int(problem.outputs - first < At::kN ? problem.outputs - first : At::kN);
    offset = cursor.w_offset(problem);
  }
  MUCC_DEVICE void begin(char* stage) {
    if constexpr (kVector) {
      T const* const from = w + (Work::kChannelsInner ? offset + cursor.channel : int64_t(cursor.walk.depth - cursor.left));
#pragma unroll
      for (int i = 0; i < Own::kCount; ++i) {
        bool const present = cursor.left > 0 && i * Own::kStep < columns;
        T const* const source = present ? from + i * Own::kStep * problem.w_output : problem.w;
        copy_piece(stage + At::place(Own::row(i), Own::piece()), source, present);
      }
      if (!Work::kChannelsInner) {
        cursor.left -= At::kK;
      } else if (cursor.template advance<At::kK>()) {
        offset = cursor.w_offset(problem);
      }
    } else if constexpr (!kHeld) {
#pragma unroll 1
      for (int e = 0; e < At::kPiece; ++e) {
        T const* const from = w + cursor.w_offset(problem) + cursor.channel * problem.w_channel;
#pragma unroll
        for (int i = 0; i < Own::kCount; ++i) {
          bool const present = cursor.left > 0 && i * Own::kStep < columns;
          reinterpret_cast<T*>(stage + At::place(Own::row(i), Own::piece()))[e] =
              present ? from[i * Own::kStep * problem.w_output] : T{};
        }
        cursor.template advance<1>();
      }
      cursor.template advance<At::kK - At::kPiece>();
    } else {
#pragma unroll
      for (int e = 0; e < At::kPiece; ++e) {
        T const* const from = w + cursor.w_offset(problem) + cursor.channel * problem.w_channel;
#pragma unroll
        for (int i = 0; i < Own::kCount; ++i) {
          bool const present = cursor.left > 0 && i * Own::kStep < columns;
          held[i].of.of[e] = present ? from[i * Own::kStep * problem.w_output] : T{};
        }
        cursor.template advance<1>();
      }
      cursor.template advance<At::kK - At::kPiece>();
    }
  }
  MUCC_DEVICE void end(char* stage) const {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < Own::kCount; ++i)
        *reinterpret_cast<Piece<T>*>(stage + At::place(Own::row(i), Own::piece())) = held[i];
    }
  }
};

}  // namespace mucc::conv
