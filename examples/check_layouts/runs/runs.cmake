# SPDX-License-Identifier: Apache-2.0
# Whole training runs and their comparison, compiled once: check_layouts and the tests share them.
include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/../../pretrain_decoder/trainers.cmake")
add_library(
  whole_runs STATIC
  "${CMAKE_CURRENT_LIST_DIR}/compare.cpp" "${CMAKE_CURRENT_LIST_DIR}/record.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/training.cpp")
target_compile_options(whole_runs PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
target_link_libraries(whole_runs PUBLIC decoder_trainers)
target_include_directories(whole_runs INTERFACE "${CMAKE_CURRENT_LIST_DIR}")
