// BusyTime: how long a rank has computed, however much it computed at once.
#pragma once

#include "trireme/runtime/runtime.h"

namespace trireme::engine {

// On the loop of one Runtime.
class BusyTime {
 public:
  explicit BusyTime(runtime::Runtime& rt) : rt_(rt) {}
  TimeNs total() const { return total_ + (open_ > 0 ? rt_.now() - since_ : 0); }

  // It computes as long as one of these lives.
  class Span {
   public:
    explicit Span(BusyTime* busy) : busy_(busy) {
      if (busy_ != nullptr && busy_->open_++ == 0) busy_->since_ = busy_->rt_.now();
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
      if (busy_ != nullptr && --busy_->open_ == 0) busy_->total_ += busy_->rt_.now() - busy_->since_;
    }

   private:
    BusyTime* const busy_;  // null: nobody asks
  };

 private:
  runtime::Runtime& rt_;
  int open_ = 0;
  TimeNs since_ = 0, total_ = 0;
};

}  // namespace trireme::engine
