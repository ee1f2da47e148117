// SPDX-License-Identifier: Apache-2.0
//
// The emulator that runs CUDA kernels in tests: for each thing it finds, a kernel that does it and
// a twin that does not; then what the instructions compute.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "cuda/platform.h"
#include "cuda/ptx.h"

namespace {

using cuda_on_cpu::Kind;
using cuda_on_cpu::options;
using cuda_on_cpu::record;
using cuda_on_cpu::watches_memory;
using kbd::cp_async_16;
using kbd::cp_async_4;
using kbd::cp_async_commit;
using kbd::cp_async_wait;
using kbd::dynamic_shared;
using kbd::launch;

constexpr unsigned kAll = 0xffffffffu;

// Launches a kernel that must be reported for nothing but `kind`. Where threads race, some may read
// before anybody wrote.
template <class... P, class... A>
void expect(Kind kind, const char* what, void (*kernel)(P...), dim3 grid, dim3 block,
            size_t shared_bytes, A... args) {
  record().clear();
  options().print = false;
  launch(kernel, grid, block, shared_bytes, nullptr, args...);
  options().print = true;
  const int64_t allowed =
      record().count(kind) + (kind == Kind::kRace ? record().count(Kind::kUnwritten) : 0);
  if (!check(record().count(kind) > 0 && record().total() == allowed, what)) {
    std::printf("  %lld findings, %lld of the right kind\n", (long long)record().total(),
                (long long)record().count(kind));
    for (const cuda_on_cpu::Finding& finding : record().findings) {
      std::printf("  %s\n", finding.text.c_str());
    }
  }
}

// The same for what only a build that watches memory can see.
template <class... P, class... A>
void expect_if_watched(Kind kind, const char* what, void (*kernel)(P...), dim3 grid, dim3 block,
                       size_t shared_bytes, A... args) {
  if (watches_memory()) {
    expect(kind, what, kernel, grid, block, shared_bytes, args...);
  }
}

template <class... P, class... A>
void expect_clean(const char* what, void (*kernel)(P...), dim3 grid, dim3 block,
                  size_t shared_bytes, A... args) {
  record().clear();
  const cudaError_t status = launch(kernel, grid, block, shared_bytes, nullptr, args...);
  check(record().total() == 0 && status == cudaSuccess, what);
}

// Whether a launch brings the process down, as a sanitizer or the guard page does.
template <class... P, class... A>
bool dies(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, A... args) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) {
      _exit(0);
    }
    launch(kernel, grid, block, shared_bytes, nullptr, args...);
    _exit(0);
  }
  int result = 0;
  waitpid(child, &result, 0);
  return !WIFEXITED(result) || WEXITSTATUS(result) != 0;
}

// ---- Races ----

// Each thread writes its own word and reads another's.
template <bool kBarrier, int kThreads>
__global__ void neighbour(float* out, int distance) {
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = float(threadIdx.x);
  if (kBarrier) {
    __syncthreads();
  }
  out[threadIdx.x] = tile[threadIdx.x ^ unsigned(distance)];
}

enum class Order { kNone, kSyncwarp, kVote };

