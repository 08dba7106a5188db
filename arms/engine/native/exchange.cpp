#include "exchange.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "pool.hpp"

namespace draftgate {
namespace {

// Gives way now and then: the other may need this processor.
void await(const std::atomic<int>& line, int value) {
  for (int spins = 0; line.load(std::memory_order_acquire) != value; ++spins) {
    if (spins < 1000)
      relax();
    else
      std::this_thread::yield();
  }
}

}  // namespace

double exchange_ns() {
  constexpr int bursts = 100, trips = 100;
  alignas(64) std::atomic<int> line{0};
  std::vector<double> found(bursts);
  PoolHandle handle(2);
  handle.with([&](Pool& pool) {
    pool.run([&](size_t thread) {
      for (int burst = 0; burst < bursts; ++burst) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = burst * trips; i < (burst + 1) * trips; ++i) {
          if (thread == 0) line.store(2 * i + 1, std::memory_order_release);
          await(line, 2 * i + (thread == 0 ? 2 : 1));
          if (thread == 1) line.store(2 * i + 2, std::memory_order_release);
        }
        const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        if (thread == 0) found[burst] = spent.count() / (2 * trips);
      }
    });
  });
  std::nth_element(found.begin(), found.begin() + bursts / 4, found.end());
  return found[bursts / 4];
}

}  // namespace draftgate
