// Agreement: how replicas keep one model. One rule, one file, one row.
//
// The trainer hands a rule each bucket of gradients the moment it is final on every local logical shard, and
// gets back the gradient to apply. Rules know groups and tensors; they know no sockets, threads or files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/comm/group.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::agree {

// One bucket of one step on this rank.
struct BucketExchange {
  std::uint32_t step = 0;
  std::uint16_t slot = 0;
  std::string collective = "fixed-tree";
  std::vector<collective::LeafRun> owners;  // leaf run of every rank
  std::int32_t num_shards = 1;
  // This rank's shard gradients, f32 vectors in shard order. Overwritten: shard_gradients[0] receives the
  // result.
  std::vector<Tensor> shard_gradients;
};

class Agreement {
 public:
  virtual ~Agreement() = default;
  // Several buckets may be under way at once. Fails with the group's verdict.
  virtual runtime::Task<Status> exchange(BucketExchange bucket) = 0;
};

struct AgreementRow {
  const char* name;
  const char* doc;
  const char* paper;
  bool synchronous;
  bool needs_server;
  std::unique_ptr<Agreement> (*make)(runtime::Runtime& rt, comm::Group& group);
};
std::span<const AgreementRow> agreement_table();
Result<const AgreementRow*> find_agreement(std::string_view name);

}  // namespace trireme::agree
