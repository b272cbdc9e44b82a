# SPDX-License-Identifier: Apache-2.0
# The trainers, one unit an element and a state of the stream, compiled once: the program, the
# benchmark of training and the tests of whole runs share them.
include_guard(GLOBAL)
add_library(decoder_trainers STATIC)
foreach(element fp64 fp32 bf16)
  foreach(unit ${element} ${element}_split_sequence ${element}_grid)
    target_sources(decoder_trainers PRIVATE "${CMAKE_CURRENT_LIST_DIR}/units/${unit}.cpp")
  endforeach()
endforeach()
target_include_directories(decoder_trainers INTERFACE "${PROJECT_SOURCE_DIR}/examples")
target_link_libraries(decoder_trainers PUBLIC tenon_own)
# The units are large: -O2 with the vectorisation of -O3 compiles faster and in less memory.
target_compile_options(
  decoder_trainers
  PRIVATE "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-O2;-ftree-vectorize;-fvect-cost-model=dynamic>")

# What the programs know of GPUs, see device/device.hpp.
add_library(decoder_device STATIC)
target_include_directories(decoder_device INTERFACE "${PROJECT_SOURCE_DIR}/examples")
target_link_libraries(decoder_device PUBLIC tenon_own)
if(TENON_HAS_CUDA)
  set(cuda_units "${CMAKE_CURRENT_LIST_DIR}/device/sort.cu")
  foreach(element fp64 fp32 bf16)
    list(APPEND cuda_units "${CMAKE_CURRENT_LIST_DIR}/device/${element}.cu"
         "${CMAKE_CURRENT_LIST_DIR}/device/${element}_attention.cu")
  endforeach()
  tenon_cuda_sources(decoder_device ${cuda_units})
  target_sources(decoder_device PRIVATE "${CMAKE_CURRENT_LIST_DIR}/device/gpu.cpp")
  target_link_libraries(decoder_device PUBLIC tenon_cuda)
else()
  target_sources(decoder_device PRIVATE "${CMAKE_CURRENT_LIST_DIR}/device/no_gpu.cpp")
endif()
