# libbraze.so: src/*.cpp (the path itself) and every layer, whole, so that what the public headers
# declare is there whichever layer defines it. braze_api is src/*.cpp as objects, for the tests,
# which also look inside. They link the layers as archives: no static initialiser may be relied on.

file(GLOB api_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp")
file(GLOB public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/braze/*.hpp")

set(layers braze_exec braze_kernels braze_plan braze_passes braze_target braze_model braze_graph
           braze_base)
if(api_sources)
  add_library(braze_api OBJECT ${api_sources} ${public_headers})
  target_link_libraries(braze_api PRIVATE braze_options PUBLIC ${layers})

  add_library(braze SHARED $<TARGET_OBJECTS:braze_api>)
  set_target_properties(braze PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN")
  foreach(layer IN LISTS layers)
    get_target_property(type ${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_sources(braze PRIVATE $<TARGET_OBJECTS:${layer}>)
    endif()
  endforeach()
  target_include_directories(braze PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                          "$<INSTALL_INTERFACE:include>")
  target_compile_features(braze INTERFACE cxx_std_20)
  target_link_libraries(braze PRIVATE $<BUILD_INTERFACE:${layers}>)
  target_link_options(braze PRIVATE -Wl,--as-needed -Wl,--exclude-libs,libsqlite3.a)
  if(NOT BRAZE_SANITIZE)
    target_link_options(braze PRIVATE -Wl,--no-undefined)
  endif()
  add_library(braze::braze ALIAS braze)
endif()
