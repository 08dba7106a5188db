#include "pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "float_mode.hpp"

namespace draftgate {
namespace {

constexpr int kBarrierSpins = 2000;  // some 20 to 40 microseconds, then the processor is offered to others
constexpr int kIdleSpins = 4000;     // between two calls of a decoding loop
constexpr int kIdleYields = 50;

std::atomic<uint32_t> forks{0};

template <typename Done>
void spin_until(Done done) {
  for (int i = 0; !done(); ++i) {
    if (i < kBarrierSpins)
      relax();
    else
      sched_yield();
  }
}

}  // namespace

void Barrier::wait() {
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  spin_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

Pool::Pool(size_t threads) : size_(threads < 1 ? 1 : threads), barrier_(uint32_t(size_)) {
  sigset_t all, before;  // signals belong to the interpreter's thread
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (size_t i = 1; i < size_; ++i) threads_.emplace_back([this, i] { work(i); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pool::~Pool() {
  stop_ = true;
  job_.fetch_add(1);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  for (auto& thread : threads_) thread.join();
}

void Pool::run(const std::function<void(size_t)>& body) {
  const FloatMode mode;
  if (size_ == 1) {
    body(0);
    return;
  }
  body_ = &body;
  finished_.store(0, std::memory_order_relaxed);
  job_.fetch_add(1);
  if (sleeping_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  body(0);
  spin_until([&] { return finished_.load(std::memory_order_acquire) == size_ - 1; });
}

bool Pool::wait_for_job(uint32_t seen) {
  for (int i = 0; i < kIdleSpins + kIdleYields; ++i) {
    if (job_.load(std::memory_order_acquire) != seen) return !stop_;
    if (i < kIdleSpins)
      relax();
    else
      sched_yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  sleeping_.fetch_add(1);
  wake_.wait(lock, [&] { return job_.load() != seen; });
  sleeping_.fetch_sub(1);
  return !stop_;
}

void Pool::work(size_t index) {
  const FloatMode mode;
  for (uint32_t seen = 0; wait_for_job(seen); ) {
    ++seen;
    (*body_)(index);
    finished_.fetch_add(1, std::memory_order_acq_rel);
  }
}

uint32_t fork_count() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  (void)registered;
  return forks.load();
}

PoolHandle::~PoolHandle() {
  if (born_ == fork_count()) delete state_.load();  // otherwise its threads are the parent's: leave it
}

PoolHandle::State& PoolHandle::state() {
  static std::mutex making;
  const uint32_t now = fork_count();
  State* current = state_.load();
  if (current && born_ == now) return *current;
  std::lock_guard<std::mutex> lock(making);
  if (!state_.load() || born_ != now) {
    state_ = new State(threads_);
    born_ = now;
  }
  return *state_.load();
}

void PoolHandle::with(const std::function<void(Pool&)>& use) {
  State& mine = state();
  std::lock_guard<std::mutex> lock(mine.one_caller);
  use(mine.pool);
}

}  // namespace draftgate
