// SPDX-License-Identifier: Apache-2.0
//
// Names and sizes that C++ does not keep: read from the symbol table of this very executable.
#ifndef KBD_CUDA_ON_CPU_SYMBOLS_H_
#define KBD_CUDA_ON_CPU_SYMBOLS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace cuda_on_cpu {

// A thread-local variable of a function, that is, a static __shared__ one.
struct Variable {
  size_t offset;  // from the beginning of the thread-local block
  size_t bytes;
  std::string mangled;
  std::string name;
};

struct Symbols {
  std::vector<Variable> variables;  // by offset
  size_t thread_local_bytes = 0;
  const char* load_address = nullptr;

  // The name of the function at `address`, as the compiler and as people write it.
  std::string mangled_function(const void* address) const;
  std::string function(const void* address) const;
};

const Symbols& symbols();

// Where the executable's thread-local block is for the calling thread.
char* thread_local_block();

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_SYMBOLS_H_
