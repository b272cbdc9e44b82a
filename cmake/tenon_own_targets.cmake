# SPDX-License-Identifier: Apache-2.0
# How our own programs, benchmarks and tests are compiled. Nothing here reaches a user's target.
add_library(tenon_own INTERFACE)
target_link_libraries(tenon_own INTERFACE tenon::tenon)
target_compile_options(tenon_own INTERFACE -Wall -Wextra -Wconversion -Werror)

# g++ 12 warns of overlaps that std::string never has (its bug 105651), wherever texts are joined.
target_compile_options(tenon_own INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>")

# The C++ bindings of MPI were removed from its standard; leaving them out saves compile time.
target_compile_definitions(tenon_own INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

# Without contraction a product and a sum are rounded one by one wherever they are inlined, so the
# initial weights are the same bits in every layout. What gains from fused products is in BLAS.
target_compile_options(tenon_own INTERFACE -ffp-contract=off)

if(TENON_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native TENON_COMPILER_KNOWS_NATIVE)
  if(TENON_COMPILER_KNOWS_NATIVE)
    target_compile_options(tenon_own INTERFACE -march=native)
  endif()
endif()
