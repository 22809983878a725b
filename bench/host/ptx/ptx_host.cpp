// Runs kernels of PTX on the host: the code that bench/host/ptx/text.py makes of a module, thread by thread.
//
// A thread runs until it waits for others, reads what other threads write, or has used its turn. Order 0 takes threads by
// their numbers with long turns; others draw the order of threads and blocks, and the length of turns.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>

#include "ptx_memory.h"
#include "ptx_warps.h"

namespace ptx {

enum class Kind : uint8_t { kPlain, kYields, kBranch, kReturn, kWarp, kBarrier, kArrive, kCluster };

struct Instruction {
  Run run;
  RunWarp run_warp;
  Kind kind;
  bool negated;
  int guard;  // a register; kNone without one
  int operands, count;
  int name;
};
constexpr int kNone = 1 << 30;

// What the value of a constant means: a number, or a distance in memory that a thread or a launch has.
enum class Constant { kNumber, kLocal, kParam, kVariable, kSpecial };
enum Special { kTidX, kNtidX = 3, kCtaidX = 6, kNctaidX = 9, kLane = 12, kWarp, kRank, kCtas, kClusterId };

struct Kernel {
  std::vector<Instruction> code;
  std::vector<int32_t> operands;
  std::vector<std::pair<Constant, int64_t>> constants;
  std::vector<std::pair<int, int>> params;  // sizes and distances
  std::vector<std::string> names;
  std::vector<std::shared_ptr<std::vector<char>>> variables;
  int registers = 0, local = 0, shared = 0;
  bool waits = false;  // it reads what other blocks write: those with lower numbers have to run before
};

static std::map<int, std::map<std::string, Kernel>> forms;  // kernels by name, of each form of a program
static int form = 0;
static std::map<std::string, int> launches;
static uint64_t seed = 0;
static uint64_t executed = 0;
static unsigned sample = 0;  // how many blocks of a launch run, or all
static std::string last_text;

// What blocks of a kernel that ran have taken.
struct Work {
  uint64_t launches = 0, blocks = 0, ran = 0, instructions = 0;  // instructions of warps
  int threads = 0, shared = 0;
};
static std::map<std::string, Work> works;
static std::string last_error;

static Kind kind_of(std::string const& name) {
  if (name == "bra") return Kind::kBranch;
  if (name == "ret" || name == "exit") return Kind::kReturn;
  if (name == "bar.sync") return Kind::kBarrier;
  if (name == "barrier.cluster.arrive") return Kind::kArrive;
  if (name == "barrier.cluster.wait") return Kind::kCluster;
  if (warp_instructions().count(name)) return Kind::kWarp;
  return name.rfind("yield.", 0) == 0 ? Kind::kYields : Kind::kPlain;
}

static void add_instruction(Kernel& kernel, std::istringstream& line) {
  std::string name;
  int guard, negated, operand;
  line >> name >> guard >> negated;
  Instruction made{nullptr, nullptr, kind_of(name), negated != 0, guard, int(kernel.operands.size()), 0,
                   int(kernel.names.size())};
  while (line >> operand) kernel.operands.push_back(operand), ++made.count;
  if (made.kind == Kind::kWarp) made.run_warp = warp_instructions().at(name);
  if (made.kind == Kind::kPlain || made.kind == Kind::kYields) {
    auto const found = instructions().find(made.kind == Kind::kYields ? name.substr(6) : name);
    if (found == instructions().end()) throw Error("instruction '" + name + "' is not known");
    made.run = found->second;
  }
  kernel.waits = kernel.waits || name.rfind("yield.ld", 0) == 0;
  kernel.names.push_back(name);
  kernel.code.push_back(made);
}

static void load(std::string const& text) {
  define_all(), define_warps();
  std::istringstream lines(text);
  std::string line_text, word;
  Kernel* kernel = nullptr;
  std::vector<std::shared_ptr<std::vector<char>>> variables;
  while (std::getline(lines, line_text)) {
    std::istringstream line(line_text);
    line >> word;
    if (word == "variable") {
      variables.push_back(std::make_shared<std::vector<char>>());
      for (int byte; line >> byte;) variables.back()->push_back(char(byte));
    } else if (word == "kernel") {
      line >> word;
      kernel = &(forms[form][word] = Kernel{});
      kernel->variables = variables;
      line >> kernel->registers >> kernel->local >> kernel->shared;
    } else if (word == "param") {
      int size, at;
      line >> size >> at;
      kernel->params.push_back({size, at});
    } else if (word == "constant") {
      int kind;
      int64_t value;
      line >> kind >> value;
      kernel->constants.push_back({Constant(kind), value});
    } else {
      add_instruction(*kernel, line);
    }
  }
}

// ---- a launch -----------------------------------------------------------------------------------------------------------

struct Launch {
  Kernel const& kernel;
  unsigned const* grid;
  int threads, together;
  std::vector<char> params;
  std::vector<uint64_t> frames;
  std::vector<char> locals, shared;
  std::vector<Thread> all;
  std::vector<Block> blocks;
  OwnMemory hidden{};
  int barriers[256][16] = {};
  int cluster_arrived = 0, cluster_phase = 0;
  std::mt19937_64 random{seed};