template <Order kOrder>
__global__ void neighbour_lane(float* out) {
  float* tile = dynamic_shared<float>();
  tile[threadIdx.x] = float(threadIdx.x);
  if (kOrder == Order::kSyncwarp) {
    __syncwarp();
  } else if (kOrder == Order::kVote) {
    __any_sync(kAll, 1);
  }
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// Half warps, each synchronized by itself; the distance says whether they keep to themselves.
__global__ void half_warps(float* out, unsigned distance) {
  float* tile = dynamic_shared<float>();
  tile[threadIdx.x] = float(threadIdx.x);
  __syncwarp(threadIdx.x % 32 < 16 ? 0x0000ffffu : 0xffff0000u);
  out[threadIdx.x] = tile[threadIdx.x ^ distance];
}

// A tile is read, then written anew: the second barrier is the one people forget.
template <bool kBarrier>
__global__ void reused_tile(float* out) {
  float* tile = dynamic_shared<float>();
  for (int step = 0; step < 3; ++step) {
    tile[threadIdx.x] = float(step);
    __syncthreads();
    out[threadIdx.x] += tile[blockDim.x - 1 - threadIdx.x];
    if (kBarrier) {
      __syncthreads();
    }
  }
}

__global__ void small_elements(float* out) {
  uint8_t* bytes = dynamic_shared<uint8_t>();
  __half* halves = reinterpret_cast<__half*>(bytes + blockDim.x);
  bytes[threadIdx.x] = uint8_t(threadIdx.x);
  halves[threadIdx.x] = __float2half(float(threadIdx.x));
  __syncthreads();
  const unsigned other = threadIdx.x ^ 33;
  out[threadIdx.x] = float(bytes[other]) + __half2float(halves[other]);
  __syncthreads();
  reinterpret_cast<uint32_t*>(bytes)[threadIdx.x / 4] = 1;
}

// The same but for the last line, where four threads write one word.
__global__ void small_elements_clean(float* out) {
  uint8_t* bytes = dynamic_shared<uint8_t>();
  __half* halves = reinterpret_cast<__half*>(bytes + blockDim.x);
  bytes[threadIdx.x] = uint8_t(threadIdx.x);
  halves[threadIdx.x] = __float2half(float(threadIdx.x));
  __syncthreads();
  const unsigned other = threadIdx.x ^ 33;
  out[threadIdx.x] = float(bytes[other]) + __half2float(halves[other]);
  __syncthreads();
  if (threadIdx.x < 16) {
    reinterpret_cast<uint32_t*>(bytes)[threadIdx.x] = 1;
  }
}

template <bool kBarrier>
__global__ void histogram(int* out) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) {
    bins[threadIdx.x] = 0;
  }
  if (kBarrier) {
    __syncthreads();
  }
  atomicAdd(&bins[threadIdx.x % 8], 1);
  __syncthreads();
  if (threadIdx.x < 8) {
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
  }
}

void races() {
  std::vector<float> out(256);
  float* p = out.data();
  expect_if_watched(Kind::kRace, "race between warps", neighbour<false, 64>, 2, 64, 0, p, 32);
  if (watches_memory() && check(!record().findings.empty(), "a finding is kept")) {
    const cuda_on_cpu::Finding& finding = record().findings.back();
    check(finding.kernel.find("neighbour<false, 64>") != std::string::npos, "kernel is named");
    check(finding.text.find("::tile, byte ") != std::string::npos, "variable is named");
    check(finding.others.size() == 1 && finding.others[0].x == (finding.thread.x ^ 32),
          "both threads are named");
  }
  expect_if_watched(Kind::kRace, "race within a warp", neighbour<false, 64>, 1, 64, 0, p, 1);
  expect_clean("a barrier, two warps", neighbour<true, 64>, 2, 64, 0, p, 32);
  expect_clean("a barrier, one warp", neighbour<true, 32>, 2, 32, 0, p, 1);
  check(out[5] == 4, "neighbour's value");
  expect_if_watched(Kind::kRace, "lanes unordered", neighbour_lane<Order::kNone>, 1, 64, 256, p);
  expect_if_watched(Kind::kRace, "votes do not order", neighbour_lane<Order::kVote>, 1, 64, 256, p);
  expect_clean("__syncwarp orders", neighbour_lane<Order::kSyncwarp>, 1, 64, 256, p);
  options().collectives_order_memory = true;
  expect_clean("votes order if told to", neighbour_lane<Order::kVote>, 1, 64, 256, p);
  options().collectives_order_memory = false;
  expect_if_watched(Kind::kRace, "half warps that mix", half_warps, 1, 64, 256, p, 16u);
  expect_clean("half warps that do not", half_warps, 1, 64, 256, p, 8u);
  expect_if_watched(Kind::kRace, "tile written while read", reused_tile<false>, 1, 64, 256, p);
  expect_clean("tile written after a barrier", reused_tile<true>, 1, 64, 256, p);
  expect_if_watched(Kind::kRace, "threads of a warp write a word", small_elements, 1, 64, 192, p);
  expect_clean("bytes and halves of a word", small_elements_clean, 1, 64, 192, p);
  int bins[8] = {};
  expect_clean("atomics", histogram<true>, 3, 128, 0, &bins[0]);
  check(bins[0] == 48 && bins[7] == 48, "histogram");
  expect_if_watched(Kind::kRace, "atomics against stores", histogram<false>, 1, 128, 0, &bins[0]);
}

// ---- Shared memory: never written, out of bounds, out of alignment ----

__global__ void read_first(float* out, bool writes) {
  __shared__ float value;
  if (writes) {
    if (threadIdx.x == 0) {
      value = 1;
    }
    __syncthreads();
  }
  out[threadIdx.x] = value;
}

