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

// A number that threads wait on until it changes: spinning for a moment (the usual case is well under a microsecond),
// then giving way to others, then asleep, so that neither idle nor oversubscribed machines burn time.
class Signal {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Adds one and wakes whoever sleeps. Returns the new value.
  uint32_t raise();

  // Only while nobody waits.
  void reset() { value_.store(0, std::memory_order_relaxed); }

  // Returns once done(value) holds.
  template <typename Done>
  void wait(Done done, int spins = kSpins) {
    for (int i = 0; i < spins; ++i) {
      if (done(value())) return;
      relax();
    }
    for (int i = 0; i < kYields; ++i) {
      if (done(value())) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, [&] { return done(value_.load()); });
    sleeping_.fetch_sub(1);
  }

 private:
  static constexpr int kSpins = 4000;  // some 50 to 100 microseconds: a decoding loop's pause between two calls
  static constexpr int kYields = 20;

  alignas(64) std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleeping_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

class Barrier {
 public:
  // Threads of a call are a few microseconds apart. If it takes longer, the other may be waiting for this processor.
  static constexpr int kSpins = 512;

  explicit Barrier(uint32_t members) : members_(members) {}

  void wait() {
    const uint32_t phase = phase_.value();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.raise();
    } else {
      phase_.wait([&](uint32_t now) { return now != phase; }, kSpins);
    }
  }

 private:
  const uint32_t members_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  Signal phase_;
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

  const size_t size_;
  Barrier barrier_;
  const std::function<void(size_t)>* body_ = nullptr;
  Signal job_;
  Signal finished_;
  std::atomic<bool> stop_{false};
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
