#include "trireme/engine/vote/vote.h"

#include <algorithm>

#include "trireme/comm/sum/shard_tree.h"
#include "trireme/plan/plan.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {
namespace {

// What a leaf has; wishes are counted.
enum Place : std::size_t { kLoss, kCorrect, kStop, kSave, kBroken, kSquares };
static_assert(kSquares + 1 == plan::kVoteElems);

// Along a binary tree over them.
float add_up(std::vector<float> values) {
  for (std::size_t n = values.size(); n > 1; n = (n + 1) / 2)
    for (std::size_t i = 0; i < (n + 1) / 2; ++i)
      values[i] = 2 * i + 1 < n ? values[2 * i] + values[2 * i + 1] : values[2 * i];
  return values[0];
}

}  // namespace

Vote::Vote(runtime::Runtime& rt, comm::Group& replicas, comm::Group* parts, std::int32_t num_shards,
           bool alone, plan::Slot slot)
    : rt_(rt),
      group_(replicas),
      parts_(parts),
      num_shards_(num_shards),
      alone_(alone),
      slot_(slot),
      first_of_parts_(kStop) {}

void Vote::cut_in_depth(Segments segments) {
  segments_ = segments;
  squares_.assign(static_cast<std::size_t>(segments.count), 0);
  first_of_parts_ = 0;
}

// Where losses are the same everywhere only the first leaf differs. Else squares of every tile and segment
// stand behind the leaves.
std::size_t Vote::num_of_parts() const {
  if (first_of_parts_ > 0) return plan::kVoteElems - first_of_parts_;
  return leaves_.size() * plan::kVoteElems + static_cast<std::size_t>(segments_.tiles * segments_.count);
}

// Tiles first, then segments in order: the bits do not depend on who has which. Every replica has them all.
void Vote::add_segments(const float* squares) {
  const auto count = static_cast<std::size_t>(segments_.count);
  float sum = 0;
  for (std::size_t g = 0; g < count; ++g) {
    std::vector<float> of_tiles;
    for (std::size_t t = 0; t < static_cast<std::size_t>(segments_.tiles); ++t)
      of_tiles.push_back(squares[t * count + g]);
    sum = g == 0 ? add_up(std::move(of_tiles)) : sum + add_up(std::move(of_tiles));
  }
  leaves_[0].data<float>()[kSquares] = alone_ || group_.rank() == 0 ? sum : 0;
}

Status Vote::take_shards(collective::LeafRun run) {
  const TensorType leaf{DType::kF32, {plan::kVoteElems}};
  const auto count = static_cast<std::size_t>(run.count);
  while (leaves_.size() > count) leaves_.pop_back();
  while (leaves_.size() < count) {
    Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
    TR_ASSIGN_OR_RETURN(Tensor own,
                        leaves_.empty() && !alone_ ? group_.allocate(leaf) : allocate_zeros(device, leaf));
    leaves_.push_back(std::move(own));
  }
  kept_.resize(count);
  if (dealt_) {
    TR_ASSIGN_OR_RETURN(of_turns_, group_.allocate({DType::kF32, {run.count * plan::kVoteElems}}));
  }
  const auto elems = static_cast<std::int64_t>(num_of_parts());
  if (parts_ != nullptr && (of_parts_.is_null() || of_parts_.shape().num_elems() != elems)) {
    TR_ASSIGN_OR_RETURN(of_parts_, parts_->allocate({DType::kF32, {elems}}));
  }
  return {};
}

Tensor Vote::metrics(std::size_t place) const {
  return Tensor(leaves_[place].buffer(), {DType::kF32, {2}}, leaves_[place].offset_bytes());
}

void Vote::keep_batch(bool first, bool last) {
  if (rt_.is_phantom()) return;
  for (std::size_t place = 0; place < leaves_.size(); ++place) {
    float* of_batch = leaves_[place].data<float>();
    for (const std::size_t i : {kLoss, kCorrect}) {
      kept_[place][i] = first ? of_batch[i] : kept_[place][i] + of_batch[i];
      if (last) of_batch[i] = kept_[place][i];
    }
  }
}

void Vote::say(bool finite, std::vector<float> squares) {
  finite_ = finite;
  squares_ = std::move(squares);
}

void Vote::write_leaves(const StepInput& step) {
  const bool counts = alone_ || group_.rank() == 0;  // every replica has all of every gradient
  for (std::size_t place = 0; place < leaves_.size(); ++place) {
    float* leaf = leaves_[place].data<float>();
    const bool first = place == 0;
    leaf[kStop] = first && step.stop_wanted ? 1 : 0;
    leaf[kSave] = first && step.save_wanted ? 1 : 0;
    leaf[kBroken] = first && !finite_ ? 1 : 0;
    leaf[kSquares] = first && counts && segments_.count == 1 ? squares_[0] : 0;
  }
}

