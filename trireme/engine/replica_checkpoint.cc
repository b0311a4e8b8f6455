#include "trireme/engine/replica_checkpoint.h"

#include <algorithm>

#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

using runtime::Task;

// "replica/fc/weight" of worker 3: "replica/3/fc/weight".
std::string name_of(const std::string& name, int worker) {
  const std::size_t slash = name.find('/');
  return fmt::format("{}/{}{}", name.substr(0, slash), worker, name.substr(slash));
}

// Whether the checkpoint has all of `mine` for these workers and no others.
bool has_replicas(const io::NamedTensors& mine, const StoredState& stored, int num_workers) {
  for (const ReplicaTensor& t : replica_tensors(mine, num_workers))
    if (stored.type_of(t.name) != t.type) return false;
  return mine.empty() || !stored.type_of(name_of(mine.front().first, num_workers));
}

}  // namespace

io::NamedTensors replica_state(const io::NamedTensors& state, const io::NamedTensors& rule) {
  io::NamedTensors out;
  for (const auto& [name, tensor] : state) out.emplace_back("replica/" + name, tensor);
  for (const auto& [name, tensor] : rule) out.emplace_back("rule/" + name, tensor);
  std::erase_if(out, [](const auto& named) { return named.second.shape().num_elems() == 0; });
  return out;
}

std::vector<ReplicaTensor> replica_tensors(const io::NamedTensors& mine, int num_workers) {
  std::vector<ReplicaTensor> out;
  for (int w = 0; w < num_workers; ++w)
    for (std::size_t i = 0; i < mine.size(); ++i)
      out.push_back({name_of(mine[i].first, w), mine[i].second.type(), w, static_cast<std::uint32_t>(i)});
  return out;
}

Task<Status> restore_replicas(runtime::Runtime& rt, comm::Group& workers, io::NamedTensors mine,
                              const StoredState& stored) {
  if (!has_replicas(mine, stored, workers.world())) co_return Status();
  std::vector<OwnedTensor> all;
  for (ReplicaTensor& t : replica_tensors(mine, workers.world()))
    all.push_back(
        {std::move(t.name), t.type, t.worker, t.worker == workers.rank() ? mine[t.index].second : Tensor()});
  const HeldState holding = hold_alone(std::move(all), workers.world(), workers.rank());
  co_return co_await restore_pieces(rt, workers, stored, holding,
                                    {plan::kSlotRestoreReplica, 0, "restore of replicas"});
}

}  // namespace trireme::engine
