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
  std::uint32_t id;
};
using Items = std::vector<Item>;

bool heavier(const Item& a, const Item& b) { return a.mass != b.mass ? a.mass > b.mass : a.id < b.id; }

struct Deviant {
  std::uint64_t deviation;
  Item item;
};
bool more_typical(const Deviant& a, const Deviant& b) {
  return a.deviation != b.deviation ? a.deviation < b.deviation : heavier(a.item, b.item);
}

const Item& item_of(const Item& item) { return item; }
const Item& item_of(const Deviant& deviant) { return deviant.item; }

// Length of the shortest prefix, in the order given, whose mass reaches `wanted`; the prefix stands first afterwards.
template <class Entry, class Order>
std::size_t shortest_prefix(std::vector<Entry>& entries, std::uint64_t wanted, Order order) {
  std::size_t begin = 0, end = entries.size();
  std::uint64_t before = 0;
  while (end - begin > 1) {  // the crossing entry lies in [begin, end)
    const std::size_t middle = begin + (end - begin) / 2;
    std::nth_element(entries.begin() + begin, entries.begin() + middle, entries.begin() + end, order);
    std::uint64_t half = 0;
    for (std::size_t i = begin; i < middle; ++i) half += item_of(entries[i]).mass;
    if (before + half >= wanted) {
      end = middle;
    } else {
      before += half;
      begin = middle;
    }
  }
  return std::min(begin + 1, entries.size());
}

// mass = floor(mass * 2^48 / kept), the remainder to the largest mass, lowest id.
void rescale(Items& items) {
  Wide kept = 0;
  for (const Item& item : items) kept += item.mass;
  if (kept == kTotal) return;
  std::uint64_t given = 0;
  for (Item& item : items) {
    item.mass = static_cast<std::uint64_t>((static_cast<Wide>(item.mass) << kMassBits) / kept);
    given += item.mass;
  }
  std::min_element(items.begin(), items.end(), heavier)->mass += kTotal - given;
}

void keep_top_k(Items& items, std::uint64_t k) {
  if (k >= items.size()) return;
  std::nth_element(items.begin(), items.begin() + (k - 1), items.end(), heavier);
  items.resize(k);
}

void keep_top_p(Items& items, std::uint64_t wanted) { items.resize(shortest_prefix(items, wanted, heavier)); }

std::uint64_t min_p_level(std::uint64_t min_p, std::uint64_t largest) {
  return static_cast<std::uint64_t>((static_cast<Wide>(min_p) * largest + (kTotal - 1)) >> kMassBits);
}

void keep_min_p(Items& items, std::uint64_t min_p) {
  const std::uint64_t level = min_p_level(min_p, std::min_element(items.begin(), items.end(), heavier)->mass);
  items.erase(std::remove_if(items.begin(), items.end(), [&](const Item& i) { return i.mass < level; }), items.end());
}

void keep_typical(Items& items, std::uint64_t wanted) {
  Wide weighted = 0;
  std::vector<Deviant> deviants;
  deviants.reserve(items.size());
  for (const Item& item : items) {
    if (item.mass == 0) continue;
    const auto bits = static_cast<std::uint64_t>(surprise(item.mass));
    weighted += static_cast<Wide>(item.mass) * bits;
    deviants.push_back({bits, item});
  }
  const auto mean = static_cast<std::uint64_t>(weighted >> kMassBits);
  for (Deviant& d : deviants) d.deviation = d.deviation > mean ? d.deviation - mean : mean - d.deviation;
  deviants.resize(shortest_prefix(deviants, wanted, more_typical));
  items.clear();
  for (const Deviant& d : deviants) items.push_back(d.item);
}

// The lowest level that surely holds everything the first active truncation keeps, found in one pass over the row.
std::uint64_t first_level(const Kernels& kernels, const std::uint64_t* masses, std::size_t n, const Truncation& cut) {
  std::uint64_t levels[kCuts] = {kTotal >> 6, kTotal >> 9, kTotal >> 12, kTotal >> 16, kTotal >> 22, kTotal >> 32};
  if (!cut.top_k && cut.top_p == kTotal) return 1;
  const CutSums sums = kernels.cuts(masses, n, levels);
  for (int c = 0; c < kCuts; ++c)
    if (cut.top_k ? sums.count[c] >= cut.top_k : sums.sum[c] >= cut.top_p) return levels[c];
  return 1;
}

double entropy_of(const Items& items) {
  double bits = 0;
  for (const Item& item : items)
    if (item.mass) bits = bits + static_cast<double>(item.mass) * 0x1p-48 * (static_cast<double>(surprise(item.mass)) * 0x1p-32);
  return bits * 0x1.62e42fefa39efp-1;
}

}  // namespace

std::int64_t surprise(std::uint64_t mass) {
  int exponent = 0;
  double m = std::frexp(static_cast<double>(mass), &exponent);  // in [1/2, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {                               // sqrt(1/2)
    m = m * 2.0;
    exponent -= 1;
  }
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double series = 1.0 / 17.0;
  for (int odd = 15; odd >= 1; odd -= 2) series = series * z + 1.0 / odd;
  const double log2m = series * s * 0x1.71547652b82fep+1;  // 2 / ln 2
  return static_cast<std::int64_t>(std::nearbyint((static_cast<double>(kMassBits - exponent) - log2m) * 0x1p32));
}

double entropy_nats(std::uint64_t weight_sum, double first_moment) {
  // log2 of the sum in weights of the maximum, minus the mean of t: H in bits
  const double sum = static_cast<double>(weight_sum) * 0x1p-42;
  return (std::log2(sum) - first_moment / sum) * 0x1.62e42fefa39efp-1;
}

double truncate(const Kernels& kernels, std::uint64_t* masses, std::size_t n, const Truncation& cut) {
  static thread_local std::vector<std::uint32_t> ids;
  static thread_local Items items;
  if (ids.size() < n) ids.resize(n);
  const std::size_t found = kernels.gather(masses, n, first_level(kernels, masses, n, cut), ids.data());
  items.clear();
  for (std::size_t i = 0; i < found; ++i) items.push_back({masses[ids[i]], ids[i]});
  if (cut.top_k) { keep_top_k(items, cut.top_k); rescale(items); }
  if (cut.top_p < kTotal) { keep_top_p(items, cut.top_p); rescale(items); }
  if (cut.min_p) { keep_min_p(items, cut.min_p); rescale(items); }
  if (cut.typical_p < kTotal) { keep_typical(items, cut.typical_p); rescale(items); }
  std::memset(masses, 0, n * sizeof *masses);
  for (const Item& item : items) masses[item.id] = item.mass;
  // lists are left in no particular order by selection; sum the entropy in id order so that it is one number
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.id < b.id; });
  return entropy_of(items);
}

}  // namespace draftgate::sampling
