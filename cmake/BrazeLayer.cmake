# braze_layer(NAME USES layer... [LINKS target...])
#
# Makes braze_NAME, a static library of src/NAME/**.cpp (an interface library while there are none).
# Before it compiles, tools/check_layers.py checks that the folder includes only itself and USES.
function(braze_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;LINKS")
  set(dir "${PROJECT_SOURCE_DIR}/src/${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${dir}/*.cpp")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${dir}/*.hpp" "${dir}/*.h")

  set(lib braze_${name})
  set(scope PUBLIC)
  if(sources)
    add_library(${lib} STATIC ${sources} ${headers})
    target_link_libraries(${lib} PRIVATE braze_options)
    set(stamp "${PROJECT_BINARY_DIR}/layers/${name}.stamp")
    add_custom_command(OUTPUT "${stamp}"
      COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/check_layers.py" --layer ${name}
              --stamp "${stamp}"
      DEPENDS ${sources} ${headers} "${PROJECT_SOURCE_DIR}/tools/check_layers.py"
              "${PROJECT_SOURCE_DIR}/CMakeLists.txt"
      COMMENT "Checking the includes of src/${name}" VERBATIM)
    add_custom_target(${lib}_includes DEPENDS "${stamp}")
    add_dependencies(${lib} ${lib}_includes)
  else()
    add_library(${lib} INTERFACE)
    set(scope INTERFACE)
  endif()

  target_include_directories(${lib} ${scope} "${PROJECT_SOURCE_DIR}/src"
                                             "${PROJECT_SOURCE_DIR}/include")
  list(TRANSFORM arg_USES PREPEND braze_ OUTPUT_VARIABLE uses)
  target_link_libraries(${lib} ${scope} ${uses} ${arg_LINKS})
endfunction()

# braze_optimise_fully(NAME): -O3 for a layer whose time is the product's time. No -march: Highway
# compiles each kernel for every instruction set and picks one at run time.
function(braze_optimise_fully name)
  get_target_property(type braze_${name} TYPE)
  if(type STREQUAL "STATIC_LIBRARY" AND NOT BRAZE_SANITIZE)
    target_compile_options(braze_${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
endfunction()
