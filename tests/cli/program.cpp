#include "program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

namespace braze::test {
namespace {

/// In the child: never returns.
[[noreturn]] void become(const std::vector<std::string>& arguments, const std::string& out,
                         const std::string& err, const Limits& limits) {
  const auto redirect = [](const std::string& file, int to) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ::dup2(fd, to) < 0) ::_exit(126);
  };
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  if (limits.most_file_bytes >= 0) {
    const auto bytes = static_cast<rlim_t>(limits.most_file_bytes);
    const rlimit limit{bytes, bytes};
    ::signal(SIGXFSZ, SIG_IGN);  // inherited: writes fail instead
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(126);
  }
  std::vector<char*> argv = {const_cast<char*>(BRAZE_CLI)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(BRAZE_CLI, argv.data());
  ::_exit(127);
}

}  // namespace

Finished braze_program(const std::vector<std::string>& arguments, const Limits& limits) {
  const TemporaryFolder folder;
  const std::string out = limits.out.empty() ? folder / "out" : limits.out.string();
  const std::string err = folder / "err";
  const pid_t child = ::fork();
  if (child == 0) become(arguments, out, err, limits);
  int status = 0;
  if (child > 0 && !limits.interrupt_when.empty()) {
    siginfo_t ended{};
    while (!std::filesystem::exists(limits.interrupt_when) && ended.si_pid == 0) {
      ::usleep(1000);
      ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    ::kill(child, SIGINT);
  }
  if (child < 0 || ::waitpid(child, &status, 0) != child) throw std::runtime_error("no process");
  Finished finished;
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (limits.out.empty()) finished.out = read_bytes(out);
  finished.err = read_bytes(err);
  return finished;
}

std::string case_model(const std::string& name) {
  return fmt::format("{}/cases/{}/model.onnx", BRAZE_TESTS_DIR, name);
}
std::string case_tensor(const std::string& name, const std::string& tensor) {
  return fmt::format("{}/cases/{}/test_data_set_0/{}.pb", BRAZE_TESTS_DIR, name, tensor);
}
std::string data_file(const std::string& name) {
  return fmt::format("{}/cli/data/{}", BRAZE_TESTS_DIR, name);
}

std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace braze::test
