# Language level, warnings, visibility, sanitizers and ccache, for everything that is ours.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(BRAZE_CCACHE ccache)
  mark_as_advanced(BRAZE_CCACHE)
  if(BRAZE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${BRAZE_CCACHE}")
  endif()
endif()

# braze_options: what every target of ours compiles with. The ONNX schema's generated classes do not.
add_library(braze_options INTERFACE)
target_compile_options(braze_options INTERFACE -Wall -Wextra -Wconversion
                       $<$<BOOL:${BRAZE_WERROR}>:-Werror>)
target_compile_definitions(braze_options INTERFACE BRAZE_VERSION="${PROJECT_VERSION}")

if(BRAZE_SANITIZE)
  add_compile_options(-fsanitize=${BRAZE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${BRAZE_SANITIZE})
endif()
