# SPDX-License-Identifier: Apache-2.0
# TENON_CUDA: what was asked, what was found, and never one for the other in silence. Sets
# TENON_HAS_CUDA and TENON_NVCC. So far nvcc serves the check that every header compiles as CUDA.
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
                 "it checks the headers, the programs run on the host")
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
