// What is done about memory before a run: what a GPU cannot hold is refused, and what a limit asks for is
// computed again instead of kept. And what was predicted beside what it came to.
#include <algorithm>

#include "trireme/base/units.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/job/roles.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/prepared.h"
#include "trireme/prepare/stages.h"

namespace trireme::prepare {
namespace {

std::string text_of(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string parts_text(const MemoryEstimate& estimate) {
  std::string text;
  for (const MemoryPart& p : estimate.parts)
    if (p.bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", p.name, text_of(p.bytes));
  return text;
}

// "'conv1' f32[64,64,112,112] with 196 MiB"
std::string largest_tensor(const graph::Graph& graph) {
  std::size_t most = 0;
  std::string text = "none";
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (const TensorType& type : graph.node(i).outputs) {
      if (type.num_bytes() <= most) continue;
      most = type.num_bytes();
      text = fmt::format("'{}' {} with {}", graph.node(i).name, type.to_string(), format_bytes(most));
    }
  return text;
}

// Bytes of one rank. A worker's limit is for all parts of the model that it has.
Result<std::int64_t> limit_of(const job::Job& job, const Prepared& prepared) {
  TR_ASSIGN_OR_RETURN(const std::uint64_t parsed, parse_bytes(job.train.memory_limit));
  TR_ASSIGN_OR_RETURN(const job::Seating seating, job::seating_of(job, prepared.plan.tiles));
  const auto seats = std::count(seating.workers.begin(), seating.workers.end(), 0);
  return static_cast<std::int64_t>(parsed) / seats;
}

}  // namespace

Status check_gpu_memory(const job::Job& job, const Prepared& prepared) {
  const kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(prepared.device.get());
  if (gpu == nullptr) return {};
  TR_ASSIGN_OR_RETURN(const MemoryEstimate needed, estimate_prepared(job, prepared, 1));
  const kernel::cuda::MemoryInfo there = kernel::cuda::memory_info(*gpu);
  const std::int64_t bytes = needed.total_bytes();
  if (bytes <= static_cast<std::int64_t>(there.free_bytes)) return {};
  return error(
      Code::kExhausted,
      "[train] the job needs {} of GPU memory ({}), and {} of {} are free; the largest tensor is {}; use a "
      "smaller train.batch (got {}), train.memory_limit = \"{}MiB\" (values are computed again), or "
      "train.precision = \"bf16\"",
      text_of(bytes), parts_text(needed), format_bytes(there.free_bytes), format_bytes(there.total_bytes),
      largest_tensor(prepared.train->graph()), job.train.batch, there.free_bytes >> 20U);
}

Status keep_below_limit(const job::Job& job, int threads, const Prepared& prepared,
                        const std::function<Status(const graph::Graph&)>& compile_again) {
  constexpr int kRounds = 4;  // what is compiled shares places a little otherwise than the pass believes
  if (job.train.memory_limit.empty()) return {};
  TR_ASSIGN_OR_RETURN(const std::int64_t limit, limit_of(job, prepared));
  for (int round = 0;; ++round) {
    TR_ASSIGN_OR_RETURN(const MemoryEstimate now, estimate_prepared(job, prepared, threads));
    const std::int64_t over = now.total_bytes() - limit, shards = std::max<std::int64_t>(1, now.shards);
    if (over <= 0) return {};
    const graph::Graph graph = prepared.train->graph();
    graph::MemoryRequest bound;  // gradients lie in buckets
    for (const auto& [name, v] : graph.outputs()) bound.pinned.push_back(v);
    TR_ASSIGN_OR_RETURN(const graph::MemoryResult memory, graph::plan_memory(graph, bound));
    const std::int64_t target = memory.plan.arena_bytes - (over + shards - 1) / shards;
    Result<graph::Graph> less = Status(Code::kExhausted, "nothing more can be computed again");
    if (round < kRounds && target > 0) less = graph::recompute(graph, target, true);
    if (!less.ok())
      return error(
          Code::kExhausted,
          "[train] train.memory_limit: got {} predicted ({}), expected at most {}: {}; the largest tensor is "
          "{}; use a smaller train.batch (got {}) or a higher limit",
          text_of(now.total_bytes()), parts_text(now), text_of(limit), less.status().message(),
          largest_tensor(graph), job.train.batch);
    TR_RETURN_IF_ERROR(compile_again(*less));
  }
}

// The segment that keeps most in all micro-batches in flight comes first, as long as it comes to less.
Status keep_stage_below_limit(const job::Job& job, int threads, const Prepared& prepared,
                              const std::function<Status(std::size_t, std::int64_t)>& save) {
  if (job.train.memory_limit.empty()) return {};
  TR_ASSIGN_OR_RETURN(const std::int64_t limit, limit_of(job, prepared));
  std::vector<bool> done(prepared.stages->segments.size(), false);
  for (;;) {
    TR_ASSIGN_OR_RETURN(const MemoryEstimate now, estimate_prepared(job, prepared, threads));
    const std::int64_t over = now.total_bytes() - limit;
    if (over <= 0) return {};
    TR_ASSIGN_OR_RETURN(const StageBytes bytes, stage_bytes(prepared, 0));
    const auto in_flight = [&](std::size_t s) {
      return bytes.in_flight.at(prepared.stages->virtual_stage_of(prepared.stages->segments[s].index));
    };
    const auto kept = [&](std::size_t s) {
      return done[s] ? 0 : in_flight(s) * prepared.stages->segments[s].train->arena_bytes();
    };
    std::size_t most = 0;
    for (std::size_t s = 1; s < done.size(); ++s)
      if (kept(s) > kept(most)) most = s;
    const std::int64_t before = kept(most);
    if (before == 0)
      return error(
          Code::kExhausted,
          "[train] train.memory_limit: stage {} of {} needs {} ({}), expected at most {}: nothing more "
          "can be computed again; use more stages, a smaller train.batch (got {}), more micro-batches "
          "(parallel.micro_batches) or a higher limit",
          prepared.stages->stage, prepared.stages->timetable.stages, text_of(now.total_bytes()),
          parts_text(now), text_of(limit), job.train.batch);
    TR_RETURN_IF_ERROR(save(most, (over + in_flight(most) - 1) / in_flight(most)));
    done[most] = kept(most) >= before;
  }
}

namespace {

// A limit of workers that would do, nearly the least one; 0: none was found. Cuts follow from the limit, so
// it is tried.
std::int64_t nearest_limit(job::Job job, const model::ModelInput& input, const StoredPlan& stored) {
  constexpr int kHalvings = 6;
  const auto does = [&](std::int64_t bytes) {
    job.train.memory_limit = std::to_string(bytes);
    return estimate_workers(job, input, 1, stored).ok();
  };
  const Result<std::uint64_t> asked = parse_bytes(job.train.memory_limit);
  job.train.memory_limit.clear();
  const Result<std::vector<std::int64_t>> free = estimate_workers(job, input, 1, stored);
  if (!asked.ok() || !free.ok()) return 0;
  auto low = static_cast<std::int64_t>(*asked), high = *std::max_element(free->begin(), free->end());
  if (high <= low || !does(high)) return 0;
  for (int i = 0; i < kHalvings; ++i) {
    const std::int64_t middle = low + (high - low) / 2;
    (does(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

Status check_stage_memory(const job::Job& job, const model::ModelInput& input, const StoredPlan& stored) {
  if (job.train.memory_limit.empty() || job::segments_of(job) == 1) return {};
  const Status status = estimate_workers(job, input, 1, stored).status();
  if (status.code() != Code::kExhausted) return status;
  const std::int64_t nearest = nearest_limit(job, input, stored);
  constexpr std::int64_t kUnit = 1024;
  if (nearest == 0) return Status(Code::kInvalid, status.message());
  return error(Code::kInvalid, "{}; the nearest limit that would do: train.memory_limit = \"{}KiB\"",
               status.message(), (nearest + kUnit - 1) / kUnit);
}

std::optional<Json> gpu_memory(const job::Job& job, const Prepared& prepared) {
  const kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(prepared.device.get());
  const Result<MemoryEstimate> estimate = estimate_prepared(job, prepared, 1);
  if (gpu == nullptr || !estimate.ok()) return std::nullopt;
  return Json{{"predicted_bytes", estimate->total_bytes()},
              {"measured_bytes", kernel::cuda::peak_bytes(*gpu)}};
}

}  // namespace trireme::prepare
