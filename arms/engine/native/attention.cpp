#include "attention.hpp"

#include <cmath>

namespace draftgate {
namespace {

// x' = x cos - y sin, y' = x sin + y cos, for neighbouring pairs, as llama files store them.
void turn(const float* in, size_t dims, const float* cosines, const float* sines, size_t pairs, float* out) {
  for (size_t i = 0; i < pairs; ++i) {
    const float x = in[2 * i], y = in[2 * i + 1];
    out[2 * i] = x * cosines[i] - y * sines[i];
    out[2 * i + 1] = x * sines[i] + y * cosines[i];
  }
  for (size_t d = 2 * pairs; d < dims; ++d) out[d] = in[d];
}

// The attention of one chunk in one layer, seen by one thread. A row is one query head of one column; the rows of a
// span and key-value head are numbered column after column, so that they come in order of position.
class ChunkAttention {
 public:
  ChunkAttention(size_t layer, const Sizes& sizes, const Kernels& kernels, const Chunk& chunk, Workspace& space, Own& own)
      : layer_(layer), sizes_(sizes), kernels_(kernels), chunk_(chunk), space_(space), own_(own),
        group_(sizes.heads / sizes.kv_heads), width_(round_up(sizes.head_dims, kLanes)) {}

  // Neighbouring rows of one sequence and key-value head: they share one reading of keys and values.
  struct Item {
    const Span* span;
    size_t head, first, last;  // rows, counted from the span's first column
  };

  // Calls use(item) for the given share of the rows of these columns.
  template <typename Use>
  void each_item(Range columns, size_t part, size_t parts, Use use) const {
    const Range mine = share((columns.last - columns.first) * sizes_.heads, part, parts);
    size_t before = 0;  // rows passed over
    for (const Span& span : chunk_.spans) {
      const size_t from = span.column > columns.first ? span.column : columns.first;
      const size_t to = span.column + span.count < columns.last ? span.column + span.count : columns.last;
      if (from >= to) continue;
      const size_t base = (from - span.column) * group_, rows = (to - from) * group_;
      for (size_t head = 0; head < sizes_.kv_heads; ++head, before += rows) {
        size_t row = mine.first > before ? mine.first - before : 0;
        const size_t end = mine.last < before ? 0 : mine.last - before < rows ? mine.last - before : rows;
        for (; row < end; row += kQueryColumns * group_) {
          const size_t most = row + kQueryColumns * group_;
          use(Item{&span, head, base + row, base + (most < end ? most : end)});
        }
      }
    }
  }

  bool finite() const { return finite_; }

  // All tiles of an item, one after the other.
  void whole(const Item& item) {
    const size_t rows = item.last - item.first;
    tile(item, 0, own_.run_m, own_.run_l, own_.run_o);
    for (size_t t = 1; t < tiles(item); ++t) {
      const size_t skipped = tile(item, t, own_.m, own_.l, own_.o);
      for (size_t r = skipped; r < rows; ++r)
        kernels_.merge(own_.run_m + r, own_.run_l + r, own_.run_o + r * width_, own_.m[r], own_.l[r],
                       own_.o + r * width_, width_);
    }
    for (size_t r = 0; r < rows; ++r) {
      const size_t row = item.first + r;
      finish(item.span->column + row / group_, item.head * group_ + row % group_, own_.run_l[r], own_.run_o + r * width_);
    }
  }

  // The memory an item reads, in order.
  void list(const Item& item, Ahead& into) const {
    const KeyValues& cache = *item.span->cache;
    const size_t positions = item.span->position + (item.last - 1) / group_ + 1;
    for (size_t t = 0; t < tiles(item); ++t) {
      const size_t n = positions - t * kTile < kTile ? positions - t * kTile : kTile;
      into.add(cache.keys(t, layer_, item.head), round_up(n, kLanes) * width_ * sizeof(uint16_t));
      into.add(cache.values(t, layer_, item.head), n * width_ * sizeof(uint16_t));
    }
  }

