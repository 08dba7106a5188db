// The llama graph, as one body that all threads of the pool run together.
#include <atomic>
#include <stdexcept>

#include "attention.hpp"
#include "chunk.hpp"
#include "engine.hpp"

namespace draftgate {
namespace {

// One thread's view of the pass over one chunk.
class Pass {
 public:
  Pass(const Model& model, const Kernels& kernels, Pool& pool, Workspace& space, const Chunk& chunk,
       const std::vector<size_t>& layers, size_t thread)
      : model_(model), sizes_(model.sizes), kernels_(kernels), pool_(pool), space_(space), own_(space.own[thread]),
        chunk_(chunk), layers_(layers), thread_(thread), threads_(pool.size()),
        apart_(threads_ > 1 && count() >= kApartColumns * threads_),
        columns_(apart_ ? share_of_columns() : Range{0, count()}) {}

  bool finite() const { return finite_; }

  void run(float* logits, float* hidden) {
    const bool output = hidden != nullptr || !chunk_.wanted.empty();
    list_ahead(0);
    embed();
    for (size_t i = 0; i < sizes_.layers; ++i) {
      const Layer& layer = model_.layers[i];
      const bool last = i + 1 == sizes_.layers;
      attention_inputs(layer);
      turn(i);
      if (last && !output) return;  // the last layer's keys and values are stored: nobody reads the rest
      attention(i);
      list_ahead(i + 1);
      product(layer.output, attended(), space_.residual, space_.residual_width, true);
      meet();
      feed_forward(layer);
      if (hidden) inner_states(i, hidden);
    }
    if (hidden) hidden_states(hidden);
    if (!chunk_.wanted.empty()) head(logits);
  }

 private:
  size_t count() const { return chunk_.columns(); }
  Range share_of_groups(size_t groups) const { return apart_ ? Range{0, groups} : share(groups, thread_, threads_); }

  // A barrier, where threads work on the same columns. Apart, they only meet for keys and values.
  void meet() {
    if (!apart_) pool_.barrier();
  }

  bool alone() const { return threads_ > 1 && count() <= kOwnColumns; }
  Range share_of_columns() const { return share(count(), thread_, threads_); }

  void embed() {
    const Range mine = share_of_columns();
    for (size_t c = mine.first; c < mine.last; ++c) {
      if (sizes_.feature)
        pair_with_feature(c);
      else
        model_.embed(size_t(chunk_.tokens[c]), space_.residual + c * space_.residual_width);
      model_.rope.angles(chunk_.positions[c], space_.cosines + c * model_.rope.pairs(),
                         space_.sines + c * model_.rope.pairs());
    }
    pool_.barrier();
    if (!sizes_.feature) return;
    product(chunk_.inner ? model_.fusion_inner : model_.fusion, fused(), space_.residual, space_.residual_width, false);
    meet();
  }

  const Inputs& fused() const { return chunk_.inner ? space_.fused_inner : space_.fused; }

  // [norm of the state, norms of inner states where given, norm of the token's embedding]: the input of a fusion.
  void pair_with_feature(size_t c) {
    float* part = fused().column(c);
    const float* state = chunk_.features[c];
    float* raw = space_.residual + c * space_.residual_width;  // overwritten by the fusion
    model_.embed(size_t(chunk_.tokens[c]), raw);
    kernels_.norm(state, model_.feature_norm, sizes_.width, sizes_.epsilon, part);
    for (size_t i = 0; chunk_.inner && i < sizes_.inner_states; ++i)
      kernels_.norm(state += sizes_.width, model_.inner_norms[i], sizes_.width, sizes_.epsilon, part += sizes_.width);
    kernels_.norm(raw, model_.embedding_norm, sizes_.width, sizes_.epsilon, part + sizes_.width);
    quantise(fused(), c);
  }

  // Apart, each thread prepares its columns. Together, each prepares all for itself when they are few, or else its share.
  template <typename Prepare>
  const Inputs& prepare(const Inputs& shared, const Inputs& mine, Prepare column) {
    const Inputs& into = alone() ? mine : shared;
    const Range range = alone() ? Range{0, count()} : share_of_columns();
    for (size_t c = range.first; c < range.last; ++c) {
      column(c, into.column(c));
      quantise(into, c);
    }
    if (!alone()) meet();
    return into;
  }

  void quantise(const Inputs& inputs, size_t c, size_t from, size_t to) {
    const size_t at = c * inputs.stride + from;
    finite_ &= kernels_.quantise(inputs.x + at, to - from, inputs.q + at, inputs.blocks + at / kBlock);
  }
  void quantise(const Inputs& inputs, size_t c) { quantise(inputs, c, 0, inputs.width); }

