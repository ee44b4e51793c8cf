// The tuning database: how long kernels took, on which device.
//
//   problem(id, device, version, text)           a kernel problem (plan/choices.hpp)
//   time(problem, way, us, count)                a way to do it: mean of `count` measurements
//
// One SQLite file, tuning.db, for all devices and versions of the kernels; any number of processes
// may use it at once. What is known at first is read at once: a plan depends on that and on what
// its own process adds.
//
// Nothing that is wrong with the file stops a plan: it is then made from what is known without it,
// with a warning. A file that is damaged, or none of Braze's, is renamed and a new one begun.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/choices.hpp"

struct sqlite3;

namespace braze {

class TuningDatabase final : public Measurements {
 public:
  struct Time {
    std::string way;
    double us = 0;
    std::int64_t count = 0;  // measurements that `us` is the mean of
  };

  /// Reads what was measured on `device` with kernels of `version`. `folder` need not exist; "":
  /// nothing is kept.
  TuningDatabase(const std::filesystem::path& folder, std::string device, std::string version);

  [[nodiscard]] std::optional<double> us(std::string_view problem,
                                         std::string_view way) const override;
  /// Has any way to do it been measured?
  [[nodiscard]] bool knows(std::string_view problem) const {
    return known_.find(problem) != known_.end();
  }
  /// Adds measurements of one problem, all of them or, if the process ends meanwhile, none.
  void add(const std::string& problem, std::span<const Time> times);

  /// "" if nothing is kept.
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  /// What was wrong with the file, for people: that it was renamed, and the first of what kept it
  /// from being read or written.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  using Connection = std::unique_ptr<sqlite3, Close>;
  class Statement;
  struct Known {
    double us = 0;
    std::int64_t count = 0;
  };

  /// Calls `body` with a connection; does it again on a new file if this one is of no use. What
  /// fails otherwise becomes a warning.
  template <class Body>
  void attempt(bool writing, const char* what, const Body& body);
  /// Null where the file holds nothing yet and nothing is to be written.
  [[nodiscard]] Connection connect(bool writing) const;
  void read(sqlite3* connection);
  void write(sqlite3* connection, const std::string& problem, std::span<const Time> times) const;
  /// False if it cannot be renamed.
  bool set_aside(std::uint64_t inode, const std::string& reason);
  void report(std::string trouble);

  std::filesystem::path file_;
  std::string device_, version_;
  std::map<std::string, std::map<std::string, Known, std::less<>>, std::less<>> known_;
  Connection writer_;      // made by the first add()
  bool troubled_ = false;  // that is said once
  std::vector<std::string> warnings_;
};

}  // namespace braze
