// Rows in random order: row i of y is row p[i] of x, where p is the permutation that the op `permutation`
// gives for the same key, step, stream and number of rows. `inverse` puts them back: row p[i] of y is row i
// of x.
#include "trireme/op/ops.h"
#include "trireme/op/random/random.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  if (in[0].shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_key(in, 1));
  return std::vector{in[0]};
}

// The transpose of a permutation is its inverse.
Result<Grads> grad(GradBuilder& g) {
  const Attrs back{{"inverse", !g.attrs().get_bool("inverse")}, {"stream", g.attrs().get_int("stream")}};
  return Grads{g.add(kShuffle, {g.grad_output(0), g.input(1), g.input(2)}, back), Value{}, Value{}};
}

std::size_t workspace(TypeSpan in, const Attrs&) { return idx(in[0].shape[0]) * sizeof(std::int64_t); }

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const std::int64_t rows = x.shape()[0];
  const std::span order(reinterpret_cast<std::int64_t*>(a.workspace.data()), idx(rows));
  permute(stream_key(a, 1), order);
  const bool inverse = a.attrs.get_bool("inverse");
  if (x.shape().num_elems() == 0) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t from = inverse ? i : order[idx(i)], to = inverse ? order[idx(i)] : i;
    copy_to_contiguous(x.slice(0, from, from + 1), y.slice(0, to, to + 1));
  }
}

// Every dimension but the rows.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 1; d < in[0].shape.rank(); ++d) options.push_back({{d, kReplicate, kReplicate}, {d}});
  return options;
}
}  // namespace

const OpDef kShuffle{.name = "shuffle",
                     .doc = "The rows of x (dimension 0) in random order, from (x, key, step).",
                     .family = "random",
                     .num_inputs = 3,
                     .attrs = {{"inverse", false, "put rows back to where they were"}, stream_attr()},
                     .dtypes = kAnyDType,
                     .infer = infer,
                     .grad = grad,
                     .reference = run,
                     .reference_workspace = workspace,
                     .cost = copy_cost,
                     .layout = layout,
                     .traits = kRandom};

}  // namespace trireme::op
