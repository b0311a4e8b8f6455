// low-rank: PowerSGD (Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for
// distributed optimization", NeurIPS 2019).
//
// A matrix M_s = g_s + e_s of shard s, n x k, travels as two thin ones: P = sum_s M_s Q, made orthonormal;
// then Q <- sum_s M_s^T P, kept for the next step (warm start). The gradient is P Q^T, and what the shard did
// not send stays with it: e_s <- M_s - P (M_s^T P)^T. Both sums are plain sums over shards, so the bits do
// not depend on the number of workers. Where the paper takes the mean of workers these are sums of shares of
// one mean.
#include <algorithm>
#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/comm/sum/coded_work.h"
#include "trireme/comm/sum/host_sum.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {
namespace {

using runtime::Task;

// The same order of additions on every processor.
float dot(const float* a, const float* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  for (std::int64_t l = 0; i < n; ++i, ++l) lanes[l] += a[i] * b[i];
  float sum = 0;
  for (const float x : lanes) sum += x;
  return sum;
}

void add_scaled(float* to, float factor, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * x[i];
}

// Columns of length n, one after the other (Gram and Schmidt, modified). A column of nothing stays zeros.
void make_orthonormal(float* columns, std::int64_t n, std::int64_t rank) {
  constexpr float kLeast = 1e-20F;
  for (std::int64_t j = 0; j < rank; ++j) {
    float* own = columns + j * n;
    const float before = std::sqrt(dot(own, own, n));
    for (std::int64_t i = 0; i < j; ++i) add_scaled(own, -dot(own, columns + i * n, n), columns + i * n, n);
    const float length = std::sqrt(dot(own, own, n));
    const bool is_new = length > 1e-6F * before && length > kLeast;
    for (std::int64_t i = 0; i < n; ++i) own[i] = is_new ? own[i] / length : 0.0F;
  }
}

class LowRank final : public HostSum {
 public:
  LowRank(runtime::Runtime& rt, Group& group, SumSpec spec);

  Status take_shards(collective::LeafRun run) override;
  // "residual" and "basis" (Q, the same for all shards).
  NamedState state() const override;
  // Two sums of thin matrices; what is no matrix travels with the first.
  Task<Status> sum(SumCall call) override;

 private:
  struct Place {
    Matrix matrix;
    std::int64_t rank = 0, p = 0, q = 0;  // where its P (columns one after the other) and Q begin
  };
  using Body = std::function<void(std::size_t, const Place&)>;  // shard, matrix
  Task<Status> add(const SumCall& call, std::uint16_t slot, const std::vector<Tensor>& vectors);
  Task<void> project();
  Task<void> project_back();  // after the sum is in the first vector of the first turn
  Task<void> rebuild();       // after the second sum: the first gradient becomes the sum over all shards
  double work() const;
  Task<void> for_each(std::size_t shards, Body body, const char* label);
  Task<void> for_each(std::size_t shards, double flops, Body body, const char* label);

