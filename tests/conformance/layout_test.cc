// Layout rules of every row: cut the inputs over 2 and 3 positions by the rule, run the parts (or what
// OpDef::cut makes of them), join the outputs, compare with the whole.
#include "tests/conformance/harness.h"

#include <fmt/format.h>

#include "tests/conformance/cut_run.h"
#include "tests/conformance/parts.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

std::string text_of(const LayoutOption& o, int num_parts) {
  std::string text = o.rewritten ? "rewritten: " : "";
  for (const AxisCut& cut : o.inputs) text += cut.to_text() + ", ";
  text += "->";
  for (const AxisCut& cut : o.outputs) text += " " + cut.to_text() + ",";
  return fmt::format("{} {} positions", text, num_parts);
}

// Units in a block of each cut operand.
std::vector<std::int64_t> units_of(const std::vector<AxisCut>& cuts, const std::vector<TensorType>& types) {
  std::vector<std::int64_t> units;
  for (std::size_t i = 0; i < cuts.size(); ++i)
    if (cuts[i].cuts()) units.push_back(types[i].shape[cuts[i].dim] / (cuts[i].blocks * cuts[i].unit));
  return units;
}

void expect_valid(const std::vector<AxisCut>& cuts, const std::vector<TensorType>& types) {
  ASSERT_EQ(cuts.size(), types.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const AxisCut& cut = cuts[i];
    if (cut == kReplicate || cut == kPartial || cut == kPartialMax) continue;
    ASSERT_TRUE(cut.dim >= 0 && cut.dim < types[i].shape.rank()) << cut.dim;
    ASSERT_TRUE(cut.blocks >= 1 && cut.unit >= 1) << cut.to_text();
    ASSERT_EQ(types[i].shape[cut.dim] % (cut.blocks * cut.unit), 0) << cut.to_text();
  }
}

// The op at the shapes of the parts.
Result<std::vector<Operands>> run_parts(const CutCall& call, const std::vector<Operands>& inputs) {
  std::vector<Operands> outputs;
  for (int p = 0; p < call.num_parts; ++p) {
    Attrs attrs = call.attrs;
    if (!call.def.shape_attr.empty()) {
      Shape shape = call.outputs[0].shape;
      const AxisCut& cut = call.option.outputs[0];
      if (cut.cuts())
        shape.set(cut.dim, part_sizes(cut, shape[cut.dim], call.num_parts)[static_cast<std::size_t>(p)]);
      attrs.set(std::string(call.def.shape_attr),
                std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end()));
    }
    TR_ASSIGN_OR_RETURN(Operands own, run_op(call.def, inputs[static_cast<std::size_t>(p)], attrs));
    outputs.push_back(std::move(own));
  }
  return outputs;
}

class OpLayouts : public OpConformance {
 protected:
  void SetUp() override {
    inputs_ = make_inputs(c(), DType::kF64);
    complete_ = attrs();
    out_ = out_types(inputs_);
    if (def().reference) expected_ = *run_op(def(), fresh(inputs_), c().attrs);
  }

  std::vector<LayoutOption> options() const {
    return layout_options(def(), types_of(inputs_), out_, complete_);
  }

