// Line: work that must be done one after the other, in the order in which it came.
#pragma once

#include <deque>
#include <memory>

#include "trireme/runtime/sync.h"

namespace trireme::server {

class Line {
 public:
  // Whose turn it is; the next one's when this goes. Destroyed before its Line.
  class Turn {
   public:
    explicit Turn(Line& line) : line_(line) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { line_.next(); }

   private:
    Line& line_;
  };

  // Ends when everybody who came before has had their turn; a Turn is to be made then.
  runtime::Task<void> wait(runtime::Runtime& rt) {
    if (!busy_) {
      busy_ = true;
      co_return;
    }
    const auto shot = std::make_shared<runtime::OneShot<bool>>(rt);
    waiting_.push_back(shot);
    co_await shot->wait_until(kForever);  // for work of this process, or for an answer that somebody awaits
  }

 private:
  void next() {
    busy_ = !waiting_.empty();
    if (!busy_) return;
    const auto shot = waiting_.front();
    waiting_.pop_front();
    shot->set(true);
  }

  bool busy_ = false;
  std::deque<std::shared_ptr<runtime::OneShot<bool>>> waiting_;
};

}  // namespace trireme::server