void Vote::read() {
  const float* sum = leaves_[0].data<float>();
  outcome_.loss = sum[kLoss];
  outcome_.correct = sum[kCorrect];
  outcome_.stop = sum[kStop] > 0;
  outcome_.save = sum[kSave] > 0;
  outcome_.finite = sum[kBroken] == 0;
  outcome_.squares = sum[kSquares];
}

// Along the fixed tree over the parts.
runtime::Task<Status> Vote::add_parts(const StepInput& step) {
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step.step);
  call.slot = slot_;
  call.label = "vote of a replica";
  call.ahead = segments_.count > 1;  // the last stage is the last to have a loss
  call.algorithm = "fixed-tree";
  const bool in_segments = first_of_parts_ == 0;
  const std::size_t of_leaf = plan::kVoteElems - first_of_parts_, leaves = in_segments ? leaves_.size() : 1;
  float* const all = rt_.is_phantom() ? nullptr : of_parts_.data<float>();
  for (std::size_t i = 0; all != nullptr && i < leaves; ++i)
    std::copy_n(leaves_[i].data<float>() + first_of_parts_, of_leaf, all + i * of_leaf);
  float* const squares = all != nullptr ? all + leaves * of_leaf : nullptr;  // in segments
  if (squares != nullptr && in_segments) {
    std::fill_n(squares, segments_.tiles * segments_.count, 0.0F);
    std::copy(squares_.begin(), squares_.end(), squares + segments_.tile * segments_.count);
  }
  TR_CO_RETURN_IF_ERROR(co_await parts_->allreduce(std::move(call), of_parts_));
  for (std::size_t i = 0; all != nullptr && i < leaves; ++i)
    std::copy_n(all + i * of_leaf, of_leaf, leaves_[i].data<float>() + first_of_parts_);
  if (squares != nullptr && in_segments) add_segments(squares);
  co_return Status();
}

comm::Call Vote::call_of(const StepInput& step) const {
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step.step);
  call.slot = slot_;
  call.label = "vote";
  call.ahead = segments_.count > 1;
  call.algorithm = "fixed-tree";
  return call;
}

// Shards of one turn are a subtree: first they are added over the replicas, then the turns here.
runtime::Task<Status> Vote::add_dealt(comm::Call call) {
  const auto turns = static_cast<std::int32_t>(leaves_.size());
  call.num_leaves = group_.world();
  for (std::int32_t replica = 0; replica < group_.world(); ++replica) call.leaf_runs.push_back({replica, 1});
  float* const all = rt_.is_phantom() ? nullptr : of_turns_.data<float>();
  const auto of_turn = [&](std::size_t i) { return all + i * plan::kVoteElems; };
  for (std::size_t i = 0; all != nullptr && i < leaves_.size(); ++i)
    std::copy_n(leaves_[i].data<float>(), plan::kVoteElems, of_turn(i));
  const Tensor partials[] = {of_turns_};
  TR_CO_RETURN_IF_ERROR(co_await group_.allreduce_tree(std::move(call), partials, of_turns_));
  for (std::size_t i = 0; all != nullptr && i < leaves_.size(); ++i)
    std::copy_n(of_turn(i), plan::kVoteElems, leaves_[i].data<float>());
  comm::add_own_shards(leaves_, {0, turns}, turns);
  co_return Status();
}

runtime::Task<Status> Vote::cast(StepInput step, std::vector<collective::LeafRun> owners) {
  if (!rt_.is_phantom()) write_leaves(step);
  if (parts_ != nullptr)
    TR_CO_RETURN_IF_ERROR(co_await add_parts(step));
  else if (segments_.count > 1 && !rt_.is_phantom())
    add_segments(squares_.data());
  say(true, std::vector<float>(static_cast<std::size_t>(segments_.count), 0));
  if (dealt_) {
    TR_CO_RETURN_IF_ERROR(co_await add_dealt(call_of(step)));
  } else if (!alone_) {
    comm::Call call = call_of(step);
    call.num_leaves = num_shards_;
    const collective::LeafRun own = owners[static_cast<std::size_t>(group_.rank())];
    call.leaf_runs = std::move(owners);
    // A few numbers: on the loop, beside what computes.
    std::vector<Tensor> partials = comm::add_own_shards(leaves_, own, num_shards_);
    TR_CO_RETURN_IF_ERROR(co_await group_.allreduce_tree(std::move(call), partials, partials[0]));
  }
  if (!rt_.is_phantom()) read();
  co_return Status();
}

}  // namespace trireme::engine
