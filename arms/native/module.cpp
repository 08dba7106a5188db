// The `_sampling` extension: arrays in, integers out. Called through arms/masses.py and arms/draws.py only.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "law.hpp"
#include "philox.hpp"

namespace nb = nanobind;
using namespace draftgate::sampling;

namespace {

using Logits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Masses = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using PlacesOut = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MassesOut = nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const Kernels* best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return &kAvx512;
  if (__builtin_cpu_supports("avx2")) return &kAvx2;
#endif
  return &kPortable;
}

const Kernels* active = best();

void use_kernel(const std::string& name) {
  const Kernels* top = best();
  if (name == "best") { active = top; return; }
  if (name == "portable") { active = &kPortable; return; }
  if (name == "avx2" && top != &kPortable) { active = &kAvx2; return; }
  if (name == "avx512" && top == &kAvx512) { active = &kAvx512; return; }
  throw nb::value_error(("this machine has no sampling kernels '" + name + "'; known: portable, avx2, avx512").c_str());
}

// The row with edits applied: overrides of single logits, then a bit mask of allowed ids; the row itself when none.
// Null when the row as it came holds NaN or +Inf: an edit must not launder them.
const float* edited(const Logits& logits, const std::optional<Ids>& ids, const std::optional<Logits>& values,
                    const std::optional<Words>& mask, std::vector<float>& scratch) {
  if (!ids && !mask) return logits.data();
  const std::size_t n = logits.size();
  if (active->scan(logits.data(), n).status == kNonFinite) return nullptr;
  if (scratch.size() < n) scratch.resize(n);
  std::memcpy(scratch.data(), logits.data(), n * sizeof(float));
  if (ids) {
    if (!values || values->size() != ids->size()) throw nb::value_error("as many values as ids are needed");
    for (std::size_t i = 0; i < ids->size(); ++i) {
      const auto id = static_cast<std::size_t>(ids->data()[i]);
      if (id >= n) throw nb::value_error("an edited id lies outside the vocabulary");
      scratch[id] = values->data()[i];
    }
  }
  if (mask) {
    if (mask->size() * 32 < n) throw nb::value_error("the mask is shorter than the vocabulary");
    const float none = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < n; ++i)
      scratch[i] = (mask->data()[i >> 5] >> (i & 31)) & 1 ? scratch[i] : none;
  }
  return scratch.data();
}

std::vector<float>& edit_scratch() { static thread_local std::vector<float> scratch; return scratch; }

float* weight_scratch(std::size_t n) {
  static thread_local std::vector<float> scratch;
  if (scratch.size() < n) scratch.resize(n);
  return scratch.data();
}

std::tuple<int, double> row(const Logits& logits, float scale, std::uint64_t top_k, std::uint64_t top_p,
                            std::uint64_t min_p, std::uint64_t typical_p, MassesOut out, std::optional<Ids> ids,
                            std::optional<Logits> values, std::optional<Words> mask, bool entropy) {
  const std::size_t n = logits.size();
  if (out.size() != n || n > kMaxVocabulary) throw nb::value_error("masses and logits differ in size, or 2^20 is exceeded");
  const float* x = edited(logits, ids, values, mask, edit_scratch());
  if (!x) return {kNonFinite, 0.0};
  const RowScan scan = active->scan(x, n);
  if (scan.status != kFine) return {scan.status, 0.0};
  float* weights = weight_scratch(n);
  const Truncation cut{top_k, top_p, min_p, typical_p};
  const RowWeights sums = active->weigh(x, n, scan.maximum, scale, weights, entropy && !cut.any());
  if (cut.any()) return {kFine, truncated(*active, weights, n, sums.sum, cut, out.data(), entropy)};
  active->normalise(weights, n, sums.sum, out.data());
  return {kFine, entropy ? entropy_nats(sums.sum, sums.first_moment) : 0.0};
}

std::tuple<int, std::int64_t> argmax(const Logits& logits, std::optional<Ids> ids, std::optional<Logits> values,
                                     std::optional<Words> mask) {
  const float* x = edited(logits, ids, values, mask, edit_scratch());
  if (!x) return {kNonFinite, 0};
  const RowScan scan = active->scan(x, logits.size());
  return {scan.status, static_cast<std::int64_t>(scan.argmax)};
}

// Greedy drafts: argmax, entropy in nats and probability of the argmax under temperature 1 / scale, no masses stored.
std::tuple<int, std::int64_t, double, double> peak(const Logits& logits, float scale, std::optional<Ids> ids,
                                                   std::optional<Logits> values, std::optional<Words> mask) {
  const float* x = edited(logits, ids, values, mask, edit_scratch());
  if (!x) return {kNonFinite, 0, 0.0, 0.0};
  const RowScan scan = active->scan(x, logits.size());
  if (scan.status != kFine) return {scan.status, 0, 0.0, 0.0};
  const RowWeights sums = active->weigh(x, logits.size(), scan.maximum, scale, nullptr, true);
  return {kFine, static_cast<std::int64_t>(scan.argmax), entropy_nats(sums.sum, sums.first_moment),
          static_cast<double>(kTopWeight) / static_cast<double>(sums.sum)};
}

