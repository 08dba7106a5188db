// The forward pass over any number of sequences at once.
#pragma once

#include <memory>
#include <vector>

#include "cache.hpp"
#include "kernels.hpp"
#include "model.hpp"
#include "pool.hpp"
#include "workspace.hpp"

namespace draftgate {

// New tokens of one sequence, to be appended after `start` positions of its cache.
struct Segment {
  KeyValues* cache;
  size_t start;
  const int32_t* tokens;  // all below the vocabulary's size: the boundary sees to it
  size_t count;
  const float* features = nullptr;  // [count][feature_width], of a feature draft: states that precede the tokens
  size_t feature_width = 0;
  bool inner = false;  // the features are the champion's, those of inner layers behind the last one
};

enum class Rows { all, last, none };

class Engine {
 public:
  Engine(Model model, const Kernels& kernels, size_t threads)
      : model_(std::move(model)), kernels_(kernels), pool_(PoolHandle::shared(threads)), workspace_(model_.sizes, threads) {}

  const Model& model() const { return model_; }
  const Kernels& kernels() const { return kernels_; }
  size_t threads() const { return pool_->threads(); }
  size_t scratch_bytes() const { return workspace_.pages.bytes(); }

  // Appends every segment's tokens to its cache. logits [rows wanted, segment after segment][vocabulary];
  // hidden, unless null, [all tokens][1 + layers.size()][width]: states after the output norm, and the sums that leave
  // those layers. False when NaN or infinity was met.
  // Throws std::invalid_argument for caches or positions that do not fit.
  bool forward(const std::vector<Segment>& segments, Rows rows, float* logits, float* hidden,
               const std::vector<size_t>& layers = {});

 private:
  void check(const std::vector<Segment>& segments) const;

  Model model_;
  const Kernels& kernels_;
  std::shared_ptr<PoolHandle> pool_;
  Workspace workspace_;
};

}  // namespace draftgate