  Launch(Kernel const& k, unsigned const* g, int threads, int together, int dynamic, void** given);
  void start(unsigned x, unsigned y, unsigned z);
  void run();

 private:
  uint64_t constant(Thread const& t, Constant kind, int64_t value, unsigned const* ctaid) const;
  bool turn(Thread& t, int most);
  bool wake_warp(int first);
  void at_barrier(Thread& t, Instruction const& i);
  void arrive(Thread& t);
  bool wake_cluster();
  [[noreturn]] void stuck() const;
  size_t frame() const { return kernel.constants.size() + size_t(kernel.registers); }
};

Launch::Launch(Kernel const& k, unsigned const* g, int threads, int together, int dynamic, void** given)
    : kernel(k), grid(g), threads(threads), together(together) {
  int end = 0;
  for (auto const& [size, at] : k.params) end = std::max(end, at + size);
  params.resize(size_t(end) + 1);
  for (size_t i = 0; i < k.params.size(); ++i) std::memcpy(&params[k.params[i].second], given[i], size_t(k.params[i].first));
  frames.resize(frame() * size_t(threads) * size_t(together));
  locals.resize((size_t(k.local) + 16) * size_t(threads) * size_t(together) + 64);
  uint32_t const bytes = uint32_t(k.shared + dynamic);
  if (bytes > kWindow) throw Error("a block has " + std::to_string(bytes) + " bytes of shared memory");
  shared.resize(size_t(kWindow) * size_t(together) + 1024);
  char* const base = shared.data() + (1024 - reinterpret_cast<uintptr_t>(shared.data()) % 1024);
  for (int b = 0; b < together; ++b) blocks.push_back({base + size_t(b) * kWindow, bytes});
  auto add = [&](char const* data, size_t size) { hidden.begin[hidden.count] = data, hidden.end[hidden.count++] = data + size; };
  add(params.data(), params.size()), add(locals.data(), locals.size());
  for (size_t i = 0; i < k.variables.size() && i < 6; ++i) add(k.variables[i]->data(), k.variables[i]->size());
}

uint64_t Launch::constant(Thread const& t, Constant kind, int64_t value, unsigned const* ctaid) const {
  int const number = t.block * threads + t.index;
  char const* local = locals.data() + (64 - reinterpret_cast<uintptr_t>(locals.data()) % 64);
  switch (kind) {
    case Constant::kNumber: return uint64_t(value);
    case Constant::kLocal: return uint64_t(reinterpret_cast<uintptr_t>(local)) + uint64_t((kernel.local + 15) / 16 * 16) * number + value;
    case Constant::kParam: return uint64_t(reinterpret_cast<uintptr_t>(params.data())) + value;
    case Constant::kVariable: return uint64_t(reinterpret_cast<uintptr_t>(kernel.variables[value >> 32]->data())) + uint32_t(value);
    case Constant::kSpecial: break;
  }
  switch (value) {
    case kTidX: return uint64_t(t.index);
    case kNtidX: return uint64_t(threads);
    case kCtaidX: case kCtaidX + 1: case kCtaidX + 2: return ctaid[value - kCtaidX];
    case kNctaidX: case kNctaidX + 1: case kNctaidX + 2: return grid[value - kNctaidX];
    case kLane: return uint64_t(t.lane);
    case kWarp: return uint64_t(t.index / 32);
    case kRank: return uint64_t(t.block);
    case kCtas: return uint64_t(together);
    case kClusterId: return ctaid[0] / unsigned(together);
    default: return value < kCtaidX && value > kNtidX ? 1 : 0;  // the other axes of a block
  }
}

void Launch::start(unsigned x, unsigned y, unsigned z) {
  all.assign(size_t(threads * together), Thread{});
  std::memset(barriers, 0, sizeof(barriers));
  cluster_arrived = cluster_phase = 0;
  std::fill(frames.begin(), frames.end(), 0xa5a5a5a5a5a5a5a5u);
  for (auto& block : blocks) std::memset(block.shared, 0xa5, block.bytes);
  for (int n = 0; n < threads * together; ++n) {
    Thread& t = all[size_t(n)];
    unsigned const ctaid[3] = {x + unsigned(n / threads), y, z};
    uint64_t* const own = frames.data() + frame() * size_t(n);
    t = {own + kernel.constants.size(), 0, State::kRuns, n % threads, n % threads % 32, n / threads, 0, 0, blocks.data(), together, &hidden, 0};
    for (size_t c = 0; c < kernel.constants.size(); ++c)
      t.r[-1 - int64_t(c)] = constant(t, kernel.constants[c].first, kernel.constants[c].second, ctaid);
  }
}

// Runs one thread; returns whether it got on.
bool Launch::turn(Thread& t, int most) {
  if (t.state != State::kRuns) return false;
  for (int n = 0; n < most && t.state == State::kRuns; ++n) {
    Instruction const& i = kernel.code[t.pc];
    Operands const o = kernel.operands.data() + i.operands;
    ++t.pc, ++executed, ++t.executed;
    if (i.guard != kNone && get<bool>(t, i.guard) == i.negated) continue;
    switch (i.kind) {
      case Kind::kPlain: i.run(t, o); break;
      case Kind::kYields: i.run(t, o); return true;
      case Kind::kBranch: t.pc = uint32_t(o[0]); break;
      case Kind::kReturn: t.state = State::kEnded; break;
      case Kind::kWarp: --t.pc, t.state = State::kAtWarp; break;
      case Kind::kBarrier: at_barrier(t, i); break;
      case Kind::kArrive: arrive(t); break;
      case Kind::kCluster: t.state = State::kAtCluster; break;
    }
  }
  return true;
}

// Lets lanes that wait at one instruction run it, where all of their mask are there.
bool Launch::wake_warp(int first) {
  int const count = std::min(32, threads - first % threads);
  for (int lane = 0; lane < count; ++lane) {
    Thread& t = all[size_t(first + lane)];
    if (t.state != State::kAtWarp) continue;
    Instruction const& i = kernel.code[t.pc];
    Operands const o = kernel.operands.data() + i.operands;
    uint32_t const mask = get<uint32_t>(t, o[i.count - 1]);
    if (!(mask >> lane & 1)) throw Error("lane " + std::to_string(lane) + " is not in its own mask");
    Warp warp{{}, 0};
    bool whole = true;
    for (int other = 0; other < 32; ++other) {
      if (!(mask >> other & 1)) continue;
      Thread* found = other < count ? &all[size_t(first + other)] : nullptr;
      if (!found || found->state == State::kEnded) continue;
      whole = whole && found->state == State::kAtWarp && found->pc == t.pc && get<uint32_t>(*found, o[i.count - 1]) == mask;
      warp.lanes[other] = found, warp.mask |= 1u << other;
    }
    if (!whole) continue;
    i.run_warp(warp, o);
    for (Thread* lane_of : warp.lanes)
      if (lane_of) ++lane_of->pc, lane_of->state = State::kRuns;
    return true;
  }
  return false;
}

void Launch::at_barrier(Thread& t, Instruction const& i) {
  Operands const o = kernel.operands.data() + i.operands;
  uint32_t const id = get<uint32_t>(t, o[0]);
  int const wanted = i.count > 1 ? int(get<uint32_t>(t, o[1])) : threads;
  if (id > 15) throw Error("there is no barrier " + std::to_string(id));
  t.state = State::kAtBarrier, t.barrier = int(id);
  if (++barriers[t.block][id] < wanted) return;
  barriers[t.block][id] = 0;
  for (Thread& other : all)
    if (other.block == t.block && other.state == State::kAtBarrier && other.barrier == int(id))
      other.state = State::kRuns;
}

void Launch::arrive(Thread& t) {
  t.cluster_phase = cluster_phase;
  if (++cluster_arrived == threads * together) cluster_arrived = 0, ++cluster_phase;
}

bool Launch::wake_cluster() {
  bool any = false;
  for (Thread& t : all)
    if (t.state == State::kAtCluster && t.cluster_phase < cluster_phase) t.state = State::kRuns, any = true;
  return any;
}

void Launch::stuck() const {
  std::string text = "threads wait for each other:";
  int shown = 0;
  for (Thread const& t : all)
    if (t.state != State::kEnded && shown++ < 8)
      text += " " + std::to_string(t.block) + "/" + std::to_string(t.index) + " at " + std::to_string(t.pc) + " " +
              kernel.names[kernel.code[t.pc ? t.pc - 1 : 0].name] + ";";
  throw Error(text);
}

void Launch::run() {
  std::vector<int> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  uint64_t const limit = executed + (uint64_t(1) << (sample ? 26 : 29));
  for (bool more = true; more;) {
    if (seed) std::shuffle(order.begin(), order.end(), random);
    int const most = seed ? 1 + int(random() % 500) : 1 << 14;
    bool moved = false;
    more = false;
    for (int n : order) {
      moved = turn(all[size_t(n)], most) || moved;
      more = more || all[size_t(n)].state != State::kEnded;
    }
    for (int b = 0; b < together; ++b)
      for (int first = 0; first < threads; first += 32)
        while (wake_warp(b * threads + first)) moved = true;
    moved = wake_cluster() || moved;
    if (more && !moved) stuck();
    if (executed > limit) throw Error("the kernel does not end");
  }
}

static void launch(char const* name, unsigned const* grid, int threads, int together, int dynamic, void** given) {
  auto const found = forms[form].find(name);
  if (found == forms[form].end()) throw Error("no PTX was loaded");
  ++launches[name];
  Launch one(found->second, grid, threads, together, dynamic, given);
  std::vector<std::pair<unsigned, unsigned>> order;
  for (unsigned y = 0; y < grid[1]; ++y)
    for (unsigned x = 0; x < grid[0]; x += unsigned(together)) order.push_back({x, y});
  if (seed && !found->second.waits) std::shuffle(order.begin(), order.end(), one.random);
  Work& work = works[name];
  ++work.launches, work.blocks += uint64_t(grid[0]) * grid[1] * grid[2], work.threads = threads;
  work.shared = found->second.shared + dynamic;
  // Blocks that wait for those before them are the first ones, others lie apart.
  size_t const groups = order.size(), wanted = sample ? std::max<size_t>(1, sample / unsigned(together)) : groups;
  size_t const ran = std::min(groups, wanted);
  for (size_t i = 0; i < ran; ++i) {
    auto const& [x, y] = order[found->second.waits ? i : i * groups / ran];
    for (unsigned z = 0; z < grid[2]; ++z) {
      one.start(x, y, z), one.run();
      if (!meter.on) continue;
      meter.blocks_end(name), work.ran += unsigned(together);
      for (size_t first = 0; first < one.all.size(); first += 32) {
        uint64_t most = 0;
        for (size_t n = first; n < std::min(one.all.size(), first + 32); ++n) most = std::max(most, one.all[n].executed);
        work.instructions += most;
      }
    }
  }
}

// Lines of numbers: `kernel` with what its blocks took, and `at` with the traffic of each of its instructions.
static std::string counted() {
  std::ostringstream text;
  for (auto const& [name, work] : works) {
    text << "kernel " << name << ' ' << work.launches << ' ' << work.blocks << ' ' << work.ran << ' ' << work.threads << ' '
         << work.shared << ' ' << work.instructions << ' ' << meter.sectors_of_blocks[name] << '\n';
    Kernel const& kernel = forms[form].at(name);
    for (auto const& [pc, sum] : meter.traffic[name])
      text << "at " << pc << ' ' << kernel.names[size_t(kernel.code[size_t(pc)].name)] << ' ' << sum.requests << ' ' << sum.bytes << ' '
           << sum.sectors << ' ' << sum.lines << ' ' << sum.cycles << ' ' << sum.least << '\n';
  }
  return text.str();
}

}  // namespace ptx

