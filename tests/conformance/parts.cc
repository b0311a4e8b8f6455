#include "tests/conformance/parts.h"

#include "tests/op/run_op.h"
#include "trireme/base/rng.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

// Calls body(place in the whole, place in the part) for every block of every position, as ranges of `dim`.
template <typename Body>
void for_each_block(const AxisCut& cut, std::int64_t size, int num_parts, const Body& body) {
  const std::int64_t block = size / cut.blocks;
  const auto sizes = part_sizes(block / cut.unit, num_parts),
             begins = part_begins(block / cut.unit, num_parts);
  for (int p = 0; p < num_parts; ++p) {
    const auto at = static_cast<std::size_t>(p);
    for (int b = 0; b < cut.blocks; ++b)
      body(p, b * block + begins[at] * cut.unit, b * sizes[at] * cut.unit, sizes[at] * cut.unit);
  }
}

// Multiples of 1/8 in [-2, 2), so that sums and differences with values of the cases are exact; integers
// where the dtype is one.
Tensor random_eighths(const TensorType& type, Philox& rng) {
  const Tensor eighths = *Tensor::allocate(cpu_device(), {DType::kF64, type.shape});
  for (double& v : eighths.values<double>()) {
    v = static_cast<double>(static_cast<int>(rng.next_uniform() * 32) - 16) / 8;
  }
  return run_one(kCast, {eighths}, {{"dtype", type.dtype}});
}

std::vector<Tensor> addends_of(const Tensor& whole, int num_parts, Philox& rng) {
  std::vector<Tensor> parts;
  Tensor rest = run_one(kAdd, {whole, filled(whole.type(), 0)});
  for (int p = 1; p < num_parts; ++p) {
    parts.push_back(random_eighths(whole.type(), rng));
    rest = run_one(kSub, {rest, parts.back()});
  }
  parts.push_back(rest);
  return parts;
}

// Every element is at a position of its own; the others have something below it.
std::vector<Tensor> maxima_of(const Tensor& whole, int num_parts, Philox& rng) {
  std::vector<Tensor> parts;
  const Tensor owner = *Tensor::allocate(cpu_device(), {DType::kI64, whole.shape()});
  for (std::int64_t& v : owner.values<std::int64_t>())
    v = static_cast<std::int64_t>(rng.next_uniform() * static_cast<float>(num_parts));
  for (int p = 0; p < num_parts; ++p) {
    const Tensor owned = run_one(kEqual, {owner, filled(owner.type(), p)});
    const Tensor below = run_one(kSub, {whole, filled(whole.type(), p + 1)});
    parts.push_back(run_one(kSelect, {owned, whole, below}));
  }
  return parts;
}

std::vector<Tensor> cut_in_parts(const Tensor& whole, const AxisCut& cut, int num_parts) {
  std::vector<Tensor> parts;
  for (const std::int64_t size : part_sizes(cut, whole.shape()[cut.dim], num_parts)) {
    TensorType type = whole.type();
    type.shape.set(cut.dim, size);
    parts.push_back(*Tensor::allocate(cpu_device(), type));
  }
  for_each_block(cut, whole.shape()[cut.dim], num_parts,
                 [&](int p, std::int64_t in_whole, std::int64_t in_part, std::int64_t size) {
                   copy_into(parts[static_cast<std::size_t>(p)].slice(cut.dim, in_part, in_part + size),
                             whole.slice(cut.dim, in_whole, in_whole + size));
                 });
  return parts;
}

}  // namespace

Tensor run_one(const OpDef& def, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  const auto outputs = run_op(def, inputs, attrs);
  TR_CHECK(outputs.ok(), "{}", outputs.status().to_string());
  return (*outputs)[0];
}

Tensor filled(const TensorType& type, double value) {
  const auto dims = type.shape.dims();
  return run_one(kFill, {},
                 {{"value", value},
                  {"dtype", type.dtype},
                  {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())}});
}

void copy_into(const Tensor& to, const Tensor& from) {
  if (to.shape().num_elems() > 0) run_one(kAssign, {to, from});
}

std::vector<Tensor> parts_of(const Tensor& whole, const AxisCut& cut, int num_parts, std::uint64_t key) {
  Philox rng(key);
  if (cut == kPartial) return addends_of(whole, num_parts, rng);
  if (cut == kPartialMax) return maxima_of(whole, num_parts, rng);
  if (cut.cuts()) return cut_in_parts(whole, cut, num_parts);
  std::vector<Tensor> parts;
  for (int p = 0; p < num_parts; ++p) {
    parts.push_back(*Tensor::allocate(cpu_device(), whole.type()));
    copy_to_contiguous(whole, parts.back());
  }
  return parts;
}

Tensor joined(const std::vector<Tensor>& parts, const AxisCut& cut, const TensorType& whole) {
  Tensor all = parts[0];
  if (cut.cuts()) {
    all = *Tensor::allocate(cpu_device(), whole);
    for_each_block(cut, whole.shape[cut.dim], static_cast<int>(parts.size()),
                   [&](int p, std::int64_t in_whole, std::int64_t in_part, std::int64_t size) {
                     copy_into(all.slice(cut.dim, in_whole, in_whole + size),
                               parts[static_cast<std::size_t>(p)].slice(cut.dim, in_part, in_part + size));
                   });
  }
  for (std::size_t p = 1; (cut == kPartial || cut == kPartialMax) && p < parts.size(); ++p)
    all = run_one(cut == kPartial ? kAdd : kMaximum, {all, parts[p]});
  return all;
}

}  // namespace trireme::op::testing