__global__ void write_at(float value, int index) { dynamic_shared<float>()[index] = value; }

__global__ void vector_at(float4* out, int offset) {
  float* tile = dynamic_shared<float>();
  for (int i = 0; i < 16; ++i) {
    tile[i] = float(i);
  }
  *out = *reinterpret_cast<float4*>(tile + offset);
}

// The second block must not see what the first one left.
__global__ void left_by_others(float* out) {
  float* tile = dynamic_shared<float>();
  if (blockIdx.x == 0) {
    tile[threadIdx.x] = 1;
  } else {
    out[threadIdx.x] = tile[threadIdx.x];
  }
}

void shared_memory() {
  std::vector<float> out(64);
  float* p = out.data();
  expect_if_watched(Kind::kUnwritten, "unwritten static", read_first, 1, 32, 0, p, false);
  check(!watches_memory() || std::isnan(out[3]), "rubbish");
  expect_clean("written static", read_first, 1, 32, 0, p, true);
  expect_if_watched(Kind::kUnwritten, "left by another block", left_by_others, 2, 32, 128, p);
  expect_if_watched(Kind::kOutOfBounds, "dynamic shared memory ends", write_at, 1, 1, 128, 1.f, 32);
  expect_clean("last word of dynamic shared memory", write_at, 1, 1, 128, 1.f, 31);
  float4 v{};
  expect_if_watched(Kind::kMisaligned, "vector out of alignment", vector_at, 1, 1, 64, &v, 3);
  expect_clean("vector in alignment", vector_at, 1, 1, 64, &v, 4);
  check(v.x == 4 && v.w == 7, "vector load");
  if (!watches_memory()) {
    check(dies(write_at, 1, 1, 128, 1.f, 32), "sanitizer: dynamic shared memory ends");
    check(!dies(write_at, 1, 1, 128, 1.f, 31), "sanitizer: its last word");
    check(dies(vector_at, 1, 1, 64, &v, 3), "sanitizer: alignment");
  }
}

// ---- Global memory ----

__global__ void store_at(float* out, int64_t index) { out[index + threadIdx.x] = 1; }

__global__ void copy_from(float* out, const float* in) {
  float* tile = dynamic_shared<float>();
  cp_async_4(&tile[threadIdx.x], in + threadIdx.x, true);
  cp_async_commit();
  cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x];
}

int deep(volatile int* depth) {
  volatile int frame[1024];
  frame[0] = *depth;
  *depth = frame[0] + 1;
  return frame[0] < 0 ? 0 : deep(depth) + frame[0];
}

__global__ void overflow_stack(int* out) { *out = deep(out); }

void global_memory() {
  float* p = nullptr;
  check(cudaMalloc(&p, 33 * sizeof(float)) == cudaSuccess, "cudaMalloc");
  check(!dies(store_at, 1, 32, 0, p, int64_t(1)), "inside global memory");
  if (!watches_memory()) {
    check(dies(store_at, 1, 32, 0, p, int64_t(2)), "sanitizer: global memory ends");
    check(dies(store_at, 1, 32, 0, p, int64_t(-1)), "sanitizer: global memory begins");
    check(dies(copy_from, 1, 33, 33 * 4, p, static_cast<const float*>(p + 1)),
          "sanitizer: cp.async beyond global memory");
  }
  cudaFree(p);
  int depth = 0;
  check(dies(overflow_stack, 1, 1, 0, &depth), "guard page of a stack");
}

// ---- Barriers ----

enum class Sin { kNone, kEnds, kElsewhere, kOtherLine };

template <Sin kSin>
__global__ void barrier(int* out) {
  if (kSin == Sin::kEnds && threadIdx.x == 7) {
    return;
  }
  if (kSin == Sin::kElsewhere && threadIdx.x == 40) {
    __ballot_sync(kAll, 1);
  }
  if (kSin == Sin::kOtherLine && threadIdx.x == 3) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  atomicAdd(out, 1);
}

