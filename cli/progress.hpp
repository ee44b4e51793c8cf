// What long work shows on a terminal.
#pragma once

#include <string>

namespace braze::cli {

/// A line on stderr while something takes its time, gone when it ends. Nothing unless stderr is a
/// terminal.
class Progress {
 public:
  explicit Progress(const std::string& text);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(const std::string& text) const;

 private:
  bool terminal_;
};

}  // namespace braze::cli
