# bin/braze: the command line, on top of the public headers alone.

file(GLOB_RECURSE cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.cpp")
if(cli_sources AND TARGET braze)
  add_executable(braze_cli ${cli_sources})
  set_target_properties(braze_cli PROPERTIES OUTPUT_NAME braze INSTALL_RPATH "$ORIGIN/../lib")
  target_include_directories(braze_cli PRIVATE "${PROJECT_SOURCE_DIR}")  # "cli/options.hpp"
  target_link_libraries(braze_cli PRIVATE braze_options braze::braze CLI11::CLI11 fmt::fmt
                        nlohmann_json::nlohmann_json stb)
endif()
