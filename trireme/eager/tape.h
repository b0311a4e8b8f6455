// What gradients need of a Context beyond its public face. Internal to eager.
#pragma once

#include "trireme/eager/context.h"
#include "trireme/eager/state.h"

namespace trireme::eager {

class Tape {
 public:
  static Array poisoned(Context& context, Status status) { return context.poisoned(std::move(status)); }
  static std::uint64_t version(const Context& context, const ArrayState& array);
  static void set_grad(Context& context, const std::shared_ptr<ArrayState>& leaf, Array grad);

  // Records while it lives, or does not, whatever no_grad() scopes say.
  class Recording {
   public:
    Recording(Context& context, bool on) : context_(context), before_(context.num_no_grad_) {
      context.num_no_grad_ = on ? 0 : 1;
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording() { context_.num_no_grad_ = before_; }

   private:
    Context& context_;
    int before_;
  };
};

}  // namespace trireme::eager
