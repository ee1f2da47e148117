// SPDX-License-Identifier: Apache-2.0
//
// What the C++ tests share: counting failures, and ways of running tasks.
#ifndef KBD_TESTS_CHECK_H_
#define KBD_TESTS_CHECK_H_

#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "kbd/chain.h"

namespace {

int failures = 0;

bool check(bool fine, const char* what) {
  if (!fine) {
    std::printf("FAILED: %s\n", what);
    ++failures;
  }
  return fine;
}

// Pieces of the work, the last first.
inline kbd::ParallelFor pieces(int64_t size) {
  return [size](int64_t total, int64_t, const std::function<void(int64_t, int64_t)>& task) {
    for (int64_t end = total; end > 0; end -= size) {
      task(end > size ? end - size : 0, end);
    }
  };
}

// One unit at a time, by so many threads.
inline kbd::ParallelFor threads(int count) {
  const auto share = [count](int64_t total, int64_t,
                             const std::function<void(int64_t, int64_t)>& task) {
    std::atomic<int64_t> next{0};
    std::vector<std::thread> workers;
    for (int t = 0; t < count; ++t) {
      workers.emplace_back([&] {
        for (int64_t i = next++; i < total; i = next++) {
          task(i, i + 1);
        }
      });
    }
    for (std::thread& worker : workers) {
      worker.join();
    }
  };
  return {share, count};
}

inline int report() {
  std::printf("%s\n", failures == 0 ? "all passed" : "some failed");
  return failures == 0 ? 0 : 1;
}

}  // namespace

#endif  // KBD_TESTS_CHECK_H_
