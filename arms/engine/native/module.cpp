// The extension module: a thin boundary. Everything is checked again on this side; the lock is released while computing.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bandwidth.hpp"
#include "engine.hpp"
#include "exchange.hpp"
#include "recycler.hpp"

namespace nb = nanobind;
using namespace draftgate;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Features = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Halves = nb::ndarray<uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Tokens = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TensorMap = std::map<std::string, std::tuple<std::string, size_t, size_t, size_t>>;

double number(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  if (found == values.end()) throw std::invalid_argument(std::string("the size ") + name + " is missing");
  return found->second;
}

size_t count(const std::map<std::string, double>& values, const char* name) {
  const double value = number(values, name);
  if (!(value >= 0 && value <= 1e9) || value != std::floor(value))
    throw std::invalid_argument(std::string("the size ") + name + " is not a count");
  return size_t(value);
}

Sizes read_sizes(const std::map<std::string, double>& values) {
  Sizes s;
  s.vocabulary = count(values, "vocabulary");
  s.width = count(values, "width");
  s.layers = count(values, "layers");
  s.heads = count(values, "heads");
  s.kv_heads = count(values, "kv_heads");
  s.head_dims = count(values, "head_dims");
  s.feed_forward = count(values, "feed_forward");
  s.rope_dims = count(values, "rope_dims");
  s.rope_base = number(values, "rope_base");
  s.rope_scale = number(values, "rope_scale");
  s.epsilon = float(number(values, "epsilon"));
  s.outputs = count(values, "outputs");
  s.feature = count(values, "feature") != 0;
  s.inner_states = count(values, "inner_states");
  return s;
}

// Placed by the constructor of the Python class.
void make_engine(Engine* self, Bytes file, const std::map<std::string, double>& sizes, const TensorMap& tensors,
                 size_t threads, const std::string& kernel, bool mapped, const Engine* champion) {
  if (threads < 1 || threads > 256) throw std::invalid_argument("threads must be 1 to 256");
  std::map<std::string, Source> sources;
  for (const auto& [name, t] : tensors)
    sources[name] = {type_named(std::get<0>(t)), std::get<1>(t), std::get<2>(t), std::get<3>(t)};
  const Kernels& kernels = choose_kernels(kernel.c_str());
  const Sizes known = read_sizes(sizes);
  nb::gil_scoped_release release;
  Pool pool(threads);
  Model model = load_model(file.data(), file.size(), known, sources, mapped, pool, champion ? &champion->model() : nullptr);
  new (self) Engine(std::move(model), kernels, threads);
}

// The tokens as the engine takes them, checked: an id beyond 32 bits must not come back as another.
std::vector<int32_t> narrowed(const Tokens& ids, size_t vocabulary) {
  std::vector<int32_t> out(ids.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t id = ids.data()[i];
    if (id < 0 || size_t(id) >= vocabulary)
      throw std::invalid_argument("token " + std::to_string(id) + " is not in 0 to " + std::to_string(vocabulary - 1));
    out[i] = int32_t(id);
  }
  return out;
}

bool run(Engine& self, const std::vector<Segment>& list, size_t tokens, int rows, Floats logits, Floats hidden,
         const std::vector<size_t>& layers) {
  if (rows < 0 || rows > 2) throw std::invalid_argument("rows must be 0 (all), 1 (last) or 2 (none)");
  const size_t wanted = rows == 0 ? tokens : rows == 1 ? list.size() : 0;
  const Sizes& s = self.model().sizes;
  if (logits.shape(0) != wanted || logits.shape(1) != s.outputs)
    throw std::invalid_argument("the array for logits has another shape");
  const bool with_hidden = hidden.shape(0) != 0;
  for (size_t layer : layers)
    if (layer >= s.layers) throw std::invalid_argument("the model has no layer " + std::to_string(layer));
  if (with_hidden && (hidden.shape(0) != tokens || hidden.shape(1) != (1 + layers.size()) * s.width))
    throw std::invalid_argument("the array for hidden states has another shape");
  float* logits_data = logits.data();
  float* hidden_data = with_hidden ? hidden.data() : nullptr;
  nb::gil_scoped_release release;
  return self.forward(list, Rows(rows), logits_data, hidden_data, layers);
}

bool forward(Engine& self, const std::vector<std::tuple<KeyValues*, size_t, Tokens>>& segments, int rows, Floats logits,
             Floats hidden, const std::vector<size_t>& layers) {
  std::vector<std::vector<int32_t>> tokens_of;
  std::vector<Segment> list;
  size_t tokens = 0;
  for (const auto& [cache, start, ids] : segments) {
    if (!cache) throw std::invalid_argument("no cache");
    tokens_of.push_back(narrowed(ids, self.model().sizes.vocabulary));
    list.push_back({cache, start, tokens_of.back().data(), ids.size()});
    tokens += ids.size();
  }
  return run(self, list, tokens, rows, logits, hidden, layers);
}

