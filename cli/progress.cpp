#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/text.hpp"

namespace braze::cli {
namespace {
constexpr const char* kEraseLine = "\r\033[K";
}

Progress::Progress(const std::string& text) : terminal_(isatty(STDERR_FILENO) == 1) { show(text); }

Progress::~Progress() {
  if (terminal_) std::fputs(kEraseLine, stderr);
}

void Progress::show(const std::string& text) const {
  if (terminal_) fmt::print(stderr, "{}{} ...", kEraseLine, printable(text));
}

}  // namespace braze::cli
