#include "tests/conformance/exchange.h"

#include <algorithm>

#include "tests/conformance/parts.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

using Ints = std::vector<std::int64_t>;

int dim_of(const Attrs& attrs, std::string_view name, const Tensor& x) {
  const std::int64_t given = attrs.get_int(name);
  return static_cast<int>(given < 0 ? given + x.shape().rank() : given);
}

Tensor concatenated(const std::vector<Tensor>& parts, int dim) {
  return run_one(kConcat, parts, {{"axis", std::int64_t{dim}}});
}

// The piece of position p along `dim`.
Tensor piece_of(const Tensor& whole, int dim, const Ints& sizes, std::size_t p, std::size_t world) {
  std::int64_t begin = 0, size = whole.shape()[dim] / static_cast<std::int64_t>(world);
  for (std::size_t q = 0; q < p; ++q) begin += sizes.empty() ? size : sizes[q];
  if (!sizes.empty()) size = sizes[p];
  return whole.slice(dim, begin, begin + size);
}

// The indices [begin, end) of dimension `dim` of `whole`; `fill` where it has none.
Tensor window_of(const Tensor& whole, int dim, std::int64_t begin, std::int64_t end, double fill) {
  TensorType type = whole.type();
  type.shape.set(dim, end - begin);
  Tensor out = filled(type, fill);
  const std::int64_t first = std::max<std::int64_t>(begin, 0), last = std::min(end, whole.shape()[dim]);
  if (first < last) copy_into(out.slice(dim, first - begin, last - begin), whole.slice(dim, first, last));
  return out;
}

// The output of position p.
Tensor output_of(const OpDef& def, const Attrs& attrs, const std::vector<Tensor>& inputs, std::size_t p) {
  const std::size_t world = inputs.size();
  const Tensor& own = inputs[p];
  if (&def == &kAllreduce)
    return joined(inputs, attrs.get_text("reduction") == "sum" ? kPartial : kPartialMax, own.type());
  if (&def == &kBroadcast) return inputs[static_cast<std::size_t>(attrs.get_int("root"))];
  if (&def == &kAllgather) return concatenated(inputs, dim_of(attrs, "dim", own));
  if (&def == &kReduceScatter)
    return piece_of(joined(inputs, kPartial, own.type()), dim_of(attrs, "dim", own), attrs.get_ints("sizes"),
                    p, world);
  if (&def == &kAllToAll)
    return piece_of(concatenated(inputs, dim_of(attrs, "from", own)), dim_of(attrs, "to", own),
                    attrs.get_ints("sizes_to"), p, world);
  TR_CHECK(&def == &kHaloExchange, "no exchange is called {}", def.name);
  const int dim = dim_of(attrs, "dim", own);
  return window_of(concatenated(inputs, dim), dim, attrs.get_ints("begins")[p], attrs.get_ints("ends")[p],
                   attrs.get_float("fill"));
}

}  // namespace

std::vector<Tensor> exchange(const OpDef& def, const std::vector<Attrs>& attrs,
                             const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const Tensor out = output_of(def, attrs[p], inputs, p);
    outputs.push_back(*Tensor::allocate(cpu_device(), out.type()));
    copy_to_contiguous(out, outputs.back());
  }
  return outputs;
}

}  // namespace trireme::op::testing
