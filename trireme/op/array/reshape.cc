// The same elements in row-major order under another shape.
#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

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

// Dimensions of x and of the result that hold the same factor of the elements: [first, last) of each.
struct FactorGroup {
  int x_first = 0, x_last = 0, y_first = 0, y_last = 0;
};

// The shortest groups, in order. There are elements.
std::vector<FactorGroup> factor_groups(const Shape& x, const Shape& y) {
  std::vector<FactorGroup> groups;
  int i = 0, j = 0;
  while (i < x.rank() && j < y.rank()) {
    FactorGroup g{.x_first = i, .y_first = j};
    std::int64_t of_x = x[i++], of_y = y[j++];
    while (of_x != of_y) {
      if (of_x < of_y)
        of_x *= x[i++];
      else
        of_y *= y[j++];
    }
    g.x_last = i;
    g.y_last = j;
    groups.push_back(g);
  }
  return groups;
}

// A dimension within its group, which is [outer, size, inner] elements.
struct Factor {
  int dim = 0;
  std::int64_t outer = 1, size = 1, inner = 1;
};

std::vector<Factor> factors_of(const Shape& shape, int first, int last) {
  std::int64_t inner = 1, outer = 1;
  for (int d = first; d < last; ++d) inner *= shape[d];
  std::vector<Factor> factors;
  for (int d = first; d < last; ++d) {
    inner /= shape[d];
    factors.push_back({d, outer, shape[d], inner});
    outer *= shape[d];
  }
  return factors;
}

// Both dimensions cut between the same elements of the group: it is so many blocks as the inner one of them
// has before it, and units are whole rows of both. [B, T] as [B * T] is cut along B in units of T, or along T
// in B blocks. Nothing where there are no such elements.
std::optional<LayoutOption> cut_alike(const Factor& x, const Factor& y) {
  const std::int64_t blocks = std::max(x.outer, y.outer), total = x.outer * x.size * x.inner;
  if (blocks % x.outer != 0 || blocks % y.outer != 0 || total % blocks != 0) return std::nullopt;
  const std::int64_t block = total / blocks, unit = std::lcm(x.inner, y.inner);
  if (block % unit != 0 || block == unit || blocks > std::numeric_limits<int>::max()) return std::nullopt;
  const auto cut = [&](const Factor& f) {
    return AxisCut(f.dim, static_cast<int>(blocks / f.outer), unit / f.inner);
  };
  return LayoutOption{{cut(x)}, {cut(y)}};
}

// Where there are no elements, leading dimensions that stay as they are.
std::vector<LayoutOption> layout_of_nothing(const Shape& x, const Shape& y) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < std::min(x.rank(), y.rank()) && x[d] == y[d]; ++d) options.push_back({{d}, {d}});
  return options;
}

// Dimensions that stay, and factors of those that are split or merged.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const Shape& x = in[0].shape;
  const auto y = resolve(x, attrs.get_ints("shape"));
  if (!y.ok()) return {};
  if (x.num_elems() == 0) return layout_of_nothing(x, *y);
  std::vector<LayoutOption> options;
  for (const FactorGroup& g : factor_groups(x, *y))
    for (const Factor& of_x : factors_of(x, g.x_first, g.x_last))
      for (const Factor& of_y : factors_of(*y, g.y_first, g.y_last))
        if (auto option = cut_alike(of_x, of_y)) options.push_back(*std::move(option));
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
