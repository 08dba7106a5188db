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
#elif defined(__aarch64__)
  asm volatile("yield");
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

  // Returns once done(value) holds. `yields`: how often it gives way, after spinning, before it sleeps.
  template <typename Done>
  void wait(Done done, int spins = kSpins, int yields = kYields) {
    for (int i = 0; i < spins; ++i) {
      if (done(value())) return;
      relax();
    }
    for (int i = 0; i < yields; ++i) {
      for (int j = 0; j < kSpinsBetween; ++j) {
        if (done(value())) return;
        relax();
      }
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, [&] { return done(value_.load()); });
    sleeping_.fetch_sub(1);
  }

  static constexpr int kSpins = 4000;  // some 50 to 100 microseconds: a greedy decoding loop's pause between two calls

 private:
  static constexpr int kYields = 20;
  static constexpr int kSpinsBetween = 32;  // half a microsecond

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
  // Between two calls of a sampled round lie up to a millisecond of choosing tokens, and waking a sleeper takes 70 to 150
  // microseconds, a fortieth of a round: wait that long awake, but give way to whoever else wants the processor.
  static constexpr int kJobYields = 1000;

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

// Holds a pool; makes it on first use and makes it anew in a forked child.
class PoolHandle {
 public:
  // The one that all engines of this process with so many threads use, one call at a time: a champion and its draft take
  // turns, and threads of their own would have to be woken, beside the other's that still spin, twice a round.
  static std::shared_ptr<PoolHandle> shared(size_t threads);

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
