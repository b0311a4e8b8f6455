#include "trireme/server/updater.h"

#include <algorithm>
#include <cstring>

namespace trireme::server {
namespace {

using runtime::Task;

// (f0 v0 + f1 v1 + ...) / divisor, each element in that order. In blocks that stay in the cache.
void sum_dense(std::span<const Addend> addends, float divisor, std::span<float> out) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, out.size());
    for (std::size_t a = 0; a < addends.size(); ++a) {
      const float factor = addends[a].factor;
      const float* values = addends[a].push->values->data<float>();
      if (a == 0)
        for (std::size_t i = begin; i < end; ++i) out[i] = factor * values[i];
      else
        for (std::size_t i = begin; i < end; ++i) out[i] += factor * values[i];
    }
    if (divisor != 1)
      for (std::size_t i = begin; i < end; ++i) out[i] /= divisor;
  }
}

// Where some workers pushed rows and others everything.
void sum_mixed(std::span<const Addend> addends, float divisor, std::int64_t rows_at, std::int64_t row,
               std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  for (const Addend& a : addends) {
    if (a.push->is_dense()) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += a.factor * a.push->values->data<float>()[i];
      continue;
    }
    const float* values = a.push->row_values();
    for (std::int64_t r = 0; r < a.push->num_rows; ++r, values += row) {
      float* sum = out.data() + rows_at + a.push->rows()[r] * row;
      for (std::int64_t i = 0; i < row; ++i) sum[i] += a.factor * values[i];
    }
  }
  for (float& x : out) x /= divisor;
}

}  // namespace

Result<std::unique_ptr<Updater>> Updater::make(runtime::Runtime& rt, StoredSlice slice,
                                               const MakeUpdate& make_update, TensorPool& pool) {
  std::unique_ptr<Updater> updater(new Updater(rt, std::move(slice), pool));
  TR_RETURN_IF_ERROR(updater->set_up(make_update));
  return updater;
}

Status Updater::set_up(const MakeUpdate& make_update) {
  for (const StoredPart& p : slice_.parts)
    TR_RETURN_IF_ERROR(variables_.add(p.name, slice_.view(slice_.values, p)));
  if (make_update) {
    TR_ASSIGN_OR_RETURN(UpdateSpec spec, make_update(slice_.parts));
    TR_ASSIGN_OR_RETURN(scalars_, make_update_scalars(device_of(rt_)));
    TR_ASSIGN_OR_RETURN(steps_, Tensor::allocate(device_of(rt_), {DType::kI64, {1}}));
    if (!steps_.is_phantom()) *steps_.data<std::int64_t>() = 0;
    reads_step_ = spec.graph.find_input("step").has_value();
    TR_ASSIGN_OR_RETURN(execution_, make_update_execution(rt_, spec, slice_.parts, variables_, scalars_));
    for (const StoredPart& p : slice_.parts)
      reads_gradient_.push_back(spec.graph.find_input("grad:" + p.name).has_value());
    states_ = std::move(spec.states);
  }
  if (slice_.rows) rows_ = std::make_unique<RowUpdater>(rt_, slice_, variables_, make_update);
  return {};
}

// Counts from 1; phantoms and plain addition have no use for it.
std::int64_t Updater::next_step() const {
  return steps_.is_null() || steps_.is_phantom() ? 0 : ++*steps_.data<std::int64_t>();
}

Task<Status> Updater::apply(std::vector<Addend> addends, float divisor, float learning_rate) {
  const std::int64_t step = next_step();
  const auto is_dense = [](const Addend& a) { return a.push->is_dense(); };
  const auto num_dense = std::count_if(addends.begin(), addends.end(), is_dense);
  if (num_dense == 0) co_return co_await rows_->apply(std::move(addends), divisor, learning_rate, step);
  Tensor gradient = *addends[0].push->values;
  Loan sum;
  if (addends.size() > 1 || addends[0].factor != 1 || divisor != 1) {
    TR_CO_ASSIGN_OR_RETURN(sum, pool_.take(slice_.num_elems()));
    const bool mixed = num_dense < static_cast<std::ptrdiff_t>(addends.size());
    runtime::ComputeFn add_up = [&, mixed](runtime::ComputeContext&) {
      if (mixed)
        sum_mixed(addends, divisor, slice_.parts[slice_.rows->part].offset, slice_.rows->row,
                  sum->values<float>());
      else
        sum_dense(addends, divisor, sum->values<float>());
    };
    const double elems = static_cast<double>(slice_.num_elems()) * static_cast<double>(addends.size());
    const cost::OpCost cost = pass_cost(2 * elems, 4 * elems + static_cast<double>(slice_.num_bytes()));
    co_await short_pass(rt_, cost, std::move(add_up), "server sum");
    gradient = *sum;
  }
  if (execution_ == nullptr) co_return co_await add(std::move(gradient));
  co_return co_await run_graph(std::move(gradient), learning_rate, step);
}

Task<Status> Updater::add(Tensor gradient) {
  runtime::ComputeFn fn = [&](runtime::ComputeContext&) {
    const std::span<float> values = slice_.values.values<float>();
    const float* by = gradient.data<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += by[i];
  };
  const double elems = static_cast<double>(slice_.num_elems());
  co_await short_pass(rt_, pass_cost(elems, 12 * elems), std::move(fn), "server add");
  co_return Status();
}

Task<Status> Updater::run_graph(Tensor gradient, float learning_rate, std::int64_t step) {
  scalars_.set(learning_rate, step);
  for (std::size_t p = 0; p < slice_.parts.size(); ++p)
    if (reads_gradient_[p])
      TR_CO_RETURN_IF_ERROR(
          execution_->feed("grad:" + slice_.parts[p].name, slice_.view(gradient, slice_.parts[p])));
  co_return co_await execution_->run();
}

std::vector<std::pair<std::string, Tensor>> Updater::state() const {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const StoredPart& p : slice_.parts) out.emplace_back(p.name, slice_.view(slice_.values, p));
  for (const UpdateSpec::State& s : states_)
    if (s.type.shape.num_elems() > 0) out.emplace_back(s.name, *variables_.get(s.name));
  if (reads_step_)
    for (const StoredPart& p : slice_.parts) out.emplace_back(p.name + "/step", steps_);
  return out;
}

}  // namespace trireme::server
