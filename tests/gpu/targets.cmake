# To be run on a machine that has a GPU but nothing to build with:
#   cmake --install BUILD --prefix TREE && cmake --install BUILD --prefix TREE --component gpu_tests
# and there TREE/bin/braze_gpu_check. The libraries that the tests load are those of the whole tree.
set_target_properties(gpu_tests PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS gpu_tests RUNTIME DESTINATION bin COMPONENT gpu_tests EXCLUDE_FROM_ALL)
install(PROGRAMS "${CMAKE_CURRENT_LIST_DIR}/braze_gpu_check" DESTINATION bin COMPONENT gpu_tests
        EXCLUDE_FROM_ALL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/cases" DESTINATION share/braze/tests
        COMPONENT gpu_tests EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.onnx" PATTERN "*.pb")
