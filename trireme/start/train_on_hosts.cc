#include "trireme/start/train_on_hosts.h"

#include "trireme/job/roles.h"
#include "trireme/job/settle_job.h"
#include "trireme/launch/launch.h"
#include "trireme/launch/remote.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/executable.h"
#include "trireme/start/exit_code.h"
#include "trireme/start/failed_ranks.h"

namespace trireme::start {
namespace {

using runtime::Task;

constexpr std::size_t kMostJobBytes = 60'000;  // a word of a command line holds twice that

Task<Result<std::vector<launch::Host>>> read_hosts(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok())
    co_return error(Code::kInvalid, "{}; expected a file of hosts, lines like: node1 slots=4",
                    bytes.status().message());
  co_return launch::parse_hosts(as_text(*bytes), path);
}

// Without a number of workers the hosts say how many.
Status fit_to_hosts(const HostsRun& run, const std::vector<launch::Host>& hosts, job::Job& job) {
  if (!run.workers_given && !job.given_at.contains("parallel.workers"))
    TR_RETURN_IF_ERROR(job::fit_workers(job, launch::num_slots(hosts), 0, run.hosts));
  TR_RETURN_IF_ERROR(job::check_job(job));
  const std::string& transport = job.parallel.transport;
  if (transport == "mpi" || transport == "inproc" || (transport == "shm" && hosts.size() > 1))
    return error(Code::kInvalid,
                 "[launch] transport '{}' does not join hosts that ssh reaches: use tcp, or auto", transport);
  const std::string first = launch::address_of(hosts.front());
  if (hosts.size() > 1) TR_RETURN_IF_ERROR(job::check_transport(job, "tcp"));
  if (!run.insecure && !launch::is_loopback(first))
    return error(Code::kInvalid,
                 "[launch] rank 0 would listen at '{}' for everybody who reaches it, and connections are not "
                 "encrypted; on a network that you trust add --insecure",
                 first);
  return {};
}

launch::RemoteSpec remote_spec(const HostsRun& run, const std::vector<launch::Host>& hosts,
                               const job::Job& job, const std::string& job_id, const std::string& log_dir) {
  launch::RemoteSpec spec;
  spec.hosts = hosts;
  spec.world = job::roles_of(job).world;
  spec.ssh = launch::split_words(run.ssh);
  spec.binary = run.binary.empty() ? runtime::executable_path() : run.binary;
  // What the data decides is decided where the data is.
  spec.arguments = run.rank_arguments(job::to_toml(job, job::open_keys(job)));
  spec.coordinator = run.coordinator.empty() ? launch::coordinator_of(hosts, job_id) : run.coordinator;
  spec.directory = run.directory;
  spec.job_id = job_id;
  for (std::size_t h = 0; h < hosts.size(); ++h)
    spec.log_paths.push_back(fmt::format("{}/host-{}.log", log_dir, h));
  return spec;
}

}  // namespace

Task<Result<bool>> train_on_hosts(runtime::Runtime& rt, HostsRun run) {
  job::Job job = run.job;
  Result<std::vector<launch::Host>> hosts = co_await read_hosts(rt, run.hosts);
  if (!hosts.ok()) co_return hosts.status();
  TR_CO_RETURN_IF_ERROR(fit_to_hosts(run, *hosts, job));
  TR_CO_RETURN_IF_ERROR(check_slow(run.slow, job::roles_of(job).world));
  TR_CO_RETURN_IF_ERROR(check_faults(run.faults, job::roles_of(job).world));
  if (job::to_toml(job).size() > kMostJobBytes)
    co_return error(Code::kInvalid, "[launch] the job has {} bytes, and at most {} go to other hosts",
                    job::to_toml(job).size(), kMostJobBytes);
  const std::string job_id = fmt::format("{:x}", rt.unix_time_ns());
  const std::string log_dir = fmt::format("{}/trireme-log-{}", run.places.temp_dir, job_id);
  const launch::RemoteSpec spec = remote_spec(run, *hosts, job, job_id, log_dir);
  if (spec.ssh.empty())
    co_return error(Code::kInvalid, "[launch] --ssh is empty, expected a command like ssh");
  TR_CO_ASSIGN_OR_RETURN(const std::vector<int> place, launch::place_ranks(*hosts, spec.world));
  TR_CO_ASSIGN_OR_RETURN(std::vector<launch::RankProcess> ranks, launch::remote_ranks(spec));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(log_dir));
  launch::LaunchSpec options;
  options.world = spec.world;
  options.output = run.output;
  options.grace = job.parallel.deadline_ms * kMilli + kSecond;
  options.expendable = expendable_ranks(job);
  Result<std::vector<launch::RankExit>> exits = co_await launch::launch_ranks(rt, std::move(ranks), options);
  Status failure = exits.status();
  if (exits.ok()) {
    const bool went_on = ended_well(exits->front());
    for (std::size_t r = 0; r < exits->size(); ++r) {
      if (ended_well((*exits)[r])) continue;
      if (went_on && r < options.expendable.size() && options.expendable[r]) continue;
      failure = Status(Code::kPeerLost, "");
    }
    if (!failure.ok()) failure = describe_remote_failure(spec, job::roles_of(job), place, *exits);
  }
  (void)co_await rt.files().remove_all(log_dir);
  if (!failure.ok()) co_return failure;
  co_return exits->front().status.code != kExitStopped;
}

}  // namespace trireme::start
