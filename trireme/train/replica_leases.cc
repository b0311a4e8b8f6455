#include "trireme/train/replica_leases.h"

namespace trireme::train {

Status grant_runs(data::LeaseBook& book, std::int64_t step, std::span<const collective::LeafRun> owners) {
  for (std::size_t replica = 0; replica < owners.size(); ++replica)
    TR_RETURN_IF_ERROR(
        book.grant(step, {owners[replica].first, owners[replica].count}, static_cast<int>(replica)));
  return {};
}

Status finish_runs(data::LeaseBook& book, std::int64_t step, std::span<const collective::LeafRun> owners) {
  for (std::size_t replica = 0; replica < owners.size(); ++replica)
    TR_RETURN_IF_ERROR(
        book.finish(step, {owners[replica].first, owners[replica].count}, static_cast<int>(replica)));
  return {};
}

}  // namespace trireme::train
