# What Debian's packages provide, as imported targets. ./setup installs them.
message(STATUS "Needed from here on: Debian's packages that `./setup --build-only` installs")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Python3 COMPONENTS Interpreter REQUIRED)  # runs tools/check_layers.py

find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy libhwy-contrib)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# SQLite goes into libbraze where there is an archive (BrazeLibrary keeps its names inside), so that
# no library has to be copied beside it.
find_path(SQLITE3_INCLUDE_DIR sqlite3.h REQUIRED)
find_library(SQLITE3_LIBRARY NAMES libsqlite3.a sqlite3 REQUIRED)
add_library(sqlite3 UNKNOWN IMPORTED)
set_target_properties(sqlite3 PROPERTIES
  IMPORTED_LOCATION "${SQLITE3_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${SQLITE3_INCLUDE_DIR}"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")

# pthreadpool comes with neither a .pc file nor a CMake package.
find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h REQUIRED)
find_library(PTHREADPOOL_LIBRARY pthreadpool REQUIRED)
add_library(pthreadpool UNKNOWN IMPORTED)
set_target_properties(pthreadpool PROPERTIES
  IMPORTED_LOCATION "${PTHREADPOOL_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${PTHREADPOOL_INCLUDE_DIR}"
  INTERFACE_LINK_LIBRARIES Threads::Threads)

if(BRAZE_BUILD_CLI)
  find_package(CLI11 REQUIRED)
  # stb is headers only here: the program that wants an implementation defines it in one file.
  find_path(STB_INCLUDE_DIR stb_image.h PATH_SUFFIXES stb REQUIRED)
  add_library(stb INTERFACE)
  target_include_directories(stb SYSTEM INTERFACE "${STB_INCLUDE_DIR}")
endif()

if(BRAZE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
