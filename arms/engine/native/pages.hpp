// Anonymous memory straight from the system: zeroed, untouched pages cost nothing, huge pages where offered.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "arithmetic.hpp"

namespace draftgate {

class Pages {
 public:
  Pages() = default;
  explicit Pages(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    constexpr size_t huge = size_t(2) << 20;
    mapped_ = round_up(bytes, huge) + huge;  // room to align the start
    map_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) throw std::bad_alloc();
    data_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(map_), huge));
#ifdef MADV_HUGEPAGE
    if (bytes >= huge) madvise(data_, round_up(bytes, huge), MADV_HUGEPAGE);
#endif
  }
  Pages(Pages&& other) noexcept { swap(other); }
  Pages& operator=(Pages&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Pages() {
    if (map_) munmap(map_, mapped_);
  }

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Pages& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
  }

  void* map_ = nullptr;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  size_t mapped_ = 0;
};

}  // namespace draftgate
