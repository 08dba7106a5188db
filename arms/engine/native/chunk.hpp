// The columns that pass through the layers together: pieces of one or several segments.
#pragma once

#include <vector>

#include "engine.hpp"

namespace draftgate {

struct Range {
  size_t first, last;
};

// The part of n items that falls to one thread.
inline Range share(size_t n, size_t thread, size_t threads) {
  return {n * thread / threads, n * (thread + 1) / threads};
}

// Consecutive columns of one sequence.
struct Span {
  KeyValues* cache;
  size_t position;  // of the first column
  size_t column;    // first column in the chunk
  size_t count;
};

struct Chunk {
  std::vector<Span> spans;
  std::vector<int32_t> tokens;     // of each column
  std::vector<const float*> features;  // of each column, in a feature draft
  bool inner = false;              // the features hold inner states too
  std::vector<size_t> positions;   // of each column
  std::vector<KeyValues*> caches;  // of each column
  std::vector<size_t> wanted;      // columns whose logits are asked for
  size_t first_row = 0;            // their first row among all logits
  size_t first_token = 0;          // the first column's place among all tokens

  size_t columns() const { return tokens.size(); }
};

// Cuts segments into chunks of at most kMaxColumns columns, in order.
std::vector<Chunk> cut(const std::vector<Segment>& segments, Rows rows);

}  // namespace draftgate
