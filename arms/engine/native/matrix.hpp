// A weight matrix as the kernels read it: 16 output rows side by side, block by block of 32 inputs.
#pragma once

#include "ahead.hpp"
#include "arithmetic.hpp"

namespace draftgate {

enum class Type { f32, f16, q4_0, q4_1, q8_0 };

// Bytes of one block (16 rows x 32 inputs) of a quantised matrix, or of one input (16 rows x 1) of a float one.
//   q4_1  4 x 64 nibble vectors, 16 half scales, 16 half offsets
//   q4_0  the same without offsets (the offset is -8 x scale)
//   q8_0  8 x 64 unsigned bytes (weight + 128), 16 half scales
// Nibble vector j holds for row r, at bytes 4r..4r+3, inputs 8j..8j+3 in the low and 8j+4..8j+7 in the high nibbles.
// Byte vector j holds for row r, at bytes 4r..4r+3, inputs 4j..4j+3.
constexpr size_t packed_bytes(Type type) {
  switch (type) {
    case Type::f32: return 64;
    case Type::f16: return 32;
    case Type::q4_0: return 288;
    case Type::q4_1: return 320;
    case Type::q8_0: return 544;
  }
  return 0;
}

constexpr bool quantised(Type type) { return type != Type::f32 && type != Type::f16; }

struct Matrix {
  Type type = Type::f32;
  size_t rows = 0;     // outputs
  size_t columns = 0;  // inputs
  const uint8_t* data = nullptr;

  size_t groups() const { return (rows + kLanes - 1) / kLanes; }
  size_t steps() const { return quantised(type) ? columns / kBlock : columns; }
  size_t group_bytes() const { return steps() * packed_bytes(type); }
  size_t bytes() const { return groups() * group_bytes(); }
};

// What belongs to one block of 32 inputs in int8. Four of these fill a cache line, so that threads which write
// neighbouring parts need not fight for one.
struct BlockScale {
  float scale;
  float sum;      // scale x (sum of q)
  int32_t bias;   // -128 x (sum of q)
  int32_t unused;
};

constexpr size_t kInputUnit = 128;  // columns of inputs start at multiples of this: whole cache lines of everything

// Inputs of a product, one column a token: int8 in blocks of 32, and the floats they were made from.
struct Columns {
  const float* x;            // [column][stride]
  const int8_t* q;           // [column][stride]
  const BlockScale* blocks;  // [column][stride / 32]
  size_t stride;             // inputs, rounded up to kInputUnit (the rest is zero)
  Ahead* ahead = nullptr;    // memory to fetch meanwhile

  Columns from(size_t column) const {
    return {x + column * stride, q + column * stride, blocks + column * (stride / kBlock), stride, ahead};
  }
};

}  // namespace draftgate
