#include "trireme/collective/expression.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::collective {

std::string ExprPool::to_text(Expr e) const {
  if (e < 0) return "nothing";
  if (e < num_leaves_) return fmt::format("x{}", e);
  const auto [l, r] = nodes_[static_cast<std::size_t>(e)];
  if (r == kScaled) return fmt::format("mean{}", to_text(l));
  return fmt::format("({} + {})", to_text(l), to_text(r));
}

// Inside the buffer a value's shift is relative to the buffer; a SymbolicExtent's is relative to its own
// first element, so that it keeps its meaning when it moves.
std::vector<SymbolicExtent> SymbolicBuffer::read(std::int64_t offset, std::int64_t count) const {
  std::vector<SymbolicExtent> pieces;
  const std::int64_t end = offset + count;
  for (std::int64_t at = offset; at < end;) {
    const auto next = starts_.upper_bound(at);
    const Value& v = std::prev(next)->second;
    const std::int64_t stop = next == starts_.end() ? end : std::min(end, next->first);
    pieces.push_back({stop - at, v.expr, v.shift + at});
    at = stop;
  }
  return pieces;
}

void SymbolicBuffer::cut(std::int64_t at) {
  if (at >= size_) return;
  const auto next = starts_.upper_bound(at);
  starts_.emplace(at, std::prev(next)->second);
}

void SymbolicBuffer::write(std::int64_t offset, const std::vector<SymbolicExtent>& pieces) {
  for (const SymbolicExtent& p : pieces) {
    if (p.count == 0) continue;
    cut(offset);
    cut(offset + p.count);
    starts_.erase(starts_.lower_bound(offset), starts_.lower_bound(offset + p.count));
    starts_[offset] = {p.expr, p.shift - offset};
    offset += p.count;
  }
}

}  // namespace trireme::collective
