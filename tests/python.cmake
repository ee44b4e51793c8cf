# The Python package: its wheel is built against the installed tree and put into a fresh virtual
# environment; then pytest runs each file of python/tests there. Exit code 5 of pytest says that a
# file was skipped as a whole (no torch, no GPU), which ctest shows.
add_test(NAME python/wheel COMMAND "${PROJECT_SOURCE_DIR}/tools/check_wheel.sh"
                                   "${PROJECT_BINARY_DIR}")
set_tests_properties(python/wheel PROPERTIES TIMEOUT 900 LABELS cpu FIXTURES_SETUP wheel)

file(GLOB python_tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/tests/test_*.py")
foreach(file IN LISTS python_tests)
  cmake_path(GET file STEM name)
  string(REGEX REPLACE "^test_" "" name "${name}")
  set(label cpu)
  if(name MATCHES "torch|gpu")
    set(label "${CMAKE_MATCH_0}")
  endif()
  add_test(NAME python/${name}
           COMMAND "${PROJECT_BINARY_DIR}/python/venv/bin/python" -m pytest -q -p no:cacheprovider
                   "${file}"
           WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set(environment "BRAZE_CACHE_DIR=${PROJECT_BINARY_DIR}/cache")
  if(name STREQUAL "fake_gpu")
    set(label cpu)
    list(APPEND environment "BRAZE_FAKE_CUDA=${CMAKE_CURRENT_BINARY_DIR}/exec_cuda_fakes"
                            "BRAZE_FAKE_CUDNN=$<TARGET_FILE_DIR:fake_cudnn>")
  endif()
  set_tests_properties(python/${name} PROPERTIES TIMEOUT 600 LABELS ${label} SKIP_RETURN_CODE 5
                       FIXTURES_REQUIRED wheel ENVIRONMENT "${environment}")
endforeach()
