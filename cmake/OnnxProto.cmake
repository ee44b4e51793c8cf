# braze_onnx_proto: the ONNX schema that libonnx-dev installs, as protobuf-lite classes.
# Included as "onnx/onnx.pb.h"; the lite runtime keeps fields newer than the schema as unknown ones.

find_path(ONNX_PROTO_ROOT onnx/onnx.proto REQUIRED)
set(onnx_out "${PROJECT_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${onnx_out}")
add_custom_command(
  OUTPUT "${onnx_out}/onnx/onnx.pb.cc" "${onnx_out}/onnx/onnx.pb.h"
  COMMAND protobuf::protoc --cpp_out=lite:${onnx_out} -I "${ONNX_PROTO_ROOT}" onnx/onnx.proto
  DEPENDS "${ONNX_PROTO_ROOT}/onnx/onnx.proto"
  COMMENT "Generating the ONNX schema" VERBATIM)

add_library(braze_onnx_proto STATIC "${onnx_out}/onnx/onnx.pb.cc" "${onnx_out}/onnx/onnx.pb.h")
target_include_directories(braze_onnx_proto SYSTEM PUBLIC "${onnx_out}")
target_compile_options(braze_onnx_proto PRIVATE -w)
target_link_libraries(braze_onnx_proto PUBLIC protobuf::libprotobuf-lite)
