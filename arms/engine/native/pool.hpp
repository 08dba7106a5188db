// Persistent threads that run one body together and meet at barriers. Spins for a moment, then sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace draftgate {

inline void relax() {
#if defined(DRAFTGATE_X86)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

class Barrier {
 public:
  explicit Barrier(uint32_t members) : members_(members) {}
  void wait();

 private:
  const uint32_t members_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
};

class Pool {
 public:
  explicit Pool(size_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  size_t size() const { return size_; }

  // Runs body(0) here and body(1…size-1) on the pool's threads, and returns when all are done. One caller at a time.
  // The body must not throw.
  void run(const std::function<void(size_t)>& body);

  // Called by every thread of a running body.
  void barrier() {
    if (size_ > 1) barrier_.wait();
  }

 private:
  void work(size_t index);
  bool wait_for_job(uint32_t seen);

  const size_t size_;
  Barrier barrier_;
  const std::function<void(size_t)>* body_ = nullptr;
  alignas(64) std::atomic<uint32_t> job_{0};
  alignas(64) std::atomic<uint32_t> finished_{0};
  alignas(64) std::atomic<uint32_t> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

// Counts forks: threads do not survive one, so a pool made before it must be abandoned, not used or joined.
uint32_t fork_count();

// Holds the pool of one owner; makes it on first use and makes it anew in a forked child.
class PoolHandle {
 public:
  explicit PoolHandle(size_t threads) : threads_(threads) {}
  ~PoolHandle();
  PoolHandle(const PoolHandle&) = delete;
  PoolHandle& operator=(const PoolHandle&) = delete;

  size_t threads() const { return threads_; }

  // Runs `use` with the pool while no other caller does.
  void with(const std::function<void(Pool&)>& use);

 private:
  struct State {
    explicit State(size_t threads) : pool(threads) {}
    std::mutex one_caller;
    Pool pool;
  };
  State& state();

  const size_t threads_;
  std::atomic<State*> state_{nullptr};
  std::atomic<uint32_t> born_{0};
};

}  // namespace draftgate
