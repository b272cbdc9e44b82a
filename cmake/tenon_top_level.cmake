# SPDX-License-Identifier: Apache-2.0
# What holds only when tenon is the project that is built, not a part of another.
get_property(multiple_configurations GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT multiple_configurations AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_program(TENON_CCACHE ccache)
if(TENON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TENON_CCACHE}")
endif()
