// Philox-4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace draftgate::sampling {

inline std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

struct Bounded {
  std::uint64_t value;  // in [1, n]
  std::uint32_t tries;
};

// Unbiased: multiply-shift of 64 random bits, the short first interval rejected (Lemire, TOMACS 2019).
inline Bounded bounded(std::uint64_t key, std::uint32_t domain, std::uint32_t round, std::uint32_t position,
                       std::uint64_t n) {
  const std::uint64_t threshold = (0 - n) % n;  // 2^64 mod n
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto words = philox(key, {domain, round, position, attempt});
    const std::uint64_t x = (std::uint64_t{words[1]} << 32) | words[0];
    const unsigned __int128 product = static_cast<unsigned __int128>(x) * n;
    if (static_cast<std::uint64_t>(product) >= threshold)
      return {static_cast<std::uint64_t>(product >> 64) + 1, attempt + 1};
  }
}

}  // namespace draftgate::sampling
