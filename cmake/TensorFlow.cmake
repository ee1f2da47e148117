# SPDX-License-Identifier: Apache-2.0
#
# Finds TensorFlow through the Python that the package is built for. Sets
# TensorFlow_FOUND; if true, TensorFlow_VERSION and TensorFlow_CXX11_ABI too,
# and defines the target TensorFlow::framework. If false, TensorFlow_PROBLEM
# says why.
set(TensorFlow_FOUND FALSE)
find_package(Python COMPONENTS Interpreter)
if(NOT Python_Interpreter_FOUND)
  set(TensorFlow_PROBLEM "no Python interpreter")
  return()
endif()

# Asked once per configure: importing TensorFlow takes seconds. What it prints
# while it starts is shown only if it fails.
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env TF_CPP_MIN_LOG_LEVEL=3 ${Python_EXECUTABLE}
          ${CMAKE_CURRENT_LIST_DIR}/tensorflow_flags.py
  RESULT_VARIABLE _tf_result
  OUTPUT_VARIABLE _tf_output
  ERROR_VARIABLE _tf_error
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(NOT _tf_result EQUAL 0)
  string(REGEX REPLACE ".*\n" "" _tf_error "${_tf_error}")
  set(TensorFlow_PROBLEM "${Python_EXECUTABLE} cannot import TensorFlow (${_tf_error})")
  return()
endif()

string(REGEX MATCH "\nkbd: ([^\n]*)$" _tf_line "\n${_tf_output}")
list(POP_FRONT CMAKE_MATCH_1 TensorFlow_VERSION TensorFlow_CXX11_ABI _tf_include _tf_library
     _tf_align)
if(NOT EXISTS "${_tf_include}" OR NOT EXISTS "${_tf_library}")
  set(TensorFlow_PROBLEM "TensorFlow has no headers or no library (${_tf_line})")
  return()
endif()

set(TensorFlow_FOUND TRUE)
add_library(TensorFlow::framework SHARED IMPORTED)
set_target_properties(
  TensorFlow::framework
  PROPERTIES IMPORTED_LOCATION "${_tf_library}"
             # Imported, so SYSTEM: the warnings of its headers would bury ours.
             INTERFACE_INCLUDE_DIRECTORIES "${_tf_include}"
             INTERFACE_COMPILE_DEFINITIONS
             "_GLIBCXX_USE_CXX11_ABI=${TensorFlow_CXX11_ABI};EIGEN_MAX_ALIGN_BYTES=${_tf_align}")