  std::vector<Place> places_;
  std::vector<codec::ElementRange> plain_;  // what lies between the matrices travels as it is
  std::int64_t p_elems_ = 0, q_elems_ = 0, plain_elems_ = 0;
  collective::LeafRun run_;
  Tensor residual_, basis_;
  std::vector<Tensor> first_, second_;  // per shard
};

LowRank::LowRank(runtime::Runtime& rt, Group& group, SumSpec spec) : HostSum(rt, group, std::move(spec)) {
  std::int64_t end = 0;
  for (const Matrix& m : spec_.matrices) {
    if (m.offset > end) plain_.push_back({end, m.offset - end});
    end = m.offset + m.most_rows * m.most_cols;
    const std::int64_t most_rank = std::min({spec_.rank, m.most_rows, m.most_cols});
    places_.push_back({m, std::min({spec_.rank, m.rows, m.cols}), p_elems_, q_elems_});
    p_elems_ += most_rank * m.most_rows;
    q_elems_ += most_rank * m.most_cols;
  }
  if (end < spec_.num_elems) plain_.push_back({end, spec_.num_elems - end});
  for (const codec::ElementRange& p : plain_) plain_elems_ += p.count;
}

Status LowRank::take_shards(collective::LeafRun run) {
  TR_RETURN_IF_ERROR(HostSum::take_shards(run));
  run_ = run;
  TR_ASSIGN_OR_RETURN(residual_, zeros(rt_, run.count, spec_.num_elems));
  TR_ASSIGN_OR_RETURN(basis_, zeros(rt_, run.count, std::max<std::int64_t>(1, q_elems_)));
  const auto vector = [&](std::int64_t elems) {
    return allocate_zeros(device_of(rt_), {DType::kF32, {std::max<std::int64_t>(1, elems)}});
  };
  first_.clear();
  second_.clear();
  for (std::int32_t s = 0; s < run.count; ++s) {
    TR_ASSIGN_OR_RETURN(Tensor p, vector(p_elems_ + plain_elems_));
    TR_ASSIGN_OR_RETURN(Tensor q, vector(q_elems_));
    first_.push_back(std::move(p));
    second_.push_back(std::move(q));
  }
  if (rt_.is_phantom()) return {};
  Philox of_bucket(spec_.key);
  const std::span<float> all = basis_.values<float>();
  for (const Place& at : places_) {
    Philox of_piece(at.matrix.key.value_or(0));
    Philox& random = at.matrix.key ? of_piece : of_bucket;
    for (float& x :
         all.subspan(static_cast<std::size_t>(at.q), static_cast<std::size_t>(at.rank * at.matrix.cols)))
      x = random.next_normal();
  }
  for (std::int32_t s = 1; s < run.count; ++s) std::copy_n(all.data(), q_elems_, all.data() + s * q_elems_);
  return {};
}

NamedState LowRank::state() const {
  NamedState all;
  if (spec_.feedback) all.emplace_back("residual", residual_);
  if (q_elems_ > 0) all.emplace_back("basis", basis_);
  return all;
}

double LowRank::work() const {
  double flops = 0;
  for (const Place& p : places_) flops += 2.0 * static_cast<double>(p.matrix.rows * p.matrix.cols * p.rank);
  return flops;
}

Task<void> LowRank::for_each(std::size_t shards, Body body, const char* label) {
  return for_each(shards, work() * static_cast<double>(shards), std::move(body), label);
}

Task<void> LowRank::for_each(std::size_t shards, double flops, Body body, const char* label) {
  const auto items = static_cast<std::int64_t>(shards * places_.size());
  if (items == 0) co_return;
  const int width = static_cast<int>(std::clamp<std::int64_t>(items, 1, rt_.compute_threads()));
  runtime::ComputeFn fn = [this, items, body = std::move(body)](runtime::ComputeContext& context) {
    context.parallel_for(items, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i)
        body(static_cast<std::size_t>(i) / places_.size(),
             places_[static_cast<std::size_t>(i) % places_.size()]);
    });
  };
  co_await rt_.compute({.flops = flops, .bytes = 2 * flops}, std::move(fn), width, label);
}

Task<void> LowRank::project() {
  Body first = [this](std::size_t s, const Place& at) {
    const Matrix& m = at.matrix;
    const float* g = vectors_[s].data<float>() + m.offset;
    float* e = residual_.data<float>() + static_cast<std::int64_t>(s) * spec_.num_elems + m.offset;
    if (spec_.feedback)
      for (std::int64_t i = 0; i < m.rows * m.cols; ++i) e[i] += g[i];
    else
      std::copy_n(g, m.rows * m.cols, e);
    const float* q = basis_.data<float>() + at.q;
    float* p = first_[s].data<float>() + at.p;
    for (std::int64_t j = 0; j < at.rank; ++j)
      for (std::int64_t r = 0; r < m.rows; ++r)
        p[j * m.rows + r] = dot(e + r * m.cols, q + j * m.cols, m.cols);
  };
  co_await for_each(vectors_.size(), std::move(first), "project");
  if (!rt_.is_phantom())
    for (std::size_t s = 0; s < vectors_.size(); ++s) {
      float* to = first_[s].data<float>() + p_elems_;
      for (const codec::ElementRange& piece : plain_)
        to = std::copy_n(vectors_[s].data<float>() + piece.offset, piece.count, to);
    }
}

