// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "cpu/chain.h"
#include "cpu/isa.h"

namespace kbd {
namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

enum class Set { kPortable, kAvx2, kAvx512 };

struct Choice {
  Set set;
  const char* problem;
};

Choice choose_set() {
  const char* asked = std::getenv("KBD_ISA");
  const Set best = has_avx512() ? Set::kAvx512 : has_avx2() ? Set::kAvx2 : Set::kPortable;
  if (asked == nullptr || *asked == '\0') {
    return {best, nullptr};
  }
  if (std::strcmp(asked, "portable") == 0) {
    return {Set::kPortable, nullptr};
  }
  const bool avx2 = std::strcmp(asked, "avx2") == 0;
  if (!avx2 && std::strcmp(asked, "avx512") != 0) {
    return {best, "KBD_ISA names no known instruction set (portable, avx2, avx512)"};
  }
  if (avx2 ? !has_avx2() : !has_avx512()) {
    return {best, "KBD_ISA names an instruction set that this machine does not have"};
  }
  return {avx2 ? Set::kAvx2 : Set::kAvx512, nullptr};
}

const Choice& the_choice() {
  static const Choice choice = choose_set();
  return choice;
}

}  // namespace

template <>
const Isa<float>& chosen_isa<float>() {
#if defined(__x86_64__)
  switch (the_choice().set) {
    case Set::kAvx512:
      return *avx512_float();
    case Set::kAvx2:
      return *avx2_float();
    case Set::kPortable:
      break;
  }
#endif
  return *portable_float();
}

template <>
const Isa<double>& chosen_isa<double>() {
#if defined(__x86_64__)
  switch (the_choice().set) {
    case Set::kAvx512:
      return *avx512_double();
    case Set::kAvx2:
      return *avx2_double();
    case Set::kPortable:
      break;
  }
#endif
  return *portable_double();
}

const char* isa_name() {
  switch (the_choice().set) {
    case Set::kAvx512:
      return "avx512";
    case Set::kAvx2:
      return "avx2";
    case Set::kPortable:
      break;
  }
  return "portable";
}

const char* isa_problem() { return the_choice().problem; }

}  // namespace kbd
