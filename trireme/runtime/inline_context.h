// A ComputeContext of the calling thread.
#pragma once

#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// Runs the fixed slices one after the other: the same cuts as on real threads, so the same results.
class InlineContext final : public ComputeContext {
 public:
  explicit InlineContext(int width = 1) : width_(width) {}
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    for (int i = 0; i < width_; ++i) {
      const std::int64_t begin = n * i / width_, end = n * (i + 1) / width_;
      if (begin < end) body(begin, end, i);
    }
  }

 private:
  int width_;
};

}  // namespace trireme::runtime
