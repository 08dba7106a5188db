#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "law.hpp"

namespace draftgate::sampling {

namespace {

using Wide = unsigned __int128;

struct Item {
  std::uint64_t mass;
  std::uint64_t deviation;  // typical-p only
  std::uint32_t id;
  std::uint32_t rank;  // coarse class of the order in force, best first
};
using Items = std::vector<Item>;

bool heavier(const Item& a, const Item& b) { return a.mass != b.mass ? a.mass > b.mass : a.id < b.id; }
bool more_typical(const Item& a, const Item& b) {
  return a.deviation != b.deviation ? a.deviation < b.deviation : heavier(a, b);
}

int leading_zeros(std::uint64_t x) { return x ? __builtin_clzll(x) : 64; }

// Keeps the shortest prefix, in the order given, that satisfies `reached(mass, count)`; all when none does. The rank of
// an item is monotone in the order, so that only the one rank where the crossing lies has to be put in order.
template <class Order, class Reached>
void keep_prefix(Items& items, Order order, Reached reached) {
  std::uint64_t mass[65] = {}, count[65] = {};
  for (const Item& item : items) {
    mass[item.rank] += item.mass;
    count[item.rank] += 1;
  }
  std::uint64_t sure_mass = 0, sure = 0;
  std::uint32_t crossing = 0;
  for (; crossing < 65; ++crossing) {
    if (reached(sure_mass + mass[crossing], sure + count[crossing])) break;
    sure_mass += mass[crossing];
    sure += count[crossing];
  }
  if (crossing == 65) return;
  static thread_local Items middle;
  middle.clear();
  std::size_t kept = 0;
  for (const Item& item : items) {
    if (item.rank < crossing) items[kept++] = item;
    if (item.rank == crossing) middle.push_back(item);
  }
  std::size_t begin = 0, end = middle.size();  // the crossing item lies in [begin, end)
  while (end - begin > 1) {
    const std::size_t half = begin + (end - begin) / 2;
    std::nth_element(middle.begin() + begin, middle.begin() + half, middle.begin() + end, order);
    std::uint64_t more = 0;
    for (std::size_t i = begin; i < half; ++i) more += middle[i].mass;
    if (reached(sure_mass + more, sure + half)) {
      end = half;
    } else {
      sure_mass += more;
      begin = half;
    }
  }
  items.resize(kept);
  items.insert(items.end(), middle.begin(), middle.begin() + begin + 1);
}

// mass = floor(mass * 2^48 / kept), the remainder to the largest mass, lowest id.
void rescale(Items& items) {
  std::uint64_t kept = 0, given = 0;
  for (const Item& item : items) kept += item.mass;
  if (kept == kTotal) return;
  const double factor = 0x1p48 / static_cast<double>(kept);
  for (Item& item : items) {
    auto scaled = static_cast<std::uint64_t>(static_cast<double>(item.mass) * factor);  // the floor, give or take one
    const std::int64_t rest = static_cast<std::int64_t>((item.mass << kMassBits) - scaled * kept);
    scaled += rest < 0 ? -1 : rest >= static_cast<std::int64_t>(kept) ? 1 : 0;
    item.mass = scaled;
    given += scaled;
  }
  std::min_element(items.begin(), items.end(), heavier)->mass += kTotal - given;
}

void rank_by_mass(Items& items) {
  for (Item& item : items) item.rank = static_cast<std::uint32_t>(leading_zeros(item.mass));
}

void keep_top_k(Items& items, std::uint64_t k) {
  rank_by_mass(items);
  keep_prefix(items, heavier, [k](std::uint64_t, std::uint64_t count) { return count >= k; });
}

void keep_top_p(Items& items, std::uint64_t wanted) {
  rank_by_mass(items);
  keep_prefix(items, heavier, [wanted](std::uint64_t mass, std::uint64_t) { return mass >= wanted; });
}

std::uint64_t min_p_level(std::uint64_t min_p, std::uint64_t largest) {
  return static_cast<std::uint64_t>((static_cast<Wide>(min_p) * largest + (kTotal - 1)) >> kMassBits);
}

void keep_min_p(Items& items, std::uint64_t min_p) {
  const std::uint64_t level = min_p_level(min_p, std::min_element(items.begin(), items.end(), heavier)->mass);
  items.erase(std::remove_if(items.begin(), items.end(), [&](const Item& i) { return i.mass < level; }), items.end());
}

// Surprise of every item, as the declared series gives it; items without mass have none and are dropped first.
std::vector<std::uint64_t>& surprises(const Kernels& kernels, Items& items) {
  static thread_local std::vector<std::uint64_t> masses, bits;
  items.erase(std::remove_if(items.begin(), items.end(), [](const Item& i) { return i.mass == 0; }), items.end());
  masses.clear();
  for (const Item& item : items) masses.push_back(item.mass);
  bits.resize(masses.size());
  kernels.surprise(masses.data(), masses.size(), bits.data());
  return bits;
}

// Mean surprise in units of 2^-32 bits, as an integer: the same in any order of the items.
Wide mean_surprise(const Items& items, const std::vector<std::uint64_t>& bits) {
  Wide weighted = 0;
  for (std::size_t i = 0; i < items.size(); ++i) weighted += static_cast<Wide>(items[i].mass) * bits[i];
  return weighted >> kMassBits;
}

void keep_typical(const Kernels& kernels, Items& items, std::uint64_t wanted) {
  const std::vector<std::uint64_t>& bits = surprises(kernels, items);
  const auto mean = static_cast<std::uint64_t>(mean_surprise(items, bits));
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].deviation = bits[i] > mean ? bits[i] - mean : mean - bits[i];
    items[i].rank = static_cast<std::uint32_t>(64 - leading_zeros(items[i].deviation));
  }
  keep_prefix(items, more_typical, [wanted](std::uint64_t mass, std::uint64_t) { return mass >= wanted; });
}