  size_t most_tiles() const {
    size_t most = 0;
    for (size_t position : chunk_.positions) most = most > position / kTile + 1 ? most : position / kTile + 1;
    return most;
  }

  // One tile of an item into the partial results that all threads share.
  void part(const Item& item, size_t t) {
    if (t >= tiles(item)) return;
    const size_t at = partial(t, item.head, item.span->column, 0) + item.first;
    tile(item, t, space_.partial_m + at, space_.partial_l + at, space_.partial_o + at * width_);
  }

  // Folds the partial results of one row, in order of tiles.
  void fold(size_t column, size_t head) {
    const size_t tiles = chunk_.positions[column] / kTile + 1;
    const size_t first = partial(0, head / group_, column, head % group_);
    float m = space_.partial_m[first], l = space_.partial_l[first];
    float* o = space_.partial_o + first * width_;
    for (size_t t = 1; t < tiles; ++t) {
      const size_t at = partial(t, head / group_, column, head % group_);
      kernels_.merge(&m, &l, o, space_.partial_m[at], space_.partial_l[at], space_.partial_o + at * width_, width_);
    }
    finish(column, head, l, o);
  }

 private:
  size_t tiles(const Item& item) const { return (item.span->position + (item.last - 1) / group_) / kTile + 1; }

  size_t partial(size_t t, size_t kv_head, size_t column, size_t in_group) const {
    return ((t * sizes_.kv_heads + kv_head) * chunk_.columns() + column) * group_ + in_group;
  }

  // Returns how many leading rows do not see the tile; nothing is written for them.
  size_t tile(const Item& item, size_t t, float* m, float* l, float* o) {
    const size_t start = t * kTile, position = item.span->position;
    size_t first = item.first;
    while (position + first / group_ < start) ++first;
    for (size_t row = first; row < item.last; ++row) {
      const size_t visible = position + row / group_ + 1 - start;
      own_.valid[row - first] = int32_t(visible < kTile ? visible : kTile);
    }
    const size_t skipped = first - item.first;
    const float* q = space_.queries + ((item.head * kMaxColumns + item.span->column) * group_ + first) * width_;
    const KeyValues& cache = *item.span->cache;
    const uint16_t* next = t + 1 < tiles(item) ? cache.keys(t + 1, layer_, item.head)
                                               : cache.keys(0, layer_, (item.head + 1) % sizes_.kv_heads);
    kernels_.attend(cache.keys(t, layer_, item.head), cache.values(t, layer_, item.head), next, sizes_.head_dims, width_,
                    q, item.last - first, own_.valid, own_.p, m + skipped, l + skipped, o + skipped * width_);
    return skipped;
  }

  void finish(size_t column, size_t head, float l, const float* o) {
    const float inverse = 1.0f / l;
    float* out = space_.attended.column(column) + head * sizes_.head_dims;
    for (size_t d = 0; d < sizes_.head_dims; ++d) out[d] = o[d] * inverse;
    if (!attention_quantises(sizes_)) return;
    const Inputs& all = space_.attended;
    const size_t at = size_t(out - all.x);
    finite_ &= kernels_.quantise(out, sizes_.head_dims, all.q + at, all.blocks + at / kBlock);
  }

