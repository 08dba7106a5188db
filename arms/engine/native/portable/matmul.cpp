// Portable matrix products. Integer dot products are exact; each output has one accumulator, updated block by block.
#include <cmath>

#include "kernels.hpp"

namespace draftgate::portable {

bool finite(const float* x, size_t n);

namespace {

// Exact integer products of one packed block with one column's 32 int8 values, per row.
void dot_nibbles(const uint8_t* block, const int8_t* q, int32_t* total) {
  for (size_t r = 0; r < kLanes; ++r) total[r] = 0;
  for (size_t j = 0; j < 4; ++j)
    for (size_t r = 0; r < kLanes; ++r)
      for (size_t i = 0; i < 4; ++i) {
        const int32_t byte = block[64 * j + 4 * r + i];
        total[r] += (byte & 15) * q[8 * j + i] + (byte >> 4) * q[8 * j + 4 + i];
      }
}

void dot_bytes(const uint8_t* block, const int8_t* q, int32_t bias, int32_t* total) {
  for (size_t r = 0; r < kLanes; ++r) total[r] = bias;
  for (size_t j = 0; j < 8; ++j)
    for (size_t r = 0; r < kLanes; ++r)
      for (size_t i = 0; i < 4; ++i) total[r] += int32_t(block[64 * j + 4 * r + i]) * q[4 * j + i];
}

float half_at(const uint8_t* data, size_t index) {
  uint16_t half;
  std::memcpy(&half, data + 2 * index, 2);
  return half_to_float(half);
}

void group_quantised(const Matrix& w, const uint8_t* block, const Columns& column, float* acc) {
  int32_t total[kLanes];
  for (size_t b = 0; b < w.steps(); ++b, block += packed_bytes(w.type)) {
    const int8_t* q = column.q + b * kBlock;
    const auto [scale, sum, bias, unused] = column.blocks[b];
    (void)unused;
    if (w.type == Type::q8_0) {
      dot_bytes(block, q, bias, total);
      for (size_t r = 0; r < kLanes; ++r) acc[r] = std::fma(float(total[r]) * scale, half_at(block + 512, r), acc[r]);
      continue;
    }
    dot_nibbles(block, q, total);
    for (size_t r = 0; r < kLanes; ++r) {
      const float d = half_at(block + 256, r);
      const float offset = w.type == Type::q4_1 ? half_at(block + 288, r) : d * -8.0f;
      acc[r] = std::fma(float(total[r]) * scale, d, acc[r]);
      acc[r] = std::fma(offset, sum, acc[r]);
    }
  }
}

void group_float(const Matrix& w, const uint8_t* data, const Columns& column, float* acc) {
  for (size_t k = 0; k < w.columns; ++k, data += packed_bytes(w.type))
    for (size_t r = 0; r < kLanes; ++r) {
      float value;
      if (w.type == Type::f16)
        value = half_at(data, r);
      else
        std::memcpy(&value, data + 4 * r, 4);
      acc[r] = std::fma(value, column.x[k], acc[r]);
    }
}

}  // namespace

void matmul(const Matrix& w, size_t first, size_t last, const Columns& columns, size_t count, float* out,
            size_t stride, bool add) {
  for (size_t g = first; g < last; ++g)
    for (size_t c = 0; c < count; ++c) {
      float acc[kLanes] = {};
      const uint8_t* data = w.data + g * w.group_bytes();
      if (quantised(w.type))
        group_quantised(w, data, columns.from(c), acc);
      else
        group_float(w, data, columns.from(c), acc);
      float* target = out + c * stride + g * kLanes;
      for (size_t r = 0; r < kLanes && g * kLanes + r < w.rows; ++r) target[r] = add ? target[r] + acc[r] : acc[r];
    }
}

bool results(const Matrix& w, size_t first, size_t last, const Columns& columns, size_t count, float* out,
             size_t stride) {
  matmul(w, first, last, columns, count, out, stride, false);
  const size_t from = first * kLanes, to = last * kLanes < w.rows ? last * kLanes : w.rows;
  bool all = true;
  for (size_t c = 0; c < count && from < to; ++c) all = finite(out + c * stride + from, to - from) && all;
  return all;
}

}  // namespace draftgate::portable
