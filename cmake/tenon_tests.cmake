# SPDX-License-Identifier: Apache-2.0
# The functions that register tests.
#
#   tenon_test(NAME name SOURCES file.cpp... LABELS quick [RANKS 1 2 4] [LIBRARIES target...]
#              [TIMEOUT seconds] [ARGUMENTS ...])
#     One executable with Boost.Test. With RANKS it is run by mpirun once a number, as the tests
#     `name_ranksN`. A main is given (with RANKS one that starts and ends MPI), unless a source has
#     its own or defines BOOST_TEST_MODULE.
#
#   tenon_reject(NAME name SOURCE file.cpp [PRECOMPILED header.hpp])
#     A program that must not compile, see tests/rejects and cmake/check_reject.bash. A header that
#     many of them share is compiled once in each run of ctest, before them.
#
#   tenon_launch(VARIABLE ranks)
#     Sets VARIABLE to the words that start `ranks` ranks under this build's MPI.

set(TENON_TEST_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
    HWLOC_HIDE_ERRORS=2 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 LC_ALL=C)

# Sanitized programs are slow: the presets for them give every test more time.
set(TENON_TIMEOUT_FACTOR 1 CACHE STRING "Every test's time limit is multiplied by this")

# The other compiler of the rejections and of the header check, beside g++.
find_program(TENON_GXX NAMES g++ DOC "g++, for the programs that must not compile")
find_program(TENON_CLANGXX NAMES clang++-19 clang++-20 clang++-18 clang++
             DOC "clang++, for the programs that must not compile")
find_program(TENON_BASH NAMES bash REQUIRED)

execute_process(COMMAND "${MPIEXEC_EXECUTABLE}" --version OUTPUT_VARIABLE tenon_mpiexec_version
                ERROR_VARIABLE tenon_mpiexec_version)
set(TENON_LAUNCH_FLAGS ${MPIEXEC_PREFLAGS})
if(tenon_mpiexec_version MATCHES "Open MPI|OpenRTE")
  list(APPEND TENON_LAUNCH_FLAGS --oversubscribe --bind-to none)
endif()

function(tenon_launch variable ranks)
  set(${variable} "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${TENON_LAUNCH_FLAGS}
      PARENT_SCOPE)
endfunction()

function(tenon_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;TIMEOUT" "SOURCES;LABELS;RANKS;LIBRARIES;ARGUMENTS")
  if(NOT test_NAME OR NOT test_SOURCES OR NOT test_LABELS OR test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_test: NAME, SOURCES and LABELS are needed, and these words are not "
                        "known: '${test_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  math(EXPR test_TIMEOUT "${test_TIMEOUT} * ${TENON_TIMEOUT_FACTOR}")
  add_executable(${test_NAME} ${test_SOURCES})
  # Tests are compiled more often than they run: -O1 takes two thirds of the time of -O3.
  target_compile_options(${test_NAME} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  set(main tenon_test_main)
  if(test_RANKS)
    set(main tenon_test_main_ranks)
  endif()
  target_link_libraries(${test_NAME} PRIVATE tenon_own ${main} ${test_LIBRARIES})
  if(test_RANKS)
    foreach(ranks IN LISTS test_RANKS)
      tenon_launch(launch ${ranks})
      add_test(NAME ${test_NAME}_ranks${ranks}
               COMMAND ${launch} "$<TARGET_FILE:${test_NAME}>" ${test_ARGUMENTS})
      set_tests_properties(
        ${test_NAME}_ranks${ranks}
        PROPERTIES PROCESSORS ${ranks} LABELS "${test_LABELS}" TIMEOUT ${test_TIMEOUT}
                   ENVIRONMENT "${TENON_TEST_ENVIRONMENT}")
    endforeach()
  else()
    add_test(NAME ${test_NAME} COMMAND ${test_NAME} ${test_ARGUMENTS})
    set_tests_properties(${test_NAME} PROPERTIES LABELS "${test_LABELS}" TIMEOUT ${test_TIMEOUT}
                                                 ENVIRONMENT "${TENON_TEST_ENVIRONMENT}")
  endif()
endfunction()

# Sets `variable` to the flags that make `compiler` begin with the header `file`; a test compiles it.
function(tenon_precompiled variable compiler file)
  cmake_path(GET file FILENAME filename)
  cmake_path(GET file STEM stem)
  string(TOLOWER "precompiled_${stem}_${compiler}" name)
  set(copy "${CMAKE_CURRENT_BINARY_DIR}/${name}/${filename}")
  if(compiler STREQUAL GXX)
    set(compiled "${copy}.gch")
    set(${variable} -include "${copy}" PARENT_SCOPE)  # g++ takes the .gch beside it
  else()
    set(compiled "${copy}.pch")
    set(${variable} -include-pch "${compiled}" PARENT_SCOPE)
  endif()
  if(NOT TEST ${name})
    configure_file("${file}" "${copy}" COPYONLY)
    add_test(NAME ${name} COMMAND "${TENON_${compiler}}" -std=c++20 -w ${ARGN} -x c++-header
                                  "${copy}" -o "${compiled}")
    set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 120 FIXTURES_SETUP ${name}
                                            ENVIRONMENT "${TENON_TEST_ENVIRONMENT}")
  endif()
endfunction()

function(tenon_reject)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;SOURCE;PRECOMPILED" "")
  if(NOT test_NAME OR NOT test_SOURCE OR test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_reject: NAME and SOURCE are needed, and these words are not known: "
                        "'${test_UNPARSED_ARGUMENTS}'")
  endif()
  cmake_path(ABSOLUTE_PATH test_SOURCE)
  set(includes "-I${PROJECT_SOURCE_DIR}/include")
  foreach(folder IN LISTS MPI_CXX_INCLUDE_DIRS CBLAS_INCLUDE_DIR)
    list(APPEND includes -isystem "${folder}")
  endforeach()
  foreach(compiler GXX CLANGXX)
    string(TOLOWER "${test_NAME}_${compiler}" name)
    set(forms wrong)  # one compiler is enough to show that the legal form is legal
    if(compiler STREQUAL GXX)
      set(forms both)
    endif()
    set(precompiled "")
    if(test_PRECOMPILED AND TENON_${compiler})
      cmake_path(ABSOLUTE_PATH test_PRECOMPILED)
      tenon_precompiled(precompiled ${compiler} "${test_PRECOMPILED}" ${includes})
    endif()
    add_test(NAME ${name}
             COMMAND "${TENON_BASH}" "${PROJECT_SOURCE_DIR}/cmake/check_reject.bash"
                     "${test_SOURCE}" "${TENON_${compiler}}" ${forms} ${includes} ${precompiled})
    set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 120 SKIP_RETURN_CODE 77
                                            ENVIRONMENT "${TENON_TEST_ENVIRONMENT}")
    if(precompiled)
      cmake_path(GET test_PRECOMPILED STEM stem)
      string(TOLOWER "precompiled_${stem}_${compiler}" fixture)
      set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${fixture})
    endif()
  endforeach()
endfunction()