bool forward_features(Engine& self, KeyValues& cache, size_t start, Tokens ids, Features features, int rows, Floats logits,
                      Floats hidden) {
  const Sizes& s = self.model().sizes;
  const size_t width = features.shape(1), all = (1 + s.inner_states) * s.width;
  if (features.shape(0) != ids.size() || (width != s.width && width != all))
    throw std::invalid_argument("the array of features has another shape");
  const std::vector<int32_t> tokens = narrowed(ids, s.vocabulary);
  const Segment segment = {&cache, start, tokens.data(), tokens.size(), features.data(), width, s.inner_states > 0 && width == all};
  return run(self, {segment}, ids.size(), rows, logits, hidden, {});
}

// An array [rows][width] of any content, whose memory is recycled when it is gone.
nb::ndarray<nb::numpy, float, nb::ndim<2>> make_rows(size_t rows, size_t width) {
  if (width < 1 || rows > (size_t(1) << 36) / width) throw std::invalid_argument("absurdly large array");
  Pages* pages = Recycler::shared().take(rows * width * sizeof(float)).release();
  const nb::capsule owner(pages, [](void* p) noexcept {
    Recycler::shared().give(std::unique_ptr<Pages>(static_cast<Pages*>(p)));
  });
  return {pages->data(), {rows, width}, owner};
}

void read_cache(const KeyValues& self, size_t length, Halves out) {
  if (length > self.capacity() || out.size() != length * self.layers() * self.heads() * self.dims() * 2)
    throw std::invalid_argument("the array for keys and values has another size");
  self.read(length, out.data());
}

void copy_cache(KeyValues& self, const KeyValues& other, size_t length) {
  if (self.layers() != other.layers() || self.heads() != other.heads() || self.dims() != other.dims())
    throw std::invalid_argument("a cache of other sizes");
  if (length > self.capacity() || length > other.capacity())
    throw std::invalid_argument("more positions than a cache holds");
  if (&self != &other) self.copy(other, length);
}

}  // namespace

NB_MODULE(_native, m) {
  m.attr("__doc__") = "draftgate's CPU engine";

  nb::class_<KeyValues>(m, "KeyValues")
      .def("__init__",
           [](KeyValues* self, size_t layers, size_t heads, size_t dims, size_t capacity) {
             for (size_t n : {layers, heads, dims, capacity})
               if (n < 1 || n > (size_t(1) << 24)) throw std::invalid_argument("a cache's sizes must be 1 to 2^24");
             new (self) KeyValues(layers, heads, dims, capacity);
           },
           nb::arg("layers"), nb::arg("heads"), nb::arg("dims"), nb::arg("capacity"))
      .def_prop_ro("bytes", &KeyValues::bytes)
      .def("read", &read_cache, nb::arg("length"), nb::arg("out"))
      .def("copy", &copy_cache, nb::arg("other"), nb::arg("length"));

  nb::class_<Engine>(m, "Engine")
      .def("__init__", &make_engine, nb::arg("file"), nb::arg("sizes"), nb::arg("tensors"), nb::arg("threads"),
           nb::arg("kernel"), nb::arg("mapped"), nb::arg("champion").none() = nb::none(), nb::keep_alive<1, 8>())
      .def_prop_ro("kernel", [](const Engine& self) { return self.kernels().name; })
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro("weight_bytes", [](const Engine& self) { return self.model().bytes(); })
      .def_prop_ro("scratch_bytes", &Engine::scratch_bytes)
      .def("forward", &forward, nb::arg("segments"), nb::arg("rows"), nb::arg("logits"), nb::arg("hidden"),
           nb::arg("layers") = std::vector<size_t>{})
      .def("forward_features", &forward_features, nb::arg("cache"), nb::arg("start"), nb::arg("tokens"),
           nb::arg("features"), nb::arg("rows"), nb::arg("logits"), nb::arg("hidden"));

  m.def("rows", &make_rows, nb::arg("rows"), nb::arg("width"), "A float32 array of any content, in recycled memory.");
  m.def("check_kernel", [](const std::string& name) { return choose_kernels(name.c_str()).name; }, nb::arg("name"),
        "The kernel set of that name (empty: the fastest). Raises ValueError where this machine has no such set.");
  m.def("bandwidth", [](size_t bytes, size_t threads) {
    if (bytes > (size_t(1) << 36) || threads < 1 || threads > 256) throw std::invalid_argument("absurd size or threads");
    nb::gil_scoped_release release;
    return read_bandwidth(bytes, threads);
  }, nb::arg("bytes"), nb::arg("threads"), "Bytes per second read from memory by that many threads.");
  m.def("exchange_ns", [] {
    nb::gil_scoped_release release;
    return exchange_ns();
  }, "Nanoseconds for a cache line to go from one thread to another.");
}
