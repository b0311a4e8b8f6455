#include "trireme/job/roles.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/base/near_names.h"
#include "trireme/job/job_options.h"
#include "trireme/net/seats.h"
#include "trireme/parallel/cells.h"
#include "trireme/parallel/pipeline/timetable.h"

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

std::vector<std::vector<int>> Roles::replicas() const {
  std::vector<std::vector<int>> out(static_cast<std::size_t>(num_replicas()));
  for (int rank = 0; rank < workers; ++rank) out[static_cast<std::size_t>(replica_of(rank))].push_back(rank);
  return out;
}

std::vector<std::vector<int>> Roles::replicas_seen_by(int rank) const {
  return is_worker(rank) ? replicas_seen_from(place_of(rank)) : replicas();
}

std::vector<std::vector<int>> Roles::replicas_seen_from(int place) const {
  std::vector<std::vector<int>> out = replicas();
  for (std::vector<int>& ranks : out) std::rotate(ranks.begin(), ranks.begin() + place, ranks.end());
  return out;
}

std::vector<int> Roles::spare_ranks() const {
  std::vector<int> out;
  const std::vector<std::vector<int>> all = replicas();
  for (std::size_t r = 1; r < all.size(); ++r)
    if (std::all_of(all[r].begin(), all[r].end(), [&](int rank) { return servers_on(rank).empty(); }))
      out.insert(out.end(), all[r].begin(), all[r].end());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> Roles::places() const {
  std::vector<std::string> out;
  for (int rank = 0; mesh.axes.size() > 1 && rank < workers; ++rank) out.push_back(mesh.place_text(rank));
  return out;
}

Json Roles::coordinates(int rank) const {
  if (mesh.axes.size() < 2 || !is_worker(rank)) return nullptr;
  Json out = Json::object();
  const std::vector<int> at = mesh.coordinates(rank);
  for (std::size_t i = 0; i < at.size(); ++i) out[mesh.axes[i].name] = at[i];
  return out;
}

std::string Roles::name_of(int rank) const {
  const std::vector<int> here = servers_on(rank);
  if (here.empty()) return rank_text(rank);
  std::string name = is_worker(rank) ? fmt::format("worker {} and ", rank) : "";
  name += here.size() == 1 ? "server" : "servers";
  for (std::size_t i = 0; i < here.size(); ++i) name += fmt::format("{}{}", i == 0 ? " " : ", ", here[i]);
  const std::string place = is_worker(rank) ? mesh.place_text(rank) : "";
  return fmt::format("{} (rank {}{}{})", name, rank, place.empty() ? "" : ", ", place);
}

Status name_culprit(const Status& verdict, const Roles& roles) {
  const std::optional<int> peer = verdict.ok() ? std::nullopt : verdict.context().peer;
  if (!peer) return verdict;
  std::string text = verdict.message();
  const std::string plain = fmt::format("] {} ", roles.rank_text(*peer));
  const std::size_t at = text.find(plain);
  if (at == std::string::npos) return verdict;
  text.replace(at, plain.size(), fmt::format("] {} ", roles.name_of(*peer)));
  return Status(verdict.code(), std::move(text), verdict.context());
}

Result<parallel::Mesh> parse_job_mesh(std::string_view text) {
  TR_ASSIGN_OR_RETURN(parallel::Mesh given, parallel::parse_mesh(text));
  constexpr std::string_view kKnown[] = {parallel::kDataAxis, parallel::kStageAxis, parallel::kModelAxis};
  for (const parallel::Axis& axis : given.axes)
    if (std::ranges::find(kKnown, axis.name) == std::end(kKnown))
      return error(Code::kInvalid, "[job] parallel.mesh '{}': got axis '{}', expected {}, {} or {}{}", text,
                   axis.name, parallel::kDataAxis, parallel::kStageAxis, parallel::kModelAxis,
                   did_you_mean(axis.name, kKnown));
  return given;
}

Result<parallel::Mesh> mesh_of(const Job& job) {
  const auto workers = static_cast<int>(job.parallel.workers);
  if (job.parallel.mesh.empty()) return parallel::data_mesh(workers);
  TR_ASSIGN_OR_RETURN(const parallel::Mesh given, parse_job_mesh(job.parallel.mesh));
  constexpr std::string_view kOrder[] = {parallel::kDataAxis, parallel::kStageAxis, parallel::kModelAxis};
  const auto place = [&](const parallel::Axis& axis) { return std::ranges::find(kOrder, axis.name); };
  for (std::size_t i = 1; i < given.axes.size(); ++i)
    if (place(given.axes[i - 1]) > place(given.axes[i]))
      return error(Code::kInvalid,
                   "[job] parallel.mesh '{}': got {} before {}, expected {}: ranks along the last axis are "
                   "neighbors on a host, and the model axis sends most",
                   job.parallel.mesh, given.axes[i - 1].name, given.axes[i].name, fmt::join(kOrder, ", "));
  if (given.num_ranks() != workers)
    return error(Code::kInvalid,
                 "[job] parallel.mesh '{}' is of {} workers, and there are {}; leave --workers out, or set "
                 "--workers {}",
                 job.parallel.mesh, given.num_ranks(), workers, given.num_ranks());
  parallel::Mesh mesh = parallel::data_mesh(given.size_of(parallel::kDataAxis));
  for (const char* const axis : {parallel::kStageAxis, parallel::kModelAxis})
    if (const int size = given.size_of(axis); size > 1) mesh.axes.push_back({axis, size});
  return mesh;
}

void take_workers_of_mesh(Job& job, bool workers_given) {
  const Result<parallel::Mesh> mesh = parallel::parse_mesh(job.parallel.mesh);
  if (!mesh.ok() || workers_given || job.given_at.contains("parallel.workers")) return;
  job.parallel.workers = mesh->num_ranks();
  job.given_at["parallel.workers"] = "parallel.mesh";
}

std::int32_t tiles_of(const Job& job) {
  if (job.train.logical_tiles) return static_cast<std::int32_t>(*job.train.logical_tiles);
  const Result<parallel::Mesh> mesh = mesh_of(job);
  return mesh.ok() ? mesh->size_of(parallel::kModelAxis) : 1;
}

int stages_of(const Job& job) {
  const Result<parallel::Mesh> mesh = mesh_of(job);
  return mesh.ok() ? mesh->size_of(parallel::kStageAxis) : 1;
}

std::int32_t segments_of(const Job& job) {
  const auto& cuts = job.parallel.stage_cuts;
  if (cuts && !cuts->empty()) return static_cast<std::int32_t>(cuts->size()) + 1;
  const std::int64_t asked = job.options.integer(kSegments);
  const std::int64_t chain = stages_of(job) * job.options.integer(kVirtualStages);
  return static_cast<std::int32_t>(asked > 0 ? asked : chain);
}

std::int64_t micro_batches_of(const Job& job) {
  const std::int64_t replicas = roles_of(job).num_replicas(), asked = job.options.integer(kMicroBatches);
  if (job.train.logical_shards > 0) return job.train.logical_shards / replicas;
  const std::int64_t stages = stages_of(job);
  if (asked > 0 || stages == 1 || job.options.text(kPipeline) == "async")
    return std::max<std::int64_t>(asked, 1);
  constexpr std::int64_t kPerStage = 4;  // stages then wait for a fifth of the time
  return std::max<std::int64_t>(1, std::min(kPerStage * stages, job.train.batch / replicas));
}

bool overlaps_steps(const Job& job) {
  const auto row = parallel::find_timetable_row(job.options.text(kPipeline));
  return row.ok() && !(*row)->is_synchronous && stages_of(job) > 1;
}

std::int64_t shards_of(const Job& job) {
  if (job.train.logical_shards > 0) return job.train.logical_shards;
  return roles_of(job).num_replicas() * micro_batches_of(job);
}

Result<Seating> seating_of(const Job& job, std::int32_t tiles) {
  TR_ASSIGN_OR_RETURN(const parallel::Mesh mesh, mesh_of(job));
  const int positions = mesh.size_of(parallel::kModelAxis), stages = mesh.size_of(parallel::kStageAxis),
            replicas = mesh.num_replicas();
  if (positions > tiles)
    return error(Code::kInvalid,
                 "[job] {} workers along the model axis cannot share {} parts of the model: use "
                 "--mesh data={},model={} or a train.logical_tiles of {}",
                 positions, tiles, replicas, tiles, positions);
  const std::vector<collective::LeafRun> runs = parallel::even_runs(tiles, positions);
  if (runs[0].count > net::kMostSeats)
    return error(Code::kInvalid,
                 "[job] a worker would have {} of the {} parts of the model, expected at most {}: use more "
                 "workers along the model axis of parallel.mesh, or a smaller train.logical_tiles",
                 runs[0].count, tiles, net::kMostSeats);
  Seating out;
  out.num_workers = mesh.num_ranks();
  out.mesh = parallel::data_mesh(replicas);
  if (stages > 1) out.mesh.axes.push_back({parallel::kStageAxis, stages});
  if (tiles > 1) out.mesh.axes.push_back({parallel::kModelAxis, tiles});
  for (int line = 0; line < replicas * stages; ++line)  // ranks that differ along the model axis only
    for (int position = 0; position < positions; ++position)
      out.workers.insert(out.workers.end(),
                         static_cast<std::size_t>(runs[static_cast<std::size_t>(position)].count),
                         line * positions + position);
  for (int s = 0; !colocated(job) && s < num_servers(job); ++s) out.workers.push_back(out.num_workers + s);
  return out;
}

Roles roles_of(const Job& job) {
  Result<parallel::Mesh> mesh = mesh_of(job);
  if (mesh.ok()) return roles_of(job, std::move(*mesh));
  return roles_of(job, parallel::data_mesh(static_cast<int>(job.parallel.workers)));
}

Roles roles_of(const Job& job, parallel::Mesh mesh) {
  Roles roles;
  roles.workers = mesh.num_ranks();
  roles.mesh = std::move(mesh);
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
  const Result<parallel::Mesh> mesh = parallel::parse_mesh(job.parallel.mesh);
  if (!job.parallel.mesh.empty() && mesh.ok() && mesh->num_ranks() != job.parallel.workers)
    return error(Code::kInvalid,
                 "[launch] {} started {} ranks, and parallel.mesh '{}' is of {} workers; start {} ranks, or "
                 "change the mesh",
                 launcher, world, job.parallel.mesh, mesh->num_ranks(), mesh->num_ranks() + apart);
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
