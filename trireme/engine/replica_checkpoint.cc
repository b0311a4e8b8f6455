#include "trireme/engine/replica_checkpoint.h"

#include <algorithm>

#include "trireme/base/json.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

using runtime::Task;

// "replica/fc/weight" of worker 3: "replica/3/fc/weight".
std::string name_of(const std::string& name, int worker) {
  const std::size_t slash = name.find('/');
  return fmt::format("{}/{}{}", name.substr(0, slash), worker, name.substr(slash));
}

// Whether the checkpoint has all of these for these workers and no others.
bool has_replicas(std::span<const StateTypes> by_place, const StoredState& stored, int num_workers) {
  const int places = static_cast<int>(by_place.size());
  for (const ReplicaTensor& t : replica_tensors(by_place, num_workers / places))
    if (stored.type_of(t.name) != t.type) return false;
  return by_place.front().empty() || !stored.type_of(name_of(by_place.front().front().first, num_workers));
}

}  // namespace

io::NamedTensors replica_state(const io::NamedTensors& state, const io::NamedTensors& rule) {
  io::NamedTensors out;
  for (const auto& [name, tensor] : state) out.emplace_back("replica/" + name, tensor);
  for (const auto& [name, tensor] : rule) out.emplace_back("rule/" + name, tensor);
  std::erase_if(out, [](const auto& named) { return named.second.shape().num_elems() == 0; });
  return out;
}

StateTypes types_of(const io::NamedTensors& tensors) {
  StateTypes out;
  for (const auto& [name, tensor] : tensors) out.emplace_back(name, tensor.type());
  return out;
}

std::string types_text(const StateTypes& types) {
  Json all = Json::array();
  for (const auto& [name, type] : types) {
    Json dims = Json::array();
    for (int d = 0; d < type.shape.rank(); ++d) dims.push_back(type.shape[d]);
    all.push_back({{"name", name}, {"dtype", static_cast<int>(type.dtype)}, {"shape", std::move(dims)}});
  }
  return all.dump();
}

Result<StateTypes> types_from_text(const std::string& text) {
  TR_ASSIGN_OR_RETURN(const Json all, parse_json(text, "what another rank of the replica keeps"));
  StateTypes out;
  for (const Json& one : all) {
    TR_ASSIGN_OR_RETURN(std::string name, json_get<std::string>(one, "name"));
    TR_ASSIGN_OR_RETURN(const int dtype, json_get<int>(one, "dtype"));
    TR_ASSIGN_OR_RETURN(const auto dims, json_get<std::vector<std::int64_t>>(one, "shape"));
    out.emplace_back(std::move(name), TensorType{static_cast<DType>(dtype), Shape(dims)});
  }
  return out;
}

std::vector<ReplicaTensor> replica_tensors(std::span<const StateTypes> by_place, int num_replicas) {
  std::vector<ReplicaTensor> out;
  for (int w = 0; w < num_replicas * static_cast<int>(by_place.size()); ++w) {
    const StateTypes& types = by_place[static_cast<std::size_t>(w) % by_place.size()];
    for (std::size_t i = 0; i < types.size(); ++i)
      out.push_back({name_of(types[i].first, w), types[i].second, w, static_cast<std::uint32_t>(i)});
  }
  return out;
}

Task<Status> restore_replicas(runtime::Runtime& rt, comm::Group& workers, io::NamedTensors mine,
                              std::vector<StateTypes> by_place, const StoredState& stored) {
  if (!has_replicas(by_place, stored, workers.world())) co_return Status();
  std::vector<OwnedTensor> all;
  const int places = static_cast<int>(by_place.size());
  for (ReplicaTensor& t : replica_tensors(by_place, workers.world() / places))
    all.push_back(
        {std::move(t.name), t.type, t.worker, t.worker == workers.rank() ? mine[t.index].second : Tensor()});
  const HeldState holding = hold_alone(std::move(all), workers.world(), workers.rank());
  co_return co_await restore_pieces(rt, workers, stored, holding,
                                    {plan::kSlotRestoreReplica, 0, "restore of replicas"});
}

}  // namespace trireme::engine