Task<void> LowRank::project_back() {
  Body cleaned = [this](std::size_t, const Place& at) {
    make_orthonormal(first_[0].data<float>() + at.p, at.matrix.rows, at.rank);
  };
  double flops = 0;
  for (const Place& p : places_) flops += 4.0 * static_cast<double>(p.matrix.rows * p.rank * p.rank);
  co_await for_each(1, flops, std::move(cleaned), "orthonormal");
  Body second = [this](std::size_t s, const Place& at) {
    const Matrix& m = at.matrix;
    float* e = residual_.data<float>() + static_cast<std::int64_t>(s) * spec_.num_elems + m.offset;
    const float* p = first_[0].data<float>() + at.p;
    float* q = second_[s].data<float>() + at.q;
    std::fill_n(q, at.rank * m.cols, 0.0F);
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t j = 0; j < at.rank; ++j)
        add_scaled(q + j * m.cols, p[j * m.rows + r], e + r * m.cols, m.cols);
    for (std::int64_t r = 0; r < m.rows && spec_.feedback; ++r)
      for (std::int64_t j = 0; j < at.rank; ++j)
        add_scaled(e + r * m.cols, -p[j * m.rows + r], q + j * m.cols, m.cols);
  };
  co_await for_each(vectors_.size(), std::move(second), "project back");
}

Task<void> LowRank::rebuild() {
  Body made = [this](std::size_t, const Place& at) {
    const Matrix& m = at.matrix;
    const float *p = first_[0].data<float>() + at.p, *q = second_[0].data<float>() + at.q;
    float* g = vectors_[0].data<float>() + m.offset;
    std::fill_n(g, m.rows * m.cols, 0.0F);
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t j = 0; j < at.rank; ++j)
        add_scaled(g + r * m.cols, p[j * m.rows + r], q + j * m.cols, m.cols);
  };
  co_await for_each(1, std::move(made), "rebuild");
  if (rt_.is_phantom()) co_return;
  const float* from = first_[0].data<float>() + p_elems_;
  for (const codec::ElementRange& piece : plain_) {
    std::copy_n(from, piece.count, vectors_[0].data<float>() + piece.offset);
    from += piece.count;
  }
  for (std::int32_t s = 0; s < run_.count; ++s)
    std::copy_n(second_[0].data<float>(), q_elems_, basis_.data<float>() + s * q_elems_);
}

Task<Status> LowRank::add(const SumCall& call, std::uint16_t slot, const std::vector<Tensor>& vectors) {
  DenseCall dense;
  dense.step = call.step;
  dense.slot = slot;
  dense.owners = call.owners;
  return add_dense(rt_, group_, spec_, std::move(dense), vectors);
}

Task<Status> LowRank::sum(SumCall call) {
  if (call.step < spec_.coding.dense_steps) co_return co_await add(call, spec_.slots.first, vectors_);
  co_await project();
  TR_CO_RETURN_IF_ERROR(co_await add(call, spec_.slots.first, first_));
  co_await project_back();
  TR_CO_RETURN_IF_ERROR(co_await add(call, spec_.slots.second, second_));
  co_await rebuild();
  co_return Status();
}

SumPrice price(const SumShape& shape, const cost::Rates& rates) {
  const SumPrice half = dense_price(shape, floats(shape.message_bytes / 2), rates);
  SumPrice p;
  p.wire_seconds = 2 * half.wire_seconds;
  p.bytes_sent = 2 * half.bytes_sent;
  p.code_seconds = coding_seconds(shape, 3.0 * shape.most_shards(), rates);
  return p;
}

}  // namespace

extern const SumRow kLowRankSum;
constinit const SumRow kLowRankSum{
    .name = "low-rank",
    .doc = "matrices as two thin ones, in two sums (PowerSGD)",
    .price = price,
    .held_bytes = [](const SumShape& shape) { return shape.most_shards() * shape.message_bytes; },
    .make = [](runtime::Runtime& rt, Group& group, SumSpec spec) -> std::unique_ptr<GradientSum> {
      return std::make_unique<LowRank>(rt, group, std::move(spec));
    }};

}  // namespace trireme::comm
