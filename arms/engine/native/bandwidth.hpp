#pragma once

#include <cstddef>

namespace draftgate {

// Bytes per second that `threads` threads together read from a buffer of that size; the best of a few passes.
double read_bandwidth(size_t bytes, size_t threads);

}  // namespace draftgate
