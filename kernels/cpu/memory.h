// SPDX-License-Identifier: Apache-2.0
//
// Scratch memory of a call.
#ifndef KBD_CPU_MEMORY_H_
#define KBD_CPU_MEMORY_H_

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace kbd {

// Memory that is freed, aligned to a cache line, and null when there is none left. Large pieces
// come from the system and go back to it: malloc would keep some for every thread that ever asked.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(size_t(std::max<int64_t>(bytes, 1))) {
    if (is_large()) {
      void* pages =
          ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      data_ = pages == MAP_FAILED ? nullptr : pages;
    } else {
      data_ = ::operator new(bytes_, std::align_val_t(64), std::nothrow);
    }
  }
  ~Buffer() {
    if (!is_large()) {
      ::operator delete(data_, std::align_val_t(64));
    } else if (data_ != nullptr) {
      ::munmap(data_, bytes_);
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* get() const { return data_; }

 private:
  bool is_large() const { return bytes_ >= size_t(1) << 20; }

  const size_t bytes_;
  void* data_;
};

// Scratch for the tasks of one call: as many buffers as tasks run at once, each used again.
class Pool {
 public:
  explicit Pool(int64_t bytes) : bytes_(bytes) {}

  // Runs work(scratch), or notes that there was no memory.
  template <class Work>
  void with_scratch(const Work& work) {
    std::unique_ptr<Buffer> buffer;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        buffer = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!buffer) {
      buffer = std::make_unique<Buffer>(bytes_);
    }
    if (buffer->get() == nullptr) {
      fine_ = false;
      return;
    }
    work(buffer->get());
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(buffer));
  }

  bool fine() const { return fine_; }

 private:
  const int64_t bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> free_;
  std::atomic<bool> fine_{true};
};

}  // namespace kbd

#endif  // KBD_CPU_MEMORY_H_
