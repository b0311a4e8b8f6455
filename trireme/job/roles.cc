#include "trireme/job/roles.h"

#include "trireme/agree/agree.h"
#include "trireme/job/job_options.h"

namespace trireme::job {
namespace {

int num_servers(const Job& job) {
  if (job.parallel.servers >= 0) return static_cast<int>(job.parallel.servers);
  const auto row = agree::find_agreement(job.parallel.agreement);
  return row.ok() && (*row)->needs_server ? 1 : 0;
}

bool colocated(const Job& job) {
  const std::string wanted = job.options.text(kColocate);
  return wanted == "auto" ? job.parallel.servers < 0 : wanted == "yes";
}

}  // namespace

std::vector<int> Roles::servers_on(int rank) const {
  std::vector<int> found;
  for (std::size_t s = 0; s < server_ranks.size(); ++s)
    if (server_ranks[s] == rank) found.push_back(static_cast<int>(s));
  return found;
}

std::string Roles::name_of(int rank) const {
  const std::vector<int> here = servers_on(rank);
  if (here.empty()) return fmt::format("rank {}", rank);
  std::string name = is_worker(rank) ? fmt::format("worker {} and ", rank) : "";
  name += here.size() == 1 ? "server" : "servers";
  for (std::size_t i = 0; i < here.size(); ++i) name += fmt::format("{}{}", i == 0 ? " " : ", ", here[i]);
  return fmt::format("{} (rank {})", name, rank);
}

Status name_culprit(const Status& verdict, const Roles& roles) {
  const std::optional<int> peer = verdict.ok() ? std::nullopt : verdict.context().peer;
  if (!peer) return verdict;
  std::string text = verdict.message();
  const std::string plain = fmt::format("] rank {} ", *peer);
  const std::size_t at = text.find(plain);
  if (at == std::string::npos) return verdict;
  text.replace(at, plain.size(), fmt::format("] {} ", roles.name_of(*peer)));
  return Status(verdict.code(), std::move(text), verdict.context());
}

Roles roles_of(const Job& job) {
  Roles roles;
  roles.workers = static_cast<int>(job.parallel.workers);
  roles.servers = num_servers(job);
  const bool share = colocated(job);
  roles.world = roles.workers + (share ? 0 : roles.servers);
  for (int s = 0; s < roles.servers; ++s)
    roles.server_ranks.push_back(share ? s % roles.workers : roles.workers + s);
  return roles;
}

Status fit_workers(Job& job, int world, int workers, std::string_view launcher) {
  const int apart = colocated(job) ? 0 : num_servers(job);
  if (workers > 0 && workers + apart != world)
    return error(Code::kInvalid,
                 "[launch] {} started {} ranks, but --workers is {}{}; leave --workers out, or start as many",
                 launcher, world, workers,
                 apart > 0 ? fmt::format(" and {} of the ranks are servers", apart) : "");
  if (world <= apart)
    return error(Code::kInvalid,
                 "[launch] {} started {} ranks, and all are needed for {} servers; start {} or more, or set "
                 "parallel.colocate=yes",
                 launcher, world, apart, apart + 1);
  job.parallel.workers = world - apart;
  return {};
}

Status check_transport(const Job& job, std::string_view transport) {
  const auto row = agree::find_agreement(job.parallel.agreement);
  if (!row.ok() || !(*row)->shares_weights || job.parallel.workers == 1) return {};
  if (transport == "shm" || transport == "inproc" || transport == "auto") return {};
  return error(Code::kInvalid,
               "[job] agreement '{}' changes one set of weights in shared memory: got transport '{}', "
               "expected shm or inproc, with all workers on one host; 'decentralized' works over {}",
               (*row)->name, transport, transport);
}

}  // namespace trireme::job
