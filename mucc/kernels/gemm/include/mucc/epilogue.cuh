// An epilogue for one output and reductions of what is computed (mucc/visit.cuh). It takes the place of CUTLASS's
// collective for TMA stores, whose templates are more than half of a kernel's compile time, in the kernels of
// cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized*.hpp. Tiles, shared memory and arithmetic are the same.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/cutlass.h>
#include <cutlass/pipeline/sm90_pipeline.hpp>
#include <mucc/epilogue_rows.cuh>
#include <mucc/fragment.h>
#include <mucc/visit.cuh>

#include <cstring>

namespace mucc::gemm {

// The pipeline of a producer that loads nothing.
struct NoPipeline {
  using PipelineState = cutlass::PipelineState<1>;
  enum class ThreadCategory { NonParticipant, Producer, Consumer, ProducerConsumer };
  struct SharedStorage {};
  struct Params {
    ThreadCategory role;
    uint32_t producer_arv_count, consumer_arv_count, dst_blockid;
  };
  static constexpr uint32_t Stages = 1;
  CUTLASS_DEVICE NoPipeline(SharedStorage&, Params const&) {}
};

// `kWarpgroups`: of those that work on one tile together (2 in the cooperative kernel, else 1).
//
// Where tiles have (n, 2) columns, of products with two right operands, the body takes both accumulators of an element,
// and the output has the n columns (see mucc/pair.cuh).
//
// A tile goes out in boxes of 64 * kWarpgroups x 32 (x 16 where its width is no multiple of 32) by way of two buffers.
// Each warp stores the 16 rows of a box that it computes, without a barrier: warps drift apart, so that one computes
// while another waits. Of a column-major matrix, each warpgroup's 64 rows are a tensor box, 128 bytes wide, and all
// threads meet before and after its store.
// Shared memory: those, and sizeof(T) * tile N rounded up to 16 for each Row<T>, all of it rounded up to a multiple of
// eight rows of a box. That is no more than CUTLASS's epilogue takes.
//
// `Rows` says where the rows of a tile are (AllRows, or GroupRows of mucc/grouped.cuh). Boxes that may not be stored as a
// whole leave shared memory by plain stores.
template <class Rows, class TileShape, int kWarpgroups, class D_, class Stride, class Body, class... Load>
class RowsEpilogue {
 public:
  static constexpr bool kStores = !cute::is_void_v<D_>;  // or there are reductions only
  using D = std::conditional_t<kStores, D_, float>;
  static constexpr int kTileM = cute::size<0>(TileShape{}), kTileN = cute::front(cute::get<1>(TileShape{}));
  static constexpr bool kIsPair = cute::size<1>(TileShape{}) != kTileN;
  static constexpr int kThreads = 128 * kWarpgroups;
  static constexpr int kBoxM = 64 * kWarpgroups, kBoxN = kTileN % 32 == 0 ? 32 : 16;
  static constexpr int kBoxesM = kTileM / kBoxM, kBoxesN = kTileN / kBoxN, kBoxes = kBoxesM * kBoxesN;
  static constexpr int kBuffers = kBoxes < 2 ? 1 : 2;
  static constexpr bool kColMajor = cute::is_constant<1, cute::tuple_element_t<0, Stride>>::value;
  static constexpr int kWidth = (kColMajor ? 64 : kBoxN) * int(sizeof(D)), kBytes = kBoxM * kBoxN * int(sizeof(D));
  static constexpr int kGroupBytes = kBytes / kWarpgroups;
  static constexpr int kOwnRows = kColMajor ? kBoxM : 16;  // of a box, that are stored by the same thread
  static constexpr int kRanges = ranges_of<Rows>;
  static_assert(kRanges == 0 || (!kColMajor && kStores), "ranges of columns are row-major matrices");
  static_assert(!kColMajor || Rows::kAll, "rows that are stored apart lie one after the other");
  static_assert(!kColMajor || sizeof(D) == 2, "column-major stores are of 16 bits");
  static_assert(kTileM % kBoxM == 0 && kTileN % kBoxN == 0, "a tile is made of boxes of 64 * warpgroups x 32 or 16");

