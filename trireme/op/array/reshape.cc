// The same elements in row-major order under another shape.
#include <fmt/format.h>
#include <algorithm>
#include <cstring>

#include "trireme/op/detail/infer.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// The shape of the attribute with its -1 (at most one) filled in.
Result<Shape> resolve(const Shape& from, std::vector<std::int64_t> dims) {
  int open = -1;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1 && open < 0) {
      open = static_cast<int>(i);
    } else if (dims[i] >= 0) {
      if (__builtin_mul_overflow(known, dims[i], &known)) known = -1;
    }
  }
  if (open >= 0) {
    if (known <= 0 || from.num_elems() % known != 0) {
      return error(Code::kInvalid,
                   "attribute 'shape': got [{}] for {}, expected a shape whose -1 can be worked out",
                   fmt::join(dims, ", "), from.to_string());
    }
    dims[idx(open)] = from.num_elems() / known;
  }
  TR_ASSIGN_OR_RETURN(const Shape to, shape_from("shape", dims));
  if (to.num_elems() != from.num_elems()) {
    return error(Code::kInvalid, "attribute 'shape': got {} for {}, expected {} elements", to.to_string(),
                 from.to_string(), from.num_elems());
  }
  return to;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape to, resolve(in[0].shape, attrs.get_ints("shape")));
  return std::vector{TensorType{in[0].dtype, to}};
}

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kReshape, {g.grad_output(0)}, {{"shape", dims_of(g.type(g.input(0)).shape)}})};
}

void run(KernelArgs& a) {
  const std::size_t bytes = a.in(0).type().num_bytes();
  if (bytes == 0) return;
  if (a.in(0).is_contiguous()) {
    // In place there is nothing to move.
    if (a.in(0).raw() != a.out(0).raw()) std::memcpy(a.out(0).raw(), a.in(0).raw(), bytes);
    return;
  }
  copy_to_contiguous(a.in(0), Tensor(a.out(0).buffer(), a.in(0).type(), a.out(0).offset_bytes()));
}

// Leading dimensions that stay as they are may be cut.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  const auto to = resolve(in[0].shape, attrs.get_ints("shape"));
  if (!to.ok()) return options;
  for (int d = 0; d < std::min(to->rank(), in[0].shape.rank()) && (*to)[d] == in[0].shape[d]; ++d) {
    options.push_back({{d}, {d}});
  }
  return options;
}
}  // namespace

const OpDef kReshape{
    .name = "reshape",
    .doc = "The elements of x in row-major order under another shape.",
    .family = "array",
    .num_inputs = 1,
    .attrs = {{"shape", std::vector<std::int64_t>{}, "new shape; one size may be -1: worked out", true}},
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    .layout = layout,
    .linear = {.inputs = 1},
    .traits = kInPlaceOk,
    .shape_attr = "shape"};

}  // namespace trireme::op
