# SPDX-License-Identifier: Apache-2.0
# The trainers, two units an element, the second for the 2-D grid, compiled once: the program, the benchmark of training and the
# tests of whole runs share them.
include_guard(GLOBAL)
add_library(
  decoder_trainers STATIC
  "${CMAKE_CURRENT_LIST_DIR}/units/fp64.cpp" "${CMAKE_CURRENT_LIST_DIR}/units/fp64_grid.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/units/fp32.cpp" "${CMAKE_CURRENT_LIST_DIR}/units/fp32_grid.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/units/bf16.cpp" "${CMAKE_CURRENT_LIST_DIR}/units/bf16_grid.cpp")
target_include_directories(decoder_trainers INTERFACE "${PROJECT_SOURCE_DIR}/examples")
target_link_libraries(decoder_trainers PUBLIC tenon_own)
# The units are large: -O2 with the vectorisation of -O3 compiles faster and in less memory.
target_compile_options(
  decoder_trainers
  PRIVATE "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-O2;-ftree-vectorize;-fvect-cost-model=dynamic>")
