# SPDX-License-Identifier: Apache-2.0
# TENON_CUDA: what was asked, what was found, and never one for the other in silence. Sets
# TENON_HAS_CUDA and TENON_NVCC, and, where CUDA was found,
#
#   tenon_cuda_sources(target FILE.cu...)
#     Compiles each file with nvcc for TENON_CUDA_ARCHITECTURES and adds it to the target.
#   tenon_cuda   an INTERFACE target: the toolkit's headers, its runtime, cuBLASLt, NCCL
#   tenon_nccl   an INTERFACE target, where NCCL was found: nccl.h, libnccl and the runtime
set(TENON_CUDA_ARCHITECTURES 80 CACHE STRING
    "Compute capabilities, as in 80;90a: code for each, and for later ones from the first")
set(TENON_HAS_CUDA OFF)
string(TOUPPER "${TENON_CUDA}" tenon_cuda_asked)
if(NOT tenon_cuda_asked MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "tenon: TENON_CUDA=${TENON_CUDA} was asked; it is AUTO, ON or OFF")
endif()
if(tenon_cuda_asked STREQUAL "OFF")
  message(STATUS "tenon: CUDA is not used (TENON_CUDA=OFF)")
  return()
endif()

find_program(TENON_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
             PATH_SUFFIXES bin DOC "CUDA's compiler")
set(tenon_nvcc_release "")
if(TENON_NVCC)
  execute_process(COMMAND "${TENON_NVCC}" --version OUTPUT_VARIABLE tenon_nvcc_answer
                  ERROR_VARIABLE tenon_nvcc_answer)
  if(tenon_nvcc_answer MATCHES "release ([0-9]+\\.[0-9]+)")
    set(tenon_nvcc_release "${CMAKE_MATCH_1}")
  endif()
endif()

if(tenon_nvcc_release VERSION_GREATER_EQUAL 12)
  set(TENON_HAS_CUDA ON)
  message(STATUS "tenon: CUDA ${tenon_nvcc_release} found (${TENON_NVCC}); "
                 "programs for the host and for GPUs are built, for sm_${TENON_CUDA_ARCHITECTURES}")
else()
  if(tenon_nvcc_release)
    set(tenon_cuda_reason "${TENON_NVCC} is CUDA ${tenon_nvcc_release}, and 12 or newer is needed")
  elseif(TENON_NVCC)
    set(tenon_cuda_reason "${TENON_NVCC} does not answer as CUDA's compiler does")
  else()
    set(tenon_cuda_reason "no nvcc was found on PATH, in CUDA_HOME or in /usr/local/cuda")
  endif()
  if(tenon_cuda_asked STREQUAL "ON")
    message(FATAL_ERROR "tenon: TENON_CUDA=ON was asked, and ${tenon_cuda_reason}; install CUDA, "
                        "name its compiler by -DTENON_NVCC=FILE, or ask for TENON_CUDA=OFF")
  endif()
  message(STATUS "tenon: building without CUDA (TENON_CUDA=AUTO): ${tenon_cuda_reason}")
endif()

if(NOT TENON_HAS_CUDA)
  return()
endif()
cmake_path(GET TENON_NVCC PARENT_PATH tenon_cuda_root)
cmake_path(GET tenon_cuda_root PARENT_PATH tenon_cuda_root)
add_library(tenon_cuda INTERFACE)
target_include_directories(tenon_cuda SYSTEM INTERFACE "${tenon_cuda_root}/include")
foreach(library cudart cublasLt nccl)
  find_library(TENON_CUDA_${library} ${library} HINTS "${tenon_cuda_root}"
               PATH_SUFFIXES lib64 lib lib64/stubs)
  if(TENON_CUDA_${library})
    target_link_libraries(tenon_cuda INTERFACE "${TENON_CUDA_${library}}")
  else()
    message(STATUS "tenon: lib${library} was not found beside nvcc")
  endif()
endforeach()

find_path(TENON_NCCL_INCLUDE nccl.h HINTS "${tenon_cuda_root}" PATH_SUFFIXES include
          DOC "The folder of nccl.h")
if(TENON_NCCL_INCLUDE AND TENON_CUDA_nccl AND TENON_CUDA_cudart)
  set(tenon_nccl_version "")
  file(STRINGS "${TENON_NCCL_INCLUDE}/nccl.h" tenon_nccl_lines
       REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
  foreach(line IN LISTS tenon_nccl_lines)
    string(REGEX REPLACE ".* ([0-9]+).*" "\\1" number "${line}")
    list(APPEND tenon_nccl_version ${number})
  endforeach()
  list(JOIN tenon_nccl_version . tenon_nccl_version)
  message(STATUS "tenon: NCCL ${tenon_nccl_version} found (${TENON_CUDA_nccl})")
  add_library(tenon_nccl INTERFACE)
  target_include_directories(tenon_nccl SYSTEM INTERFACE "${TENON_NCCL_INCLUDE}"
                                                         "${tenon_cuda_root}/include")
  target_link_libraries(tenon_nccl INTERFACE "${TENON_CUDA_nccl}" "${TENON_CUDA_cudart}")
else()
  message(STATUS "tenon: NCCL was not found beside nvcc: nccl.h ${TENON_NCCL_INCLUDE}, "
                 "libnccl ${TENON_CUDA_nccl}; ranks on GPUs exchange through the host")
endif()

list(GET TENON_CUDA_ARCHITECTURES 0 tenon_cuda_first)
set(tenon_cuda_flags -gencode "arch=compute_${tenon_cuda_first},code=compute_${tenon_cuda_first}")
foreach(architecture IN LISTS TENON_CUDA_ARCHITECTURES)
  list(APPEND tenon_cuda_flags -gencode "arch=compute_${architecture},code=sm_${architecture}")
endforeach()
function(tenon_cuda_sources target)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE file)
    cmake_path(GET source FILENAME name)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}_cuda/${name}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/${target}_cuda"
      # What ptxas says of each kernel is kept beside the object, for scripts/kernel_table.
      COMMAND sh -c "\"$@\" 2>'${object}.kernels' || { cat '${object}.kernels' >&2; exit 1; }" sh
              ${CMAKE_CXX_COMPILER_LAUNCHER} "${TENON_NVCC}" -std=c++20 -O3 ${tenon_cuda_flags}
              --expt-relaxed-constexpr -Werror all-warnings -Xptxas -v
              "-I${PROJECT_SOURCE_DIR}/include" -ccbin "${TENON_CUDA_HOST_COMPILER}" -MD -MF
              "${object}.d" -c -o "${object}" "${file}"
      DEPENDS "${file}"
      DEPFILE "${object}.d"
      COMMENT "Building CUDA object ${name}.o"
      VERBATIM)
    target_sources(${target} PRIVATE "${object}")
    set_property(TARGET ${target} APPEND PROPERTY TENON_CUDA_KERNELS "${object}.kernels")
    set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
endfunction()
find_program(TENON_CUDA_HOST_COMPILER NAMES g++ DOC "the C++ compiler that nvcc works with")
