// One call of a kernel, as the parts of a kernel library pass it on. Light on purpose: the code that the compiler writes
// for a program includes little else, and compiles in a tenth of a second.
//
// What is only declared here is defined in argument.h, message.h, host.h and launch.h. A program that is compiled as one file includes
// those; one that is built from parts is linked with them (support/src/runtime.cpp).
#pragma once

#include <mucc/spec.h>

#include <cstring>

#if defined(__GNUC__)
#define MUCC_COLD __attribute__((noinline, cold))
#define MUCC_RARE __attribute__((cold))
#define MUCC_FORMAT(string, first) __attribute__((format(printf, string, first)))
#else
#define MUCC_COLD
#define MUCC_RARE
#define MUCC_FORMAT(string, first)
#endif

// Functions that the parts of a library share. The runtime, which is one of the parts, defines them for all.
#if !defined(MUCC_SHARED)
#define MUCC_SHARED inline
#endif

namespace mucc {

struct Call;

struct Kernel {
  const char* name;
  Table<ArgSpec> args;
  Table<DimSpec> dims;
  Table<Promise> promises;
  int (*launch)(const Call&);
  int64_t (*workspace)(const Call&);
  bool each = false;                                         // a call may be for a list of problems,
  int (*launch_each)(const Call* calls, int count) = nullptr;  // which this launches at once
};

// Sets the error of this thread; returns non-zero, so that a launch can `return mucc::fail(...)`.
MUCC_RARE MUCC_FORMAT(2, 3) int fail(const char* code, const char* format, ...);

// What identifies a call to a memo: device, dims, pointers, free strides, scalars, workspace.
struct Key {
  static constexpr int kCapacity = 128;
  int size = 0;  // past kCapacity: too long to be remembered
  int64_t words[kCapacity];
  void push(int64_t word) {
    if (size < kCapacity) words[size] = word;
    ++size;
  }
  bool operator==(const Key& other) const {
    return size == other.size && size <= kCapacity &&
           std::memcmp(words, other.words, size_t(size) * sizeof(int64_t)) == 0;
  }
};

// A checked call, as `launch` and `workspace` see it.
struct Call {
  const Kernel* kernel;
  const MuccTensor* args[kMaxArgs];  // null for scalars
  void* pointers[kMaxArgs];
  double scalars[kMaxArgs];
  int64_t dims[kMaxDims];
  Key key;
  int device = -1;
  int sm_count = 0;
  int sm_shared = 0;  // bytes of shared memory of a multiprocessor
  void* stream = nullptr;  // a cudaStream_t
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  explicit Call(const Kernel& k) : kernel(&k) {}

  // The first element of tensor argument `i`.
  template <class T = void>
  T* data(int i) const {
    return static_cast<T*>(pointers[i]);
  }
  double scalar(int i) const { return scalars[i]; }
  int64_t extent(int i, int axis) const { return args[i]->shape[axis]; }
  // The stride of an axis in elements. An axis of extent 1 gets the one that the layout implies, whatever the
  // tensor says: nothing is read with it, but TMA wants it to be aligned.
  int64_t stride(int i, int axis) const;
};

// Bytes of workspace rounded up, so that what follows is aligned too.
constexpr int64_t aligned(int64_t bytes) {
  return (bytes + MUCC_WORKSPACE_ALIGNMENT - 1) / MUCC_WORKSPACE_ALIGNMENT * MUCC_WORKSPACE_ALIGNMENT;
}

// An extent rounded up, as padded rows are.
constexpr int64_t padded(int64_t extent, int64_t multiple) { return (extent + multiple - 1) / multiple * multiple; }

constexpr int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t at_least(int64_t a, int64_t b) { return a < b ? b : a; }
constexpr int64_t largest(std::initializer_list<int64_t> of) {
  int64_t result = 0;
  for (int64_t x : of) result = at_least(result, x);
  return result;
}

// An integer as an f32 of the same bits, the form in which kernels take it.
inline float bits_of(int64_t value) {
  int32_t const integer = int32_t(value);
  float bits;
  std::memcpy(&bits, &integer, sizeof(bits));
  return bits;
}

// A place in the workspace, `offset` bytes from its start.
template <class T = void>
T* at(Call const& c, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(c.workspace) + offset);
}

// ---- machine code ---------------------------------------------------------------------------------------

inline constexpr int kMaxDevices = 64;

// Machine code that lies in this library: a cubin.
struct Image {
  void const* data;
  void* library = nullptr;  // of the driver, once it was loaded
};

// A kernel as one device knows it.
struct Loaded {
  void* function;  // a CUfunction
  int clusters;    // that run at once; 0 where the kernel has none
};

// A device kernel: in an image under its name, or, where nvcc linked it in, behind the host function `symbol`.
struct Code {
  char const* name;
  Image* image;
  void const* symbol = nullptr;
  Loaded const* known[kMaxDevices] = {};
};

// How a kernel is launched. A cluster of 0 blocks means that the kernel has no clusters.
struct Geometry {
  unsigned grid[3];
  unsigned block;
  unsigned cluster[3] = {0, 0, 0};
  unsigned shared = 0;  // dynamic shared memory, in bytes
  // The kernel may start while the one before it on the stream still runs: it waits itself before it reads or writes
  // what that one may write or read.
  bool dependent = false;
  // All blocks run at the same time, or the launch fails: they may wait for each other.
  bool together = false;
};

// Loads the kernel, grants it its shared memory and counts its clusters; all once per device. Null and an error where
// it fails. Threads may do it at the same time.
Loaded const* load(Code& code, int device, Geometry const& geometry);

// Checks that one launch can have so many blocks. 0 for success, else an error is set.
inline int check_blocks(Call const& c, char const* stage, int64_t blocks) {
  return blocks <= INT32_MAX ? 0 : fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
}

// Launches it on the call's stream.
int start(Call const& c, char const* stage, Code& code, Geometry const& geometry, void** parameters);

// Sets `rows` vectors of `count` floats, `pitch` floats apart, to one value, in stream order and without a kernel.
int fill(Call const& c, float* data, float value, int64_t count, int64_t rows = 1, int64_t pitch = 0);

enum class Mapped : int;  // see tensor_map.h

// Describes a tensor to TMA: `rank` axes, the contiguous one first, with extents and strides in elements, read
// in boxes of `columns` by `rows` elements of the first two axes, 128 bytes wide and swizzled. `map` is a TensorMap.
int map_tiles(Call const& c, void* map, void const* data, Mapped element, int rank, int64_t const* extents,
              int64_t const* strides, int columns, int rows);

// The same for boxes of any extents along all axes, not swizzled.
int map_boxes(Call const& c, void* map, void const* data, Mapped element, int rank, int64_t const* extents,
              int64_t const* strides, int const* box);

// The same for a tensor `[N, spatial axes, C]`, read as `rows` positions by `columns` channels. Positions go from `lower` to
// `upper` past the last element in steps of `steps` along each spatial axis, innermost first, and on to the next one of N;
// what lies outside of the tensor is zero.
int map_positions(Call const& c, void* map, void const* data, Mapped element, int rank, int64_t const* extents,
                  int64_t const* strides, int const* lower, int const* upper, int const* steps, int columns, int rows);

// Where MUCC_CHECK_INDICES is set in the environment: whether an argument of int32 holds the ends of groups of `rows`
// rows; whether it holds numbers of rows, below `rows`, each only once where `once`. Both wait for the device, and do
// nothing while a graph is captured.
int check_ends(Call const& c, int argument, int64_t rows);
int check_rows(Call const& c, int argument, int64_t rows, bool once);

}  // namespace mucc