  using All = Work<Body, Load...>;
  static constexpr int kRun = columns_of<Body> > 1 ? least_common_multiple(columns_of<Body>, kBoxN) : kBoxN;
  static_assert(columns_of<Body> == 1 || (kTileN % kRun == 0 && !kIsPair && !kColMajor),
                "groups of columns lie within a tile of a row-major product");

  // Names that CUTLASS's kernels use.
  using ElementC = void;
  using StrideC = Stride;
  using ElementD = D_;
  using StrideD = Stride;
  using LoadPipeline = NoPipeline;
  using LoadPipelineState = NoPipeline::PipelineState;
  using StorePipeline = cutlass::PipelineTmaStore<kBuffers>;
  using StorePipelineState = cutlass::PipelineState<kBuffers>;
  using PipelineStorage = NoPipeline::SharedStorage;
  static constexpr bool RequiresTransactionBytes = false;
  struct TensorStorage {
    alignas(8 * kWidth) char boxes[kStores ? kBuffers : 1][kStores ? kBytes : 8 * kWidth];  // after so much the swizzle repeats
    typename All::Storage loads;
  };
  struct SharedStorage {
    TensorStorage tensors;
    PipelineStorage pipeline;
  };
  struct Arguments {
    typename All::Arguments thread;
    D const* ptr_C;
    Stride dC;
    D* ptr_D;
    Stride dD;
    typename Rows::Arguments rows;
  };
  // What plain stores need.
  struct Plain {
    D* data;
    int64_t row;
    typename Rows::Arguments rows;
  };
  struct None {
    typename Rows::Arguments rows;
  };
  // The maps of ranges of columns after the first one.
  struct Ranges {
    typename Rows::Arguments rows;
    TensorMap more[kRanges > 1 ? kRanges - 1 : 1];
  };
  struct Params {
    TensorMap tma_store_d;
    typename All::Arguments thread;
    std::conditional_t<(kRanges > 0), Ranges, std::conditional_t<Rows::kAll, None, Plain>> out;
  };

  // ---- on the host

  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& a, void*) {
    int L = 1;
    if constexpr (cute::rank_v<Shape> == 4 && Rows::kAll) L = int(cute::get<3>(shape));
    if constexpr (!kStores) return {{}, a.thread, {a.rows}};
    if constexpr (kRanges > 0) {
      Params to{{}, a.thread, {a.rows, {}}};
      for (int i = 0; i < kRanges; ++i) {
        auto const& range = a.rows.range[i];
        auto const made = map_of(Output<D>::kType, sizeof(D), range.data, int(cute::front(cute::get<0>(shape))), range.count,
                                 L, range.row, range.batch, kOwnRows, kBoxN);
        (i ? to.out.more[i - 1] : to.tma_store_d) = made;
        static constexpr char none[sizeof(made)] = {};
        if (std::memcmp(&made, none, sizeof(made)) == 0) {
          to.tma_store_d = {};  // the one that a launch looks at
          break;
        }
      }
      return to;
    }
    int64_t const step = int64_t(cute::get<kOuter>(a.dD));
    auto const map = map_of(Output<D>::kType, sizeof(D), a.ptr_D, int(cute::front(cute::get<kOuter>(shape))),
                            int(cute::front(cute::get<1 - kOuter>(shape))), L, step, int64_t(cute::get<2>(a.dD)),
                            kColMajor ? kBoxN : kOwnRows, kColMajor ? 64 : kBoxN);
    if constexpr (Rows::kAll)
      return {map, a.thread, {a.rows}};
    else
      return {map, a.thread, {a.ptr_D, step, a.rows}};
  }
  template <class Shape>
  static bool can_implement(Shape const&, Arguments const& a) {
    return !kStores || (int64_t(cute::get<kOuter>(a.dD)) * int64_t(sizeof(D)) % 16 == 0 &&
                        int64_t(cute::get<2>(a.dD)) * int64_t(sizeof(D)) % 16 == 0);
  }
  template <class Shape>
  static size_t get_workspace_size(Shape const&, Arguments const&) {
    return 0;
  }
  template <class Shape>
  static cutlass::Status initialize_workspace(Shape const&, Arguments const&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }

