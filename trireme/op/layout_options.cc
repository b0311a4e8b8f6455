// Ways to cut an op over the positions of an axis, and the parts that result.
#include <fmt/format.h>

#include "trireme/op/op.h"

namespace trireme::op {
namespace {

bool is_linear_in(const OpDef& def, std::size_t input) {
  return def.linear.inputs == kAllInputs || (input < 32 && (def.linear.inputs >> input & 1U) != 0);
}

// Flags have no partial values.
bool may_be_partial(std::span<const TensorType> types, const std::vector<AxisCut>& cuts) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if ((cuts[i] == kPartial || cuts[i] == kPartialMax) && types[i].dtype == DType::kBool) return false;
  return true;
}

// Every way in which partial sums go through a linear op.
std::vector<LayoutOption> linear_options(const OpDef& def, std::size_t num_inputs, std::size_t num_outputs) {
  const LayoutOption none{std::vector<AxisCut>(num_inputs, kReplicate),
                          std::vector<AxisCut>(num_outputs, kPartial)};
  std::vector<LayoutOption> options;
  LayoutOption all = none;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (!is_linear_in(def, i)) continue;
    all.inputs[i] = kPartial;
    if (def.linear.together) continue;
    LayoutOption one = none;
    one.inputs[i] = kPartial;
    options.push_back(std::move(one));
  }
  if (def.linear.together) options.push_back(std::move(all));
  return options;
}

}  // namespace

std::vector<std::int64_t> part_sizes(std::int64_t size, int num_parts) {
  std::vector<std::int64_t> sizes;
  for (int p = 0; p < num_parts; ++p) sizes.push_back(size / num_parts + (p < size % num_parts ? 1 : 0));
  return sizes;
}

std::vector<std::int64_t> part_begins(std::int64_t size, int num_parts) {
  std::vector<std::int64_t> begins;
  std::int64_t at = 0;
  for (const std::int64_t part : part_sizes(size, num_parts)) {
    begins.push_back(at);
    at += part;
  }
  return begins;
}

std::vector<std::int64_t> part_sizes(const AxisCut& cut, std::int64_t size, int num_parts) {
  std::vector<std::int64_t> sizes = part_sizes(size / (cut.blocks * cut.unit), num_parts);
  for (std::int64_t& part : sizes) part *= cut.blocks * cut.unit;
  return sizes;
}

std::optional<LayoutOption> refined(const LayoutOption& option, int blocks, std::int64_t unit) {
  if (option.rewritten && !option.any_indices) return std::nullopt;
  LayoutOption finer = option;
  for (std::vector<AxisCut>* operands : {&finer.inputs, &finer.outputs}) {
    for (AxisCut& cut : *operands) {
      if (cut.cuts()) cut = AxisCut(cut.dim, cut.blocks * blocks, cut.unit * unit);
    }
  }
  return finer;
}

std::string AxisCut::to_text() const {
  if (dim == kReplicate) return "whole";
  if (dim == kPartial) return "partial sum";
  if (dim == kPartialMax) return "partial maximum";
  std::string text = fmt::format("dim {}", dim);
  if (blocks > 1) text += fmt::format(" in {} blocks", blocks);
  if (unit > 1) text += fmt::format("{} {}-index units", blocks > 1 ? " of" : " in", unit);
  return text;
}

std::vector<LayoutOption> layout_options(const OpDef& def, std::span<const TensorType> in,
                                         std::span<const TensorType> out, const Attrs& completed) {
  std::vector<LayoutOption> options;
  if (def.layout != nullptr) options = def.layout(in, completed);
  if (def.linear.inputs != 0) {
    for (LayoutOption& o : linear_options(def, in.size(), out.size()))
      if (may_be_partial(in, o.inputs)) options.push_back(std::move(o));
  }
  // Whoever looks at types alone does not mind what the elements are parts of.
  if (def.has(kTypesOnly)) {
    for (const int kind : {kPartial, kPartialMax}) {
      LayoutOption o{std::vector<AxisCut>(in.size(), kind), std::vector<AxisCut>(out.size(), kReplicate)};
      if (may_be_partial(in, o.inputs)) options.push_back(std::move(o));
    }
  }
  return options;
}

}  // namespace trireme::op
