// Builds a Model: checks every tensor against the sizes and the buffer, then packs in parallel.
#include <sys/mman.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <atomic>
#include <stdexcept>

#include "model.hpp"
#include "pack.hpp"

namespace draftgate {
namespace {

constexpr size_t kGroupsPerJob = 64;

struct Job {
  Matrix shape;
  const uint8_t* source;
  uint8_t* target;
  size_t first, last;  // groups
};

class Loader {
 public:
  Loader(const uint8_t* file, size_t bytes, const std::map<std::string, Source>& sources)
      : file_(file), bytes_(bytes), sources_(sources) {}

  bool has(const std::string& name) const { return sources_.count(name) != 0; }

  const Source& checked(const std::string& name, size_t rows, size_t columns) const {
    const auto found = sources_.find(name);
    if (found == sources_.end()) throw std::invalid_argument("tensor " + name + " is missing");
    const Source& s = found->second;
    if (s.rows != rows || s.columns != columns)
      throw std::invalid_argument("tensor " + name + " has shape " + shape(s.rows, s.columns) + " where " +
                                  shape(rows, columns) + " is needed");
    if (quantised(s.type) && columns % kBlock != 0)
      throw std::invalid_argument("tensor " + name + " is quantised but its rows are not whole blocks of 32");
    const size_t row = file_row_bytes(s.type, columns);
    if (row == 0 || rows > bytes_ / row || s.offset > bytes_ - rows * row)
      throw std::invalid_argument("tensor " + name + " lies outside the file");
    return s;
  }

  // Plans a matrix: its memory comes later, from place().
  Matrix plan(const std::string& name, size_t rows, size_t columns) {
    const Source& s = checked(name, rows, columns);
    Matrix m;
    m.type = s.type;
    m.rows = rows;
    m.columns = columns;
    planned_.push_back({name, total_});
    total_ += round_up(m.bytes(), 64);
    return m;
  }

  // Gives planned matrices their memory, in the order of plan(), and lists the packing jobs.
  void place(Matrix& m, uint8_t* arena) {
    const auto& [name, at] = planned_[placed_++];
    m.data = arena + at;
    const Source& s = sources_.at(name);
    for (size_t g = 0; g < m.groups(); g += kGroupsPerJob) {
      const size_t last = g + kGroupsPerJob < m.groups() ? g + kGroupsPerJob : m.groups();
      jobs_.push_back({m, file_ + s.offset, arena + at, g, last});
    }
  }

  void pack(bool release, Pool& pool) {
    std::atomic<size_t> next{0};
    pool.run([&](size_t) {
      for (size_t i = next++; i < jobs_.size(); i = next++) {
        const Job& job = jobs_[i];
        for (size_t g = job.first; g < job.last; ++g)
          pack_group(job.shape, job.source, g, job.target + g * job.shape.group_bytes());
        if (release) release_pages(job);
      }
    });
  }

  // All of a mapped file, once nothing is read any more: where the system keeps it in huge pages, every small reading
  // maps two megabytes again that had been given back.
  void release_file() const {
    give_back(reinterpret_cast<uintptr_t>(file_), reinterpret_cast<uintptr_t>(file_ + bytes_));
  }

  // A vector as floats, F32 or F16 in the file.
  void read_vector(const std::string& name, size_t n, float* out) const {
    const Source& s = checked(name, 1, n);
    if (quantised(s.type)) throw std::invalid_argument("tensor " + name + " must be F32 or F16");
    Matrix m;
    m.type = s.type;
    m.rows = 1;
    m.columns = n;
    for (size_t i = 0; i < n; ++i) {
      if (s.type == Type::f32) {
        std::memcpy(out + i, file_ + s.offset + 4 * i, 4);
      } else {
        uint16_t half;
        std::memcpy(&half, file_ + s.offset + 2 * i, 2);
        out[i] = half_to_float(half);
      }
    }
  }

  size_t total() const { return total_; }

 private:
  static std::string shape(size_t rows, size_t columns) {
    return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  }

  static void release_pages(const Job& job) {
    const size_t row = file_row_bytes(job.shape.type, job.shape.columns);
    const size_t last = job.last * kLanes < job.shape.rows ? job.last * kLanes : job.shape.rows;
    give_back(reinterpret_cast<uintptr_t>(job.source + job.first * kLanes * row),
              reinterpret_cast<uintptr_t>(job.source + last * row));
  }

  // Whole pages only; the edges belong to neighbours as well. Clean pages of a file come back when read again.
  static void give_back(uintptr_t first, uintptr_t last) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    const uintptr_t from = round_up(first, page), to = last / page * page;
    if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
  }

  const uint8_t* file_;
  const size_t bytes_;
  const std::map<std::string, Source>& sources_;
  std::vector<std::pair<std::string, size_t>> planned_;
  std::vector<Job> jobs_;
  size_t total_ = 0, placed_ = 0;
};

void check(const Sizes& s) {
  const size_t limit = size_t(1) << 24;
  for (size_t n : {s.vocabulary, s.outputs, s.width, s.layers, s.heads, s.kv_heads, s.head_dims, s.feed_forward})
    if (n < 1 || n > limit) throw std::invalid_argument("a size of the model is zero or absurdly large");
  if (s.heads % s.kv_heads != 0) throw std::invalid_argument("heads are not a multiple of key-value heads");
  if (s.rope_dims % 2 != 0 || s.rope_dims > s.head_dims) throw std::invalid_argument("rotary dimensions do not fit the head");
}

template <typename Use>
void each_matrix(Layer& layer, Use use) {
  for (Matrix* m : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) use(*m);
}

}  // namespace

