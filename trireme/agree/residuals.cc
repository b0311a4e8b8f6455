#include "trireme/agree/residuals.h"

#include "trireme/agree/vector_math.h"

namespace trireme::agree {
Residuals::Residuals(runtime::Runtime& rt, const codec::Coding& coding, const std::vector<Tensor>& like,
                     bool velocities)
    : coding_(coding) {
  const std::vector<std::int64_t> none(like.size());
  exchanges_ = Tensor::from<std::int64_t>(none, Shape{static_cast<std::int64_t>(like.size())});
  if (is_on()) status_ = make(rt, like, velocities && coding.momentum > 0);
}

Status Residuals::make(runtime::Runtime& rt, const std::vector<Tensor>& like, bool velocities) {
  if (coding_.feedback) {
    TR_ASSIGN_OR_RETURN(residual_, new_vectors_like(rt, like));
  }
  if (velocities) {
    TR_ASSIGN_OR_RETURN(velocity_, new_vectors_like(rt, like));
  }
  return {};
}

std::vector<std::pair<std::string, Tensor>> Residuals::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  if (!is_on()) return all;
  all.emplace_back("codec/exchanges", exchanges_);
  for (std::size_t b = 0; b < residual_.size(); ++b)
    all.emplace_back(fmt::format("codec/residual/{}", b), residual_[b]);
  for (std::size_t b = 0; b < velocity_.size(); ++b)
    all.emplace_back(fmt::format("codec/velocity/{}", b), velocity_[b]);
  return all;
}

}  // namespace trireme::agree
