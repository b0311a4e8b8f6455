#include "trireme/op/nn/cross_entropy.h"

namespace trireme::op::detail {

Status expect_classified(TypeSpan in) {
  TR_RETURN_IF_ERROR(expect_floating("logits", in[0]));
  TR_RETURN_IF_ERROR(expect_rank("logits", in[0], 2));
  if (in[0].shape[1] == 0) {
    return error(Code::kInvalid, "logits: got {}, expected at least one class", in[0].to_string());
  }
  if (in[1].dtype != DType::kI32 && in[1].dtype != DType::kI64) {
    return error(Code::kInvalid, "labels: got {}, expected i32 or i64", in[1].to_string());
  }
  TR_RETURN_IF_ERROR(expect_shape("labels", in[1], {in[0].shape[0]}));
  return expect_type("weights", in[2], {DType::kF32, {in[0].shape[0]}});
}

std::vector<LayoutOption> sample_layout(TypeSpan in, const Attrs&) {
  return {{std::vector<int>(in.size(), 0), {0}}};
}

}  // namespace trireme::op::detail