void barriers() {
  int count = 0;
  expect_clean("all at the barrier", barrier<Sin::kNone>, 2, 96, 0, &count);
  check(count == 192, "all threads ran");
  expect(Kind::kBarrier, "a thread ended", barrier<Sin::kEnds>, 1, 96, 0, &count);
  check(record().findings[0].others.size() == 1 && record().findings[0].others[0].x == 7,
        "the thread that ended is named");
  expect(Kind::kBarrier, "another barrier", barrier<Sin::kOtherLine>, 1, 96, 0, &count);
  options().print = false;
  record().clear();
  check(launch(barrier<Sin::kElsewhere>, 1, 96, 0, nullptr, &count) == cudaErrorLaunchFailure,
        "a stuck block fails");
  options().print = true;
  check(record().count(Kind::kBarrier) == 1 && record().count(Kind::kDivergence) == 1,
        "a thread waits elsewhere");
  expect_clean("and then all is well", barrier<Sin::kNone>, 2, 96, 0, &count);
}

// ---- Warps ----

enum class WarpSin { kNone, kEnds, kOtherInstruction, kOtherMask, kNotInMask, kAbsentSource };

template <WarpSin kSin>
__global__ void warp_sum(int* out) {
  const int lane = int(threadIdx.x % 32);
  if (kSin == WarpSin::kEnds && lane == 9) {
    return;
  }
  if (kSin == WarpSin::kOtherInstruction && lane == 9) {
    __syncwarp();
  }
  unsigned mask = kAll;
  if (kSin == WarpSin::kOtherMask && lane >= 16) {
    mask = 0xffff0000u;
  }
  if (kSin == WarpSin::kNotInMask) {
    mask = 0xfffffffeu;
  }
  if (kSin == WarpSin::kAbsentSource) {
    if (lane >= 16) {
      return;
    }
    mask = 0x0000ffffu;
  }
  int sum = lane;
  if (kSin == WarpSin::kNotInMask) {
    sum = int(__reduce_add_sync(mask, unsigned(lane)));
  } else {
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(mask, sum, distance);
    }
  }
  out[threadIdx.x] = sum;
}

void warps() {
  std::vector<int> out(64);
  int* p = out.data();
  expect_clean("whole warps", warp_sum<WarpSin::kNone>, 1, 64, 0, p);
  check(out[0] == 496 && out[63] == 496, "sum by shuffles");
  expect(Kind::kDivergence, "a lane ended", warp_sum<WarpSin::kEnds>, 1, 64, 0, p);
  expect(Kind::kDivergence, "a lane never was", warp_sum<WarpSin::kNone>, 1, 48, 0, p);
  expect(Kind::kDivergence, "another instruction", warp_sum<WarpSin::kOtherInstruction>, 1, 64, 0,
         p);
  check(record().findings[0].others.size() == 1 && record().findings[0].others[0].x == 9,
        "the lane that waits elsewhere is named");
  expect(Kind::kDivergence, "another mask", warp_sum<WarpSin::kOtherMask>, 1, 32, 0, p);
  expect(Kind::kDivergence, "not in its own mask", warp_sum<WarpSin::kNotInMask>, 1, 32, 0, p);
  expect(Kind::kDivergence, "source takes no part", warp_sum<WarpSin::kAbsentSource>, 1, 32, 0, p);
}

// ---- Asynchronous copies ----

enum class CopySin { kNone, kNoWait, kLateWait, kNoBarrier, kEarlyReuse, kNoLastWait };

// Sums the columns of x[rows, 32], a row a step, the next one on its way; two rows of memory.
template <CopySin kSin>
__global__ void column_sums(const float* x, int rows, float* out) {
  float* tile = dynamic_shared<float>();
  const unsigned t = threadIdx.x;  // 8 copy, 64 add: two warps want the same sums
  auto fetch = [&](int row) {
    if (t < 8) {
      cp_async_16(tile + row % 2 * 32 + t * 4, x + row * 32 + t * 4, row < rows);
    }
    cp_async_commit();
  };
  float sum = 0;
  fetch(0);
  for (int row = 0; row < rows; ++row) {
    if (kSin == CopySin::kEarlyReuse || row + 1 < rows || kSin == CopySin::kNoLastWait) {
      fetch(row + 1);
    } else {
      cp_async_commit();
    }
    if (kSin == CopySin::kLateWait) {
      cp_async_wait<2>();
    } else if (kSin != CopySin::kNoWait) {
      cp_async_wait<1>();
    }
    if (kSin != CopySin::kNoBarrier) {
      __syncthreads();
    }
    sum += tile[row % 2 * 32 + t % 32];
    if (kSin != CopySin::kEarlyReuse && kSin != CopySin::kNoBarrier) {
      __syncthreads();
    }
  }
  if (kSin == CopySin::kEarlyReuse) {
    cp_async_wait<0>();
  }
  out[t] = sum;
}