  // ---- on both sides: how many boxes a tile has, which stream-K may spread over several blocks

  template <class Tile>
  CUTLASS_HOST_DEVICE static constexpr int get_load_pipe_increment(Tile) {
    return kBoxes;
  }
  template <class Tile>
  CUTLASS_HOST_DEVICE static constexpr int get_store_pipe_increment(Tile) {
    return kBoxes;
  }

  // ---- on the device

  CUTLASS_DEVICE static void prefetch_tma_descriptors(Params const& params) {
    if constexpr (kStores) asm volatile("prefetch.tensormap [%0];" ::"l"(&params.tma_store_d) : "memory");
    if constexpr (kRanges > 1) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kRanges - 1; ++i)
        asm volatile("prefetch.tensormap [%0];" ::"l"(&params.out.more[i]) : "memory");
    }
  }
  CUTLASS_DEVICE RowsEpilogue(Params const& params, TensorStorage&) : params_(params) {}
  CUTLASS_DEVICE static constexpr bool is_producer_load_needed() { return false; }

  // The producer warp's part: nothing.
  template <class Shape, class Tile, class Coordinates, class Mma>
  CUTLASS_DEVICE LoadPipelineState load(LoadPipeline const&, LoadPipelineState state, Shape const&, Tile const&,
                                        Coordinates const&, Mma const&, int, TensorStorage&, int = -1) {
    return state;
  }
  CUTLASS_DEVICE void load_tail(LoadPipeline const&, LoadPipelineState) {}

  struct States {
    LoadPipelineState load;
    StorePipelineState store;
  };

  // Computes a tile, or where `only` is not negative that box of it, and starts its stores. `accumulators` lie as
  // mucc/fragment.h says.
  template <class Shape, class Tile, class Coordinates, class Accumulators, class Mma>
  CUTLASS_DEVICE States store(LoadPipeline const&, LoadPipelineState load_state, StorePipeline const&,
                              StorePipelineState state, Shape const& shape, Tile const&, Coordinates const& at,
                              Accumulators const& accumulators, Mma const&, int thread, TensorStorage& storage,
                              int only = -1) {
    static constexpr int kMmaN = cute::size<1>(typename Mma::AtomShape_MNK{});
    static_assert(cute::size(Mma{}) == kThreads, "another number of warpgroups");
    auto const* const acc = accumulators.data();
    int const in_group = thread % 128, lane = thread % 32, first = thread / 128 * 64;
    Rows const rows(params_.out.rows, shape, at, kTileM);
    Place const p{thread,
                  kThreads,
                  rows.first,
                  column_tile(cute::get<1>(at), int(cute::front(cute::get<1>(shape)))) * kTileN,
                  int(cute::get<3>(at)),
                  first + fragment::row(in_group),
                  kBoxM,
                  fragment::col(in_group),
                  rows.end,
                  int(cute::front(cute::get<1>(shape)))};
    uint32_t const boxes = cute::cast_smem_ptr_to_uint(storage.boxes);
    uint32_t const own =
        boxes +
        (kColMajor        ? first / 64 * kGroupBytes +
                         fragment::swizzled(fragment::transposed_row(lane),
                                            in_group / 32 * 32 + fragment::transposed_byte(lane), kWidth)
         : sizeof(D) == 2 ? fragment::swizzled(first + in_group / 32 * 16 + fragment::matrix_row(lane),
                                                     fragment::matrix_byte(lane), kWidth)
                          : fragment::swizzled(p.row, p.col * int(sizeof(D)), kWidth));
    int const warp_row = kColMajor ? 0 : thread / 32 * 16;  // the first of its own rows in a box
    bool const issues = (!kColMajor || thread / 32 == 0) && cute::elect_one_sync();

    // Sends what has been written to a box, and waits until the other buffer has been read.
    auto send = [&](int m, int n) {
      if constexpr (!kStores) return;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      meet_owners();
      if constexpr (!Rows::kAll) {
        if (!rows.is_whole(p.m + m * kBoxM + warp_row, kOwnRows)) {
          if (issues) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
          store_plain(storage.boxes[state.index()] + warp_row * kWidth, rows, p, m * kBoxM + warp_row, n, thread % 32);
          ++state;
          meet_owners();
          return;
        }
      }
      if constexpr (kRanges > 0) {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < kRanges; ++i) {
          auto const share = share_of(i, p.n + n * kBoxN);
          if (share.is_any() && !share.is_mapped())
            store_share(storage.boxes[state.index()] + warp_row * kWidth, i, share, p, m * kBoxM + warp_row, thread % 32);
        }
      }
      if (issues) {
        CUTLASS_PRAGMA_UNROLL
        for (int group = 0; group < (kColMajor ? kWarpgroups : 1); ++group) {
          int const row = p.m + m * kBoxM + warp_row + group * 64, column = p.n + n * kBoxN;
          uint32_t const from = boxes + state.index() * kBytes + warp_row * kWidth + group * kGroupBytes;
          if constexpr (kRanges > 0) {
            CUTLASS_PRAGMA_UNROLL
            for (int i = 0; i < kRanges; ++i) {
              auto const share = share_of(i, column);
              if (share.is_mapped())
                store_box(i ? params_.out.more[i > 0 ? i - 1 : 0] : params_.tma_store_d, from, share.at, row, p.l);
            }
          } else {
            store_box(params_.tma_store_d, from, kColMajor ? row : column, kColMajor ? column : row,
                      Rows::kAll ? p.l : 0);
          }
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kBuffers - 1) : "memory");
      }
      ++state;
      meet_owners();
    };

    typename All::State work;
    if constexpr (All::kShared) meet();  // others may still read what belongs to the tile before
    All::begin(work, params_.thread, storage.loads, p);
    if constexpr (All::kShared) meet();
    auto fetch = [&](int box) { All::fetch(work, p, box % kBoxesM, box / kBoxesM * kBoxN, kBoxN / 8); };
    fetch(only < 0 ? 0 : only);

    if constexpr (columns_of<Body> > 1) {
      static constexpr int kInRun = kRun / kBoxN;
      int last_m = -1, last_n = 0;
      CUTLASS_PRAGMA_UNROLL
      for (int run = 0; run < kTileN / kRun; ++run) {
        CUTLASS_PRAGMA_UNROLL
        for (int m = 0; m < kBoxesM; ++m) {
          int const box = run * kBoxesM + m;  // only if runs are boxes, as where a matrix is read
          Pair rows[2][kRun / 8];
          CUTLASS_PRAGMA_UNROLL
          for (int h = 0; h < 2; ++h) {
            auto at_pair = [&](int g) {
              int const r = fragment::index(m, run * kRun + g * 8, kBoxesM, kMmaN) + 2 * h;
              return Pair{carried<D>(acc[r]), carried<D>(acc[r + 1])};
            };
            All::apply_row(work, p, 2 * m + h, run * kRun + p.col, at_pair, rows[h]);
          }
          if (kInRun == 1 && box + 1 < kBoxes) fetch(box + 1);
          if constexpr (!kStores) continue;
          CUTLASS_PRAGMA_UNROLL
          for (int i = 0; i < kInRun; ++i) {
            if (last_m >= 0) send(last_m, last_n);
            Pair d[kBoxN / 8][2];
            CUTLASS_PRAGMA_UNROLL
            for (int g = 0; g < kBoxN / 8; ++g) {
              d[g][0] = rows[0][i * (kBoxN / 8) + g];
              d[g][1] = rows[1][i * (kBoxN / 8) + g];
            }
            write(own + state.index() * kBytes, d);
            last_m = m, last_n = run * kInRun + i;
          }
        }
      }
      send(last_m, last_n);
    } else {
      // A box is sent after the next one is computed, so that the wait for a buffer overlaps with work.
      CUTLASS_PRAGMA_UNROLL
      for (int n = 0; n < kBoxesN; ++n) {
        CUTLASS_PRAGMA_UNROLL
        for (int m = 0; m < kBoxesM; ++m) {
          int const box = n * kBoxesM + m;
          if (only >= 0 && box != only) continue;
          Pair d[kBoxN / 8][2];
          CUTLASS_PRAGMA_UNROLL
          for (int g = 0; g < kBoxN / 8; ++g) {
            CUTLASS_PRAGMA_UNROLL
            for (int h = 0; h < 2; ++h) {
              int const c = n * kBoxN + g * 8;
              auto at_column = [&](int column) {
                int const r = fragment::index(m, column, kBoxesM, kMmaN) + 2 * h;
                return Pair{carried<D>(acc[r]), carried<D>(acc[r + 1])};
              };
              Spot const spot{2 * m + h, c + p.col, g, h};
              if constexpr (kIsPair)
                d[g][h] = All::apply(work, p, spot, at_column(c), at_column(kTileN + c));
              else
                d[g][h] = All::apply(work, p, spot, at_column(c));
            }
          }
          if (box + 1 < kBoxes && only < 0) fetch(box + 1);
          if constexpr (All::kFolds) {
            All::end_box(work, p, m, n * kBoxN, kBoxN / 8);
            if (m + 1 == kBoxesM || only >= 0) All::end_columns(work, p, n * kBoxN, kBoxN / 8);
          }
          if constexpr (!kStores) continue;
          if (box > 0 && only < 0) send((box - 1) % kBoxesM, (box - 1) / kBoxesM);
          uint32_t const to = own + state.index() * kBytes;
          write(to, d);
        }
      }
      if (only < 0)
        send(kBoxesM - 1, kBoxesN - 1);
      else
        send(only % kBoxesM, only / kBoxesM);
      if constexpr (All::kFolds) All::end(work, p);
    }
    return {load_state, state};
  }

  CUTLASS_DEVICE States store_tail(LoadPipeline const&, LoadPipelineState load_state, StorePipeline const&,
                                   StorePipelineState state) {
    if constexpr (kStores) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    return {load_state, state};
  }

 private:
  // Writes what a thread has of a box to shared memory, where `to` is its first place.
  static CUTLASS_DEVICE void write(uint32_t to, Pair const (&d)[kBoxN / 8][2]) {
    if constexpr (kColMajor) {
      CUTLASS_PRAGMA_UNROLL
      for (int g = 0; g < kBoxN / 8; g += 2)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     :
                     : "r"(to + g * 8 * kWidth), "r"(Output<D>::pack(d[g][0])), "r"(Output<D>::pack(d[g][1])),
                       "r"(Output<D>::pack(d[g + 1][0])), "r"(Output<D>::pack(d[g + 1][1]))
                     : "memory");
    } else if constexpr (sizeof(D) == 2) {
      CUTLASS_PRAGMA_UNROLL
      for (int g = 0; g < kBoxN / 8; g += 2)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :
                     : "r"(to ^ (g * 16)), "r"(Output<D>::pack(d[g][0])), "r"(Output<D>::pack(d[g][1])),
                       "r"(Output<D>::pack(d[g + 1][0])), "r"(Output<D>::pack(d[g + 1][1]))
                     : "memory");
    } else if constexpr (sizeof(D) == 1) {
      CUTLASS_PRAGMA_UNROLL
      for (int g = 0; g < kBoxN / 8; ++g) {
        CUTLASS_PRAGMA_UNROLL
        for (int h = 0; h < 2; ++h)
          asm volatile("st.shared.b16 [%0], %1;"
                       :
                       : "r"((to ^ (g * 8)) + h * 8 * kWidth), "h"(Output<D>::pack(d[g][h]))
                       : "memory");
      }
    } else {
      CUTLASS_PRAGMA_UNROLL
      for (int g = 0; g < kBoxN / 8; ++g) {
        CUTLASS_PRAGMA_UNROLL
        for (int h = 0; h < 2; ++h)
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                       :
                       : "r"((to ^ (g * 32)) + h * 8 * kWidth), "f"(d[g][h].x), "f"(d[g][h].y)
                       : "memory");
      }
    }
  }

  // Which tile of columns it is. Of a pair the coordinate is one in (tiles, 1): a cluster's tile after the last one, where
  // nothing is loaded, stored or reduced, has become the first one again.
  template <class Coordinate>
  CUTLASS_DEVICE static int column_tile(Coordinate const& at, int columns) {
    if constexpr (kIsPair)
      return int(cute::get<0>(at)) + int(cute::get<1>(at)) * ((columns + kTileN - 1) / kTileN);
    else
      return int(at);
  }

  static constexpr int kOuter = kColMajor ? 1 : 0;  // the axis that is not contiguous

  CUTLASS_DEVICE static void store_box(TensorMap const& map, uint32_t from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];"
                 :
                 : "l"(&map), "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
  }

  // Stores a warp's rows of a box, `first` of the tile and those after it, in pieces of 16 bytes, as far as rows and
  // columns go.
  CUTLASS_DEVICE void store_plain(char const* box, Rows const& rows, Place const& p, int first, int n, int lane) const {
    constexpr int kPieces = kWidth / 16;
    CUTLASS_PRAGMA_NO_UNROLL
    for (int i = lane; i < kOwnRows * kPieces; i += 32) {
      int const row = i / kPieces, piece = i % kPieces;
      int const column = p.n + n * kBoxN + piece * (16 / int(sizeof(D)));
      int64_t const to = rows.of(params_.out.rows, p.m + first + row);
      if (to < 0 || column >= p.N) continue;
      *reinterpret_cast<uint4*>(params_.out.data + to * params_.out.row + column) =
          *reinterpret_cast<uint4 const*>(box + fragment::swizzled(row, piece * 16, kWidth));
    }
  }

  CUTLASS_DEVICE fragment::Share share_of(int range, int column) const {
    return fragment::share(column, kBoxN, params_.out.rows.range[range].low, params_.out.rows.range[range].count);
  }

  // Stores a warp's rows of a box, `first` of the tile and those after it, as far as they are a range's.
  CUTLASS_DEVICE void store_share(char const* box, int i, fragment::Share const& share, Place const& p, int first,
                                  int lane) const {
    auto const& range = params_.out.rows.range[i];
    int const count = share.end - share.first;
    CUTLASS_PRAGMA_NO_UNROLL
    for (int j = lane; j < kOwnRows * count; j += 32) {
      int const row = j / count, column = share.first + j % count;
      int64_t const to = p.m + first + row;
      if (to >= p.M) continue;
      static_cast<D*>(range.data)[p.l * range.batch + to * range.row + share.at + column] =
          *reinterpret_cast<D const*>(box + fragment::swizzled(row, column * int(sizeof(D)), kWidth));
    }
  }

  CUTLASS_DEVICE static void meet_owners() {
    if constexpr (kColMajor)
      meet();
    else
      __syncwarp();
  }
  CUTLASS_DEVICE static void meet() {
    cutlass::arch::NamedBarrier::sync(kThreads, cutlass::arch::ReservedNamedBarriers::EpilogueBarrier);
  }

  Params const& params_;
};

template <class TileShape, int kWarpgroups, class D, class Stride, class Body, class... Load>
using Epilogue = RowsEpilogue<AllRows, TileShape, kWarpgroups, D, Stride, Body, Load...>;

template <int kCount, class TileShape, int kWarpgroups, class D, class Stride, class Body, class... Load>
using RangesEpilogue = RowsEpilogue<ColumnRanges<kCount>, TileShape, kWarpgroups, D, Stride, Body, Load...>;

}  // namespace mucc::gemm
