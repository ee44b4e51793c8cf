// What it takes until a second worker is at work: it spins for some time after a loop, then sleeps.
// Workers are pinned to CPUs of their own. Prints a table over the time between two loops:
//   both at work   from the call until both workers have begun
//   the loop       from the call until it returns
// A loop of as many tasks as workers, each of which waits for the others to begin.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cpu/kernel.hpp"

namespace braze::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Pool = std::unique_ptr<pthreadpool, decltype(&pthreadpool_destroy)>;
constexpr std::size_t kWorkers = 2;

double us(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// Runs fn(worker) once on each worker.
template <class Fn>
void on_each(pthreadpool_t pool, const Fn& fn) {
  std::atomic<std::size_t> arrived{0};
  cpu::parallel_for(pool, kWorkers, [&](std::size_t, std::size_t worker) {
    arrived.fetch_add(1);
    while (arrived.load() < kWorkers) {
    }
    fn(worker);
  });
}

/// False where this process may not run on so many CPUs.
bool pin(pthreadpool_t pool) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return false;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) cpus.push_back(cpu);
  }
  if (cpus.size() < kWorkers) return false;
  std::atomic<bool> pinned{true};
  on_each(pool, [&](std::size_t worker) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[worker], &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) pinned = false;
  });
  return pinned;
}

struct Times {
  std::vector<double> begun, done;  // us
};

/// `busy`: the caller computes between two loops, else it sleeps too.
Times measure(pthreadpool_t pool, std::chrono::microseconds gap, bool busy, int loops) {
  Times times;
  for (int i = 0; i < loops; ++i) {
    const auto until = Clock::now() + gap;
    if (!busy) std::this_thread::sleep_until(until);
    while (Clock::now() < until) {
    }
    std::atomic<Clock::rep> last{0};
    const auto start = Clock::now();
    on_each(pool, [&](std::size_t) {
      const Clock::rep now = Clock::now().time_since_epoch().count();
      Clock::rep seen = last.load();
      while (seen < now && !last.compare_exchange_weak(seen, now)) {
      }
    });
    times.done.push_back(us(Clock::now() - start));
    times.begun.push_back(us(Clock::time_point(Clock::duration(last)) - start));
  }
  std::ranges::sort(times.begun);
  std::ranges::sort(times.done);
  return times;
}

std::string row(const Times& times) {
  const auto part = [](const std::vector<double>& sorted, double quantile) {
    return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
  };
  return fmt::format("{:.2f} / {:.2f} / {:.1f} | {:.2f} / {:.2f} / {:.1f}", part(times.begun, 0),
                     part(times.begun, 0.5), part(times.begun, 0.99), part(times.done, 0),
                     part(times.done, 0.5), part(times.done, 0.99));
}

}  // namespace
}  // namespace braze::bench

int main() {
  using namespace braze::bench;
  using std::chrono::microseconds;
  const Pool pool(pthreadpool_create(kWorkers), pthreadpool_destroy);
  if (!pin(pool.get())) {
    fmt::print(stderr, "needs {} CPUs to pin its workers to\n", kWorkers);
    return 1;
  }
  fmt::print("| between two loops | both at work, us (min / median / p99) | the loop, us |\n");
  fmt::print("|---|---|---|\n");
  fmt::print("| nothing | {} |\n", row(measure(pool.get(), microseconds(0), true, 20000)));
  for (const int gap : {10, 100, 1000, 10000}) {
    const int loops = std::clamp(2000000 / gap, 50, 2000);
    fmt::print("| {} us, computing | {} |\n", gap,
               row(measure(pool.get(), microseconds(gap), true, loops)));
  }
  for (const int gap : {1000, 100000})
    fmt::print("| {} us, asleep | {} |\n", gap,
               row(measure(pool.get(), microseconds(gap), false, 100000 / gap + 50)));
  return 0;
}
