#include "trireme/agree/mechanism/residuals.h"

#include <algorithm>

#include "trireme/agree/mechanism/vector_math.h"

namespace trireme::agree {

Residuals::Residuals(runtime::Runtime& rt, std::vector<codec::Coding> codings,
                     const std::vector<Tensor>& like, bool velocities)
    : codings_(std::move(codings)), residual_(like.size()), velocity_(like.size()) {
  const std::vector<std::int64_t> none(like.size());
  exchanges_ = Tensor::from<std::int64_t>(none, Shape{static_cast<std::int64_t>(like.size())});
  status_ = make(rt, like, velocities);
}

const codec::Coding& Residuals::some_coding() const {
  std::size_t b = 0;
  while (b + 1 < codings_.size() && !is_on(b)) ++b;
  return codings_[b];
}

bool Residuals::is_on() const {
  return std::any_of(codings_.begin(), codings_.end(), [](const auto& c) { return c.row != nullptr; });
}

bool Residuals::keeps() const {
  return std::any_of(residual_.begin(), residual_.end(), [](const Tensor& t) { return !t.is_null(); });
}

Status Residuals::make(runtime::Runtime& rt, const std::vector<Tensor>& like, bool velocities) {
  for (std::size_t b = 0; b < like.size(); ++b) {
    if (!is_on(b)) continue;
    if (codings_[b].feedback) {
      TR_ASSIGN_OR_RETURN(residual_[b], new_vector(rt, like[b].shape().num_elems()));
    }
    if (velocities && codings_[b].momentum > 0) {
      TR_ASSIGN_OR_RETURN(velocity_[b], new_vector(rt, like[b].shape().num_elems()));
    }
  }
  return {};
}

std::vector<std::pair<std::string, Tensor>> Residuals::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  if (!is_on()) return all;
  all.emplace_back("codec/exchanges", exchanges_);
  for (std::size_t b = 0; b < residual_.size(); ++b)
    if (!residual_[b].is_null()) all.emplace_back(fmt::format("codec/residual/{}", b), residual_[b]);
  for (std::size_t b = 0; b < velocity_.size(); ++b)
    if (!velocity_[b].is_null()) all.emplace_back(fmt::format("codec/velocity/{}", b), velocity_[b]);
  return all;
}

}  // namespace trireme::agree
