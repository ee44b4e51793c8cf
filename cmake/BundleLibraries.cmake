# bundle_libraries([EXECUTABLES file...] [LIBRARIES file...] [MODULES file...] INTO dir LICENCES dir
#                  PATCHELF program)
#
# Runs at install time: copies every shared library that the files load into INTO, each under the
# name that it is loaded by, and the licences of their Debian packages into LICENCES. Left out are
# what lies in INTO already and what every Linux system with a C++ run time has. The copies are told
# by PATCHELF to look for their own dependencies beside themselves ("": they do).
set(BUNDLE_SYSTEM_LIBRARIES
    "^(ld-linux.*|libc|libm|libdl|librt|libpthread|libstdc\\+\\+|libgcc_s)\\.so")

cmake_policy(VERSION 3.25...4.0)  # install scripts have none

function(bundle_licence package into)
  if(EXISTS "/usr/share/doc/${package}/copyright")
    configure_file("/usr/share/doc/${package}/copyright" "${into}/${package}" COPYONLY)
  endif()
endfunction()

function(bundle_libraries)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "INTO;LICENCES;PATCHELF"
                        "EXECUTABLES;LIBRARIES;MODULES")
  set(kinds "")
  foreach(kind EXECUTABLES LIBRARIES MODULES)
    if(arg_${kind})
      list(APPEND kinds ${kind} ${arg_${kind}})
    endif()
  endforeach()
  file(GET_RUNTIME_DEPENDENCIES ${kinds}
    PRE_EXCLUDE_REGEXES "${BUNDLE_SYSTEM_LIBRARIES}" "^linux-vdso"
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing)
  if(missing)
    message(FATAL_ERROR "cannot find these libraries, which braze needs: ${missing}")
  endif()

  file(MAKE_DIRECTORY "${arg_INTO}")
  file(REAL_PATH "${arg_INTO}" into)
  foreach(path IN LISTS found)
    cmake_path(GET path FILENAME name)
    file(REAL_PATH "${path}" real)
    cmake_path(GET real PARENT_PATH folder)
    if(folder STREQUAL into)
      continue()
    endif()
    message(STATUS "Installing: ${into}/${name} (from ${real})")
    configure_file("${real}" "${into}/${name}" COPYONLY)
    if(arg_PATCHELF)
      execute_process(COMMAND "${arg_PATCHELF}" --set-rpath "$ORIGIN" "${into}/${name}"
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()
    execute_process(COMMAND dpkg-query -S "${real}" OUTPUT_VARIABLE owner
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE unknown)
    string(REGEX REPLACE ":.*" "" package "${owner}")
    if(package)
      bundle_licence("${package}" "${arg_LICENCES}")
    endif()
  endforeach()

  # Libraries of headers are inside the binaries, and so are the schema and SQLite.
  foreach(package nlohmann-json3-dev libcli11-dev libstb-dev libonnx-dev libsqlite3-dev)
    bundle_licence(${package} "${arg_LICENCES}")
  endforeach()
endfunction()
