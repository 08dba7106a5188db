#include "pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <map>

#include "float_mode.hpp"

namespace draftgate {
namespace {

std::atomic<uint32_t> forks{0};

}  // namespace

uint32_t Signal::raise() {
  const uint32_t now = value_.fetch_add(1) + 1;
  if (sleeping_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  return now;
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
  job_.raise();
  for (auto& thread : threads_) thread.join();
}

void Pool::run(const std::function<void(size_t)>& body) {
  const FloatMode mode;
  if (size_ == 1) {
    body(0);
    return;
  }
  body_ = &body;
  finished_.reset();
  job_.raise();
  body(0);
  finished_.wait([&](uint32_t n) { return n == size_ - 1; });
}

void Pool::work(size_t index) {
  const FloatMode mode;
  for (uint32_t seen = 0;; ++seen) {
    job_.wait([&](uint32_t job) { return job != seen; }, Signal::kSpins, kJobYields);
    if (stop_) return;
    (*body_)(index);
    finished_.raise();
  }
}

uint32_t fork_count() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  (void)registered;
  return forks.load();
}

std::shared_ptr<PoolHandle> PoolHandle::shared(size_t threads) {
  if (threads < 2) return std::make_shared<PoolHandle>(threads);  // nothing to share: callers need not take turns
  static std::mutex looking;
  static std::map<size_t, std::weak_ptr<PoolHandle>> known;
  std::lock_guard<std::mutex> lock(looking);
  std::weak_ptr<PoolHandle>& place = known[threads];
  std::shared_ptr<PoolHandle> handle = place.lock();
  if (!handle) place = handle = std::make_shared<PoolHandle>(threads);
  return handle;
}

PoolHandle::~PoolHandle() {
  if (born_ == fork_count()) delete state_.load();  // otherwise its threads are the parent's: leave it
}

PoolHandle::State& PoolHandle::state() {
  static std::mutex making;
  const uint32_t now = fork_count();
  if (born_ == now)  // read before the state, which is stored first: never the parent's state with the child's count
    if (State* current = state_.load()) return *current;
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
