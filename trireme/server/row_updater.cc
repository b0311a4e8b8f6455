#include "trireme/server/row_updater.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/op/ops.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::server {
namespace {

using runtime::Task;

// Updates that leave a row with gradient 0 and its state as they are (weight decay aside, which then falls on
// the touched rows only).
Status check_row_update(const graph::Graph& graph, const std::string& part) {
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const op::OpDef* def = graph.node(i).def;
    if (def->has(op::kFeed) || def == &op::kApplySgd || def == &op::kApplyAdagrad || def == &op::kAssignAdd)
      continue;
    return error(Code::kInvalid,
                 "[server] rows of '{}' cannot be pushed alone: got an update by {}, expected apply_sgd, "
                 "apply_adagrad or plain addition; push the whole vector instead",
                 part, def->name);
  }
  return {};
}

std::vector<std::int64_t> rows_of(std::span<const Addend> addends) {
  std::vector<std::int64_t> rows;
  for (const Addend& a : addends) rows.insert(rows.end(), a.push->rows(), a.push->rows() + a.push->num_rows);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void sum_rows(std::span<const Addend> addends, std::span<const std::int64_t> touched, std::int64_t row,
              float divisor, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  for (const Addend& a : addends) {
    const float* values = a.push->row_values();
    for (std::int64_t r = 0; r < a.push->num_rows; ++r, values += row) {
      const auto at = std::lower_bound(touched.begin(), touched.end(), a.push->rows()[r]) - touched.begin();
      float* sum = out.data() + at * row;
      for (std::int64_t i = 0; i < row; ++i) sum[i] += a.factor * values[i];
    }
  }
  if (divisor != 1)
    for (float& x : out) x /= divisor;
}

enum class Way : std::uint8_t { kGather, kScatter };
void move_rows(const Tensor& whole, const Tensor& few, std::span<const std::int64_t> touched,
               std::int64_t row, Way way) {
  if (whole.shape().num_elems() == 0) return;  // a state that the rule does not use
  const auto bytes = static_cast<std::size_t>(row) * sizeof(float);
  for (std::size_t i = 0; i < touched.size(); ++i) {
    float* a = whole.data<float>() + touched[i] * row;
    float* b = few.data<float>() + static_cast<std::int64_t>(i) * row;
    std::memcpy(way == Way::kGather ? b : a, way == Way::kGather ? a : b, bytes);
  }
}

}  // namespace

Status RowUpdater::add_graph(Bench& bench, std::int64_t elems) const {
  StoredPart few = part();
  few.offset = 0;
  few.count = elems;
  TR_ASSIGN_OR_RETURN(UpdateSpec spec, make_update_(std::span(&few, 1)));
  TR_RETURN_IF_ERROR(check_row_update(spec.graph, few.name));
  TR_RETURN_IF_ERROR(bench.variables.add(few.name, bench.values));
  TR_ASSIGN_OR_RETURN(bench.scalars, make_update_scalars(device_of(rt_)));
  TR_ASSIGN_OR_RETURN(bench.execution,
                      make_update_execution(rt_, spec, std::span(&few, 1), bench.variables, bench.scalars));
  TR_RETURN_IF_ERROR(bench.execution->feed("grad:" + few.name, bench.gradient));
  for (const UpdateSpec::State& s : spec.states) {
    TR_ASSIGN_OR_RETURN(Tensor whole, variables_.get(s.name));
    TR_ASSIGN_OR_RETURN(Tensor rows, bench.variables.get(s.name));
    bench.states.emplace_back(std::move(whole), std::move(rows));
  }
  return {};
}

Result<RowUpdater::Bench*> RowUpdater::bench_for(std::size_t num_rows) {
  const std::size_t padded = std::bit_ceil(std::max<std::size_t>(num_rows, 8));
  std::unique_ptr<Bench>& bench = benches_[padded];
  if (bench != nullptr) return bench.get();
  auto fresh = std::make_unique<Bench>();
  const std::int64_t elems = static_cast<std::int64_t>(padded) * slice_.rows->row;
  const TensorType type{DType::kF32, {elems}};
  TR_ASSIGN_OR_RETURN(fresh->values, allocate_zeros(device_of(rt_), type));
  TR_ASSIGN_OR_RETURN(fresh->gradient, Tensor::allocate(device_of(rt_), type));
  if (make_update_) TR_RETURN_IF_ERROR(add_graph(*fresh, elems));
  bench = std::move(fresh);
  return bench.get();
}

Task<Status> RowUpdater::apply(std::vector<Addend> addends, float divisor, float learning_rate,
                               std::int64_t step) {
  std::size_t num_rows = 0;
  for (const Addend& a : addends) num_rows += static_cast<std::size_t>(a.push->num_rows);
  if (!rt_.is_phantom()) {
    touched_ = rows_of(addends);
    num_rows = touched_.size();
  }
  if (num_rows == 0) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(Bench * bench, bench_for(num_rows));
  const Tensor whole = slice_.view(slice_.values, part());
  const double elems = static_cast<double>(num_rows) * static_cast<double>(slice_.rows->row);
  runtime::ComputeFn gather = [&, bench](runtime::ComputeContext&) {
    sum_rows(addends, touched_, slice_.rows->row, divisor, bench->gradient.values<float>());
    move_rows(whole, bench->values, touched_, slice_.rows->row, Way::kGather);
    for (const auto& [all, few] : bench->states)
      move_rows(all, few, touched_, slice_.rows->row, Way::kGather);
    if (bench->execution != nullptr) return;
    const std::span<const float> sum = bench->gradient.values<float>();
    for (std::size_t i = 0; i < sum.size(); ++i) bench->values.data<float>()[i] += sum[i];
  };
  co_await rt_.compute(pass_cost(elems * static_cast<double>(addends.size() + 1), elems * 24),
                       std::move(gather), 1, "server rows");
  if (bench->execution != nullptr) {
    bench->scalars.set(learning_rate, step);
    TR_CO_RETURN_IF_ERROR(co_await bench->execution->run());
  }
  runtime::ComputeFn scatter = [&, bench](runtime::ComputeContext&) {
    move_rows(whole, bench->values, touched_, slice_.rows->row, Way::kScatter);
    for (const auto& [all, few] : bench->states)
      move_rows(all, few, touched_, slice_.rows->row, Way::kScatter);
  };
  co_await rt_.compute(pass_cost(0, elems * 8), std::move(scatter), 1, "server rows");
  co_return Status();
}

}  // namespace trireme::server