  const Inputs& normed(const float* weight) {
    return prepare(space_.normed, own_.normed, [&](size_t c, float* out) {
      kernels_.norm(space_.residual + c * space_.residual_width, weight, sizes_.width, sizes_.epsilon, out);
    });
  }

  const Inputs& attended() {
    if (attention_quantises(sizes_)) return space_.attended;
    return prepare(space_.attended, own_.attended, [&](size_t c, float* out) {
      if (out != space_.attended.column(c))
        std::memcpy(out, space_.attended.column(c), sizes_.query_rows() * sizeof(float));
    });
  }

  void rows_of(const Matrix& m, Range groups, const Inputs& in, Range columns, float* out, size_t stride, bool add) {
    if (groups.first >= groups.last || columns.first >= columns.last) return;
    Columns from = in.columns().from(columns.first);
    if (fetching_) from.ahead = &ahead_;
    kernels_.matmul(m, groups.first, groups.last, from, columns.last - columns.first, out + columns.first * stride, stride,
                    add);
  }

  // Products of several columns leave memory idle, and attention over several sequences waits for it: so the products
  // fetch the keys and values of the next attention. Only those right before it, where they have room for all of it:
  // what is fetched earlier may be gone from the cache by then.
  void list_ahead(size_t layer) {
    ahead_.clear();
    fetching_ = false;
    if (apart_ || count() < Ahead::kColumns || layer >= sizes_.layers) return;
    list_keys_and_values(layer, thread_, threads_, sizes_, kernels_, chunk_, space_, own_, ahead_);
    const Layer& l = model_.layers[layer];
    size_t blocks = 0;
    for (const Matrix* m : {&l.q, &l.k, &l.v, &l.down}) blocks += m->groups() * m->steps();
    fetching_ = layer == 0 || ahead_.lines() > blocks / threads_ * Ahead::kLines;
  }

  void product(const Matrix& m, const Inputs& in, float* out, size_t stride, bool add) {
    rows_of(m, share_of_groups(m.groups()), in, columns_, out, stride, add);
  }

  // Three matrices as one list of groups, so that the shares are even.
  void attention_inputs(const Layer& layer) {
    const Inputs& in = normed(layer.attention_norm);
    const Range mine = share_of_groups(layer.q.groups() + layer.k.groups() + layer.v.groups());
    size_t before = 0;
    float* out = space_.qkv;
    for (const Matrix* m : {&layer.q, &layer.k, &layer.v}) {
      const size_t n = m->groups();
      const size_t first = mine.first > before ? mine.first - before : 0;
      const size_t last = mine.last > before ? mine.last - before : 0;
      rows_of(*m, {first, last < n ? last : n}, in, columns_, out, space_.qkv_rows, false);
      before += n;
      out += m->rows;
    }
    meet();
  }

  void turn(size_t layer) {
    finite_ &= turn_and_store(layer, columns_, apart_ ? 0 : thread_, apart_ ? 1 : threads_, model_, kernels_, chunk_, space_,
                              own_);
    pool_.barrier();
  }

  void attention(size_t layer) {
    if (apart_) {
      finite_ &= attend_columns(layer, columns_, sizes_, kernels_, chunk_, space_, own_);
    } else {
      finite_ &= attend_together(layer, thread_, pool_, sizes_, kernels_, chunk_, space_, own_);
      pool_.barrier();
    }
  }

  void feed_forward(const Layer& layer) {
    const Inputs& in = normed(layer.feed_forward_norm);
    const Inputs& middle = space_.hidden;
    // Each thread quantises what it made: shares are whole blocks, and whole cache lines where that leaves them even.
    const size_t lines = middle.stride / kInputUnit, unit = lines >= 6 * threads_ ? kInputUnit : kBlock;
    const size_t groups = layer.gate.groups();
    const Range mine = share_of_groups((middle.width + unit - 1) / unit);
    const Range rows = {mine.first * unit, mine.last * unit < middle.width ? mine.last * unit : middle.width};
    const Range part = {rows.first / kLanes, rows.last / kLanes < groups ? rows.last / kLanes : groups};
    rows_of(layer.gate, part, in, columns_, middle.x, middle.stride, false);
    rows_of(layer.up, part, in, columns_, space_.up, middle.stride, false);
    for (size_t c = columns_.first; c < columns_.last && rows.first < rows.last; ++c) {
      const size_t end = rows.last < sizes_.feed_forward ? rows.last : sizes_.feed_forward;
      const size_t at = c * middle.stride + rows.first;
      kernels_.silu(middle.x + at, space_.up + at, end - rows.first);
      quantise(middle, c, rows.first, rows.last);
    }
    meet();
    fetching_ = true;  // whatever is listed still
    product(layer.down, middle, space_.residual, space_.residual_width, true);
    meet();
  }

