// From the file's rows to the kernels' layout.
#pragma once

#include "matrix.hpp"

namespace draftgate {

// Packs 16 rows starting at row `group * 16` of a tensor at `source` (row after row, as GGUF stores them) into `out`
// (Matrix::group_bytes). Rows past the end become zero.
void pack_group(const Matrix& shape, const uint8_t* source, size_t group, uint8_t* out);

// Reads one row of a packed matrix back as floats, out [columns].
void unpack_row(const Matrix& matrix, size_t row, float* out);

}  // namespace draftgate
