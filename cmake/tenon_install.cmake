# SPDX-License-Identifier: Apache-2.0
# The headers, and the package that find_package(tenon) reads. Nothing in it depends on the machine.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(tenon_package_folder "${CMAKE_INSTALL_DATADIR}/cmake/tenon")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tenon" DESTINATION include
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/tenon")
install(TARGETS tenon EXPORT tenon_targets)
install(EXPORT tenon_targets NAMESPACE tenon:: FILE tenon-targets.cmake
        DESTINATION "${tenon_package_folder}")

write_basic_package_version_file("${PROJECT_BINARY_DIR}/tenon-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/tenon-config.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindCBLAS.cmake"
              "${PROJECT_BINARY_DIR}/tenon-config-version.cmake"
        DESTINATION "${tenon_package_folder}")
