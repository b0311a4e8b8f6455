// Layout rules of every row: cut the inputs into 2 and 3 pieces by the rule, run the pieces, join them
// (concatenate or add), compare with the whole.
#include "tests/conformance/harness.h"

#include <fmt/format.h>
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

struct Cut {
  std::int64_t begin, end;
};

std::int64_t cut_size(const LayoutOption& o, const std::vector<Tensor>& in,
                      const std::vector<TensorType>& out) {
  std::int64_t size = -1;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (o.inputs[i] == kReplicate) continue;
    const std::int64_t own = in[i].shape()[o.inputs[i]];
    TR_CHECK(size < 0 || size == own, "cut dimensions differ: {} and {}", size, own);
    size = own;
  }
  for (std::size_t k = 0; size < 0 && k < out.size(); ++k) {
    if (o.outputs[k] >= 0) size = out[k].shape[o.outputs[k]];
  }
  return size;
}

// The cut [begin, end) of a dimension of `size` as a cut of one that is a multiple or fraction of it
// (concatenated gates, flattened dimensions).
Cut scaled(Cut cut, std::int64_t size, std::int64_t own) {
  if (size == own || size == 0) return cut;
  return {cut.begin * own / size, cut.end * own / size};
}

// Runs one piece and puts it into (or, where it is partial, adds it to) `joined`.
void run_piece(const OpCase& c, const LayoutOption& o, const std::vector<Tensor>& whole,
               const std::vector<Tensor>& joined, std::int64_t size, Cut cut) {
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    in.push_back(o.inputs[i] == kReplicate ? whole[i] : whole[i].slice(o.inputs[i], cut.begin, cut.end));
  }
  std::vector<Tensor> places;
  for (std::size_t k = 0; k < joined.size(); ++k) {
    if (o.outputs[k] < 0) {
      places.push_back(joined[k]);
      continue;
    }
    const Cut own = scaled(cut, size, joined[k].shape()[o.outputs[k]]);
    places.push_back(joined[k].slice(o.outputs[k], own.begin, own.end));
  }
  Attrs attrs = c.attrs;
  if (!c.def->shape_attr.empty()) {
    attrs.set(std::string(c.def->shape_attr),
              std::vector<std::int64_t>(places[0].shape().dims().begin(), places[0].shape().dims().end()));
  }
  const auto out = run_op(*c.def, in, attrs);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (std::size_t k = 0; k < joined.size(); ++k) {
    ASSERT_EQ((*out)[k].type(), places[k].type()) << "output " << k;
    if (places[k].shape().num_elems() == 0) continue;
    const OpDef& combine = o.outputs[k] == kPartial ? kAssignAdd : kAssign;
    ASSERT_TRUE(run_op(combine, {places[k], (*out)[k]}, {}).ok());
  }
}

class OpLayouts : public OpConformance {};

TEST_P(OpLayouts, JoinToTheWhole) {
  ASSERT_NE(def().layout, nullptr);
  const auto inputs = make_inputs(c(), DType::kF64);
  const auto out = out_types(inputs);
  std::vector<Tensor> expected;
  if (def().reference) expected = *run_op(def(), fresh(inputs), c().attrs);
  for (const LayoutOption& o : def().layout(types_of(inputs), attrs())) {
    ASSERT_EQ(o.inputs.size(), inputs.size());
    ASSERT_EQ(o.outputs.size(), out.size());
    for (std::size_t k = 0; k < out.size(); ++k) {
      const int d = o.outputs[k];
      ASSERT_TRUE(d == kReplicate || d == kPartial || (d >= 0 && d < out[k].shape.rank())) << d;
    }
    if (!def().reference) continue;
    const std::int64_t size = cut_size(o, inputs, out);
    ASSERT_GE(size, 0);
    for (const std::int64_t pieces : {2, 3}) {
      const std::string what = fmt::format("inputs cut along ({}), outputs along ({}), {} pieces",
                                           fmt::join(o.inputs, ", "), fmt::join(o.outputs, ", "), pieces);
      std::vector<Tensor> joined;
      for (std::size_t k = 0; k < out.size(); ++k) {
        joined.push_back(*Tensor::allocate(cpu_device(), out[k]));
        if (out[k].num_bytes() > 0)
          std::memset(joined[k].raw(), o.outputs[k] == kPartial ? 0 : 0xFF, out[k].num_bytes());
      }
      const auto whole = fresh(inputs);
      for (std::int64_t p = 0; p < pieces; ++p) {
        ASSERT_NO_FATAL_FAILURE(
            run_piece(c(), o, whole, joined, size, {p * size / pieces, (p + 1) * size / pieces}))
            << what;
      }
      for (std::size_t k = 0; k < out.size(); ++k) {
        if (o.outputs[k] == kPartial) {
          expect_close(to_doubles(joined[k]), to_doubles(expected[k]), 1e-12, what);
        } else {
          expect_same_bits(joined[k], expected[k], what);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpLayouts, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