Type type_named(const std::string& name) {
  if (name == "F32") return Type::f32;
  if (name == "F16") return Type::f16;
  if (name == "Q4_0") return Type::q4_0;
  if (name == "Q4_1") return Type::q4_1;
  if (name == "Q8_0") return Type::q8_0;
  throw std::invalid_argument("tensor type " + name + " is not supported");
}

size_t file_row_bytes(Type type, size_t columns) {
  switch (type) {
    case Type::f32: return columns * 4;
    case Type::f16: return columns * 2;
    case Type::q4_0: return columns / kBlock * 18;
    case Type::q4_1: return columns / kBlock * 20;
    case Type::q8_0: return columns / kBlock * 34;
  }
  return 0;
}

void Model::embed(size_t token, float* out) const { unpack_row(embedding, token, out); }

Model load_model(const uint8_t* file, size_t file_bytes, const Sizes& sizes, const std::map<std::string, Source>& sources,
                 bool release, Pool& pool, const Model* champion) {
  check(sizes);
  if (sizes.feature != (champion != nullptr)) throw std::invalid_argument("a feature draft, and no other, needs its champion");
  if (champion && (sizes.width % kBlock != 0 || champion->sizes.width != sizes.width ||
                   champion->sizes.vocabulary != sizes.vocabulary))
    throw std::invalid_argument("the feature draft's width or vocabulary is not its champion's");
  if (sizes.inner_states > (champion ? champion->sizes.layers : 0))
    throw std::invalid_argument("more inner states than the champion has layers");
  Loader loader(file, file_bytes, sources);
  Model model;
  model.sizes = sizes;
  model.layers.resize(sizes.layers);
  const auto named = [](size_t i, const char* rest) { return "blk." + std::to_string(i) + "." + rest + ".weight"; };
  const bool tied = !loader.has("output.weight");
  if (tied && sizes.outputs != sizes.vocabulary) throw std::invalid_argument("a tied head has the whole vocabulary");
  if (champion) model.fusion = loader.plan("fusion.weight", sizes.width, 2 * sizes.width);
  const bool inner = sizes.inner_states > 0;
  if (inner) model.fusion_inner = loader.plan("fusion_inner.weight", sizes.width, (2 + sizes.inner_states) * sizes.width);

  // In the order a call reads them, so that running ahead of one matrix runs into the next.
  for (size_t i = 0; i < sizes.layers; ++i) {
    Layer& layer = model.layers[i];
    layer.q = loader.plan(named(i, "attn_q"), sizes.query_rows(), sizes.width);
    layer.k = loader.plan(named(i, "attn_k"), sizes.kv_rows(), sizes.width);
    layer.v = loader.plan(named(i, "attn_v"), sizes.kv_rows(), sizes.width);
    layer.output = loader.plan(named(i, "attn_output"), sizes.width, sizes.query_rows());
    layer.gate = loader.plan(named(i, "ffn_gate"), sizes.feed_forward, sizes.width);
    layer.up = loader.plan(named(i, "ffn_up"), sizes.feed_forward, sizes.width);
    layer.down = loader.plan(named(i, "ffn_down"), sizes.width, sizes.feed_forward);
  }
  model.head = loader.plan(tied ? "token_embd.weight" : "output.weight", sizes.outputs, sizes.width);
  if (!tied && !champion) model.embedding = loader.plan("token_embd.weight", sizes.vocabulary, sizes.width);

  model.weights = Pages(loader.total());
  uint8_t* arena = model.weights.data();
  if (champion) loader.place(model.fusion, arena);
  if (inner) loader.place(model.fusion_inner, arena);
  for (Layer& layer : model.layers) each_matrix(layer, [&](Matrix& m) { loader.place(m, arena); });
  loader.place(model.head, arena);
  if (champion)
    model.embedding = champion->embedding;
  else if (tied)
    model.embedding = model.head;
  else
    loader.place(model.embedding, arena);
  loader.pack(release, pool);

  const size_t padded = round_up(sizes.width, kBlock);
  model.vectors = Pages((2 * sizes.layers + 3 + sizes.inner_states) * padded * sizeof(float));
  float* next = reinterpret_cast<float*>(model.vectors.data());
  const auto vector = [&](const std::string& name) {
    float* mine = next;
    loader.read_vector(name, sizes.width, mine);
    next += padded;
    return mine;
  };
  for (size_t i = 0; i < sizes.layers; ++i) {
    model.layers[i].attention_norm = vector(named(i, "attn_norm"));
    model.layers[i].feed_forward_norm = vector(named(i, "ffn_norm"));
  }
  model.output_norm = vector("output_norm.weight");
  if (champion) {
    model.feature_norm = vector("feature_norm.weight");
    model.embedding_norm = vector("embedding_norm.weight");
    for (size_t i = 0; i < sizes.inner_states; ++i)
      model.inner_norms.push_back(vector("inner_norm." + std::to_string(i) + ".weight"));
  }

  std::vector<float> factors;
  if (loader.has("rope_freqs.weight")) {
    factors.resize(sizes.rope_dims / 2);
    loader.read_vector("rope_freqs.weight", factors.size(), factors.data());
    for (float factor : factors)
      if (!(factor > 0.0f)) throw std::invalid_argument("rope_freqs.weight holds a factor that is not positive");
  }
  model.rope = Rope(sizes.rope_dims, sizes.rope_base, sizes.rope_scale, factors);
  if (release) loader.release_file();
#ifdef __GLIBC__
  malloc_trim(0);  // what we used for a moment goes back, and what reading file and vocabulary did before
#endif
  return model;
}

}  // namespace draftgate