#define DOOR extern "C" __attribute__((visibility("default")))

// Each returns null, or what is wrong.
DOOR char const* ptx_load(char const* text) {
  try {
    ptx::load(text);
    return nullptr;
  } catch (std::exception const& error) {
    return (ptx::last_error = error.what()).c_str();
  }
}
DOOR char const* ptx_launch(char const* name, unsigned const* grid, int threads, int together, int shared, void** given) {
  try {
    ptx::launch(name, grid, threads, together, shared, given);
    return nullptr;
  } catch (std::exception const& error) {
    return (ptx::last_error = std::string(name) + ": " + error.what()).c_str();
  }
}
// Takes kernels of a form from now on, and loads them to it.
DOOR void ptx_use(int form) { ptx::form = form; }
DOOR void ptx_clear() { ptx::forms.clear(), ptx::launches.clear(); }
DOOR int ptx_launches(char const* name) { return ptx::launches[name]; }
DOOR void ptx_seed(uint64_t seed) { ptx::seed = seed; }
// Counts what launches take from now on, of which at most so many blocks run; 0 stops that, and all run.
DOOR void ptx_count(unsigned blocks) {
  ptx::meter.on = blocks > 0, ptx::sample = blocks;
  ptx::meter.traffic.clear(), ptx::meter.sectors_of_blocks.clear(), ptx::works.clear();
}
DOOR char const* ptx_counted() { return (ptx::last_text = ptx::counted()).c_str(); }
DOOR uint64_t ptx_executed() { return ptx::executed; }
