#include "trireme/comm/program_cache.h"

#include <algorithm>

namespace trireme::comm {
namespace {

bool same_spec(const collective::ScheduleSpec& a, const collective::ScheduleSpec& b) {
  const auto same_run = [](const collective::LeafRun& x, const collective::LeafRun& y) {
    return x.first == y.first && x.count == y.count;
  };
  return a.kind == b.kind && a.count == b.count && a.world == b.world && a.root == b.root &&
         a.elem_bytes == b.elem_bytes && a.reduction == b.reduction && a.counts == b.counts &&
         a.edges == b.edges && a.group_of == b.group_of && a.peer_memory == b.peer_memory &&
         a.segment_bytes == b.segment_bytes && a.num_leaves == b.num_leaves &&
         std::equal(a.leaf_runs.begin(), a.leaf_runs.end(), b.leaf_runs.begin(), b.leaf_runs.end(), same_run);
}

}  // namespace

Result<std::shared_ptr<const ReadyProgram>> make_ready_program(const collective::Algorithm& algorithm,
                                                               const collective::ScheduleSpec& spec,
                                                               int rank) {
  auto ready = std::make_shared<ReadyProgram>();
  ready->algorithm = &algorithm;
  TR_ASSIGN_OR_RETURN(ready->program, collective::build_program(algorithm, spec, rank));
  auto& program = ready->program;
  const std::size_t n = program.steps.size();
  ready->first_successor.assign(n + 1, 0);
  for (const std::uint32_t d : program.deps) ++ready->first_successor[d + 1];
  for (std::size_t i = 0; i < n; ++i) ready->first_successor[i + 1] += ready->first_successor[i];
  ready->successors.resize(program.deps.size());
  std::vector<std::uint32_t> at(ready->first_successor.begin(), ready->first_successor.end() - 1);
  for (std::uint32_t i = 0; i < n; ++i) {
    if (program.steps[i].num_deps == 0) ready->roots.push_back(i);
    for (const std::uint32_t d : program.deps_of(program.steps[i])) ready->successors[at[d]++] = i;
  }
  program.deps = {};
  return std::shared_ptr<const ReadyProgram>(std::move(ready));
}

Result<std::shared_ptr<const ReadyProgram>> ProgramCache::get(const collective::ScheduleSpec& spec,
                                                              const std::string& algorithm, int rank,
                                                              const cost::CommModel& model) {
  for (Entry& e : entries_) {
    if (e.algorithm != algorithm || e.rank != rank || !same_spec(e.spec, spec)) continue;
    e.used = ++clock_;
    return e.program;
  }
  const collective::Algorithm* chosen = nullptr;
  if (algorithm.empty()) {
    TR_ASSIGN_OR_RETURN(chosen, collective::select_algorithm(spec, model));
  } else {
    TR_ASSIGN_OR_RETURN(chosen, collective::find_algorithm(spec.kind, algorithm));
  }
  TR_ASSIGN_OR_RETURN(auto program, make_ready_program(*chosen, spec, rank));
  if (entries_.size() >= kMaxPrograms)
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.used < b.used; }));
  entries_.push_back({spec, algorithm, rank, program, ++clock_});
  return program;
}

}  // namespace trireme::comm
