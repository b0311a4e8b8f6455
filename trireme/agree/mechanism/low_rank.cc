#include "trireme/agree/mechanism/low_rank.h"

#include <algorithm>
#include <cmath>

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/base/rng.h"

namespace trireme::agree {
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

}  // namespace

LowRank::LowRank(runtime::Runtime& rt, LowRankOptions options) : rt_(rt), o_(std::move(options)) {
  for (const Matrix& m : o_.matrices) {
    Place place{m, std::min({o_.rank, m.rows, m.cols}), p_elems_, q_elems_};
    p_elems_ += place.rank * m.rows;
    q_elems_ += place.rank * m.cols;
    places_.push_back(place);
  }
  for (const codec::Piece& p : o_.plain) plain_elems_ += p.count;
}

Status LowRank::take_shards(collective::LeafRun run) {
  run_ = run;
  const auto make = [&](std::int64_t rows, std::int64_t elems) -> Result<Tensor> {
    TR_ASSIGN_OR_RETURN(Tensor t, new_vector(rt_, rows * elems));
    return t.reshape({rows, elems});
  };
  TR_ASSIGN_OR_RETURN(residual_, make(run.count, o_.num_elems));
  TR_ASSIGN_OR_RETURN(basis_, make(run.count, std::max<std::int64_t>(1, q_elems_)));
  first_.clear();
  second_.clear();
  for (std::int32_t s = 0; s < run.count; ++s) {
    TR_ASSIGN_OR_RETURN(Tensor p, new_vector(rt_, std::max<std::int64_t>(1, p_elems_ + plain_elems_)));
    TR_ASSIGN_OR_RETURN(Tensor q, new_vector(rt_, std::max<std::int64_t>(1, q_elems_)));
    first_.push_back(std::move(p));
    second_.push_back(std::move(q));
  }
  if (rt_.is_phantom()) return {};
  Philox random(o_.key);
  const std::span<float> all = basis_.values<float>();
  for (std::int64_t i = 0; i < q_elems_; ++i) all[static_cast<std::size_t>(i)] = random.next_normal();
  for (std::int32_t s = 1; s < run.count; ++s) std::copy_n(all.data(), q_elems_, all.data() + s * q_elems_);
  return {};
}

std::vector<std::pair<std::string, Tensor>> LowRank::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  if (o_.feedback) all.emplace_back("residual", residual_);
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

Task<Result<std::vector<Tensor>>> LowRank::project(std::vector<Tensor> gradients) {
  Body first = [this, gradients](std::size_t s, const Place& at) {
    const Matrix& m = at.matrix;
    const float* g = gradients[s].data<float>() + m.offset;
    float* e = residual_.data<float>() + static_cast<std::int64_t>(s) * o_.num_elems + m.offset;
    if (o_.feedback)
      for (std::int64_t i = 0; i < m.rows * m.cols; ++i) e[i] += g[i];
    else
      std::copy_n(g, m.rows * m.cols, e);
    const float* q = basis_.data<float>() + at.q;
    float* p = first_[s].data<float>() + at.p;
    for (std::int64_t j = 0; j < at.rank; ++j)
      for (std::int64_t r = 0; r < m.rows; ++r)
        p[j * m.rows + r] = dot(e + r * m.cols, q + j * m.cols, m.cols);
  };
  co_await for_each(gradients.size(), std::move(first), "project");
  if (!rt_.is_phantom())
    for (std::size_t s = 0; s < gradients.size(); ++s) {
      float* to = first_[s].data<float>() + p_elems_;
      for (const codec::Piece& piece : o_.plain)
        to = std::copy_n(gradients[s].data<float>() + piece.offset, piece.count, to);
    }
  co_return first_;
}

Task<Result<std::vector<Tensor>>> LowRank::project_back(std::vector<Tensor> gradients) {
  Body cleaned = [this](std::size_t, const Place& at) {
    make_orthonormal(first_[0].data<float>() + at.p, at.matrix.rows, at.rank);
  };
  double flops = 0;
  for (const Place& p : places_) flops += 4.0 * static_cast<double>(p.matrix.rows * p.rank * p.rank);
  co_await for_each(1, flops, std::move(cleaned), "orthonormal");
  Body second = [this](std::size_t s, const Place& at) {
    const Matrix& m = at.matrix;
    float* e = residual_.data<float>() + static_cast<std::int64_t>(s) * o_.num_elems + m.offset;
    const float* p = first_[0].data<float>() + at.p;
    float* q = second_[s].data<float>() + at.q;
    std::fill_n(q, at.rank * m.cols, 0.0F);
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t j = 0; j < at.rank; ++j)
        add_scaled(q + j * m.cols, p[j * m.rows + r], e + r * m.cols, m.cols);
    for (std::int64_t r = 0; r < m.rows && o_.feedback; ++r)
      for (std::int64_t j = 0; j < at.rank; ++j)
        add_scaled(e + r * m.cols, -p[j * m.rows + r], q + j * m.cols, m.cols);
  };
  co_await for_each(gradients.size(), std::move(second), "project back");
  co_return second_;
}

Task<Status> LowRank::rebuild(std::vector<Tensor> gradients) {
  Body made = [this, gradients](std::size_t, const Place& at) {
    const Matrix& m = at.matrix;
    const float *p = first_[0].data<float>() + at.p, *q = second_[0].data<float>() + at.q;
    float* g = gradients[0].data<float>() + m.offset;
    std::fill_n(g, m.rows * m.cols, 0.0F);
    for (std::int64_t r = 0; r < m.rows; ++r)
      for (std::int64_t j = 0; j < at.rank; ++j)
        add_scaled(g + r * m.cols, p[j * m.rows + r], q + j * m.cols, m.cols);
  };
  co_await for_each(1, std::move(made), "rebuild");
  if (rt_.is_phantom()) co_return Status();
  const float* from = first_[0].data<float>() + p_elems_;
  for (const codec::Piece& piece : o_.plain) {
    std::copy_n(from, piece.count, gradients[0].data<float>() + piece.offset);
    from += piece.count;
  }
  for (std::int32_t s = 0; s < run_.count; ++s)
    std::copy_n(second_[0].data<float>(), q_elems_, basis_.data<float>() + s * q_elems_);
  co_return Status();
}

}  // namespace trireme::agree
