// Uses the installed library through each of its public headers.
#include <cstdio>

#include "braze/error.hpp"
#include "braze/tensor.hpp"

int main() {
  const int code = braze::exit_code(braze::ErrorCode::kUsage);
  if (code != 2) {
    std::fprintf(stderr, "exit code of a usage error: found %d, expected 2\n", code);
    return 1;
  }
  return 0;
}