  const size_t layer_;
  const Sizes& sizes_;
  const Kernels& kernels_;
  const Chunk& chunk_;
  Workspace& space_;
  Own& own_;
  const size_t group_, width_;
  bool finite_ = true;
};

}  // namespace

bool turn_and_store(size_t layer, Range columns, size_t part, size_t parts, const Model& model, const Kernels& kernels,
                    const Chunk& chunk, Workspace& space, Own& own) {
  const Sizes& s = model.sizes;
  const size_t dims = s.head_dims, width = round_up(dims, kLanes), group = s.heads / s.kv_heads;
  const size_t pairs = model.rope.pairs(), count = columns.last - columns.first;
  const float scale = 1.0f / std::sqrt(float(dims));
  // Head after head, as attention shares its rows: most of what a thread stores here it reads itself.
  const Range mine = share(s.kv_heads * count * (group + 1), part, parts);
  bool finite = true;
  for (size_t unit = mine.first; unit < mine.last; ++unit) {
    const size_t kv_head = unit / (group + 1) / count, c = columns.first + unit / (group + 1) % count;
    const size_t in_group = unit % (group + 1);
    float* row = space.qkv + c * space.qkv_rows;
    const float* cosines = space.cosines + c * pairs;
    const float* sines = space.sines + c * pairs;
    if (in_group < group) {
      float* out = space.queries + ((kv_head * kMaxColumns + c) * group + in_group) * width;
      turn(row + (kv_head * group + in_group) * dims, dims, cosines, sines, pairs, out);
      for (size_t d = 0; d < dims; ++d) out[d] = out[d] * scale;
      finite &= kernels.finite(out, dims);
      continue;
    }
    float* key = row + s.query_rows() + kv_head * dims;
    turn(key, dims, cosines, sines, pairs, key);
    finite &= kernels.halves(key, dims, own.halves);
    finite &= kernels.halves(key + s.kv_rows(), dims, own.halves + width);
    chunk.caches[c]->put(layer, kv_head, chunk.positions[c], own.halves, own.halves + width);
  }
  return finite;
}

void list_keys_and_values(size_t layer, size_t thread, size_t threads, const Sizes& sizes, const Kernels& kernels,
                          const Chunk& chunk, Workspace& space, Own& own, Ahead& into) {
  ChunkAttention attention(layer, sizes, kernels, chunk, space, own);
  const Span* span = nullptr;
  size_t head = 0;
  attention.each_item({0, chunk.columns()}, thread, threads, [&](const ChunkAttention::Item& item) {
    if (item.span != span || item.head != head) attention.list(item, into);  // neighbouring rows share one reading
    span = item.span, head = item.head;
  });
}

bool attend_columns(size_t layer, Range columns, const Sizes& sizes, const Kernels& kernels, const Chunk& chunk,
                    Workspace& space, Own& own) {
  ChunkAttention attention(layer, sizes, kernels, chunk, space, own);
  attention.each_item(columns, 0, 1, [&](const ChunkAttention::Item& item) { attention.whole(item); });
  return attention.finite();
}

bool attend_together(size_t layer, size_t thread, Pool& pool, const Sizes& sizes, const Kernels& kernels,
                     const Chunk& chunk, Workspace& space, Own& own) {
  ChunkAttention attention(layer, sizes, kernels, chunk, space, own);
  const size_t columns = chunk.columns(), tiles = attention.most_tiles(), threads = pool.size();
  const bool by_tiles = threads > 1 && columns <= kTileColumns && tiles > kFewTiles &&
                        columns * sizes.heads * tiles <= kMaxPartials;
  if (!by_tiles) {
    attention.each_item({0, columns}, thread, threads, [&](const ChunkAttention::Item& item) { attention.whole(item); });
    return attention.finite();
  }
  size_t items = 0, place = 0;
  attention.each_item({0, columns}, 0, 1, [&](const ChunkAttention::Item&) { ++items; });
  const Range mine = share(items * tiles, thread, threads);
  attention.each_item({0, columns}, 0, 1, [&](const ChunkAttention::Item& item) {
    for (size_t t = 0; t < tiles; ++t, ++place)
      if (place >= mine.first && place < mine.last) attention.part(item, t);
  });
  pool.barrier();
  const Range rows = share(columns * sizes.heads, thread, threads);
  for (size_t r = rows.first; r < rows.last; ++r) attention.fold(r / sizes.heads, r % sizes.heads);
  return attention.finite();
}

}  // namespace draftgate
