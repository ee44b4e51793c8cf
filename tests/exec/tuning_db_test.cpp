// The tuning database: what is kept, between processes too, and that nothing wrong with the file
// stops a plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>

#include "exec/tuning_db.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Time = TuningDatabase::Time;

class TuningDb : public ::testing::Test {
 protected:
  [[nodiscard]] TuningDatabase open(const std::string& device = "cpu",
                                    const std::string& version = "1") const {
    return {folder_.path(), device, version};
  }
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "tuning.db"; }
  void put(const std::string& bytes) const { std::ofstream(file(), std::ios::binary) << bytes; }
  void execute(const std::string& text) const {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(connection);
    sqlite3_close(connection);
  }

  const TemporaryFolder folder_;
};

void add(TuningDatabase& database, const std::string& problem, const std::string& way, double us) {
  const Time time{way, us, 1};
  database.add(problem, {&time, 1});
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Runs `body` in a process of its own, which is to say that all went well.
pid_t start(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  return child;
}
bool went_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(TuningDb, KeepsWhatWasMeasuredByDeviceAndVersion) {
  {
    TuningDatabase database = open();
    EXPECT_FALSE(database.knows("conv"));
    const std::vector<Time> times = {{"a", 3.5, 1}, {"b", 2.25, 1}};
    database.add("conv", times);
    EXPECT_EQ(database.us("conv", "b"), 2.25);  // at once
  }
  EXPECT_THAT(folder_.files(), ElementsAre("tuning.db"));
  const TuningDatabase again = open();
  EXPECT_TRUE(again.knows("conv"));
  EXPECT_EQ(again.us("conv", "a"), 3.5);
  EXPECT_EQ(again.us("conv", "c"), std::nullopt);
  EXPECT_EQ(again.us("pool", "a"), std::nullopt);
  EXPECT_FALSE(open("gpu").knows("conv"));
  EXPECT_FALSE(open("cpu", "2").knows("conv"));
  EXPECT_THAT(again.warnings(), IsEmpty());
}

TEST_F(TuningDb, TimesAreMeansOfAllMeasurements) {
  for (const double us : {1.0, 2.0, 6.0}) {
    TuningDatabase database = open();
    add(database, "conv", "a", us);
  }
  EXPECT_NEAR(open().us("conv", "a").value(), 3.0, 1e-12);
  TuningDatabase database = open();
  add(database, "conv", "a", 7.0);
  EXPECT_NEAR(database.us("conv", "a").value(), 4.0, 1e-12);
  EXPECT_NEAR(open().us("conv", "a").value(), 4.0, 1e-12);
}

TEST_F(TuningDb, WithoutAFolderNothingIsKept) {
  TuningDatabase database("", "cpu", "1");
  add(database, "conv", "a", 1);
  EXPECT_EQ(database.us("conv", "a"), 1.0);
  EXPECT_TRUE(database.file().empty());
  EXPECT_THAT(database.warnings(), IsEmpty());
}

TEST_F(TuningDb, ReadingMakesNoFile) {
  EXPECT_FALSE(open().knows("conv"));
  EXPECT_THAT(folder_.files(), IsEmpty());
}

TEST_F(TuningDb, TwoProcessesAtOnce) {
  constexpr int kProblems = 40;
  const auto writer = [this](double us) {
    return start([this, us] {
      TuningDatabase database = open();
      for (int i = 0; i < kProblems; ++i) {
        add(database, "shared" + std::to_string(i), "a", us);
        add(database, "own" + std::to_string(i) + (us < 2 ? "low" : "high"), "a", us);
      }
      return database.warnings().empty();
    });
  };
  const pid_t low = writer(1), high = writer(3);
  EXPECT_TRUE(went_well(low));
  EXPECT_TRUE(went_well(high));
  const TuningDatabase database = open();
  for (int i = 0; i < kProblems; ++i) {
    EXPECT_EQ(database.us("shared" + std::to_string(i), "a"), 2.0);
    EXPECT_EQ(database.us("own" + std::to_string(i) + "low", "a"), 1.0);
    EXPECT_EQ(database.us("own" + std::to_string(i) + "high", "a"), 3.0);
  }
}

TEST_F(TuningDb, AnEmptyFileIsAsNone) {
  put("");
  EXPECT_THAT(open().warnings(), IsEmpty());
  TuningDatabase database = open();
  add(database, "conv", "a", 1);
  EXPECT_THAT(database.warnings(), IsEmpty());
  EXPECT_EQ(open().us("conv", "a"), 1.0);
}

TEST_F(TuningDb, ReadersUndoWhatAKilledProcessLeftHalfDone) {
  {
    TuningDatabase database = open();
    add(database, "conv", "a", 1);
  }
  for (int i = 0; i < 30; ++i) {
    const pid_t child = start([this] {
      TuningDatabase database = open();
      for (int k = 0;; ++k) add(database, "conv" + std::to_string(k), "a", 1);
      return true;
    });
    ::usleep(static_cast<unsigned>(2000 + 700 * i));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_THAT(open().warnings(), IsEmpty()) << i;
  }
  EXPECT_EQ(open().us("conv", "a"), 1.0);
}

TEST_F(TuningDb, ReadersAndWritersOfANewFileAtOnce) {
  for (int i = 0; i < 20; ++i) {
    const pid_t writer = start([this] {
      TuningDatabase database = open();
      add(database, "conv", "a", 1);
      return database.warnings().empty();
    });
    const pid_t reader = start([this] {
      for (int k = 0; k < 50; ++k) {
        if (!open().warnings().empty()) return false;
      }
      return true;
    });
    EXPECT_TRUE(went_well(writer));
    EXPECT_TRUE(went_well(reader));
    EXPECT_THAT(folder_.files(), ElementsAre("tuning.db"));
    std::filesystem::remove(file());
  }
}

TEST_F(TuningDb, ADamagedFileIsRenamedAndANewOneBegun) {
  for (const std::string& bytes :
       {std::string("no database"), std::string(5000, '\x5a'), std::string(100, '\0')}) {
    put(bytes);
    TuningDatabase database = open();
    ASSERT_THAT(database.warnings(), SizeIs(1)) << bytes.size();
    EXPECT_THAT(database.warnings()[0], HasSubstr(file().string()));
    EXPECT_THAT(database.warnings()[0], HasSubstr("tuning.db.unusable"));
    EXPECT_FALSE(std::filesystem::exists(file()));
    add(database, "conv", "a", 1);
    EXPECT_THAT(database.warnings(), SizeIs(1));
    EXPECT_EQ(open().us("conv", "a"), 1.0);
    EXPECT_THAT(open().warnings(), IsEmpty());
    std::filesystem::remove(file());
  }
  EXPECT_THAT(folder_.files(),
              ElementsAre("tuning.db.unusable", "tuning.db.unusable-2", "tuning.db.unusable-3"));
  EXPECT_EQ(bytes_of(folder_ / "tuning.db.unusable"), "no database");
}

TEST_F(TuningDb, DamageInsideIsFoundWhenItIsReadOrWritten) {
  {
    TuningDatabase database = open();
    for (int i = 0; i < 200; ++i) add(database, "problem" + std::to_string(i), "a", 1);
  }
  std::string bytes = bytes_of(file());
  ASSERT_GT(bytes.size(), 4 * 4096U);
  for (std::size_t at = 4096; at < bytes.size(); ++at) bytes[at] = '\x11';
  put(bytes);
  TuningDatabase database = open();
  EXPECT_THAT(database.warnings(), SizeIs(1));
  add(database, "conv", "a", 1);
  EXPECT_EQ(open().us("conv", "a"), 1.0);
}

TEST_F(TuningDb, AFileOfAnotherProgramIsRenamed) {
  execute("CREATE TABLE songs(name); INSERT INTO songs VALUES('one');");
  TuningDatabase database = open();
  ASSERT_THAT(database.warnings(), SizeIs(1));
  EXPECT_THAT(database.warnings()[0], HasSubstr("something else"));
  add(database, "conv", "a", 1);
  EXPECT_EQ(open().us("conv", "a"), 1.0);
  EXPECT_THAT(folder_.files(), ElementsAre("tuning.db", "tuning.db.unusable"));
}

TEST_F(TuningDb, AnOlderFormatIsRenamedAndANewerOneLeftAlone) {
  {
    TuningDatabase database = open();
    add(database, "conv", "a", 1);
  }
  execute("PRAGMA user_version = 99");
  const std::string before = bytes_of(file());
  TuningDatabase newer = open();
  EXPECT_FALSE(newer.knows("conv"));
  add(newer, "conv", "a", 2);
  EXPECT_EQ(newer.us("conv", "a"), 2.0);
  ASSERT_THAT(newer.warnings(), SizeIs(1));  // though it is neither read nor written
  EXPECT_THAT(newer.warnings()[0], HasSubstr("newer version"));
  EXPECT_EQ(bytes_of(file()), before);

  execute("PRAGMA user_version = 0");
  const TuningDatabase older = open();
  ASSERT_THAT(older.warnings(), SizeIs(1));
  EXPECT_THAT(older.warnings()[0], HasSubstr("older version"));
  EXPECT_THAT(folder_.files(), ElementsAre("tuning.db.unusable"));
}

TEST_F(TuningDb, TimesThatAreNoneAreIgnored) {
  {
    TuningDatabase database = open();
    add(database, "conv", "a", 1);
    add(database, "conv", "b", 2);
    add(database, "conv", "c", 3);
  }
  execute("UPDATE time SET us = -1 WHERE way = 'a'");
  execute("UPDATE time SET us = 9e999 WHERE way = 'b'");
  const TuningDatabase database = open();
  EXPECT_EQ(database.us("conv", "a"), std::nullopt);
  EXPECT_EQ(database.us("conv", "b"), std::nullopt);
  EXPECT_EQ(database.us("conv", "c"), 3.0);
}

TEST_F(TuningDb, WhereNothingCanBeWrittenTimesServeThisProcess) {
  TuningDatabase database("/proc/self", "cpu", "1");
  add(database, "conv", "a", 1);
  add(database, "conv", "b", 2);
  EXPECT_EQ(database.us("conv", "a"), 1.0);
  EXPECT_EQ(database.us("conv", "b"), 2.0);
  ASSERT_THAT(database.warnings(), SizeIs(1));
  EXPECT_THAT(database.warnings()[0], HasSubstr("does not keep what was measured"));
}

TEST_F(TuningDb, AReadOnlyFileIsReadAndNotWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write to everything";
  {
    TuningDatabase database = open();
    add(database, "conv", "a", 1);
  }
  std::filesystem::permissions(file(), std::filesystem::perms::owner_read);
  std::filesystem::permissions(
      folder_.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  TuningDatabase database = open();
  EXPECT_EQ(database.us("conv", "a"), 1.0);
  EXPECT_THAT(database.warnings(), IsEmpty());
  add(database, "pool", "a", 1);
  EXPECT_THAT(database.warnings(), SizeIs(1));
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
}

TEST_F(TuningDb, AFileThatSomebodyHoldsIsWaitedForOnce) {
  {
    TuningDatabase database = open();
    add(database, "conv", "a", 1);
  }
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  sqlite3* holder = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &holder), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(holder, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  Clock::time_point begin = Clock::now();
  TuningDatabase database = open();
  EXPECT_GT(seconds_since(begin), 5);  // it may be let go any moment
  EXPECT_FALSE(database.knows("conv"));

  begin = Clock::now();
  for (int i = 0; i < 5; ++i) add(database, "pool" + std::to_string(i), "a", 2);
  EXPECT_THAT(open().warnings(), ElementsAre(HasSubstr("another process holds it")));
  EXPECT_LT(seconds_since(begin), 5);
  EXPECT_EQ(database.us("pool4", "a"), 2.0);
  EXPECT_THAT(database.warnings(), ElementsAre(HasSubstr("another process holds it")));

  ASSERT_EQ(sqlite3_exec(holder, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(holder);
  add(database, "late", "a", 3);  // is kept: it is free again
  EXPECT_EQ(open().us("late", "a"), 3.0);
  EXPECT_EQ(open().us("conv", "a"), 1.0);
}

TEST_F(TuningDb, AFullDiskLosesNothingThatWasKept) {
  {
    TuningDatabase database = open();
    add(database, "conv", "a", 1);
  }
  const auto size = static_cast<rlim_t>(std::filesystem::file_size(file()));
  EXPECT_TRUE(went_well(start([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{size, size};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    TuningDatabase database = open();
    for (int i = 0; i < 20; ++i) add(database, std::string(4000, 'x') + std::to_string(i), "a", 5);
    return database.us("conv", "a") == 1.0 &&
           database.us(std::string(4000, 'x') + "19", "a") == 5.0 &&
           database.warnings().size() == 1;
  })));
  const TuningDatabase database = open();
  EXPECT_EQ(database.us("conv", "a"), 1.0);
  EXPECT_THAT(database.warnings(), IsEmpty());
}

TEST_F(TuningDb, AProcessThatIsKilledLosesOnlyWhatItHadNotAdded) {
  const pid_t child = start([this] {
    TuningDatabase database = open();
    for (int i = 0;; ++i) add(database, "problem" + std::to_string(i), "a", 1);
    return true;
  });
  for (int waited = 0; waited < 60'000 && !open().knows("problem20"); ++waited) ::usleep(1000);
  ::kill(child, SIGKILL);
  EXPECT_FALSE(went_well(child));
  TuningDatabase database = open();
  for (int i = 0; i <= 20; ++i) EXPECT_TRUE(database.knows("problem" + std::to_string(i)));
  add(database, "conv", "a", 1);
  EXPECT_THAT(database.warnings(), IsEmpty());
  EXPECT_EQ(open().us("conv", "a"), 1.0);
}

}  // namespace
}  // namespace braze::test