  std::vector<Operands> cut_inputs(const LayoutOption& o, int num_parts) const {
    std::vector<Operands> by_position(static_cast<std::size_t>(num_parts));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto parts = parts_of(inputs_[i], o.inputs[i], num_parts, /*key=*/i);
      for (std::size_t p = 0; p < parts.size(); ++p) by_position[p].push_back(parts[p]);
    }
    return by_position;
  }

  std::vector<std::int64_t> all_units(const LayoutOption& o) const {
    std::vector<std::int64_t> units = units_of(o.inputs, types_of(inputs_));
    const auto of_outputs = units_of(o.outputs, out_);
    units.insert(units.end(), of_outputs.begin(), of_outputs.end());
    return units;
  }

  // A rewritten option and a maximum need a unit at every position.
  void prove_over_positions(const LayoutOption& o, std::int64_t num_units) const {
    const bool needs_unit =
        o.rewritten || std::find(o.outputs.begin(), o.outputs.end(), kPartialMax) != o.outputs.end();
    for (const int num_parts : {2, 3}) {
      if (needs_unit && num_units > 0 && num_units < num_parts) continue;
      ASSERT_NO_FATAL_FAILURE(prove(o, num_parts));
    }
  }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<TensorType>& out() const { return out_; }

 private:
  void prove(const LayoutOption& o, int num_parts) const {
    SCOPED_TRACE(text_of(o, num_parts));
    const CutCall call{def(), complete_, types_of(inputs_), out_, o, num_parts};
    const auto parts = cut_inputs(o, num_parts);
    const auto outputs = o.rewritten ? run_cut(call, parts) : run_parts(call, parts);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    for (std::size_t k = 0; k < out_.size(); ++k) {
      std::vector<Tensor> own;
      for (const Operands& of_position : *outputs) own.push_back(of_position[k]);
      expect_whole(o, own, k);
    }
  }

  // Parts give the bits of the whole, except where sums were made in another order.
  void expect_whole(const LayoutOption& o, const std::vector<Tensor>& own, std::size_t k) const {
    const AxisCut& cut = o.outputs[k];
    for (std::size_t p = 0; p < own.size(); ++p) {
      TensorType local = out_[k];
      if (cut.cuts())
        local.shape.set(cut.dim, part_sizes(cut, local.shape[cut.dim], static_cast<int>(own.size()))[p]);
      ASSERT_EQ(own[p].type(), local) << "output " << k << " of position " << p;
      if (cut == kReplicate) expect_same(o, own[p], k);
    }
    if (cut != kReplicate) expect_same(o, joined(own, cut, out_[k]), k);
  }
  void expect_same(const LayoutOption& o, const Tensor& got, std::size_t k) const {
    const std::string what = fmt::format("output {}", k);
    const bool sums = o.rewritten || o.outputs[k] == kPartial;
    if (sums)
      expect_close(to_doubles(got), to_doubles(expected_[k]), 1e-12, what);
    else
      expect_same_bits(got, expected_[k], what);
  }

  std::vector<Tensor> inputs_, expected_;
  std::vector<TensorType> out_;
  Attrs complete_;
};

TEST_P(OpLayouts, JoinToTheWhole) {
  ASSERT_NE(def().layout, nullptr);
  for (const LayoutOption& o : options()) {
    SCOPED_TRACE(text_of(o, 0));
    ASSERT_NO_FATAL_FAILURE(expect_valid(o.inputs, types_of(inputs())));
    ASSERT_NO_FATAL_FAILURE(expect_valid(o.outputs, out()));
    ASSERT_TRUE(!o.rewritten || def().cut != nullptr);
    const auto units = all_units(o);
    const std::int64_t fewest = units.empty() ? 0 : *std::min_element(units.begin(), units.end());
    if (!o.rewritten || o.any_indices) {
      ASSERT_EQ(std::count(units.begin(), units.end(), fewest), static_cast<std::ptrdiff_t>(units.size()));
    }
    if (!def().reference) continue;
    ASSERT_NO_FATAL_FAILURE(prove_over_positions(o, fewest));
  }
}

// Which indices a position has does not matter where `refined` says so.
TEST_P(OpLayouts, JoinToTheWholeInBlocksAndUnits) {
  if (!def().reference) return;
  for (const LayoutOption& o : options()) {
    const auto units = all_units(o);
    for (const auto& [blocks, unit] : {std::pair{2, 1}, {1, 2}, {2, 3}}) {
      if (units.empty() || units[0] % (blocks * unit) != 0) continue;
      const auto finer = refined(o, blocks, unit);
      ASSERT_EQ(finer.has_value(), !o.rewritten || o.any_indices);
      if (!finer) continue;
      ASSERT_NO_FATAL_FAILURE(prove_over_positions(*finer, units[0] / (blocks * unit)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpLayouts, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
