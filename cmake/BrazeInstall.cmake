# make install: a tree that can be moved anywhere and needs nothing but libc and libstdc++ there.
#   bin/braze  lib/libbraze.so  include/braze/  lib/cmake/braze/  share/doc/braze/
# Every other shared library that libbraze or braze loads is copied into lib/, told to look for its
# own dependencies beside itself, and its licence goes to share/doc/braze/licences/.

if(NOT TARGET braze)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_LIBDIR lib)  # never lib/x86_64-linux-gnu: the tree is the same everywhere
find_program(PATCHELF patchelf REQUIRED)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/braze")

set(targets braze)
if(TARGET braze_cli)
  list(APPEND targets braze_cli)
endif()
install(TARGETS ${targets} EXPORT brazeTargets
        RUNTIME DESTINATION bin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/braze" DESTINATION include
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/braze)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/brazeConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/package/brazeConfig.cmake" INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/brazeConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/brazeConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/brazeConfigVersion.cmake" DESTINATION ${package_dir})
install(EXPORT brazeTargets NAMESPACE braze:: DESTINATION ${package_dir})

configure_file("${PROJECT_SOURCE_DIR}/cmake/bundle_libraries.cmake.in"
               "${PROJECT_BINARY_DIR}/package/bundle_libraries.cmake" @ONLY)
install(SCRIPT "${PROJECT_BINARY_DIR}/package/bundle_libraries.cmake")
