# Shared libraries that stand in for NVIDIA's, each under its name in a folder of its own, and the
# real headers, where they are found, for api_test.cpp.
set(fakes "${CMAKE_CURRENT_BINARY_DIR}/exec_cuda_fakes")

function(add_fake folder file source)
  string(MAKE_C_IDENTIFIER "fake_${folder}_${file}" target)
  add_library(${target} MODULE "${CMAKE_CURRENT_SOURCE_DIR}/exec_cuda/fake/${source}")
  # Without a SONAME the dynamic linker never takes it for the real one.
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME "${file}"
                        NO_SONAME ON CXX_VISIBILITY_PRESET default
                        LIBRARY_OUTPUT_DIRECTORY "${fakes}/${folder}")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                             "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE braze_options)
  target_compile_definitions(${target} PRIVATE ${ARGN})
  add_dependencies(exec_cuda_tests ${target})
endfunction()

add_fake(driver libcuda.so.1 driver.cpp)
add_fake(cuda13 libnvrtc.so.13 nvrtc.cpp FAKE_MAJOR=13 FAKE_ARCHS=75,80,86,89,90,100)
add_fake(cuda13 libnvrtc-builtins.so.13.3 versions.cpp)
add_fake(cuda12 libnvrtc.so.12 nvrtc.cpp FAKE_MAJOR=12 FAKE_ARCHS=70,75,80,86,89,90)
add_fake(oldcudnn libcudnn_ops_infer.so.8 versions.cpp FAKE_CUDNN=8907)
add_fake(cuda9 libcudnn_graph.so.9 versions.cpp FAKE_CUDNN=90000)
add_fake(cuda13 libcudart.so.13 versions.cpp)
target_compile_definitions(exec_cuda_tests PRIVATE BRAZE_FAKES="${fakes}")
use_fake_cudnn(exec_cuda_tests)

find_path(BRAZE_CUDA_HEADERS cuda.h PATHS /usr/local/cuda/include)
mark_as_advanced(BRAZE_CUDA_HEADERS)
if(BRAZE_CUDA_HEADERS)
  target_include_directories(exec_cuda_tests SYSTEM PRIVATE "${BRAZE_CUDA_HEADERS}")
endif()

find_path(BRAZE_CUDNN_HEADERS cudnn_graph.h HINTS "${Python3_SITELIB}/nvidia/cudnn/include"
          PATHS /usr/local/cuda/include)
mark_as_advanced(BRAZE_CUDNN_HEADERS)
if(BRAZE_CUDNN_HEADERS)
  target_include_directories(exec_cuda_tests SYSTEM PRIVATE "${BRAZE_CUDNN_HEADERS}")
endif()
