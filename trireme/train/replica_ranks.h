// ReplicaRanks: the ranks of one replica, where workers go at their own pace, seen by one of them. They take
// the same units and do the same at meetings: the one that speaks hears of it from rank 0 and tells the
// others (replica_words.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/engine/batch_feed.h"
#include "trireme/engine/mesh_lines.h"
#include "trireme/engine/replica.h"
#include "trireme/engine/replica_checkpoint.h"
#include "trireme/job/roles.h"
#include "trireme/record/summary.h"
#include "trireme/train/replica_words.h"

namespace trireme::train {

// On the loop of one Runtime.
class ReplicaRanks {
 public:
  // `workers`: the ranks of the mesh; this is one of them.
  static Result<std::unique_ptr<ReplicaRanks>> make(runtime::Runtime& rt, comm::Group& workers,
                                                    const job::Roles& roles);

  ~ReplicaRanks() { *alive_ = false; }

  comm::Group& workers() const { return workers_; }
  // Those that have this one's place in their replicas.
  comm::Group& peers() const { return lines_ != nullptr ? lines_->data() : workers_; }
  // Null where a replica is one rank.
  const engine::MeshLines* lines() const { return lines_.get(); }
  bool is_one() const { return lines_ == nullptr; }
  bool speaks() const { return place_ == 0; }
  int place() const { return place_; }
  int size() const { return lines_ == nullptr ? 1 : lines_->model()->world(); }

  // The next unit: `ask` asks rank 0 and is used by the rank that speaks. Calls of one rank may overlap.
  runtime::Task<Result<engine::Lease>> next_unit(engine::LeaseSource ask);
  // What is said at meetings: by the rank that speaks, and to the others.
  void tell(const MeetingWord& word);
  runtime::Task<Result<MeetingWord>> hear();
  // A rank that does not speak: until rank 0 lets the replica go on.
  runtime::Task<Result<Go>> obey(engine::Replica& replica);
  // Rank 0, for all ranks of its replica, which obey: scores batches of the agreed model.
  runtime::Task<Status> score(engine::Replica& replica, engine::Part part, std::int64_t begin,
                              std::int64_t end, std::span<float> results);
  // The ranks of a replica can do nothing without each other, and those of the other replicas can: from here
  // on this one ends when another one is lost.
  void stop_together(comm::Group& all, const job::Roles& roles);

  // What a unit waited for exchanges within its graph.
  void note_met(TimeNs waited) { met_ns_ += waited; }
  // By axis, what this rank sent and waited for in a step; what is beside the exchanges of its graphs is of
  // the data axis. Nothing where a replica is one rank.
  void report_axes(const comm::GroupStats& all, const record::WorkerShare& own, record::Summary& s) const;

  // Sums over the ranks, in place; all of them come first.
  runtime::Task<Status> add_up(std::vector<double>& numbers);
  runtime::Task<Status> meet();
  // By place, what its rank keeps for checkpoints.
  runtime::Task<Result<std::vector<engine::StateTypes>>> gather_types(engine::StateTypes own);

  // Tensors of a replica as its ranks hold them: replica.held() without the other replicas.
  Result<engine::HeldState> held(const engine::Replica& replica, const io::NamedTensors& tensors) const;
  // The hash of the agreed model; the same on all ranks.
  runtime::Task<Result<std::string>> hash_agreed(const engine::Replica& replica);

 private:
  ReplicaRanks(runtime::Runtime& rt, comm::Group& workers) : rt_(rt), workers_(workers) {}
  comm::Call next_call(const char* label);

  runtime::Runtime& rt_;
  comm::Group& workers_;
  std::unique_ptr<engine::MeshLines> lines_;
  std::unique_ptr<ReplicaWords<UnitWordHead>> units_;
  std::unique_ptr<ReplicaWords<MeetingWordHead>> meetings_;
  int place_ = 0;
  TimeNs met_ns_ = 0;
  std::int64_t next_unit_ = 0, next_word_ = 0;
  std::uint32_t next_call_ = 0;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace trireme::train
