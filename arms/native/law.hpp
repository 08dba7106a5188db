// The declared law of one row, `masses/1`: float32 logits to unsigned integers that sum to exactly 2^48.
// The arithmetic is written down in arms/masses.py and, independently and slowly, in arms/masses_definition.py.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __FAST_MATH__
#error "the law needs IEEE arithmetic: build without -ffast-math"
#endif

namespace draftgate::sampling {

constexpr int kMassBits = 48;
constexpr std::uint64_t kTotal = std::uint64_t{1} << kMassBits;
constexpr int kWeightBits = 42;                               // a weight is an integer in [0, 2^42]
constexpr std::uint64_t kTopWeight = std::uint64_t{1} << kWeightBits;
constexpr std::size_t kMaxVocabulary = std::size_t{1} << 20;  // so that a sum of weights stays below 2^62
enum Status : int { kFine = 0, kNonFinite = 1, kNoToken = 2 };

struct RowScan {
  Status status;
  float maximum;
  std::size_t argmax;  // lowest id of the maximum
};

struct RowWeights {
  std::uint64_t sum;
  double first_moment;  // sum of weight * (logit - maximum) in bits, over 16 fixed lanes: for the entropy only
};

struct Sifted {
  std::size_t count;
  std::uint64_t given;  // sum of the masses of the whole row, before the remainder
};

struct Excess {
  std::size_t count;
  std::uint64_t sum;
};

// The loops over a vocabulary, one set per instruction set.
struct Kernels {
  const char* name;
  RowScan (*scan)(const float* logits, std::size_t n);
  // weights[i] = 2^t as float32 in [0, 1]; t = max((x - maximum) * scale, -64); the moment only when asked for;
  // weights may be null when only the sums are wanted
  RowWeights (*weigh)(const float* logits, std::size_t n, float maximum, float scale, float* weights, bool moment);
  // masses[i] = floor(E_i * 2^48 / sum), the remainder to the largest mass, lowest id
  void (*normalise)(const float* weights, std::size_t n, std::uint64_t sum, std::uint64_t* masses);
  // the same masses without the remainder; only those >= level are kept, as (id, mass) in id order
  Sifted (*sift)(const float* weights, std::size_t n, std::uint64_t sum, std::uint64_t level, std::uint32_t* ids,
                 std::uint64_t* kept);
  // smallest i with masses[0] + ... + masses[i] >= r; n when the row ends first
  std::size_t (*pick)(const std::uint64_t* masses, std::size_t n, std::uint64_t r);
  // sum of the masses that are at least `level`
  std::uint64_t (*total)(const std::uint64_t* masses, std::size_t n, std::uint64_t level);
  // out = -log2(mass / 2^48) in units of 2^-32, rounded to nearest even: our own series, separately rounded doubles
  void (*surprise)(const std::uint64_t* masses, std::size_t n, std::uint64_t* out);
  // max(q - p, 0) where it is not 0, as (id, mass) in id order; p may be null, for zeros. Room for n + 1 of each.
  Excess (*excess)(const std::uint64_t* q, const std::uint64_t* p, std::size_t n, std::int64_t* ids, std::uint64_t* masses);
};

extern const Kernels kPortable, kAvx2, kAvx512;

// Truncations in their order on integer masses, each rescaled exactly to 2^48. Zero or 2^48 switches one off.
struct Truncation {
  std::uint64_t top_k, top_p, min_p, typical_p;
  bool any() const { return top_k || top_p < kTotal || min_p || typical_p < kTotal; }
};
// Weights of a row to its truncated masses; returns the entropy in nats when asked for, else 0.
double truncated(const Kernels& kernels, const float* weights, std::size_t n, std::uint64_t sum, const Truncation& cut,
                 std::uint64_t* masses, bool entropy);

double entropy_nats(std::uint64_t weight_sum, double first_moment);

}  // namespace draftgate::sampling
