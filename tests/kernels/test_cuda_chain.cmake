# SPDX-License-Identifier: Apache-2.0
# Tests of kernels/cuda, without nvcc and without a GPU. To be included after
# add_subdirectory(tests/kernels/cuda_on_cpu). Adds the tests
#
#   test_cuda_chain_hooks, _asan       the kernels of a chain on the emulator
#   test_cuda_chain_sm_75              the same, in brief, as before sm_80 (no cp.async, no bfloat16)
#   test_cuda_chain_mutation_<1..4>    that a defect is found: they pass if test_cuda_chain fails
#   test_cuda_heuristics               the choices that the host makes
get_filename_component(KBD_CUDA_TESTS ${CMAKE_CURRENT_LIST_DIR} ABSOLUTE)
get_filename_component(KBD_CUDA_KERNELS ${CMAKE_CURRENT_LIST_DIR}/../../kernels/cuda ABSOLUTE)

# C++ files that include the .cu files: one of those may belong to nvcc in this very build.
set(sources)
foreach(name chain gemm_fma gemm_tf32 gemm_half gemm_bfloat16)
  set(wrapper_${name} ${CMAKE_CURRENT_BINARY_DIR}/cuda_chain_${name}_cu.cc)
  file(CONFIGURE OUTPUT ${wrapper_${name}} CONTENT "#include \"${KBD_CUDA_KERNELS}/${name}.cu\"\n")
  list(APPEND sources ${wrapper_${name}})
endforeach()

kbd_add_cuda_on_cpu_test(test_cuda_chain ${KBD_CUDA_TESTS}/test_cuda_chain.cc)
foreach(build hooks asan)
  if(TARGET cuda_on_cpu_${build})
    add_library(cuda_chain_${build} STATIC EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(cuda_chain_${build} PUBLIC cuda_on_cpu_${build})
    target_link_libraries(test_cuda_chain_${build} PRIVATE cuda_chain_${build})
  endif()
endforeach()

# Adds an executable of test_cuda_chain in which these kernels are compiled with a definition. The
# linker takes them, and the rest from the library.
function(kbd_add_cuda_chain_variant name definition)
  set(changed)
  foreach(kernel ${ARGN})
    list(APPEND changed ${wrapper_${kernel}})
  endforeach()
  add_executable(${name} ${changed} $<TARGET_OBJECTS:test_cuda_chain_hooks>)
  target_compile_definitions(${name} PRIVATE ${definition})
  target_link_libraries(${name} PRIVATE cuda_chain_hooks)
  add_test(NAME ${name} COMMAND ${name} brief)
endfunction()

if(TARGET cuda_on_cpu_hooks)
  kbd_add_cuda_chain_variant(test_cuda_chain_sm_75 KBD_CUDA_ON_CPU_ARCH=750 gemm_fma gemm_half
                             gemm_bfloat16)
  # 1 takes a wrong row, 2 has no barrier, 3 swaps registers of a fragment, 4 waits for no copy.
  kbd_add_cuda_chain_variant(test_cuda_chain_mutation_1 KBD_MUTATION=1 gemm_fma)
  kbd_add_cuda_chain_variant(test_cuda_chain_mutation_2 KBD_MUTATION=2 gemm_fma)
  kbd_add_cuda_chain_variant(test_cuda_chain_mutation_3 KBD_MUTATION=3 gemm_tf32)
  kbd_add_cuda_chain_variant(test_cuda_chain_mutation_4 KBD_MUTATION=4 gemm_fma)
  # By its last words, so that a test that cannot even start does not pass.
  foreach(mutation 1 2 3 4)
    set_tests_properties(test_cuda_chain_mutation_${mutation}
                         PROPERTIES PASS_REGULAR_EXPRESSION "some failed")
  endforeach()
endif()

add_executable(test_cuda_heuristics ${KBD_CUDA_TESTS}/test_cuda_heuristics.cc)
target_include_directories(test_cuda_heuristics PRIVATE ${KBD_CUDA_KERNELS}/..
                                                        ${KBD_CUDA_KERNELS}/../include)
target_compile_features(test_cuda_heuristics PRIVATE cxx_std_17)
target_compile_options(test_cuda_heuristics PRIVATE -Wall -Wextra -Werror)
add_test(NAME test_cuda_heuristics COMMAND test_cuda_heuristics)
