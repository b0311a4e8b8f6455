// Sums as hash-consed expression trees: two values are the same sum in the same order iff their numbers are
// equal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trireme::collective {

using Expr = std::int32_t;  // -1: nothing was written

class ExprPool {
 public:
  explicit ExprPool(std::int32_t num_leaves) {
    for (std::int32_t i = 0; i < num_leaves; ++i) nodes_.push_back({-1, -1});
    num_leaves_ = num_leaves;
  }
  Expr leaf(std::int32_t i) const { return i; }
  Expr sum(Expr left, Expr right) {
    const auto [it, fresh] = sums_.try_emplace({left, right}, static_cast<Expr>(nodes_.size()));
    if (fresh) nodes_.push_back({left, right});
    return it->second;
  }
  // The mean: `e` divided by the number of ranks.
  Expr scaled(Expr e) { return sum(e, kScaled); }
  bool is_scaled(Expr e) const {
    return e >= num_leaves_ && nodes_[static_cast<std::size_t>(e)].second == kScaled;
  }
  // How often each leaf occurs.
  std::vector<int> leaf_counts(Expr e) const {
    std::vector<int> counts(static_cast<std::size_t>(num_leaves_));
    count(e, counts);
    return counts;
  }
  // "(x0 + (x1 + x2))"
  std::string to_text(Expr e) const;

 private:
  static constexpr Expr kScaled = -2;  // as a right operand
  void count(Expr e, std::vector<int>& counts) const {
    if (e < 0) return;
    if (e < num_leaves_) {
      ++counts[static_cast<std::size_t>(e)];
      return;
    }
    count(nodes_[static_cast<std::size_t>(e)].first, counts);
    count(nodes_[static_cast<std::size_t>(e)].second, counts);
  }

  std::int32_t num_leaves_ = 0;
  std::vector<std::pair<Expr, Expr>> nodes_;
  std::map<std::pair<Expr, Expr>, Expr> sums_;
};

// What a stretch of a buffer holds: its i-th element is `expr` at element (i + shift) of the operation.
struct SymbolicExtent {
  std::int64_t count = 0;
  Expr expr = -1;
  std::int64_t shift = 0;
  friend bool operator==(const SymbolicExtent&, const SymbolicExtent&) = default;
};

// A buffer as a few pieces, however many elements it has: programs are verified by chunks, not by elements.
class SymbolicBuffer {
 public:
  SymbolicBuffer() = default;
  SymbolicBuffer(std::int64_t count, Expr expr) : size_(count) {
    if (count > 0) starts_[0] = {expr, 0};
  }
  std::int64_t size() const { return size_; }
  std::vector<SymbolicExtent> read(std::int64_t offset, std::int64_t count) const;
  // Replaces what was there from `offset` on.
  void write(std::int64_t offset, const std::vector<SymbolicExtent>& pieces);

 private:
  struct Value {
    Expr expr;
    std::int64_t shift;
  };
  void cut(std::int64_t at);
  std::int64_t size_ = 0;
  std::map<std::int64_t, Value> starts_;
};

}  // namespace trireme::collective
