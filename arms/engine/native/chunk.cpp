#include "chunk.hpp"

namespace draftgate {

std::vector<Chunk> cut(const std::vector<Segment>& segments, Rows rows) {
  std::vector<Chunk> chunks;
  size_t row = 0, token = 0;
  for (const Segment& segment : segments) {
    for (size_t done = 0; done < segment.count;) {
      if (chunks.empty() || chunks.back().columns() == kMaxColumns) {
        chunks.emplace_back();
        chunks.back().first_row = row;
        chunks.back().first_token = token;
        chunks.back().inner = segment.inner;
      }
      Chunk& chunk = chunks.back();
      const size_t room = kMaxColumns - chunk.columns(), left = segment.count - done;
      const size_t count = left < room ? left : room;
      chunk.spans.push_back({segment.cache, segment.start + done, chunk.columns(), count});
      for (size_t i = 0; i < count; ++i) {
        const bool want = rows == Rows::all || (rows == Rows::last && done + i + 1 == segment.count);
        if (want) chunk.wanted.push_back(chunk.columns()), ++row;
        chunk.tokens.push_back(segment.tokens[done + i]);
        if (segment.features) chunk.features.push_back(segment.features + (done + i) * segment.feature_width);
        chunk.caches.push_back(segment.cache);
        chunk.positions.push_back(segment.start + done + i);
      }
      done += count;
      token += count;
    }
  }
  return chunks;
}

}  // namespace draftgate
