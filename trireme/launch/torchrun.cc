// Ranks of torchrun, or of whoever sets the same variables.
#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Result<std::optional<RankIdentity>> read_torchrun(const Lookup& get) {
  // RANK alone may mean anything; the address of the master tells that it is this launcher. Under another one
  // RANK and WORLD_SIZE may be a copy of its numbers.
  if (get("RANK") == nullptr && get("WORLD_SIZE") == nullptr) return std::optional<RankIdentity>();
  if (get("MASTER_ADDR") == nullptr) {
    const bool other = !first_set(get, {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}).empty();
    if (other || get("RANK") == nullptr || get("WORLD_SIZE") == nullptr) return std::optional<RankIdentity>();
    return error(Code::kInvalid,
                 "[launch] RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT belong together: MASTER_ADDR is not "
                 "set; set it to the host of rank 0");
  }
  RankIdentity id;
  TR_RETURN_IF_ERROR(read_rank_and_world(get, "RANK", "WORLD_SIZE", id).status());
  const std::string host = get("MASTER_ADDR");
  if (host.empty())
    return error(Code::kInvalid, "[launch] MASTER_ADDR is empty, expected the host of rank 0");
  if (get("MASTER_PORT") == nullptr)
    return error(Code::kInvalid,
                 "[launch] MASTER_ADDR and MASTER_PORT belong together: got only MASTER_ADDR; set both");
  TR_ASSIGN_OR_RETURN(int port, read_number(get, "MASTER_PORT"));
  if (port < 1 || port > 65534)
    return error(Code::kInvalid, "[launch] MASTER_PORT is {}, expected 1 to 65534", port);
  // torchrun's own agent listens at the port it tells.
  if (first_set(get, {"TORCHELASTIC_USE_AGENT_STORE"}) == "True") ++port;
  id.coordinator = host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                                       : fmt::format("[{}]:{}", host, port);
  const int guess = is_loopback(host) ? id.world : 1;
  TR_ASSIGN_OR_RETURN(id.local_world, read_number_or(get, "LOCAL_WORLD_SIZE", guess));
  id.one_host = id.local_world == id.world;
  TR_ASSIGN_OR_RETURN(id.local_rank, read_number_or(get, "LOCAL_RANK", id.one_host ? id.rank : 0));
  // Without LOCAL_WORLD_SIZE nobody says how many there are; at least as many as this rank's number tells.
  if (get("LOCAL_WORLD_SIZE") == nullptr && id.local_world <= id.local_rank)
    id.local_world = id.local_rank + 1;
  const std::string run = first_set(get, {"TORCHELASTIC_RUN_ID"});
  if (id.one_host) id.rendezvous = rendezvous_of(get, "torchrun", fmt::format("{}-{}", port, run));
  return std::optional<RankIdentity>(id);
}

}  // namespace trireme::launch
