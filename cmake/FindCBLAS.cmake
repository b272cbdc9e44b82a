# SPDX-License-Identifier: Apache-2.0
# Finds a BLAS with its C interface, OpenBLAS first, and gives the target CBLAS::CBLAS.
# A place of one's own: -DCBLAS_INCLUDE_DIR=... -DCBLAS_LIBRARY=...
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-pthread openblas
          DOC "The folder of OpenBLAS' cblas.h")
find_library(CBLAS_LIBRARY NAMES openblas cblas PATH_SUFFIXES openblas-pthread
             DOC "The library of OpenBLAS")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CBLAS REQUIRED_VARS CBLAS_LIBRARY CBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install OpenBLAS (Debian: libopenblas-dev), or name the place by \
-DCBLAS_INCLUDE_DIR=FOLDER -DCBLAS_LIBRARY=FILE")
mark_as_advanced(CBLAS_INCLUDE_DIR CBLAS_LIBRARY)

if(CBLAS_FOUND AND NOT TARGET CBLAS::CBLAS)
  add_library(CBLAS::CBLAS UNKNOWN IMPORTED)
  set_target_properties(CBLAS::CBLAS PROPERTIES IMPORTED_LOCATION "${CBLAS_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${CBLAS_INCLUDE_DIR}")
endif()
