#include "bigmac/runtime/gloo_parts.h"

#include "bigmac/runtime/transport.h"

namespace bigmac {

std::string first_line(const std::exception& error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

void Failed::set(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!reason_.empty()) return;
    reason_ = reason;
    flag_ = true;
  }
  changed_.notify_all();
}

void Failed::check() {
  if (!flag_) return;
  std::lock_guard lock(mutex_);
  throw RankFailure(reason_);
}

bool Failed::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return flag_.load(); });
}

void finish(const GlooWork& work, Failed& failed, const Lost& lost, const std::vector<int>& ranks) {
  try {
    while (!work->isCompleted()) {
      failed.check();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    work->wait();
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    lost(ranks, error);
    failed.check();
    throw;
  }
}

void Sends::push(GlooWork work, int rank) {
  {
    std::lock_guard lock(mutex_);
    sent_.push_back({std::move(work), rank});
  }
  changed_.notify_all();
}

bool Sends::is_empty() {
  std::lock_guard lock(mutex_);
  return !sending_ && sent_.empty();
}

void Sends::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return !sending_ && sent_.empty(); });
}

void Sends::stop() {
  {
    std::lock_guard lock(mutex_);
    dropping_ = true;
    if (sending_) sending_->abort();
  }
  changed_.notify_all();
  if (reaper_.joinable()) reaper_.join();
}

void Sends::reap() {
  at::ThreadLocalState sender;
  for (;;) {
    int rank = 0;
    {
      std::unique_lock lock(mutex_);
      {
        at::ThreadLocalStateGuard as_sender(sender);
        sending_.reset();
      }
      changed_.notify_all();
      changed_.wait(lock, [&] { return !sent_.empty() || dropping_; });
      if (dropping_) return;
      sending_ = sent_.front().work;
      rank = sent_.front().rank;
      sender = sent_.front().here;
      sent_.pop_front();
    }
    try {
      if (!sending_->wait(kForever)) return;
    } catch (const std::exception& error) {
      lost_({rank}, error);
      return;
    }
  }
}

}  // namespace bigmac
