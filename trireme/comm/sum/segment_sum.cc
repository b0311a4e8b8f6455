#include "trireme/comm/sum/segment_sum.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/check.h"
#include "trireme/comm/sum/coded_work.h"
#include "trireme/comm/sum/shard_tree.h"
#include "trireme/runtime/sync.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {

using collective::LeafRun;
using runtime::Task;

namespace {

// Vectors of a counter under way: those that are free are taken again.
class Vectors {
 public:
  std::int32_t take() {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto at = static_cast<std::int32_t>(free - taken_.begin());
    if (free == taken_.end()) taken_.push_back(false);
    taken_[static_cast<std::size_t>(at)] = true;
    return at;
  }
  void give_back(std::int32_t at) { taken_[static_cast<std::size_t>(at)] = false; }
  std::int32_t count() const { return static_cast<std::int32_t>(taken_.size()); }

 private:
  std::vector<bool> taken_;
};

void run_step(const CounterStep& step, const Tensor& work, const std::vector<Tensor>& vectors) {
  const Tensor& from = step.from < 0 ? work : vectors[static_cast<std::size_t>(step.from)];
  const Tensor& to = vectors[static_cast<std::size_t>(step.to)];
  if (step.adds)
    add_vector(to, from);
  else
    std::memcpy(to.raw(), from.raw(), from.type().num_bytes());
}

}  // namespace

// Sums of neighbouring nodes of one level make one of the next; what is left at the end of a subtree has no
// right half, and is added from right to left.
Counter count_up(LeafRun run, std::int32_t num_shards) {
  Counter out;
  Vectors vectors;
  struct Digit {
    int level;
    std::int32_t vector;
  };
  const auto nodes = collective::maximal_subtrees(run, num_shards);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::int32_t end = n + 1 < nodes.size() ? nodes[n + 1].first : run.first + run.count;
    std::vector<Digit> digits;
    for (std::int32_t leaf = nodes[n].first; leaf < end; ++leaf) {
      std::vector<CounterStep>& steps = out.after.emplace_back();
      Digit carry{0, -1};
      const auto add_to_last = [&] {
        steps.push_back({true, carry.vector, digits.back().vector});
        if (carry.vector >= 0) vectors.give_back(carry.vector);
        carry = {digits.back().level + 1, digits.back().vector};
        digits.pop_back();
      };
      while (!digits.empty() && digits.back().level == carry.level) add_to_last();
      if (carry.vector < 0) {
        carry.vector = vectors.take();
        steps.push_back({false, -1, carry.vector});
      }
      while (leaf + 1 == end && !digits.empty()) add_to_last();
      digits.push_back(carry);
    }
    out.partials.push_back(digits.back().vector);
  }
  out.num_vectors = vectors.count();
  return out;
}

SegmentSum::SegmentSum(runtime::Runtime& rt, Group& group, SumSpec spec, SegmentSumOptions options)
    : rt_(rt), group_(group), spec_(std::move(spec)), o_(std::move(options)) {
  const int here = o_.line != nullptr ? o_.line->rank() : 0;
  for (std::size_t i = 0; i < o_.segments.size(); ++i)
    if (o_.line == nullptr || o_.stages[i] == here) of_.emplace_back().segment = o_.segments[i];
  TR_CHECK(!of_.empty(), "{} has no segment here", spec_.label);
}

Status SegmentSum::take_shards(LeafRun run) {
  counter_ = count_up(run, spec_.num_shards);
  const TensorType vector{DType::kF32, {spec_.num_elems}};
  for (OfSegment& own : of_) {
    own.added = 0;
    if (own.work.is_null()) {
      TR_ASSIGN_OR_RETURN(own.work, allocate_zeros(device_of(rt_), vector));
    }
    while (own.vectors.size() < static_cast<std::size_t>(counter_.num_vectors)) {
      TR_ASSIGN_OR_RETURN(Tensor more, own.vectors.empty() ? group_.allocate(vector)
                                                           : allocate_zeros(device_of(rt_), vector));
      own.vectors.push_back(std::move(more));
    }
    own.vectors.resize(static_cast<std::size_t>(counter_.num_vectors));
  }
  if (o_.segments.size() == 1 || !all_.is_null()) return {};
  TR_ASSIGN_OR_RETURN(all_, allocate_zeros(device_of(rt_), vector));
  distant_.resize(o_.segments.size());
  for (std::size_t i = 0; o_.line != nullptr && i < distant_.size(); ++i)
    if (o_.stages[i] != o_.line->rank()) {
      TR_ASSIGN_OR_RETURN(distant_[i], allocate_zeros(device_of(rt_), vector));
    }
  return {};
}