template <CopySin kSin>
void expect_copies(const char* what, const std::vector<float>& x, int rows, float* out) {
  record().clear();
  options().print = false;
  launch(column_sums<kSin>, 1, 64, 256, nullptr, x.data(), rows, out);
  options().print = true;
  const bool race = kSin == CopySin::kEarlyReuse || kSin == CopySin::kNoBarrier;
  check(record().count(Kind::kPendingCopy) > 0 || (race && record().count(Kind::kRace) > 0), what);
}

void copies() {
  constexpr int kRows = 5;
  std::vector<float> x(kRows * 32), out(64);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = float(i % 7);
  }
  float want = 0;
  for (int row = 0; row < kRows; ++row) {
    want += x[size_t(row) * 32 + 11];
  }
  expect_clean("two buffers", column_sums<CopySin::kNone>, 1, 64, 256, x.data(), kRows, out.data());
  check(out[11] == want && out[43] == want, "sums through two buffers");
  expect_copies<CopySin::kNoLastWait>("a copy at the end", x, kRows, out.data());
  if (watches_memory()) {
    expect_copies<CopySin::kNoWait>("no wait", x, kRows, out.data());
    expect_copies<CopySin::kLateWait>("a wait for too little", x, kRows, out.data());
    expect_copies<CopySin::kNoBarrier>("no barrier after the wait", x, kRows, out.data());
    expect_copies<CopySin::kEarlyReuse>("copy to what others still read", x, kRows, out.data());
  }
  // The data itself is late, whatever the build.
  options().print = false;
  launch(column_sums<CopySin::kLateWait>, 1, 64, 256, nullptr, x.data(), kRows, out.data());
  options().print = true;
  check(std::isnan(out[11]), "rubbish until the wait");
}

// ---- What instructions compute ----

// Positions of the threads whose flag is set, in order: ballots within warps, then over warps.
__global__ void compact(const int* flags, int* kept, int* total) {
  __shared__ int warp_counts[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const bool flag = flags[threadIdx.x] != 0;
  const unsigned votes = __ballot_sync(kAll, flag);
  if (lane == 0) {
    warp_counts[warp] = __popc(votes);
  }
  __syncthreads();
  if (warp == 0) {
    int count = lane < warps ? warp_counts[lane] : 0;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(kAll, count, distance);
      count += lane >= distance ? other : 0;
    }
    if (lane < warps) {
      warp_counts[lane] = count;
    }
  }
  __syncthreads();
  const int before = warp == 0 ? 0 : warp_counts[warp - 1];
  if (flag) {
    kept[before + __popc(votes & ((1u << lane) - 1))] = int(threadIdx.x);
  }
  if (threadIdx.x == 0) {
    *total = warp_counts[warps - 1];
  }
}

struct Seen {
  int index, up, down, exclusive_or, index_of_8, up_of_8, down_of_8, xor_of_8;
  int64_t wide;
  unsigned ballot, match, sum;
  int any, all, minimum, maximum, voters;
};

__global__ void collectives(Seen* seen) {
  const int lane = int(threadIdx.x);
  Seen& s = seen[lane];
  s.index = __shfl_sync(kAll, lane, 5);
  s.up = __shfl_up_sync(kAll, lane, 3u);
  s.down = __shfl_down_sync(kAll, lane, 3u);
  s.exclusive_or = __shfl_xor_sync(kAll, lane, 9);
  s.index_of_8 = __shfl_sync(kAll, lane, 13, 8);
  s.up_of_8 = __shfl_up_sync(kAll, lane, 3u, 8);
  s.down_of_8 = __shfl_down_sync(kAll, lane, 3u, 8);
  s.xor_of_8 = __shfl_xor_sync(kAll, lane, 9, 8);
  s.wide = __shfl_sync(kAll, int64_t(lane) << 40, lane + 1);
  s.ballot = __ballot_sync(kAll, lane % 3 == 0);
  s.match = __match_any_sync(kAll, lane % 4);
  s.sum = __reduce_add_sync(kAll, unsigned(lane));
  s.any = __any_sync(kAll, lane == 8);
  s.all = __all_sync(kAll, lane < 31);
  s.minimum = __reduce_min_sync(kAll, lane - 9);
  s.maximum = __reduce_max_sync(kAll, -lane - 1);
  s.voters = __syncthreads_count(lane % 2);
}