  void hidden_states(float* hidden) {
    const Range mine = share_of_columns();
    for (size_t c = mine.first; c < mine.last; ++c) {
      float* out = state_of(hidden, c);
      kernels_.norm(space_.residual + c * space_.residual_width, model_.output_norm, sizes_.width, sizes_.epsilon, out);
      finite_ &= kernels_.finite(out, sizes_.width);
    }
  }

  float* state_of(float* hidden, size_t c) const {
    return hidden + (chunk_.first_token + c) * (1 + layers_.size()) * sizes_.width;
  }

  // The sums that leave a layer, where they are asked for. Nothing writes to them before the next barrier.
  void inner_states(size_t layer, float* hidden) {
    const Range mine = share_of_columns();
    for (size_t j = 0; j < layers_.size(); ++j) {
      if (layers_[j] != layer) continue;
      for (size_t c = mine.first; c < mine.last; ++c) {
        float* out = state_of(hidden, c) + (1 + j) * sizes_.width;
        std::memcpy(out, space_.residual + c * space_.residual_width, sizes_.width * sizeof(float));
        finite_ &= kernels_.finite(out, sizes_.width);
      }
    }
  }

  void head(float* logits) {
    if (apart_) pool_.barrier();  // until here each thread knew its own columns only
    const Inputs& in = space_.normed;
    const size_t wanted = chunk_.wanted.size();
    const Range columns = share(wanted, thread_, threads_);
    for (size_t i = columns.first; i < columns.last; ++i) {
      kernels_.norm(space_.residual + chunk_.wanted[i] * space_.residual_width, model_.output_norm, sizes_.width,
                    sizes_.epsilon, in.column(i));
      quantise(in, i);
    }
    pool_.barrier();
    const Matrix& m = model_.head;
    const Range groups = share(m.groups(), thread_, threads_);
    float* out = logits + chunk_.first_row * sizes_.outputs;
    if (groups.first < groups.last)
      finite_ &= kernels_.results(m, groups.first, groups.last, in.columns(), wanted, out, sizes_.outputs);
  }

  const Model& model_;
  const Sizes& sizes_;
  const Kernels& kernels_;
  Pool& pool_;
  Workspace& space_;
  Own& own_;
  const Chunk& chunk_;
  const std::vector<size_t>& layers_;  // whose states are asked for
  const size_t thread_, threads_;
  const bool apart_;     // each thread takes its own columns through the layers; otherwise rows of weights are shared
  const Range columns_;  // this thread's: all of them when not apart
  bool finite_ = true;
  Ahead ahead_;
  bool fetching_ = false;  // products are to fetch what is listed there
};

}  // namespace

void Engine::check(const std::vector<Segment>& segments) const {
  const Sizes& s = model_.sizes;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const KeyValues& cache = *segment.cache;
    if (cache.layers() != s.layers || cache.heads() != s.kv_heads || cache.dims() != s.head_dims)
      throw std::invalid_argument("a cache of another model");
    if (s.feature != (segment.features != nullptr)) throw std::invalid_argument("features belong to a feature draft");
    if (segment.count == 0) throw std::invalid_argument("a call without tokens");
    if (segment.start > cache.capacity() || segment.count > cache.capacity() - segment.start)
      throw std::invalid_argument("the tokens do not fit in the cache");
    for (size_t j = 0; j < i; ++j)
      if (segments[j].cache == segment.cache) throw std::invalid_argument("one cache twice in a call");
  }
}

bool Engine::forward(const std::vector<Segment>& segments, Rows rows, float* logits, float* hidden,
                     const std::vector<size_t>& layers) {
  check(segments);
  const std::vector<Chunk> chunks = cut(segments, rows);
  std::atomic<bool> finite{true};
  pool_->with([&](Pool& pool) {
    pool.run([&](size_t thread) {
      for (const Chunk& chunk : chunks) {
        Pass pass(model_, kernels_, pool, workspace_, chunk, layers, thread);
        pass.run(logits, hidden);
        if (!pass.finite()) finite = false;
        pool.barrier();
      }
    });
  });
  return finite;
}

}  // namespace draftgate
