#include "trireme/op/update/update.h"

#include <algorithm>
#include <cmath>

namespace trireme::op::detail {

Types infer_update(TypeSpan in, std::initializer_list<State> states) {
  TR_RETURN_IF_ERROR(expect_floating("param", in[0]));
  std::size_t i = 1;
  for (const State& s : states) {
    TR_RETURN_IF_ERROR(expect_type(s.name, in[i++], s.used ? in[0] : TensorType{in[0].dtype, {0}}));
  }
  TR_RETURN_IF_ERROR(expect_type("grad", in[i++], in[0]));
  const TensorType& lr = in[i++];
  if (lr != TensorType{DType::kF32, {}}) TR_RETURN_IF_ERROR(expect_type("lr", lr, {in[0].dtype, {}}));
  if (i < in.size()) TR_RETURN_IF_ERROR(expect_type("step", in[i], {DType::kI64, {}}));
  return std::vector{in[0]};
}

Status expect_not_negative(const Attrs& attrs, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const double value = attrs.get_float(name);
    if (std::isfinite(value) && value >= 0) continue;
    return error(Code::kInvalid, "attribute '{}': got {}, expected a finite value of at least 0", name,
                 value);
  }
  return ok_status();
}

Status expect_share(const Attrs& attrs, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const double value = attrs.get_float(name);
    if (value >= 0 && value < 1) continue;
    return error(Code::kInvalid, "attribute '{}': got {}, expected a value in [0, 1)", name, value);
  }
  return ok_status();
}

double rate_of(const Tensor& lr) {
  double rate = 0;
  dispatch_float(lr.dtype(), [&]<typename T>() {
    const Acc<T> value = lr.data<T>()[0];
    rate = static_cast<double>(value);
  });
  return rate;
}

std::int64_t step_of(const Tensor& step) { return std::max<std::int64_t>(step.data<std::int64_t>()[0], 1); }

cost::OpCost update_cost(TypeSpan in, TypeSpan out, double flops, std::size_t num_states) {
  cost::OpCost cost = elementwise_cost(in, out, flops);
  for (std::size_t i = 1; i <= num_states; ++i) cost.bytes += static_cast<double>(in[i].num_bytes());
  return cost;
}

std::vector<LayoutOption> update_layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) {
    LayoutOption option{{}, {d}};
    for (const TensorType& t : in) option.inputs.push_back(t.shape == in[0].shape ? d : kReplicate);
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace trireme::op::detail