// A short row at its tokens' places in a wide one. `written` holds the places (the first `count` of them) where the wide
// row has mass from before, and then the new ones. Returns how many they are, and the largest mass.
std::tuple<std::size_t, std::uint64_t> widen(const Masses& masses, const Places& ids, MassesOut wide, PlacesOut written,
                                             std::size_t count) {
  const std::size_t n = masses.size();
  if (ids.size() != n || written.size() < n) throw nb::value_error("as many places as masses are needed");
  if (count > n) throw nb::value_error("more places were written than there are");
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(written.data()[i]);
    if (at >= wide.size()) throw nb::value_error("a place lies outside the wide row");
    wide.data()[at] = 0;
  }
  std::uint64_t largest = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t mass = masses.data()[i];
    if (!mass) continue;
    const auto at = static_cast<std::size_t>(ids.data()[i]);
    if (at >= wide.size()) throw nb::value_error("a place lies outside the wide row");
    wide.data()[at] = mass;
    written.data()[kept++] = ids.data()[i];
    largest = mass > largest ? mass : largest;
  }
  return {kept, largest};
}

void same_size(std::size_t a, std::size_t b) {
  if (a != b) throw nb::value_error("the rows differ in size");
}

template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Array<T> copied(const T* data, std::size_t n) {
  auto own = std::make_unique<T[]>(n ? n : 1);
  std::copy(data, data + n, own.get());
  const nb::capsule owner(own.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Array<T>(own.release(), {n}, owner);
}

using Residual = std::tuple<Array<std::int64_t>, Array<std::uint64_t>, std::uint64_t>;

struct Kept {
  std::vector<std::int64_t> ids;
  std::vector<std::uint64_t> masses;
};

Kept& residual_scratch(std::size_t n) {
  static thread_local Kept kept;
  if (kept.ids.size() < n + 1) {
    kept.ids.resize(n + 1);
    kept.masses.resize(n + 1);
  }
  return kept;
}

// (ids, masses, sum) of max(q - p, 0) where it is not 0; p may be null, for zeros.
Residual residual(const Masses& q, const std::uint64_t* p) {
  Kept& kept = residual_scratch(q.size());
  const Excess found = active->excess(q.data(), p, q.size(), kept.ids.data(), kept.masses.data());
  return {copied(kept.ids.data(), found.count), copied(kept.masses.data(), found.count), found.sum};
}

// The same where p is all at one id: q without it.
Residual residual_of_point(const Masses& q, std::size_t id) {
  if (id >= q.size()) throw nb::value_error("the point lies outside the row");
  Kept& kept = residual_scratch(q.size());
  Excess found = active->excess(q.data(), nullptr, q.size(), kept.ids.data(), kept.masses.data());
  std::size_t count = 0;
  for (std::size_t i = 0; i < found.count; ++i) {
    kept.ids[count] = kept.ids[i];
    kept.masses[count] = kept.masses[i];
    count += kept.ids[i] != static_cast<std::int64_t>(id) ? 1 : 0;
  }
  return {copied(kept.ids.data(), count), copied(kept.masses.data(), count), found.sum - q.data()[id]};
}

}  // namespace

NB_MODULE(_sampling, m) {
  m.attr("__doc__") = "draftgate's sampling law: integer masses, selections and counter-based draws";
  m.attr("MASS_BITS") = kMassBits;
  m.attr("WEIGHT_BITS") = kWeightBits;
  m.def("kernel", [] { return std::string(active->name); });
  m.def("use_kernel", &use_kernel, nb::arg("name"));
  m.def("row", &row, nb::arg("logits"), nb::arg("scale"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("min_p"),
        nb::arg("typical_p"), nb::arg("out"), nb::arg("ids") = nb::none(), nb::arg("values") = nb::none(),
        nb::arg("mask") = nb::none(), nb::arg("entropy") = true);
  m.def("argmax", &argmax, nb::arg("logits"), nb::arg("ids") = nb::none(), nb::arg("values") = nb::none(),
        nb::arg("mask") = nb::none());
  m.def("peak", &peak, nb::arg("logits"), nb::arg("scale"), nb::arg("ids") = nb::none(),
        nb::arg("values") = nb::none(), nb::arg("mask") = nb::none());
  m.def("widen", &widen, nb::arg("masses"), nb::arg("ids"), nb::arg("wide"), nb::arg("written"), nb::arg("count"));
  m.def("pick", [](const Masses& masses, std::uint64_t r) {
    return static_cast<std::int64_t>(active->pick(masses.data(), masses.size(), r));
  });
  m.def("total", [](const Masses& masses) { return active->total(masses.data(), masses.size(), 0); });
  m.def("residual", [](const Masses& q, const Masses& p) {
    same_size(q.size(), p.size());
    return residual(q, p.data());
  });
  m.def("residual_of_point", &residual_of_point);
  m.def("surprise", [](std::uint64_t mass) {
    if (mass == 0 || mass > kTotal) throw nb::value_error("a surprise is of a mass in [1, 2^48]");
    std::uint64_t out = 0;
    active->surprise(&mass, 1, &out);
    return out;
  });
  m.def("philox", [](std::uint64_t key, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    const auto words = philox(key, {a, b, c, d});
    return std::make_tuple(words[0], words[1], words[2], words[3]);
  });
  m.def("bounded", [](std::uint64_t key, std::uint32_t domain, std::uint32_t round, std::uint32_t position,
                      std::uint64_t n) {
    if (n == 0) throw nb::value_error("a draw from nothing");
    const Bounded drawn = bounded(key, domain, round, position, n);
    return std::make_tuple(drawn.value, drawn.tries);
  });
}
