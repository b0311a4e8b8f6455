#include "trireme/engine/vote/tensor_lengths.h"

#include <algorithm>
#include <cmath>

#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {
namespace {

using runtime::Task;

constexpr std::int64_t kBlockElems = 1 << 16;

// The same order of additions on every processor.
double sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  const auto add = [&](std::int64_t lane, double x) { lanes[lane] += x * x; };
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) add(l, static_cast<double>(values[i + l]));
  for (std::int64_t l = 0; i < count; ++i, ++l) add(l, static_cast<double>(values[i]));
  double sum = 0;
  for (const double x : lanes) sum += x;
  return sum;
}

}  // namespace

Status TensorLengths::add(std::size_t bucket, plan::Slot slot, std::vector<Piece> pieces) {
  Bucket& own = buckets_[bucket];
  own.slot = slot;
  own.pieces = std::move(pieces);
  for (const Piece& piece : own.pieces) {
    TR_ASSIGN_OR_RETURN(const model::TensorRate rule, model::tensor_rate(spec_, piece.parameter));
    own.rules.push_back(rule);
    Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
    TR_ASSIGN_OR_RETURN(Tensor rate, allocate_zeros(device, {DType::kF32, Shape{}}));
    own.rates.push_back(std::move(rate));
  }
  const auto places = static_cast<std::int64_t>(2 * own.pieces.size());
  TR_ASSIGN_OR_RETURN(own.squares, tiles_.allocate({DType::kF32, {places}}));
  for (std::size_t place = 0; place < 2 * own.pieces.size() && !rt_.is_phantom(); ++place) {
    const Piece& piece = own.pieces[place / 2];
    const Tensor& of = place % 2 == 0 ? piece.weights : piece.gradient;
    const std::int64_t elems = of.shape().num_elems();
    for (std::int64_t at = 0; at < elems; at += kBlockElems)
      own.blocks.push_back({of.data<float>() + at, std::min(kBlockElems, elems - at), place});
  }
  own.of_blocks.resize(own.blocks.size());
  return {};
}

Task<void> TensorLengths::add_squares(Bucket& of) {
  double elems = 0;
  for (const Piece& piece : of.pieces) elems += 2 * static_cast<double>(piece.weights.shape().num_elems());
  const auto items = static_cast<std::int64_t>(of.blocks.size());
  const int width = static_cast<int>(std::clamp<std::int64_t>(items, 1, rt_.compute_threads()));
  runtime::ComputeFn fn = [&of, items](runtime::ComputeContext& context) {
    context.parallel_for(items, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        of.of_blocks[i] = sum_of_squares(of.blocks[i].values, of.blocks[i].count);
    });
  };
  co_await rt_.compute({.flops = 2 * elems, .bytes = 4 * elems}, std::move(fn), width, "lengths");
}

Task<Status> TensorLengths::find(std::size_t bucket, std::uint32_t step, float clip) {
  const auto found = buckets_.find(bucket);
  if (found == buckets_.end()) co_return Status();
  Bucket& own = found->second;
  co_await add_squares(own);
  if (!rt_.is_phantom()) {
    std::vector<double> sums(2 * own.pieces.size(), 0);
    for (std::size_t i = 0; i < own.blocks.size(); ++i) sums[own.blocks[i].place] += own.of_blocks[i];
    std::transform(sums.begin(), sums.end(), own.squares.data<float>(),
                   [](double x) { return static_cast<float>(x); });
  }
  comm::Call call;
  call.step = step;
  call.slot = own.slot;
  call.label = "lengths of tensors";
  call.algorithm = "fixed-tree";
  TR_CO_RETURN_IF_ERROR(co_await tiles_.allreduce(std::move(call), own.squares));
  for (std::size_t i = 0; i < own.pieces.size() && !rt_.is_phantom(); ++i) {
    const auto length = [&](std::size_t place) {
      return std::sqrt(static_cast<double>(own.squares.data<float>()[place]));
    };
    const double gradient = static_cast<double>(clip) * length(2 * i + 1);
    *own.rates[i].data<float>() = static_cast<float>(own.rules[i].at(length(2 * i), gradient));
  }
  co_return Status();
}

}  // namespace trireme::engine
