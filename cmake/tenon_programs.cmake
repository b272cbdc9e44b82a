# SPDX-License-Identifier: Apache-2.0
#
#   tenon_programs([PREFIX prefix_] LIBRARIES target...)
#     Every NAME.cpp of this folder is a program NAME, and every folder NAME with sources is one of
#     several units. The target of a program is its name behind the prefix.
function(tenon_programs)
  cmake_parse_arguments(PARSE_ARGV 0 all "" "PREFIX" "LIBRARIES")
  file(GLOB entries CONFIGURE_DEPENDS *)
  foreach(entry IN LISTS entries)
    cmake_path(GET entry STEM name)
    if(IS_DIRECTORY "${entry}")
      file(GLOB sources CONFIGURE_DEPENDS "${entry}/*.cpp")
    elseif(entry MATCHES "\\.cpp$")
      set(sources "${entry}")
    else()
      set(sources "")
    endif()
    if(sources)
      add_executable(${all_PREFIX}${name} ${sources})
      set_target_properties(${all_PREFIX}${name} PROPERTIES OUTPUT_NAME "${name}")
      target_link_libraries(${all_PREFIX}${name} PRIVATE tenon_own ${all_LIBRARIES})
    endif()
  endforeach()
endfunction()
