// Losses per sample: softmax_cross_entropy, squared_error, their gradients, and `correct`. A warp or a block
// has a sample. What weights and bad labels mean is in op/nn/sample_loss.h.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kEntropyText[], kEntropyGradText[], kCorrectText[], kEntropyStepText[],
    kSquaredText[];  // loss.cu

namespace {

struct Loss {
  const Function* f = nullptr;
  RowPlan plan;
  std::int64_t rows = 0, n = 1;
};

// `body` for samples of n elements; labels, where there are some, are input 1. `again`: it passes over a row
// more than once.
Result<Loss> loss_of(const CudaQuery& q, std::initializer_list<std::string_view> body, const char* name,
                     bool again) {
  Loss loss;
  const TensorType& x = q.inputs[0];
  loss.rows = x.shape[0];
  for (int d = 1; d < x.shape.rank(); ++d) loss.n *= x.shape[d];
  const DType out = q.outputs[0].dtype, labels = q.inputs[1].dtype;
  const bool large = q.outputs[0].shape == x.shape;  // a gradient
  loss.plan = plan_row(x.dtype, std::max(dtype_size(x.dtype), large ? dtype_size(out) : 0), loss.n, again);
  const std::string types = fmt::format("using L = {};\n", is_floating(labels) ? "i64" : cuda_type(labels));
  std::string text(types + row_constants(loss.plan));
  text.append(kPackText).append(kRowText);
  for (const std::string_view part : body) text += part;
  text = typed_text({{"X", x.dtype},
                     {"O", out},
                     {"U", q.inputs.size() > 3 ? q.inputs[3].dtype : out},
                     {"P", q.outputs.size() > 1 ? q.outputs[1].dtype : out}},
                    {{"kPack", loss.plan.pack}}, {text});
  TR_ASSIGN_OR_RETURN(loss.f, q.device.function(text, name));
  return loss;
}

// One value per sample from input 0 and what goes with it.
Made make_value(const CudaQuery& q, std::string_view body, const char* name) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {body}, name, false));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, 0, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(),
                  a.out(0).raw(), loss.rows, loss.n);
  });
}

}  // namespace

Made make_softmax_cross_entropy(const CudaQuery& q) { return make_value(q, kEntropyText, "entropy"); }
Made make_correct(const CudaQuery& q) { return make_value(q, kCorrectText, "correct"); }
Made make_squared_error(const CudaQuery& q) { return make_value(q, kSquaredText, "squared"); }

Made make_softmax_cross_entropy_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {kEntropyText, kEntropyGradText}, "entropy_grad", true));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, loss.plan.shared_bytes, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), loss.rows, loss.n);
  });
}

Made make_softmax_cross_entropy_step(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {kEntropyText, kEntropyStepText}, "entropy_step", true));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, loss.plan.shared_bytes, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), a.out(1).raw(), a.out(2).raw(),
                  loss.rows, loss.n);
  });
}

Made make_squared_error_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {kSquaredText}, "squared_grad", false));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    const std::int64_t n = loss.rows * loss.n;
    if (n == 0) return ok_status();
    return launch(a.stream, *loss.f, {blocks_for(n, 256, loss.plan.pack)}, {256}, 0, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), loss.rows, loss.n);
  });
}

}  // namespace trireme::kernel::cuda
