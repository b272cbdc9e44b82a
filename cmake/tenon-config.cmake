# SPDX-License-Identifier: Apache-2.0
# find_package(tenon) gives the target tenon::tenon. OpenMP is used where the user's compiler has it,
# unless TENON_OPENMP is OFF.
include(CMakeFindDependencyMacro)
list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
find_dependency(CBLAS)
list(POP_FRONT CMAKE_MODULE_PATH)
find_dependency(MPI COMPONENTS CXX)
find_dependency(Threads)
include("${CMAKE_CURRENT_LIST_DIR}/tenon-targets.cmake")
if(NOT DEFINED TENON_OPENMP OR TENON_OPENMP)
  find_package(OpenMP QUIET COMPONENTS CXX)
  if(OpenMP_CXX_FOUND)
    target_link_libraries(tenon::tenon INTERFACE OpenMP::OpenMP_CXX)
  endif()
endif()