SegmentSum::OfSegment& SegmentSum::find(std::int32_t segment) {
  const auto found =
      std::find_if(of_.begin(), of_.end(), [&](const OfSegment& own) { return own.segment == segment; });
  TR_CHECK(found != of_.end(), "{} has no segment {} here", spec_.label, segment);
  return *found;
}

Tensor SegmentSum::memory_of(std::int32_t segment) { return find(segment).work; }

std::vector<Tensor> SegmentSum::partials_of(const OfSegment& own) const {
  std::vector<Tensor> partials;
  for (const std::int32_t at : counter_.partials)
    partials.push_back(own.vectors[static_cast<std::size_t>(at)]);
  return partials;
}

Tensor SegmentSum::result() const { return o_.segments.size() > 1 ? all_ : partials_of(of_[0])[0]; }

Task<void> SegmentSum::add(std::int32_t segment) {
  OfSegment& own = find(segment);
  TR_CHECK(own.added < counter_.after.size(), "{} has all {} shards of segment {}", spec_.label,
           counter_.after.size(), segment);
  const std::vector<CounterStep>& steps = counter_.after[own.added++];
  const double elems = static_cast<double>(spec_.num_elems);
  cost::OpCost work;
  for (const CounterStep& step : steps) {
    work.flops += step.adds ? elems : 0;
    work.bytes += (step.adds ? 12 : 8) * elems;
  }
  co_await rt_.compute(
      work,
      [&](runtime::ComputeContext&) {
        for (const CounterStep& step : steps) run_step(step, own.work, own.vectors);
      },
      1, "add micro-batches");
}

Task<Status> SegmentSum::sum_over_shards(SumCall call, std::size_t own) {
  of_[own].added = 0;
  std::vector<Tensor> partials = partials_of(of_[own]);
  Call sum;
  sum.step = call.step;
  sum.slot = spec_.slots.first;
  sum.iteration = static_cast<std::uint16_t>(own);
  sum.label = spec_.label;
  sum.algorithm = spec_.collective;
  if (spec_.collective == "fixed-tree") {
    sum.leaf_runs = std::move(call.owners);
    sum.num_leaves = spec_.num_shards;
    co_return co_await group_.allreduce_tree(std::move(sum), partials, partials[0]);
  }
  const double elems = static_cast<double>(spec_.num_elems);
  const cost::OpCost work{.flops = elems, .bytes = 12 * elems * static_cast<double>(partials.size())};
  co_await rt_.compute(
      work,
      [&](runtime::ComputeContext&) {
        for (std::size_t i = 1; i < partials.size(); ++i) add_vector(partials[0], partials[i]);
      },
      1, "add shards");
  co_return co_await group_.allreduce(std::move(sum), partials[0]);
}

// Every stage that has some of the segments gets the others' sums.
Task<Status> SegmentSum::sum_over_segments(SumCall call) {
  constexpr int kMostStages = 256;
  const int here = o_.line != nullptr ? o_.line->rank() : 0;
  std::vector<Tensor> parts = distant_;
  for (std::size_t i = 0, own = 0; i < parts.size(); ++i)
    if (parts[i].is_null()) parts[i] = partials_of(of_[own++])[0];
  std::vector<int> others = o_.line != nullptr ? o_.stages : std::vector<int>();
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  std::erase(others, here);
  std::vector<Task<Status>> moves;
  for (std::size_t i = 0; !others.empty() && i < parts.size(); ++i) {
    Call move;
    move.step = call.step;
    move.slot = spec_.slots.second;
    move.label = fmt::format("{} of segment {}", spec_.label, o_.segments[i]);
    const auto to = [&](int stage) {
      move.iteration = static_cast<std::uint16_t>(i * kMostStages + static_cast<std::size_t>(stage));
      return move;
    };
    if (o_.stages[i] != here)
      moves.push_back(o_.line->recv(to(here), o_.stages[i], parts[i]));
    else
      for (const int other : others) moves.push_back(o_.line->send(to(other), other, parts[i]));
  }
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(moves)));
  const double elems = static_cast<double>(spec_.num_elems);
  const cost::OpCost work{.flops = elems, .bytes = 12 * elems};
  co_await rt_.compute(
      work,
      [&](runtime::ComputeContext&) {
        std::memcpy(all_.raw(), parts[0].raw(), parts[0].type().num_bytes());
        for (std::size_t i = 1; i < parts.size(); ++i) add_vector(all_, parts[i]);
      },
      1, "add segments");
  co_return Status();
}

Task<Status> SegmentSum::sum(SumCall call) {
  for (std::size_t own = 0; own < of_.size(); ++own)
    TR_CO_RETURN_IF_ERROR(co_await sum_over_shards(call, own));
  if (o_.segments.size() > 1) TR_CO_RETURN_IF_ERROR(co_await sum_over_segments(std::move(call)));
  co_return Status();
}

}  // namespace trireme::comm
