#include "trireme/train/replica_ranks.h"

#include "trireme/engine/share_text.h"
#include "trireme/engine/state/move_state.h"
#include "trireme/plan/slots.h"
#include "trireme/tensor/host_zeros.h"
#include "trireme/train/joined_tensor.h"

namespace trireme::train {

using runtime::Task;

Result<std::unique_ptr<ReplicaRanks>> ReplicaRanks::make(runtime::Runtime& rt, comm::Group& workers,
                                                         const job::Roles& roles) {
  std::unique_ptr<ReplicaRanks> out(new ReplicaRanks(rt, workers));
  if (roles.num_places() == 1) return out;
  TR_ASSIGN_OR_RETURN(out->lines_, engine::MeshLines::make(workers, roles.mesh));
  const int rank = workers.rank();
  out->place_ = roles.place_of(rank);
  const std::vector<int> ranks = roles.mesh.ranks_of_replica(roles.replica_of(rank));
  out->units_ = std::make_unique<ReplicaWords<UnitWordHead>>(rt, workers.mailbox(), ranks, rank);
  out->meetings_ = std::make_unique<ReplicaWords<MeetingWordHead>>(rt, workers.mailbox(), ranks, rank);
  return out;
}

Task<Result<engine::Lease>> ReplicaRanks::next_unit(engine::LeaseSource ask) {
  if (is_one()) co_return co_await ask();
  const std::int64_t number = next_unit_++;
  if (speaks()) {
    const Result<engine::Lease> lease = co_await ask();
    if (!lease.ok()) co_return lease;
    UnitWord word;
    word.has_unit = lease->unit.has_value();
    if (lease->unit) {
      word.shard = static_cast<std::uint32_t>(lease->unit->shard);
      word.batch = lease->unit->batch;
    }
    word.round = lease->round;
    units_->tell(number, word);
    co_return lease;
  }
  TR_CO_ASSIGN_OR_RETURN(const UnitWord word, co_await units_->hear(number));
  engine::Lease lease;
  lease.round = word.round;
  if (word.has_unit) lease.unit = engine::Unit{word.batch, static_cast<std::int32_t>(word.shard)};
  co_return lease;
}

void ReplicaRanks::tell(const MeetingWord& word) {
  if (!is_one()) meetings_->tell(next_word_++, word);
}

Task<Result<MeetingWord>> ReplicaRanks::hear() { return meetings_->hear(next_word_++); }

Task<Result<Go>> ReplicaRanks::obey(engine::Replica& replica) {
  for (;;) {
    TR_CO_ASSIGN_OR_RETURN(const MeetingWord word, co_await hear());
    if (word.what == MeetingWord::What::kGo) co_return static_cast<Go>(word.bits);
    const auto part = static_cast<engine::Part>(word.bits);
    std::vector<float> results(static_cast<std::size_t>(2 * replica.num_eval_batches(part)));
    TR_CO_RETURN_IF_ERROR(co_await replica.score(part, word.begin, word.end, results));
  }
}

Task<Status> ReplicaRanks::score(engine::Replica& replica, engine::Part part, std::int64_t begin,
                                 std::int64_t end, std::span<float> results) {
  tell(MeetingWord::score(static_cast<std::int32_t>(part), begin, end));
  return replica.score(part, begin, end, results);
}

void ReplicaRanks::stop_together(comm::Group& all, const job::Roles& roles) {
  if (is_one()) return;
  all.mailbox().on_lost([&all, roles, alive = alive_](int rank, const Status& why) {
    const bool own = roles.is_worker(rank) && roles.replica_of(rank) == roles.replica_of(all.rank());
    if (!*alive || !own) return;
    const std::string& reason = why.context().reason;
    all.fail("training", fmt::format("it is of the replica of {}, which is lost: {}", roles.rank_text(rank),
                                     reason.empty() ? why.message() : reason));
  });
}

void ReplicaRanks::report_axes(const comm::GroupStats& all, const record::WorkerShare& own,
                               record::Summary& s) const {
  if (is_one()) return;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, own.steps));
  const double sent = lines_->bytes_sent().at(parallel::kModelAxis), waited = to_seconds(met_ns_);
  s.bytes_by_axis = {{parallel::kDataAxis, (static_cast<double>(all.bytes_sent) - sent) / steps},
                     {parallel::kModelAxis, sent / steps}};
  s.exposed_by_axis = {{parallel::kDataAxis, (own.exposed_seconds - waited) / steps},
                       {parallel::kModelAxis, waited / steps}};
}

// These slots have other users among all ranks; here they are numbers of the replica's line alone.
comm::Call ReplicaRanks::next_call(const char* label) {
  comm::Call call;
  call.slot = plan::kSlotShares;
  call.step = next_call_++;
  call.label = label;
  return call;
}

Task<Status> ReplicaRanks::add_up(std::vector<double>& numbers) {
  if (is_one()) co_return Status();
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  TR_CO_ASSIGN_OR_RETURN(const Tensor sum,
                         allocate_zeros(device, {DType::kF64, {static_cast<std::int64_t>(numbers.size())}}));
  if (!rt_.is_phantom()) std::copy(numbers.begin(), numbers.end(), sum.data<double>());
  comm::Call call = next_call("sums of a replica");
  TR_CO_RETURN_IF_ERROR(co_await lines_->model()->allreduce(std::move(call), sum));
  if (!rt_.is_phantom()) std::copy_n(sum.data<double>(), numbers.size(), numbers.begin());
  co_return Status();
}

Task<Status> ReplicaRanks::meet() {
  if (is_one()) co_return Status();
  comm::Call call = next_call("meeting of a replica");
  co_return co_await lines_->model()->barrier(std::move(call));
}

Task<Result<std::vector<engine::StateTypes>>> ReplicaRanks::gather_types(engine::StateTypes own) {
  std::vector<engine::StateTypes> out;
  for (int place = 0; place < size(); ++place) {
    if (is_one() || rt_.is_phantom()) {
      out.push_back(own);
      continue;
    }
    const engine::TextCall call{.root = place,
                                .step = next_call_++,
                                .size_slot = plan::kSlotChoiceSize,
                                .slot = plan::kSlotChoice,
                                .label = "state of a rank"};
    std::string text = engine::types_text(own);
    TR_CO_ASSIGN_OR_RETURN(text,
                           co_await engine::broadcast_text(rt_, *lines_->model(), call, std::move(text)));
    TR_CO_ASSIGN_OR_RETURN(engine::StateTypes types, engine::types_from_text(text));
    out.push_back(std::move(types));
  }
  co_return out;
}

Result<engine::HeldState> ReplicaRanks::held(const engine::Replica& replica,
                                             const io::NamedTensors& tensors) const {
  TR_ASSIGN_OR_RETURN(engine::HeldState state, replica.held(tensors));
  state.all.mesh = mesh_of_replica(std::move(state.all.mesh));
  state.rank = place_;
  return state;
}

Task<Result<std::string>> ReplicaRanks::hash_agreed(const engine::Replica& replica) {
  TR_CO_ASSIGN_OR_RETURN(io::NamedTensors agreed, replica.agreed());
  if (is_one()) co_return co_await engine::hash_parameters(rt_, std::move(agreed));
  TR_CO_ASSIGN_OR_RETURN(const engine::HeldState state, held(replica, agreed));
  co_return co_await engine::hash_parameters(rt_, *lines_->model(), state, next_call_++);
}

}  // namespace trireme::train
