# What the tuning database knows kernels by: a hash of all sources that decide how fast they are, one
# for each kind of device. Generates the definition of braze::kernels_version().
#
# Included while configuring it adds the command; run with -P (and OUTPUT, FILES) it is the
# command.
if(CMAKE_SCRIPT_MODE_FILE)
  foreach(kind cpu cuda)
    set(hashes "")
    foreach(file IN LISTS FILES)
      if(kind STREQUAL cpu AND file MATCHES "/kernels/cuda/")
        continue()
      endif()
      file(SHA256 "${file}" hash)
      string(APPEND hashes "${hash}")
    endforeach()
    string(SHA256 ${kind} "${hashes}")
    string(SUBSTRING "${${kind}}" 0 16 ${kind})
  endforeach()
  file(WRITE "${OUTPUT}" "// Generated from src/kernels.
#include \"kernels/version.hpp\"

namespace braze {

const char* kernels_version(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? \"${cpu}\" : \"${cuda}\";
}

}  // namespace braze
")
  return()
endif()

file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernels/*")
list(SORT kernel_files)
set(kernels_version_cpp "${PROJECT_BINARY_DIR}/generated/kernels_version.cpp")
add_custom_command(OUTPUT "${kernels_version_cpp}"
  COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${kernels_version_cpp}" "-DFILES=${kernel_files}"
          -P "${CMAKE_CURRENT_LIST_FILE}"
  DEPENDS ${kernel_files} "${CMAKE_CURRENT_LIST_FILE}"
  COMMENT "Naming the version of the kernels" VERBATIM)
target_sources(braze_kernels PRIVATE "${kernels_version_cpp}")
