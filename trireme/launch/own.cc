// Ranks that launch_local started, or a script of the user's own.
#include "trireme/launch/variables.h"

namespace trireme::launch {

Result<std::optional<RankIdentity>> read_own(const Lookup& get) {
  if (get("TRIREME_RANK") == nullptr && get("TRIREME_WORLD") == nullptr) return std::optional<RankIdentity>();
  const char* rendezvous = get("TRIREME_RENDEZVOUS");
  const char* coordinator = get("TRIREME_COORDINATOR");
  if (get("TRIREME_RANK") == nullptr || get("TRIREME_WORLD") == nullptr ||
      (rendezvous == nullptr && coordinator == nullptr))
    return error(Code::kInvalid,
                 "[launch] TRIREME_RANK, TRIREME_WORLD and TRIREME_RENDEZVOUS (or TRIREME_COORDINATOR) "
                 "belong together; set all or none");
  RankIdentity id;
  TR_RETURN_IF_ERROR(read_rank_and_world(get, "TRIREME_RANK", "TRIREME_WORLD", id).status());
  if (rendezvous != nullptr && *rendezvous == '\0')
    return error(Code::kInvalid, "[launch] TRIREME_RENDEZVOUS is empty, expected a directory");
  // A directory is what ranks of one host share; with an address alone they may be anywhere.
  id.one_host = rendezvous != nullptr;
  const int local_world = id.one_host ? id.world : 1;
  TR_ASSIGN_OR_RETURN(id.local_world, read_number_or(get, "TRIREME_LOCAL_WORLD", local_world));
  TR_ASSIGN_OR_RETURN(id.local_rank, read_number_or(get, "TRIREME_LOCAL_RANK", id.one_host ? id.rank : 0));
  id.one_host = id.local_world == id.world;
  return std::optional<RankIdentity>(id);
}

}  // namespace trireme::launch