// Levels to sift a row at, tightest first; the last one surely holds everything the first active truncation keeps.
// Top-p: masses below its last level add up to less than what it drops.
std::vector<std::uint64_t> sift_levels(std::size_t n, std::uint64_t largest, const Truncation& cut) {
  if (cut.top_k) return {kTotal >> 14, kTotal >> 22, 1};
  if (cut.top_p < kTotal) return {kTotal >> 12, std::max<std::uint64_t>(1, std::min((kTotal - cut.top_p) / n, largest))};
  if (cut.min_p) return {std::max<std::uint64_t>(1, std::min(min_p_level(cut.min_p, largest), largest))};
  return {1};
}

// Whether a sifted row, of which `count` tokens with `mass` in all are left, still holds all the first truncation keeps.
bool enough(std::uint64_t mass, std::size_t count, const Truncation& cut) {
  if (count == 0) return false;
  if (cut.top_k) return count >= cut.top_k;
  return cut.top_p == kTotal || mass >= cut.top_p;
}

// The highest power of two from which on the kept masses alone satisfy top-p: nothing below it needs looking at.
std::uint64_t tightened(const Kernels& kernels, const std::uint64_t* kept, std::size_t count, const Truncation& cut) {
  if (cut.top_k || cut.top_p == kTotal) return 0;
  for (std::uint64_t level = kTotal >> 4; level > 0; level >>= 1)
    if (kernels.total(kept, count, level) >= cut.top_p) return level;
  return 0;
}

double entropy_of(const Kernels& kernels, Items& items) {
  const std::vector<std::uint64_t>& bits = surprises(kernels, items);
  return static_cast<double>(static_cast<std::uint64_t>(mean_surprise(items, bits))) * 0x1p-32 * 0x1.62e42fefa39efp-1;
}

}  // namespace

double entropy_nats(std::uint64_t weight_sum, double first_moment) {
  // log2 of the sum in weights of the maximum, minus the mean of t: H in bits
  const double sum = static_cast<double>(weight_sum) * 0x1p-42;
  return (std::log2(sum) - first_moment / sum) * 0x1.62e42fefa39efp-1;
}

double truncated(const Kernels& kernels, const float* weights, std::size_t n, std::uint64_t sum, const Truncation& cut,
                 std::uint64_t* masses, bool entropy) {
  static thread_local std::vector<std::uint32_t> ids;
  static thread_local std::vector<std::uint64_t> kept;
  static thread_local Items items;
  if (ids.size() < n + 1) {
    ids.resize(n + 1);
    kept.resize(n + 1);
  }
  const auto largest = static_cast<std::uint64_t>((static_cast<Wide>(kTopWeight) << kMassBits) / sum);
  Sifted sifted{};
  for (const std::uint64_t level : sift_levels(n, largest, cut)) {
    sifted = kernels.sift(weights, n, sum, level, ids.data(), kept.data());
    if (enough(kernels.total(kept.data(), sifted.count, 0), sifted.count, cut)) break;
  }
  const std::uint64_t level = tightened(kernels, kept.data(), sifted.count, cut);
  items.resize(sifted.count + 1);
  std::size_t count = 0;
  for (std::size_t i = 0; i < sifted.count; ++i) {  // written always, counted when kept: no branch to mispredict
    items[count] = {kept[i], 0, ids[i], 0};
    count += kept[i] >= level ? 1 : 0;
  }
  items.resize(count);
  std::min_element(items.begin(), items.end(), heavier)->mass += kTotal - sifted.given;
  if (cut.top_k) { keep_top_k(items, cut.top_k); rescale(items); }
  if (cut.top_p < kTotal) { keep_top_p(items, cut.top_p); rescale(items); }
  if (cut.min_p) { keep_min_p(items, cut.min_p); rescale(items); }
  if (cut.typical_p < kTotal) { keep_typical(kernels, items, cut.typical_p); rescale(items); }
  std::memset(masses, 0, n * sizeof *masses);
  for (const Item& item : items) masses[item.id] = item.mass;
  return entropy ? entropy_of(kernels, items) : 0;
}

}  // namespace draftgate::sampling
