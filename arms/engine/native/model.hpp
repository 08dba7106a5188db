// A model in memory: sizes, packed weights, rotary angles.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "matrix.hpp"
#include "pages.hpp"
#include "pool.hpp"
#include "rope.hpp"

namespace draftgate {

struct Sizes {
  size_t vocabulary = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, head_dims = 0, feed_forward = 0;
  size_t rope_dims = 0;
  size_t outputs = 0;    // rows of the head; fewer than the vocabulary in drafts that speak part of it
  bool feature = false;  // hidden states of a champion come in beside the tokens
  size_t inner_states = 0;  // of a feature draft: states of inner layers that come in beside the last one
  double rope_base = 10000.0, rope_scale = 1.0;  // rope_scale multiplies positions
  float epsilon = 1e-5f;

  size_t query_rows() const { return heads * head_dims; }
  size_t kv_rows() const { return kv_heads * head_dims; }
};

// Where a tensor lies in the file: `rows` outputs of `columns` inputs each (rows = 1 for a vector).
struct Source {
  Type type;
  size_t rows, columns, offset;
};

struct Layer {
  const float* attention_norm;
  const float* feed_forward_norm;
  Matrix q, k, v, output, gate, up, down;
};

struct Model {
  Sizes sizes;
  std::vector<Layer> layers;
  const float* output_norm = nullptr;
  Matrix embedding, head;  // the same matrix when tied
  // Of a feature draft: it sees fusion([norm of the state, norm of the token's embedding]) where the state is its own
  // estimate, and fusion_inner([norm of the state, norms of the inner layers' states, norm of the embedding]) where the
  // states are the champion's.
  const float* feature_norm = nullptr;
  const float* embedding_norm = nullptr;
  std::vector<const float*> inner_norms;
  Matrix fusion, fusion_inner;
  Rope rope;
  Pages weights, vectors;

  size_t bytes() const { return weights.bytes() + vectors.bytes(); }

  // Dequantises the embedding of one token into out [width].
  void embed(size_t token, float* out) const;
};

Type type_named(const std::string& name);
size_t file_row_bytes(Type type, size_t columns);

// Packs the file's tensors, in parallel. `release` gives read pages of a mapped file back to the system.
// A feature draft borrows its `champion`'s embedding, which must outlive it; its head is the tensor output.weight.
// Throws std::invalid_argument when a tensor is missing, has another shape, or lies outside the buffer.
Model load_model(const uint8_t* file, size_t file_bytes, const Sizes& sizes, const std::map<std::string, Source>& sources,
                 bool release, Pool& pool, const Model* champion);

}  // namespace draftgate
