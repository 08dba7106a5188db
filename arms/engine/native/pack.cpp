#include "pack.hpp"

#include <cstring>

namespace draftgate {
namespace {

constexpr uint32_t kLowNibbles = 0x0f0f0f0fu;

uint32_t load32(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, 4);
  return value;
}

void store32(uint8_t* at, uint32_t value) { std::memcpy(at, &value, 4); }

float half_at(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, 2);
  return half_to_float(half);
}

// File order: input i in the low, input i + 16 in the high nibble of byte i.
void pack_nibbles(const uint8_t* file, size_t r, uint8_t* out) {
  const uint32_t a = load32(file), b = load32(file + 4), c = load32(file + 8), d = load32(file + 12);
  store32(out + 4 * r, (a & kLowNibbles) | (b & kLowNibbles) << 4);
  store32(out + 64 + 4 * r, (c & kLowNibbles) | (d & kLowNibbles) << 4);
  store32(out + 128 + 4 * r, (a >> 4 & kLowNibbles) | (b & ~kLowNibbles));
  store32(out + 192 + 4 * r, (c >> 4 & kLowNibbles) | (d & ~kLowNibbles));
}

void pack_row(const Matrix& shape, const uint8_t* file, size_t r, uint8_t* out) {
  const size_t step = packed_bytes(shape.type);
  switch (shape.type) {
    case Type::f32:
      for (size_t k = 0; k < shape.columns; ++k) std::memcpy(out + k * step + 4 * r, file + 4 * k, 4);
      return;
    case Type::f16:
      for (size_t k = 0; k < shape.columns; ++k) std::memcpy(out + k * step + 2 * r, file + 2 * k, 2);
      return;
    case Type::q4_0:
      for (size_t b = 0; b < shape.steps(); ++b, file += 18, out += step) {
        pack_nibbles(file + 2, r, out);
        std::memcpy(out + 256 + 2 * r, file, 2);
      }
      return;
    case Type::q4_1:
      for (size_t b = 0; b < shape.steps(); ++b, file += 20, out += step) {
        pack_nibbles(file + 4, r, out);
        std::memcpy(out + 256 + 2 * r, file, 2);
        std::memcpy(out + 288 + 2 * r, file + 2, 2);
      }
      return;
    case Type::q8_0:
      for (size_t b = 0; b < shape.steps(); ++b, file += 34, out += step) {
        for (size_t j = 0; j < 8; ++j) store32(out + 64 * j + 4 * r, load32(file + 2 + 4 * j) ^ 0x80808080u);
        std::memcpy(out + 512 + 2 * r, file, 2);
      }
      return;
  }
}

size_t file_row_bytes_of(const Matrix& shape) {
  switch (shape.type) {
    case Type::f32: return shape.columns * 4;
    case Type::f16: return shape.columns * 2;
    case Type::q4_0: return shape.steps() * 18;
    case Type::q4_1: return shape.steps() * 20;
    case Type::q8_0: return shape.steps() * 34;
  }
  return 0;
}

}  // namespace

void pack_group(const Matrix& shape, const uint8_t* source, size_t group, uint8_t* out) {
  const size_t row_bytes = file_row_bytes_of(shape), first = group * kLanes;
  const size_t rows = shape.rows - first < kLanes ? shape.rows - first : kLanes;
  if (rows < kLanes) std::memset(out, 0, shape.group_bytes());
  for (size_t r = 0; r < rows; ++r) pack_row(shape, source + (first + r) * row_bytes, r, out);
}

void unpack_row(const Matrix& matrix, size_t row, float* out) {
  const size_t r = row % kLanes, step = packed_bytes(matrix.type);
  const uint8_t* data = matrix.data + row / kLanes * matrix.group_bytes();
  if (!quantised(matrix.type)) {
    for (size_t k = 0; k < matrix.columns; ++k, data += step) {
      if (matrix.type == Type::f16)
        out[k] = half_at(data + 2 * r);
      else
        std::memcpy(out + k, data + 4 * r, 4);
    }
    return;
  }
  for (size_t b = 0; b < matrix.steps(); ++b, data += step, out += kBlock) {
    if (matrix.type == Type::q8_0) {
      const float d = half_at(data + 512 + 2 * r);
      for (size_t i = 0; i < kBlock; ++i) out[i] = d * float(int(data[i / 4 * 64 + 4 * r + i % 4]) - 128);
      continue;
    }
    const float d = half_at(data + 256 + 2 * r);
    const float offset = matrix.type == Type::q4_1 ? half_at(data + 288 + 2 * r) : d * -8.0f;
    for (size_t i = 0; i < kBlock; ++i) {
      const int byte = data[i / 8 * 64 + 4 * r + i % 4];
      out[i] = d * float(i % 8 < 4 ? byte & 15 : byte >> 4) + offset;
    }
  }
}

}  // namespace draftgate
