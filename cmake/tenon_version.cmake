# SPDX-License-Identifier: Apache-2.0
# Sets tenon_version_text, "major.minor.patch", from the header that holds the numbers.
set(tenon_version_header "${CMAKE_CURRENT_LIST_DIR}/../include/tenon/base/version.hpp")
file(STRINGS "${tenon_version_header}" tenon_version_line REGEX "version_numbers version{[0-9]")
if(NOT tenon_version_line MATCHES "{([0-9]+), ([0-9]+), ([0-9]+)}")
  message(FATAL_ERROR "tenon: ${tenon_version_header} has no line with the three numbers of the "
                      "version; write `inline constexpr version_numbers version{0, 1, 0};`")
endif()
set(tenon_version_text "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${tenon_version_header}")
