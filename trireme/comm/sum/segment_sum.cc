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

Tensor part_of(const Tensor& vector, std::int64_t begin, std::int64_t count) {
  return Tensor(vector.buffer(), {DType::kF32, {count}},
                vector.offset_bytes() + static_cast<std::size_t>(begin) * sizeof(float));
}

void take(bool adds, const Tensor& from, const Tensor& to) {
  if (from.type().num_bytes() == 0) return;
  if (adds)
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
    : rt_(rt),
      group_(group),
      spec_(std::move(spec)),
      o_(std::move(options)),
      own_(chunk_of(spec_.scattered, sizeof(float), group.rank(), group.world())) {
  const int here = o_.line != nullptr ? o_.line->rank() : 0;
  for (std::size_t i = 0; i < o_.segments.size(); ++i)
    if (o_.line == nullptr || o_.stages[i] == here) of_.emplace_back().segment = o_.segments[i];
  TR_CHECK(!of_.empty(), "{} has no segment here", spec_.label);
  TR_CHECK(!o_.dealt || o_.written_at.size() == of_.size(), "{} is written in {} places", spec_.label,
           o_.written_at.size());
}

Status SegmentSum::take_written() {
  TR_RETURN_IF_ERROR(spec_.vectors_in->take_places(1));
  for (std::size_t i = 0; i < of_.size(); ++i)
    of_[i].work = part_of(spec_.vectors_in->place(0), o_.written_at[i], spec_.num_elems);
  return {};
}

Status SegmentSum::take_shards(LeafRun run) {
  counter_ = o_.dealt ? count_up({0, run.count}, run.count) : count_up(run, spec_.num_shards);
  if (o_.dealt) TR_RETURN_IF_ERROR(take_written());
  const TensorType vector{DType::kF32, {vector_elems()}};
  for (OfSegment& own : of_) {
    own.added = 0;
    if (own.work.is_null()) {
      TR_ASSIGN_OR_RETURN(own.work, allocate_zeros(device_of(rt_), vector));
    }
    while (own.vectors.size() < static_cast<std::size_t>(counter_.num_vectors)) {
      const bool is_read = own.vectors.empty() && !o_.dealt;  // by other ranks
      TR_ASSIGN_OR_RETURN(Tensor more,
                          is_read ? group_.allocate(vector) : allocate_zeros(device_of(rt_), vector));
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

std::size_t SegmentSum::find(std::int32_t segment) const {
  const auto found =
      std::find_if(of_.begin(), of_.end(), [&](const OfSegment& own) { return own.segment == segment; });
  TR_CHECK(found != of_.end(), "{} has no segment {} here", spec_.label, segment);
  return static_cast<std::size_t>(found - of_.begin());
}

Tensor SegmentSum::memory_of(std::int32_t segment) { return of_[find(segment)].work; }

std::vector<Tensor> SegmentSum::partials_of(const OfSegment& own) const {
  std::vector<Tensor> partials;
  for (const std::int32_t at : counter_.partials)
    partials.push_back(own.vectors[static_cast<std::size_t>(at)]);
  return partials;
}

Tensor SegmentSum::result() const { return o_.segments.size() > 1 ? all_ : partials_of(of_[0])[0]; }

Tensor SegmentSum::summed(std::int64_t offset, const TensorType& type) const {
  if (!o_.dealt) return GradientSum::summed(offset, type);
  const bool is_divided = offset < spec_.scattered;
  const std::int64_t at = is_divided ? offset - own_.begin : own_.size() + offset - spec_.scattered;
  TR_CHECK(at >= 0 && at + type.shape.num_elems() <= (is_divided ? own_.size() : vector_elems()),
           "{} has no sum of {} elements from {} on", spec_.label, type.shape.num_elems(), offset);
  const Tensor all = result();
  return Tensor(all.buffer(), type, all.offset_bytes() + static_cast<std::size_t>(at) * sizeof(float));
}

void SegmentSum::run_step(const CounterStep& step, const OfSegment& own) const {
  const Tensor& to = own.vectors[static_cast<std::size_t>(step.to)];
  if (step.from >= 0) return take(step.adds, own.vectors[static_cast<std::size_t>(step.from)], to);
  if (!o_.dealt) return take(step.adds, own.work, to);
  const std::int64_t count = own_.size();
  take(step.adds, part_of(own.work, own_.begin, count), part_of(to, 0, count));
  take(step.adds, part_of(own.work, spec_.scattered, rest()), part_of(to, count, rest()));
}

// Each worker gets the sum of its chunk, and of what is not divided all. Then others have read this worker's
// vector.
Task<Status> SegmentSum::divide(const OfSegment& own, Call call) {
  const std::uint16_t number = call.iteration;
  call.label = spec_.label;
  call.algorithm = "fixed-tree";
  for (std::int32_t worker = 0; worker < group_.world(); ++worker) call.leaf_runs.push_back({worker, 1});
  call.num_leaves = group_.world();
  Call all = call;
  call.slot = spec_.slots.first;
  // Numbers below are of the updates (engine::Conductor).
  call.iteration = static_cast<std::uint16_t>(number + 2);
  call.own_chunk = true;
  all.slot = spec_.slots.read;
  all.iteration = static_cast<std::uint16_t>(2 * number);
  all.label += ", rest";
  Call read;
  read.step = call.step;
  read.slot = spec_.slots.read;
  read.iteration = static_cast<std::uint16_t>(2 * number + 1);
  read.label = call.label;
  const Tensor parts[] = {part_of(own.work, 0, spec_.scattered)},
               whole[] = {part_of(own.work, spec_.scattered, rest())};
  std::vector<Task<Status>> both;
  if (spec_.scattered > 0) both.push_back(group_.allreduce_tree(std::move(call), parts, parts[0]));
  if (rest() > 0) both.push_back(group_.allreduce_tree(std::move(all), whole, whole[0]));
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(both)));
  co_return co_await group_.barrier(std::move(read));
}

Task<Status> SegmentSum::add(std::int32_t segment, std::uint32_t step) {
  const std::size_t at = find(segment);
  OfSegment& own = of_[at];
  TR_CHECK(own.added < counter_.after.size(), "{} has all {} shards of segment {}", spec_.label,
           counter_.after.size(), segment);
  if (o_.dealt) {
    Call call;
    call.step = step;
    call.iteration = static_cast<std::uint16_t>(own.added * of_.size() + at);
    TR_CO_RETURN_IF_ERROR(co_await divide(own, std::move(call)));
  }
  const std::vector<CounterStep>& steps = counter_.after[own.added++];
  const double elems = static_cast<double>(vector_elems());
  cost::OpCost work;
  for (const CounterStep& counted : steps) {
    work.flops += counted.adds ? elems : 0;
    work.bytes += (counted.adds ? 12 : 8) * elems;
  }
  co_await rt_.compute(
      work,
      [&](runtime::ComputeContext&) {
        for (const CounterStep& counted : steps) run_step(counted, own);
      },
      1, "add micro-batches");
  co_return Status();
}

Task<Status> SegmentSum::sum_over_shards(SumCall call, std::size_t own) {
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
  const double elems = static_cast<double>(vector_elems());
  const cost::OpCost work{.flops = elems, .bytes = 12 * elems};
  co_await rt_.compute(
      work,
      [&](runtime::ComputeContext&) {
        for (std::size_t i = 0; i < parts.size(); ++i) take(i > 0, parts[i], all_);
      },
      1, "add segments");
  co_return Status();
}

Task<Status> SegmentSum::sum(SumCall call) {
  for (std::size_t own = 0; own < of_.size(); ++own) {
    of_[own].added = 0;
    if (!o_.dealt) TR_CO_RETURN_IF_ERROR(co_await sum_over_shards(call, own));
  }
  if (o_.segments.size() > 1) TR_CO_RETURN_IF_ERROR(co_await sum_over_segments(std::move(call)));
  co_return Status();
}

}  // namespace trireme::comm
