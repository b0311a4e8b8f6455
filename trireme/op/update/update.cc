#include "trireme/op/update/update.h"

#include <cmath>

namespace trireme::op::detail {

std::vector<LayoutOption> update_layout(TypeSpan in, std::size_t num_scalars) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) {
    LayoutOption option{std::vector<int>(in.size(), d), {d}};
    for (std::size_t i = in.size() - num_scalars; i < in.size(); ++i) option.inputs[i] = kReplicate;
    options.push_back(std::move(option));
  }
  return options;
}

Status expect_not_negative(std::string_view attr, double value) {
  if (std::isfinite(value) && value >= 0) return ok_status();
  return error(Code::kInvalid, "attribute '{}': got {}, expected a finite value of at least 0", attr, value);
}

}  // namespace trireme::op::detail
