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

// The attention of one chunk in one layer, seen by one thread.
class ChunkAttention {
 public:
  ChunkAttention(size_t layer, const Sizes& sizes, const Kernels& kernels, const Chunk& chunk, Workspace& space, Own& own)
      : layer_(layer), sizes_(sizes), kernels_(kernels), chunk_(chunk), space_(space), own_(own),
        group_(sizes.heads / sizes.kv_heads), width_(round_up(sizes.head_dims, kLanes)) {}

  // A few neighbouring columns of one sequence, one key-value head: they share one reading of keys and values.
  struct Item {
    const Span* span;
    size_t head, first, last;  // columns, relative to the span
    size_t tiles() const { return (span->position + last - 1) / kTile + 1; }
  };

  size_t items() const {
    size_t n = 0;
    for (const Span& span : chunk_.spans) n += pieces(span) * sizes_.kv_heads;
    return n;
  }

  size_t most_tiles() const {
    size_t most = 0;
    for (size_t position : chunk_.positions) most = most > position / kTile + 1 ? most : position / kTile + 1;
    return most;
  }

  Item item(size_t index) const {
    for (const Span& span : chunk_.spans) {
      const size_t mine = pieces(span) * sizes_.kv_heads;
      if (index < mine) {
        const size_t first = index / sizes_.kv_heads * kQueryColumns, last = first + kQueryColumns;
        return {&span, index % sizes_.kv_heads, first, last < span.count ? last : span.count};
      }
      index -= mine;
    }
    return {};
  }

  // All tiles of an item, one after the other.
  void whole(const Item& item) {
    const size_t rows = (item.last - item.first) * group_;
    tile(item, 0, own_.run_m, own_.run_l, own_.run_o);
    for (size_t t = 1; t < item.tiles(); ++t) {
      const size_t skipped = tile(item, t, own_.m, own_.l, own_.o);
      for (size_t r = skipped; r < rows; ++r)
        kernels_.merge(own_.run_m + r, own_.run_l + r, own_.run_o + r * width_, own_.m[r], own_.l[r],
                       own_.o + r * width_, width_);
    }
    for (size_t r = 0; r < rows; ++r)
      finish(item.span->column + item.first + r / group_, item.head * group_ + r % group_, own_.run_l[r],
             own_.run_o + r * width_);
  }

  // One tile of an item into the partial results that all threads share.
  void part(const Item& item, size_t t) {
    if (t >= item.tiles()) return;
    const size_t at = partial(t, item.head, item.span->column + item.first, 0);
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
  static size_t pieces(const Span& span) { return (span.count + kQueryColumns - 1) / kQueryColumns; }

  size_t partial(size_t t, size_t kv_head, size_t column, size_t in_group) const {
    return ((t * sizes_.kv_heads + kv_head) * chunk_.columns() + column) * group_ + in_group;
  }

  // Returns how many leading rows do not see the tile; nothing is written for them.
  size_t tile(const Item& item, size_t t, float* m, float* l, float* o) {
    const size_t start = t * kTile, position = item.span->position + item.first;
    const size_t hidden_columns = start > position ? start - position : 0;
    const size_t columns = item.last - item.first, skipped = hidden_columns * group_;
    size_t rows = 0;
    for (size_t c = hidden_columns; c < columns; ++c) {
      const size_t visible = position + c + 1 - start;
      for (size_t g = 0; g < group_; ++g) own_.valid[rows++] = int32_t(visible < kTile ? visible : kTile);
    }
    const size_t column = item.span->column + item.first + hidden_columns;
    const float* q = space_.queries + ((item.head * kMaxColumns + column) * group_) * width_;
    const KeyValues& cache = *item.span->cache;
    const uint16_t* next = t + 1 < item.tiles() ? cache.keys(t + 1, layer_, item.head)
                                                : cache.keys(0, layer_, (item.head + 1) % sizes_.kv_heads);
    kernels_.attend(cache.keys(t, layer_, item.head), cache.values(t, layer_, item.head), next, sizes_.head_dims, width_,
                    q, rows, own_.valid, own_.p, m + skipped, l + skipped, o + skipped * width_);
    return skipped;
  }

  void finish(size_t column, size_t head, float l, const float* o) {
    const float inverse = 1.0f / l;
    float* out = space_.attended.column(column) + head * sizes_.head_dims;
    for (size_t d = 0; d < sizes_.head_dims; ++d) out[d] = o[d] * inverse;
  }

  const size_t layer_;
  const Sizes& sizes_;
  const Kernels& kernels_;
  const Chunk& chunk_;
  Workspace& space_;
  Own& own_;
  const size_t group_, width_;
};

}  // namespace

bool turn_and_store(size_t layer, size_t thread, size_t threads, const Model& model, const Kernels& kernels,
                    const Chunk& chunk, Workspace& space, Own& own) {
  const Sizes& s = model.sizes;
  const size_t dims = s.head_dims, width = round_up(dims, kLanes), group = s.heads / s.kv_heads;
  const size_t pairs = model.rope.pairs(), units = s.heads + s.kv_heads;  // of one column: its queries, then its keys
  const float scale = 1.0f / std::sqrt(float(dims));
  const Range mine = share(chunk.columns() * units, thread, threads);
  bool finite = true;
  for (const Span& span : chunk.spans) {
    const size_t first = span.column * units, last = first + span.count * units;
    for (size_t unit = first > mine.first ? first : mine.first; unit < last && unit < mine.last; ++unit) {
      const size_t c = unit / units, h = unit % units;
      float* row = space.qkv + c * space.qkv_rows;
      const float* cosines = space.cosines + c * pairs;
      const float* sines = space.sines + c * pairs;
      if (h < s.heads) {
        float* out = space.queries + ((h / group * kMaxColumns + c) * group + h % group) * width;
        turn(row + h * dims, dims, cosines, sines, pairs, out);
        for (size_t d = 0; d < dims; ++d) out[d] = out[d] * scale;
        finite &= kernels.finite(out, dims);
        continue;
      }
      float* key = row + h * dims;
      turn(key, dims, cosines, sines, pairs, key);
      finite &= kernels.halves(key, dims, own.halves);
      finite &= kernels.halves(key + s.kv_rows(), dims, own.halves + width);
      span.cache->put(layer, h - s.heads, span.position + c - span.column, own.halves, own.halves + width);
    }
  }
  return finite;
}

void attend_chunk(size_t layer, size_t thread, Pool& pool, const Sizes& sizes, const Kernels& kernels,
                  const Chunk& chunk, Workspace& space, Own& own) {
  ChunkAttention attention(layer, sizes, kernels, chunk, space, own);
  const size_t items = attention.items(), tiles = attention.most_tiles(), threads = pool.size();
  const bool split = threads > 1 && items < 4 * threads && chunk.columns() * sizes.heads * tiles <= kMaxPartials;
  if (!split) {
    const Range mine = share(items, thread, threads);
    for (size_t i = mine.first; i < mine.last; ++i) attention.whole(attention.item(i));
    return;
  }
  const Range mine = share(items * tiles, thread, threads);
  for (size_t i = mine.first; i < mine.last; ++i) attention.part(attention.item(i / tiles), i % tiles);
  pool.barrier();
  const Range rows = share(chunk.columns() * sizes.heads, thread, threads);
  for (size_t r = rows.first; r < rows.last; ++r) attention.fold(r / sizes.heads, r % sizes.heads);
}

}  // namespace draftgate
