# Embeds src/kernels/cuda/device/* in the kernels library, as text for the compiler at run time:
# generates the definition of braze::cuda::device_headers().
#
# Included while configuring it adds the command; run with -P (and OUTPUT, FILES) it is the command.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// Generated from src/kernels/cuda/device.\n#include \"kernels/cuda/kernel.hpp\"\n\n")
  string(APPEND text "namespace braze::cuda {\n\n")
  string(APPEND text "const std::vector<DeviceHeader>& device_headers() {\n")
  string(APPEND text "  static const std::vector<DeviceHeader> headers = {\n")
  foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" content)
    # A string literal has at most 64 KiB in some compilers: adjacent ones are joined.
    string(LENGTH "${content}" length)
    string(APPEND text "      {\"braze/${name}\",\n")
    set(begin 0)
    while(begin LESS length)
      string(SUBSTRING "${content}" ${begin} 15000 part)
      string(APPEND text "R\"__braze__(${part})__braze__\"\n")
      math(EXPR begin "${begin} + 15000")
    endwhile()
    string(APPEND text "},\n")
  endforeach()
  string(APPEND text "  };\n  return headers;\n}\n\n}  // namespace braze::cuda\n")
  file(WRITE "${OUTPUT}" "${text}")
  return()
endif()

file(GLOB device_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernels/cuda/device/*")
set(device_headers_cpp "${PROJECT_BINARY_DIR}/generated/device_headers.cpp")
add_custom_command(OUTPUT "${device_headers_cpp}"
  COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${device_headers_cpp}" "-DFILES=${device_headers}"
          -P "${CMAKE_CURRENT_LIST_FILE}"
  DEPENDS ${device_headers} "${CMAKE_CURRENT_LIST_FILE}"
  COMMENT "Embedding the headers of the CUDA kernels" VERBATIM)
target_sources(braze_kernels PRIVATE "${device_headers_cpp}")

# Blocks of parameters are read by the host too, and include each other by the names that kernels
# use.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/generated/device")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/kernels/cuda/device"
     "${PROJECT_BINARY_DIR}/generated/device/braze" SYMBOLIC)
target_include_directories(braze_kernels PUBLIC "${PROJECT_BINARY_DIR}/generated/device")

# The parameter blocks are included by the host's files too, under the same name.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/generated/include")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/kernels/cuda/device"
                 "${PROJECT_BINARY_DIR}/generated/include/braze" SYMBOLIC)
target_include_directories(braze_kernels PUBLIC "${PROJECT_BINARY_DIR}/generated/include")