void check_collectives() {
  Seen seen[32];
  expect_clean("collectives", collectives, 1, 32, 0, &seen[0]);
  for (int lane = 0; lane < 32; ++lane) {
    const Seen& s = seen[lane];
    const int part = lane / 8 * 8;
    check(s.index == 5 && s.up == (lane < 3 ? lane : lane - 3) &&
              s.down == (lane > 28 ? lane : lane + 3) && s.exclusive_or == (lane ^ 9),
          "shuffles");
    check(s.index_of_8 == part + 5 && s.up_of_8 == (lane - 3 < part ? lane : lane - 3) &&
              s.down_of_8 == (lane + 3 > part + 7 ? lane : lane + 3) &&
              s.xor_of_8 == ((lane ^ 9) > part + 7 ? lane : lane ^ 9),
          "shuffles within eight lanes");
    check(s.wide == int64_t((lane + 1) % 32) << 40, "shuffle of 64 bits");
    check(s.ballot == 0x49249249u && s.match == 0x11111111u << lane % 4 && s.sum == 496, "votes");
    check(s.any == 1 && s.all == 0 && s.minimum == -9 && s.maximum == -1 && s.voters == 16,
          "reductions");
  }
}

void check_compaction(int threads) {
  std::vector<int> flags(size_t(threads), 0), kept(size_t(threads), -1), want;
  for (int i = 0; i < threads; ++i) {
    flags[size_t(i)] = int(uint32_t(i) * 2654435761u >> 30) == 1;
    if (flags[size_t(i)]) {
      want.push_back(i);
    }
  }
  int total = 0;
  expect_clean("compaction", compact, 1, unsigned(threads), 0, flags.data(), kept.data(), &total);
  kept.resize(size_t(total));
  check(kept == want, "compaction by ballots and a scan");
}

struct Big {
  int values[64];
};

__global__ void by_value(const __grid_constant__ Big big, uint3* at, int* sums) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  at[i] = threadIdx;
  sums[i] = big.values[block];
}

__global__ void order_of_blocks(int* out, int* next) {
  if (threadIdx.x == 0) {
    out[atomicAdd(next, 1)] = int(blockIdx.x);
  }
}

void check_indices() {
  Big big;
  for (int i = 0; i < 64; ++i) {
    big.values[i] = 3 * i;
  }
  const dim3 grid(2, 3, 4), block(5, 4, 3);
  std::vector<uint3> at(24 * 60);
  std::vector<int> sums(24 * 60);
  expect_clean("three dimensions", by_value, grid, block, 0, big, at.data(), sums.data());
  check(at[59].x == 4 && at[59].y == 3 && at[59].z == 2 && at[64].x == 4 && sums[64] == 3,
        "indices");
  std::vector<int> order(50), again(50);
  int next = 0;
  expect_clean("blocks", order_of_blocks, 50, 32, 0, order.data(), &next);
  check(order[0] == 0 && order[49] == 49, "grid order");
  options().shuffle_seed = 7;
  next = 0;
  expect_clean("blocks shuffled", order_of_blocks, 50, 32, 0, order.data(), &next);
  next = 0;
  expect_clean("and again", order_of_blocks, 50, 32, 0, again.data(), &next);
  check_compaction(256);
  options().shuffle_seed = 0;
  std::vector<bool> met(50);
  for (int i = 0; i < 50; ++i) {
    met[size_t(order[size_t(i)])] = true;
  }
  check(order == again && order[0] + order[1] + order[2] != 3, "an order drawn from the seed");
  check(std::vector<bool>(50, true) == met, "every block once");
}

// ---- Limits ----

__global__ void nothing() {}

