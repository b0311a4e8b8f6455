// Dimensions in another order.
#include "trireme/op/detail/infer.h"

#include <fmt/format.h>
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// The order of the attribute; empty means reversed.
Result<std::vector<int>> resolve(const TensorType& x, const Attrs& attrs) {
  const auto& given = attrs.get_ints("order");
  const int rank = x.shape.rank();
  std::vector<int> order;
  if (given.empty()) {
    for (int d = rank - 1; d >= 0; --d) order.push_back(d);
    return order;
  }
  unsigned seen = 0;
  for (const std::int64_t d : given) {
    if (d < 0 || d >= rank || (seen & (1U << d)) != 0) break;
    seen |= 1U << d;
    order.push_back(static_cast<int>(d));
  }
  if (static_cast<int>(given.size()) != rank || order.size() != given.size()) {
    return error(Code::kInvalid,
                 "attribute 'order': got [{}] for {}, expected a permutation of its dimensions",
                 fmt::join(given, ", "), x.to_string());
  }
  return order;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const std::vector<int> order, resolve(in[0], attrs));
  TensorType out = in[0];
  for (int d = 0; d < out.shape.rank(); ++d) out.shape.set(d, in[0].shape[order[idx(d)]]);
  return std::vector{out};
}

Result<Grads> grad(GradBuilder& g) {
  TR_ASSIGN_OR_RETURN(const std::vector<int> order, resolve(g.type(g.input(0)), g.attrs()));
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) inverse[idx(order[d])] = static_cast<std::int64_t>(d);
  return Grads{g.add(kTranspose, {g.grad_output(0)}, {{"order", inverse}})};
}

void run(KernelArgs& a) {
  const auto order = resolve(a.in(0).type(), a.attrs);
  copy_to_contiguous(a.in(0).transpose(*order), a.out(0));
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  const auto order = resolve(in[0], attrs);
  if (!order.ok()) return options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{(*order)[idx(d)]}, {d}});
  return options;
}
}  // namespace

const OpDef kTranspose{
    .name = "transpose",
    .doc = "Dimensions in another order: dimension d of the result is dimension order[d] of x.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {{"order", std::vector<std::int64_t>{}, "permutation of dimensions; empty: reversed"}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    .layout = layout,
    .linear = {.inputs = 1}};

}  // namespace trireme::op
