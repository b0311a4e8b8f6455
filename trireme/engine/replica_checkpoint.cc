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
  for (int w = 0; w < num_workers; ++w)
    for (const auto& [name, tensor] : mine)
      if (stored.type_of(name_of(name, w)) != tensor.type()) return false;
  return mine.empty() || !stored.type_of(name_of(mine.front().first, num_workers));
}

}  // namespace

io::NamedTensors replica_state(io::NamedTensors state, std::vector<std::pair<std::string, Tensor>> rule) {
  io::NamedTensors out;
  for (auto& [name, tensor] : state) out.emplace_back("replica/" + name, tensor);
  for (auto& [name, tensor] : rule) out.emplace_back("rule/" + name, tensor);
  std::erase_if(out, [](const auto& named) { return named.second.shape().num_elems() == 0; });
  return out;
}

Result<io::NamedTensors> name_replicas(const io::NamedTensors& mine,
                                       const std::map<std::pair<int, std::uint32_t>, Tensor>& bytes,
                                       int num_workers) {
  io::NamedTensors out;
  for (int w = 0; w < num_workers; ++w)
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto& [name, like] = mine[i];
      const auto found = bytes.find({w, static_cast<std::uint32_t>(i)});
      if (found == bytes.end() || found->second.type().num_bytes() != like.type().num_bytes())
        return error(Code::kCorrupt, "[checkpoint] worker {} did not send its '{}'", w, name);
      out.emplace_back(name_of(name, w), Tensor(found->second.buffer(), like.type()));
    }
  return out;
}

Task<Status> restore_replicas(runtime::Runtime& rt, comm::Group& workers, io::NamedTensors mine,
                              const StoredState& stored) {
  if (!has_replicas(mine, stored, workers.world())) co_return Status();
  std::vector<OwnedTensor> all;
  for (int w = 0; w < workers.world(); ++w)
    for (const auto& [name, tensor] : mine)
      all.push_back({name_of(name, w), tensor.type(), w, w == workers.rank() ? tensor : Tensor()});
  const HeldState holding = hold_alone(std::move(all), workers.world(), workers.rank());
  co_return co_await restore_pieces(rt, workers, stored, holding,
                                    {plan::kSlotRestoreReplica, 0, "restore of replicas"});
}

}  // namespace trireme::engine