template <int kBytes>
__global__ void has_static(int* out) {
  __shared__ char tile[kBytes];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

void limits() {
  const cudaError_t bad = cudaErrorInvalidConfiguration;
  check(launch(nothing, 1, 1024, 0, nullptr) == cudaSuccess, "1024 threads");
  check(launch(nothing, 1, 1025, 0, nullptr) == bad, "1025 threads");
  check(launch(nothing, 1, dim3(32, 33), 0, nullptr) == bad, "32 x 33 threads");
  check(launch(nothing, 1, dim3(1, 1, 65), 0, nullptr) == bad, "65 threads deep");
  check(launch(nothing, 0, 32, 0, nullptr) == bad, "no blocks");
  check(launch(nothing, 1, 0, 0, nullptr) == bad, "no threads");
  check(launch(nothing, dim3(1, 65536), 1, 0, nullptr) == bad, "65536 blocks in y");
  check(launch(nothing, dim3(1, 1, 65536), 1, 0, nullptr) == bad, "65536 blocks in z");
  check(launch(nothing, dim3(2147483648u), 1, 0, nullptr) == bad, "2^31 blocks in x");
  check(launch(nothing, dim3(1, 65535), 1, 0, nullptr) == cudaSuccess, "65535 blocks in y");
  check(cudaGetLastError() == cudaSuccess, "no error is left behind");

  const cudaError_t too_much = cudaErrorInvalidValue;
  cuda_on_cpu::launch(nothing, 1, 1, 48 * 1024 + 1, nullptr);
  check(cudaPeekAtLastError() == too_much && cudaGetLastError() == too_much,
        "48 KB without asking");
  check(launch(nothing, 1, 1, 99 * 1024, nullptr) == cudaSuccess, "99 KB");
  check(launch(nothing, 1, 1, 99 * 1024 + 1, nullptr) == too_much, "more than 99 KB");
  options().shared_limit_optin = 232448;
  check(launch(nothing, 1, 1, 232448, nullptr) == cudaSuccess, "227 KB where there are");
  options().shared_limit_optin = 101376;
  int out[32];
  check(launch(has_static<1024>, 1, 32, 47 * 1024, nullptr, &out[0]) == cudaSuccess && out[9] == 1,
        "static and dynamic");
  check(launch(has_static<1024>, 1, 32, 47 * 1024 + 4, nullptr, &out[0]) == too_much,
        "static and dynamic together");
  check(std::string(cudaGetErrorString(too_much)) == "invalid argument", "error in words");
}

// ---- Numbers ----

void numbers() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = __half2float(__ushort_as_half(uint16_t(bits)));
    const float bfloat = __bfloat162float(__ushort_as_bfloat16(uint16_t(bits)));
    check(std::isnan(half) || __half_as_ushort(__float2half(half)) == bits, "half and back");
    check(std::isnan(bfloat) || __bfloat16_as_ushort(__float2bfloat16(bfloat)) == bits,
          "bfloat16 and back");
    // Half-way to the next number, and one unit to each side of that.
    if ((bits & 0x7fff) < 0x7bff) {
      const float next = __half2float(__ushort_as_half(uint16_t(bits + 1)));
      const float middle = half + (next - half) / 2;
      check(__half_as_ushort(middle) == bits + bits % 2, "half: ties to even");
      check(__half_as_ushort(std::nextafter(middle, half)) == bits, "half: below a tie");
      check(__half_as_ushort(std::nextafter(middle, next)) == bits + 1, "half: above a tie");
    }
  }
  check(__half2float(__ushort_as_half(0x3555)) == 0.333251953125f, "a third as half");
  check(__half2float(__ushort_as_half(0x0001)) == std::ldexp(1.f, -24), "smallest half");
  check(__half_as_ushort(65519.f) == 0x7bff && __half_as_ushort(65520.f) == 0x7c00, "largest half");
  check(__bfloat16_as_ushort(1.00390625f) == 0x3f80 && __bfloat16_as_ushort(1.01171875f) == 0x3f82,
        "bfloat16: ties to even");
  check(__umulhi(0xD2511F53u, 0xffffffffu) == 0xD2511F52u && __clz(1) == 31 && __clz(0) == 32 &&
            __ffs(8) == 4 && __ffs(0) == 0 && __popc(0xf0f0u) == 8 && __brev(1) == 0x80000000u &&
            __byte_perm(0x33221100u, 0x77665544u, 0x7250) == 0x77225500u &&
            __funnelshift_l(0x80000000u, 1, 1) == 3 && __float_as_uint(1.f) == 0x3f800000u,
        "bits");
}

}  // namespace

int main() {
  std::printf("shared memory is %s\n", watches_memory() ? "watched" : "not watched");
  races();
  shared_memory();
  global_memory();
  barriers();
  warps();
  copies();
  check_collectives();
  check_compaction(32);
  check_compaction(1024);
  check_indices();
  limits();
  numbers();
  return report();
}
