# The CMake package of mucc.
#
#   find_package(mucc REQUIRED)          # -Dmucc_DIR="$(mucc config --cmake-dir)"
#   mucc_add_library(norms rms_norm.mcu [TARGET sm_90a] [DIMS M=128 N=4096] [OPTIONS ...])
#   target_link_libraries(program PRIVATE norms)
#
# A library is built when its .mcu file is newer. Its header is <norms.h>.

find_program(MUCC_EXECUTABLE mucc
  HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../../../.venv/bin"
  DOC "the command mucc")
if(NOT MUCC_EXECUTABLE)
  set(mucc_FOUND FALSE)
  set(mucc_NOT_FOUND_MESSAGE "the command mucc is not on PATH: set MUCC_EXECUTABLE to it")
  return()
endif()

function(mucc_add_library name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TARGET" "DIMS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mucc_add_library does not know ${arg_UNPARSED_ARGUMENTS}: it takes TARGET, DIMS, OPTIONS")
  endif()
  get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}.mucc")
  set(library "${folder}/lib${name}.so")
  set(header "${folder}/${name}.h")
  set(options ${arg_OPTIONS})
  if(arg_TARGET)
    list(APPEND options --target "${arg_TARGET}")
  endif()
  foreach(dim IN LISTS arg_DIMS)
    list(APPEND options --dims "${dim}")
  endforeach()
  file(MAKE_DIRECTORY "${folder}")  # an include directory has to be there when targets are generated
  add_custom_command(
    OUTPUT "${library}" "${header}"
    COMMAND "${MUCC_EXECUTABLE}" "${source}" ${options} -o "${library}"
    COMMAND "${MUCC_EXECUTABLE}" "${source}" ${options} --emit=header -o "${header}"
    DEPENDS "${source}"
    COMMENT "Compiling ${name} with mucc"
    VERBATIM)
  add_custom_target(${name}_mucc DEPENDS "${library}" "${header}")
  add_library(${name} SHARED IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES
    IMPORTED_LOCATION "${library}"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${folder}")
  add_dependencies(${name} ${name}_mucc)
endfunction()
