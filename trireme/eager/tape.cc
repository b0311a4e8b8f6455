#include "trireme/eager/tape.h"

#include "trireme/eager/tracer.h"

namespace trireme::eager {

std::uint64_t Tape::version(const Context& context, const ArrayState& array) {
  return context.tracer_ ? context.tracer_->version(array) : array.data.storage->version;
}

void Tape::set_grad(Context& context, const std::shared_ptr<ArrayState>& leaf, Array grad) {
  if (context.tracer_)
    context.tracer_->set_grad(leaf, std::move(grad));
  else
    leaf->grad = std::move(grad);
}

}  // namespace trireme::eager
