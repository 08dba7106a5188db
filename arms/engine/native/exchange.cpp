#include "exchange.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "pool.hpp"

namespace draftgate {
namespace {

constexpr int kBursts = 100, kTrips = 100, kSpins = 20000;
constexpr std::chrono::milliseconds kLongest{200};
constexpr int kOver = -1;

// False when the other thread has ended the exchange. Gives way now and then: the other may need this processor.
bool await(const std::atomic<int>& line, int value) {
  for (int spins = 0;; ++spins) {
    const int now = line.load(std::memory_order_acquire);
    if (now == value || now == kOver) return now == value;
    if (spins > kSpins) std::this_thread::yield();
  }
}

}  // namespace

double exchange_ns() {
  using Clock = std::chrono::steady_clock;
  alignas(64) std::atomic<int> line{0};
  std::vector<double> found;
  PoolHandle handle(2);
  handle.with([&](Pool& pool) {
    pool.run([&](size_t thread) {
      if (thread == 1) {
        for (int i = 0; await(line, 2 * i + 1); ++i) line.store(2 * i + 2, std::memory_order_release);
        return;
      }
      const auto begin = Clock::now();
      for (int i = 0; i < kBursts * kTrips && Clock::now() - begin < kLongest;) {
        const auto start = Clock::now();
        for (const int end = i + kTrips; i < end; ++i) {
          line.store(2 * i + 1, std::memory_order_release);
          await(line, 2 * i + 2);
        }
        found.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / (2 * kTrips));
      }
      line.store(kOver, std::memory_order_release);
    });
  });
  const auto quartile = found.begin() + std::ptrdiff_t(found.size() / 4);
  std::nth_element(found.begin(), quartile, found.end());
  return *quartile;
}

}  // namespace draftgate
