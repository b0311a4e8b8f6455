// The calls of a Group in terms of one: run(Request). In place and out of place differ here; below, programs
// work in place (collective/contract.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

// Some ranks of a group, by their number in it. A message between them has the id of the sub-group.
struct Members {
  std::vector<int> ranks;
  int rank = 0;  // of this process among them
  std::uint16_t id = 0;
  mutable std::uint64_t bytes_sent = 0;  // by this process in calls of these ranks
};

// `ranks` of a world in which this process is `rank`; `id` differs from `whole_id`.
Result<std::shared_ptr<const Members>> make_members(std::vector<int> ranks, std::uint16_t id, int rank,
                                                    int world, std::uint16_t whole_id);

// Between this rank and one other.
struct PeerTransfer {
  int peer;
  bool is_send;
};

struct Request {
  collective::Kind kind;
  Call call;
  Tensor result;                      // buffer 0; null: barrier, neighbours
  std::vector<Tensor> partials = {};  // the caller's other buffers
  DType dtype = DType::kF32;
  std::int64_t count = 0;    // ScheduleSpec::count
  bool one_partial = false;  // the result is the only partial, if the algorithm takes any
  bool is_own = false;       // of the group itself: not counted as a call of this rank
  // One edge of a neighbourhood that only its ends know of.
  std::optional<PeerTransfer> message = std::nullopt;
  std::shared_ptr<const Members> members = nullptr;  // null: the whole group
};

// The barrier of leave(): no plan has this slot.
inline constexpr std::uint16_t kLeaveSlot = 0xFFFF;
Request leave_request();

// When a call is made: Call::step, num_shards and iteration.
struct CallTime {
  std::uint32_t step = 0, num_shards = 1;
  std::uint16_t iteration = 0;
};
inline CallTime time_of(const Call& call) { return {call.step, call.num_shards, call.iteration}; }
// "allreduce bucket 0, step 17", "allreduce bucket 0, step 17, shard 2, iteration 5", for errors.
std::string operation_text(collective::Kind kind, const std::string& label, const CallTime& time);
// "send activations to rank 3, step 17" for messages.
std::string operation_of(collective::Kind kind, const Request& request);

Status check_tensor(const char* what, const Tensor& t, DType dtype, std::int64_t count);

class Calls : public Group {
 public:
  runtime::Task<Status> allreduce(Call call, Tensor data) override;
  runtime::Task<Status> allreduce(Call call, Tensor in, Tensor out) override;
  runtime::Task<Status> allreduce_tree(Call call, std::span<const Tensor> partials, Tensor result) override;
  runtime::Task<Status> reduce(Call call, Tensor data) override;
  runtime::Task<Status> reduce(Call call, Tensor in, Tensor out) override;
  runtime::Task<Status> broadcast(Call call, Tensor data) override;
  runtime::Task<Status> gather(Call call, Tensor block, Tensor all) override;
  runtime::Task<Status> scatter(Call call, Tensor all, Tensor block) override;
  runtime::Task<Status> allgather(Call call, Tensor block, Tensor all) override;
  runtime::Task<Status> reduce_scatter(Call call, Tensor data, Tensor block) override;
  runtime::Task<Status> all_to_all(Call call, Tensor in, Tensor out) override;
  runtime::Task<Status> neighbours(Call call, std::span<const Tensor> out,
                                   std::span<const Tensor> in) override;
  runtime::Task<Status> barrier(Call call) override;
  runtime::Task<Status> send(Call call, int peer, Tensor data) override;
  runtime::Task<Status> recv(Call call, int peer, Tensor data) override;

  runtime::Task<Result<Tensor>> share(Call call, TensorType type) override;

  virtual runtime::Task<Status> run(Request request) = 0;
  // share() of `members`, this group or one of its sub-groups; `root`: of call.root, in the whole group.
  virtual runtime::Task<Result<Tensor>> share_among(Group& members, int root, Call call, TensorType type) = 0;

 protected:
  static runtime::Task<Status> refused(Status why) { co_return why; }

 private:
  runtime::Task<Status> exchange(Call call, PeerTransfer message, const Tensor& data);
};

// Some ranks of a group as a group: its calls are run by the whole under another id and between these ranks.
// `whole` outlives it.
std::unique_ptr<Group> make_subgroup(Calls& whole, std::shared_ptr<const Members> members);

}  // namespace trireme::comm
