// The list of passes. A pass that the trainer runs is a row of the pipeline, where it runs; it may be there
// more than once. A pass that somebody else runs is in kOthers.
#include "trireme/graph/pass/pipeline.h"

#include <algorithm>

namespace trireme::graph {

// Each is defined in a file of its own.
extern const PassRow kAbsorbCasts, kBiasConvolutions, kBiasProducts, kCancelTransposes, kChannelsLast, kCse,
    kDeadCode, kFold, kFuse, kFuseEpilogues, kFuseNorms, kHoistReshapes, kJoinBiasGrads, kJoinCasts,
    kJoinGeluGrads, kJoinLosses, kJoinNormSums, kJoinResiduals, kKeepGates, kKeepPlaces, kKeepReserves,
    kLowerGates, kLowerPrecision, kLowerRecurrences, kMaskPooled, kNarrowCopies, kNarrowNorms, kPackAttention,
    kRecompute, kRoundInProducts, kScalarFills, kScheduleReceives, kSpecialise, kWidenProducts;

namespace {

using Target = PipelineTarget;

bool always(const Target&) { return true; }
bool gpu(const Target& t) { return t.on_gpu; }
bool cpu(const Target& t) { return !t.on_gpu; }
bool gpu_low(const Target& t) { return t.on_gpu && t.is_low(); }
bool cpu_f32(const Target& t) { return cpu(t) && t.precision == Precision::kF32; }
bool cpu_norms(const Target& t) { return cpu(t) && t.fuses_norms; }
bool cpu_gates(const Target& t) { return cpu(t) && t.precision == Precision::kBf16 && t.lowers_gates; }
// The CPU has kernels for other forms of operands, or works in f32 throughout. Elsewhere 16-bit values on the
// CPU stay between their casts.
bool formed(const Target& t) { return gpu(t) || cpu_f32(t) || !t.options.turnable.empty(); }
bool formed_low(const Target& t) { return formed(t) && t.is_low(); }
bool formed_images(const Target& t) { return formed(t) && (cpu(t) || t.is_low()); }
bool formed_cpu(const Target& t) { return formed(t) && cpu(t); }

constexpr PipelineRow kPipeline[] = {
    {&kCse, gpu},
    {&kPackAttention, gpu},
    {&kDeadCode, gpu},
    {&kCse, always},
    // What gradients of layers keep or need not compute.
    {&kCancelTransposes, cpu},
    {&kDeadCode, cpu},
    {&kFuseNorms, cpu_norms},
    {&kKeepGates, cpu},
    {&kLowerGates, cpu_gates},
    {&kDeadCode, cpu_gates},
    {&kKeepPlaces, cpu_f32},
    {&kMaskPooled, cpu_f32},
    {&kDeadCode, cpu_f32},
    {&kJoinGeluGrads, gpu},
    {&kDeadCode, gpu},
    {&kLowerRecurrences, gpu_low},
    {&kCse, gpu_low},
    {&kKeepReserves, gpu},
    {&kFold, formed},
    {&kCse, formed},
    {&kJoinLosses, gpu},
    {&kScalarFills, gpu},
    {&kFuseNorms, gpu},
    {&kKeepPlaces, gpu},
    {&kMaskPooled, gpu},
    {&kDeadCode, gpu},
    // The forms that values have in memory.
    {&kBiasProducts, gpu_low},
    {&kDeadCode, gpu_low},
    {&kWidenProducts, formed_low},
    {&kNarrowNorms, formed_low},
    {&kNarrowCopies, formed_low},
    {&kBiasConvolutions, gpu_low},
    {&kDeadCode, gpu_low},
    {&kChannelsLast, formed_images},
    {&kHoistReshapes, formed},
    {&kJoinNormSums, gpu},
    {&kJoinResiduals, gpu},
    {&kAbsorbCasts, formed},
    {&kDeadCode, formed},
    {&kRoundInProducts, formed_cpu},
    // Fewer walks and launches.
    {&kFuse, always},
    {&kJoinBiasGrads, gpu},
    {&kJoinCasts, gpu},
};

constexpr const PassRow* kOthers[] = {&kSpecialise, &kLowerPrecision, &kFuseEpilogues, &kRecompute,
                                      &kScheduleReceives};

std::vector<PassRow> all_passes() {
  std::vector<PassRow> rows;
  const auto add = [&](const PassRow& row) {
    const auto same = [&](const PassRow& other) { return other.name == row.name; };
    if (std::none_of(rows.begin(), rows.end(), same)) rows.push_back(row);
  };
  for (const PipelineRow& row : kPipeline) add(*row.pass);
  for (const PassRow* row : kOthers) add(*row);
  return rows;
}

}  // namespace

PassOptions PipelineTarget::pass_options() const {
  PassOptions all = options;
  all.dtype = precision == Precision::kF16 ? DType::kF16 : DType::kBF16;
  all.join_results = on_gpu;
  return all;
}

std::span<const PipelineRow> pipeline() { return kPipeline; }

Result<Graph> run_pipeline(const PipelineTarget& target, const Graph& graph) {
  const PassOptions options = target.pass_options();
  Graph made = graph;
  for (const PipelineRow& row : kPipeline) {
    if (!row.when(target)) continue;
    TR_ASSIGN_OR_RETURN(made, row.pass->run(made, options));
  }
  return made;
}

std::span<const PassRow> pass_table() {
  static const std::vector<PassRow> kRows = all_passes();
  return kRows;
}

const PassRow* find_pass(std::string_view name) {
  for (const PassRow& row : pass_table())
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace trireme::graph
