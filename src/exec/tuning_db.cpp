#include "exec/tuning_db.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"

namespace braze {
namespace {

constexpr int kApplication = 0x42727a54;  // "BrzT": what makes an SQLite file one of ours
constexpr int kSchema = 1;
constexpr int kBusyMilliseconds = 10'000;  // another process writes for milliseconds
/// Somebody held the file for longer than that: until it is free again, nobody waits.
std::atomic<bool> waited_in_vain = false;

constexpr const char* kTables = R"(
  CREATE TABLE problem(id INTEGER PRIMARY KEY, device TEXT NOT NULL, version TEXT NOT NULL,
                       text TEXT NOT NULL, UNIQUE(device, version, text));
  CREATE TABLE time(problem INTEGER NOT NULL REFERENCES problem(id), way TEXT NOT NULL,
                    us REAL NOT NULL, count INTEGER NOT NULL, PRIMARY KEY(problem, way))
                    WITHOUT ROWID;)";

/// The file is of no use to anybody: damaged, or not Braze's.
struct Unusable {
  std::string reason;
};
/// The file cannot be used now, or not by this version.
struct Trouble {
  std::string reason;
};

[[noreturn]] void raise(sqlite3* connection, int code) {
  const std::string reason =
      connection == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection);
  if ((code & 0xff) == SQLITE_BUSY) {
    waited_in_vain = true;
    throw Trouble{"another process holds it"};
  }
  if ((code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT) throw Unusable{reason};
  throw Trouble{reason};
}

void execute(sqlite3* connection, const char* text) {
  if (const int code = sqlite3_exec(connection, text, nullptr, nullptr, nullptr); code != SQLITE_OK)
    raise(connection, code);
}

/// The file's number on its disk; 0 if there is none.
std::uint64_t inode_of(const std::filesystem::path& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

class TuningDatabase::Statement {
 public:
  Statement(sqlite3* connection, std::string_view text) : connection_(connection) {
    const int code = sqlite3_prepare_v2(connection, text.data(), static_cast<int>(text.size()),
                                        &statement_, nullptr);
    if (code != SQLITE_OK) raise(connection, code);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(std::string_view text) {
    // The text outlives the statement. SQLITE_STATIC is a null pointer.
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                      SQLITE_STATIC);
    return *this;
  }
  Statement& bind(std::int64_t number) {
    sqlite3_bind_int64(statement_, ++bound_, number);
    return *this;
  }
  Statement& bind(double number) {
    sqlite3_bind_double(statement_, ++bound_, number);
    return *this;
  }
  /// To the next row; false after the last.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) raise(connection_, code);
    return code == SQLITE_ROW;
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr ? "" : bytes;
  }
  [[nodiscard]] std::int64_t integer(int column) const {
    return sqlite3_column_int64(statement_, column);
  }
  [[nodiscard]] double real(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  sqlite3* connection_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

void TuningDatabase::Close::operator()(sqlite3* connection) const { sqlite3_close(connection); }

TuningDatabase::TuningDatabase(const std::filesystem::path& folder, std::string device,
                               std::string version)
    : file_(folder.empty() ? "" : folder / "tuning.db"),
      device_(std::move(device)),
      version_(std::move(version)) {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return;
  attempt(false, "is not used", [this] {
    if (const Connection connection = connect(false)) read(connection.get());
  });
}

std::optional<double> TuningDatabase::us(std::string_view problem, std::string_view way) const {
  const auto found = known_.find(problem);
  if (found == known_.end()) return std::nullopt;
  const auto time = found->second.find(way);
  return time == found->second.end() ? std::nullopt : std::optional(time->second.us);
}

void TuningDatabase::add(const std::string& problem, std::span<const Time> times) {
  for (const Time& time : times) {
    Known& known = known_[problem][time.way];
    const auto count = static_cast<double>(known.count);
    known.count += time.count;
    known.us += (time.us - known.us) * (1 - count / static_cast<double>(known.count));
  }
  if (file_.empty()) return;
  attempt(true, "does not keep what was measured", [&] {
    if (writer_ == nullptr) writer_ = connect(true);
    write(writer_.get(), problem, times);
  });
}

template <class Body>
void TuningDatabase::attempt(bool writing, const char* what, const Body& body) {
  for (int tries = 0; tries < 2; ++tries) {
    const std::uint64_t inode = inode_of(file_);
    try {
      body();
      waited_in_vain = false;
      return;
    } catch (const Unusable& unusable) {
      writer_.reset();
      if (!set_aside(inode, unusable.reason) || !writing) return;
    } catch (const Trouble& trouble) {
      writer_.reset();
      report(fmt::format("the tuning database {} {}: {}", file_.string(), what, trouble.reason));
      return;
    }
  }
}

TuningDatabase::Connection TuningDatabase::connect(bool writing) const {
  std::error_code ignored;
  if (writing) std::filesystem::create_directories(file_.parent_path(), ignored);
  sqlite3* opened = nullptr;
  // Readers, too, may write where they can: what a killed process left half done is undone first.
  const int code = sqlite3_open_v2(
      file_.c_str(), &opened, SQLITE_OPEN_READWRITE | (writing ? SQLITE_OPEN_CREATE : 0), nullptr);
  Connection connection(opened);
  if (code != SQLITE_OK) raise(opened, code);
  sqlite3_busy_timeout(opened, waited_in_vain ? 0 : kBusyMilliseconds);
  const auto pragma = [opened](const char* name) {
    Statement statement(opened, fmt::format("PRAGMA {}", name));
    return statement.step() ? statement.integer(0) : 0;
  };
  // One state of the file for all that follows; and two processes may find no tables.
  execute(opened, writing ? "BEGIN IMMEDIATE" : "BEGIN");
  const std::int64_t application = pragma("application_id");
  const std::int64_t schema = pragma("user_version");
  const bool empty = pragma("schema_version") == 0;
  if (!empty && application != kApplication) throw Unusable{"it holds something else"};
  if (!empty && schema > kSchema)
    throw Trouble{fmt::format("a newer version of Braze made it (format {})", schema)};
  if (!empty && schema < kSchema)
    throw Unusable{fmt::format("an older version of Braze made it (format {})", schema)};
  if (!writing) return empty ? nullptr : std::move(connection);
  if (empty) {
    execute(opened, kTables);
    execute(opened, fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                kApplication, kSchema)
                        .c_str());
  }
  execute(opened, "COMMIT; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
  return connection;
}

void TuningDatabase::read(sqlite3* connection) {
  Statement rows(connection,
                 "SELECT problem.text, time.way, time.us, time.count FROM problem JOIN time "
                 "ON time.problem = problem.id WHERE problem.device = ? AND problem.version = ?");
  rows.bind(device_).bind(version_);
  while (rows.step()) {
    const double us = rows.real(2);
    const std::int64_t count = rows.integer(3);
    if (std::isfinite(us) && us > 0 && count > 0) known_[rows.text(0)][rows.text(1)] = {us, count};
  }
}

void TuningDatabase::write(sqlite3* connection, const std::string& problem,
                           std::span<const Time> times) const {
  execute(connection, "BEGIN IMMEDIATE");
  try {
    Statement(connection, "INSERT OR IGNORE INTO problem(device, version, text) VALUES(?, ?, ?)")
        .bind(device_)
        .bind(version_)
        .bind(problem)
        .step();
    for (const Time& time : times) {
      // The mean of all measurements, whoever made them.
      Statement(connection,
                "INSERT INTO time SELECT id, ?, ?, ? FROM problem WHERE device = ? AND version = ? "
                "AND text = ? ON CONFLICT(problem, way) DO UPDATE SET "
                "us = (us * count + excluded.us * excluded.count) / (count + excluded.count), "
                "count = count + excluded.count")
          .bind(time.way)
          .bind(time.us)
          .bind(time.count)
          .bind(device_)
          .bind(version_)
          .bind(problem)
          .step();
    }
    execute(connection, "COMMIT");
  } catch (...) {
    sqlite3_exec(connection, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

bool TuningDatabase::set_aside(std::uint64_t inode, const std::string& reason) {
  // Of several processes that find it at once, one renames it; under the lock of the folder it is
  // known that nobody has put a new one there.
  const Descriptor folder(::open(file_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::flock(folder.get(), LOCK_EX);
  if (inode_of(file_) != inode) return true;
  std::filesystem::path aside = file_;
  aside += ".unusable";
  for (int number = 2; inode_of(aside) != 0; ++number)
    aside = fmt::format("{}.unusable-{}", file_.string(), number);
  std::error_code error;
  std::error_code ignored;
  std::filesystem::path journal = file_;  // would be taken for the new file's
  journal += "-journal";
  std::filesystem::rename(journal, aside.string() + "-journal", ignored);
  std::filesystem::rename(file_, aside, error);
  const std::string what =
      fmt::format("the tuning database {} cannot be used ({})", file_.string(), reason);
  if (error) {
    report(what + "; it could not be renamed: " + error.message());
  } else {
    warnings_.push_back(what + "; it was renamed to " + aside.filename().string() +
                        " and a new one begins");
  }
  return !error;
}

void TuningDatabase::report(std::string trouble) {
  if (!std::exchange(troubled_, true)) warnings_.push_back(std::move(trouble));
}

}  // namespace braze
