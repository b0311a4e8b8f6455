#include "trireme/engine/replica_checkpoint.h"

#include <algorithm>

#include "trireme/engine/move_state.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

using runtime::Task;

// "replica/fc/weight" of worker 3: "replica/3/fc/weight".
std::string name_of(const std::string& name, int worker) {
  const std::size_t slash = name.find('/');
  return fmt::format("{}/{}{}", name.substr(0, slash), worker, name.substr(slash));
}

const Tensor* find(const io::NamedTensors& list, const std::string& name) {
  for (const auto& [key, tensor] : list)
    if (key == name) return &tensor;
  return nullptr;
}

// Whether the checkpoint has all of `mine` for these workers and no others.
bool has_replicas(const io::NamedTensors& mine, const io::NamedTensors& restored, int num_workers) {
  for (int w = 0; w < num_workers; ++w)
    for (const auto& [name, tensor] : mine) {
      const Tensor* saved = find(restored, name_of(name, w));
      if (saved == nullptr || saved->type() != tensor.type()) return false;
    }
  return mine.empty() || find(restored, name_of(mine.front().first, num_workers)) == nullptr;
}

Task<Status> spread(comm::Group& workers, std::uint32_t index, Tensor tensor) {
  comm::Call call;
  call.step = index;
  call.slot = plan::kSlotRestoreReplica;
  call.label = "restore of replicas";
  TR_CO_ASSIGN_OR_RETURN(const Tensor flat, tensor.reshape({tensor.shape().num_elems()}));
  co_return co_await workers.broadcast(std::move(call), flat);
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
                              const io::NamedTensors& restored) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor known, Tensor::allocate(cpu_device(), {DType::kF32, {1}}));
  *known.data<float>() = workers.rank() == 0 && has_replicas(mine, restored, workers.world()) ? 1.0F : 0.0F;
  std::uint32_t index = 0;
  TR_CO_RETURN_IF_ERROR(co_await spread(workers, index++, known));
  if (*known.data<float>() == 0) co_return Status();
  for (int w = 0; w < workers.world(); ++w)
    for (const auto& [name, tensor] : mine) {
      TR_CO_ASSIGN_OR_RETURN(const Tensor copy, Tensor::allocate(cpu_device(), tensor.type()));
      if (workers.rank() == 0) co_await copy_tensor(rt, *find(restored, name_of(name, w)), copy);
      TR_CO_RETURN_IF_ERROR(co_await spread(workers, index++, copy));
      if (workers.rank() == w) co_await copy_tensor(rt, copy, tensor);
    }
  co_return Status();
}

}  // namespace trireme::engine
