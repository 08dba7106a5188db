#include "bandwidth.hpp"

#include <chrono>
#include <vector>

#include "chunk.hpp"
#include "pages.hpp"
#include "pool.hpp"

namespace draftgate {
namespace {

uint64_t sum(const uint64_t* data, size_t n) {
  uint64_t lane[32] = {};  // enough independent sums that the compiler can keep several vectors in flight
  size_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (size_t j = 0; j < 32; ++j) lane[j] += data[i + j];
  uint64_t total = 0;
  for (uint64_t value : lane) total += value;
  return total;
}

}  // namespace

double read_bandwidth(size_t bytes, size_t threads) {
  const size_t words = bytes / sizeof(uint64_t);
  if (words < 4096) return 0.0;
  Pages pages(words * sizeof(uint64_t));
  uint64_t* data = reinterpret_cast<uint64_t*>(pages.data());
  PoolHandle handle(threads);
  double best = 0.0;
  handle.with([&](Pool& pool) {
    pool.run([&](size_t thread) {
      const Range mine = share(words, thread, pool.size());
      for (size_t i = mine.first; i < mine.last; ++i) data[i] = i * 0x9e3779b97f4a7c15ull;
    });
    std::vector<uint64_t> sums(pool.size());
    for (int pass = 0; pass < 8; ++pass) {
      const auto start = std::chrono::steady_clock::now();
      pool.run([&](size_t thread) {
        const Range mine = share(words, thread, pool.size());
        sums[thread] = sum(data + mine.first, mine.last - mine.first);
      });
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const double rate = double(words * sizeof(uint64_t)) / seconds;
      volatile uint64_t keep = 0;
      for (uint64_t value : sums) keep = keep + value;
      best = rate > best ? rate : best;
    }
  });
  return best;
}

}  // namespace draftgate
