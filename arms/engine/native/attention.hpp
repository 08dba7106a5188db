// Attention of a chunk: rotary turn and storing of keys and values, then tiles of positions per query group.
#pragma once

#include "chunk.hpp"

namespace draftgate {

// Turns queries and keys, scales queries by 1 / sqrt(dims), rounds keys and values to half and stores them: one of
// `parts` even shares of these columns. False when a number is not finite.
bool turn_and_store(size_t layer, Range columns, size_t part, size_t parts, const Model& model, const Kernels& kernels,
                    const Chunk& chunk, Workspace& space, Own& own);

// Adds the keys and values that this thread will read in attend_together.
void list_keys_and_values(size_t layer, size_t thread, size_t threads, const Sizes& sizes, const Kernels& kernels,
                          const Chunk& chunk, Workspace& space, Own& own, Ahead& into);

// Whether attention leaves its results quantised: where a head is whole blocks.
inline bool attention_quantises(const Sizes& sizes) { return sizes.head_dims % kBlock == 0; }

// Fills space.attended for these columns. False when attention_quantises and a result is not finite.
bool attend_columns(size_t layer, Range columns, const Sizes& sizes, const Kernels& kernels, const Chunk& chunk,
                    Workspace& space, Own& own);

// The same for all columns. Every thread of the pool calls it; a barrier must follow.
bool attend_together(size_t layer, size_t thread, Pool& pool, const Sizes& sizes, const Kernels& kernels,
                     const Chunk& chunk, Workspace& space, Own& own);

}  // namespace draftgate
