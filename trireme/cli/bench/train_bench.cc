#include "trireme/cli/bench/train_bench.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "trireme/cli/bench/step_side.h"

namespace trireme::cli::bench {
namespace {

using runtime::Task;

constexpr int kWarmup = 2;      // steps before those that count: memory is touched, code is generated
constexpr int kMostSteps = 50;  // of a round

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<std::size_t>(at);
  const std::size_t j = std::min(i + 1, sorted.size() - 1);
  return sorted[i] + (at - static_cast<double>(i)) * (sorted[j] - sorted[i]);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

// A side that is measured, and what it has shown so far.
struct Measured {
  std::unique_ptr<StepSide> side;
  int steps = 1;  // of a round
  std::vector<double> rounds_ms;
  std::int64_t peak_bytes = 0;
};

class Bench {
 public:
  Bench(runtime::Runtime& rt, TrainBenchOptions options, std::string dir,
        std::function<void(const std::string&)> say)
      : rt_(rt), o_(std::move(options)), dir_(std::move(dir)), say_(std::move(say)) {}

  Task<Result<TrainRow>> row(const Workload& workload, std::string dtype);
  const TrainBenchOptions& options() const { return o_; }

 private:
  StepSideSpec own_spec(const TrainRow& row, bool profile);
  StepSideSpec torch_spec(const TrainRow& row, std::string mode);
  Task<Result<Measured>> start(const TrainRow& row, StepSideSpec spec);
  Task<void> start_torch(TrainRow& row, std::string mode, std::optional<Measured>& out, std::string& absent);
  Task<Status> one_round(Measured& measured);
  Task<Status> run_rounds(TrainRow& row, Measured& ours, std::optional<Measured>& eager,
                          std::optional<Measured>& compiled);
  Task<Status> finish(Measured& measured, StepTiming& out);
  Task<Status> dissect(TrainRow& row);
  void tell(const TrainRow& row, std::string_view what) {
    say_(fmt::format("{} {}: {}", row.workload->name, row.dtype, what));
  }

  runtime::Runtime& rt_;
  TrainBenchOptions o_;
  std::string dir_;
  std::function<void(const std::string&)> say_;
  int num_sides_ = 0;
};

StepSideSpec Bench::own_spec(const TrainRow& row, bool profile) {
  StepSideSpec spec;
  spec.name = profile ? "ours-profile" : "ours";
  spec.argv = {o_.binary,  "bench-steps", "--workload", row.workload->name,
               "--dtype",  row.dtype,     "--threads",  std::to_string(o_.threads),
               "--device", o_.device};
  if (o_.quick) spec.argv.emplace_back("--quick");
  if (profile) spec.argv.emplace_back("--profile");
  spec.argv.emplace_back("--driver");
  return spec;
}

StepSideSpec Bench::torch_spec(const TrainRow& row, std::string mode) {
  StepSideSpec spec;
  spec.name = "torch-" + mode;
  spec.argv = {o_.python,
               o_.script,
               row.workload->name,
               std::move(mode),
               row.dtype,
               std::to_string(o_.threads),
               std::to_string(row.batch),
               o_.device};
  return spec;
}

// Ready, warm, and with the number of steps that fill a round.
Task<Result<Measured>> Bench::start(const TrainRow& row, StepSideSpec spec) {
  spec.dir = dir_;
  spec.patience = from_seconds(o_.patience_seconds);
  const std::string label = spec.name;
  spec.name = fmt::format("{}-{}", num_sides_++, spec.name);
  Measured measured;
  TR_CO_ASSIGN_OR_RETURN(measured.side, co_await start_step_side(rt_, std::move(spec)));
  Result<std::vector<double>> warm = co_await measured.side->steps_ms(kWarmup);
  if (!warm.ok()) co_return warm.status();
  const double ms = warm->back();
  measured.steps = std::clamp(static_cast<int>(o_.seconds * 1e3 / std::max(ms, 1e-3)), 1, kMostSteps);
  tell(row, fmt::format("{} is ready ({}), {:.1f} ms a step, {} in a round", label, measured.side->about(),
                        ms, measured.steps));
  co_return measured;
}

Task<void> Bench::start_torch(TrainRow& row, std::string mode, std::optional<Measured>& out,
                              std::string& absent) {
  Result<Measured> started = co_await start(row, torch_spec(row, mode));
  if (started.ok()) {
    out = std::move(*started);
    row.torch_version = out->side->about();
    co_return;
  }
  absent = started.status().message();
  tell(row, fmt::format("no figures of torch {}: {}", mode, absent));
}

Task<Status> Bench::one_round(Measured& measured) {
  Result<std::vector<double>> ms = co_await measured.side->steps_ms(measured.steps);
  if (!ms.ok()) co_return ms.status();
  measured.rounds_ms.push_back(median_of(*ms));
  co_return Status();
}

Task<Status> Bench::run_rounds(TrainRow& row, Measured& ours, std::optional<Measured>& eager,
                               std::optional<Measured>& compiled) {
  for (int r = 0; r < o_.rounds; ++r) {
    std::string line = fmt::format("round {}/{}:", r + 1, o_.rounds);
    for (Measured* m : {&ours, eager ? &*eager : nullptr, compiled ? &*compiled : nullptr}) {
      if (m == nullptr) continue;
      TR_CO_RETURN_IF_ERROR(co_await one_round(*m));
      const std::string& name = m->side->name();
      line += fmt::format(" {} {:.1f} ms", name.substr(name.find('-') + 1), m->rounds_ms.back());
    }
    tell(row, line);
  }
  co_return Status();
}

Task<Status> Bench::finish(Measured& measured, StepTiming& out) {
  Result<std::string> reply = co_await measured.side->ask("memory", "memory");
  if (!reply.ok()) co_return reply.status();
  out = summarise_rounds(std::move(measured.rounds_ms));
  std::from_chars(reply->data(), reply->data() + reply->size(), out.peak_bytes);
  co_await measured.side->stop();
  co_return Status();
}

// A process of its own, when nobody else is measured any more.
Task<Status> Bench::dissect(TrainRow& row) {
  if (!o_.ceiling && !o_.profile) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(Measured ours, co_await start(row, own_spec(row, true)));
  if (o_.profile) {
    std::string line = fmt::format("profile {}", ours.steps);
    TR_CO_ASSIGN_OR_RETURN(const std::string text, co_await ours.side->ask(std::move(line), "profile"));
    TR_CO_ASSIGN_OR_RETURN(row.profile, parse_json(text, "the profile"));
  }
  if (o_.ceiling) {
    tell(row, "every heavy kernel alone");
    TR_CO_ASSIGN_OR_RETURN(const std::string text, co_await ours.side->ask("kernels", "kernels"));
    TR_CO_ASSIGN_OR_RETURN(row.kernels, parse_json(text, "the kernels"));
  }
  co_await ours.side->stop();
  co_return Status();
}

Task<Result<TrainRow>> Bench::row(const Workload& workload, std::string dtype) {
  TrainRow row;
  row.workload = &workload;
  row.dtype = std::move(dtype);
  row.device = o_.device;
  row.batch = batch_of(workload, o_.device, o_.quick);
  if (o_.rounds > 0) {
    TR_CO_ASSIGN_OR_RETURN(Measured ours, co_await start(row, own_spec(row, false)));
    std::optional<Measured> eager, compiled;
    if (o_.torch) co_await start_torch(row, "eager", eager, row.eager_absent);
    if (o_.torch && o_.compile) co_await start_torch(row, "compile", compiled, row.compile_absent);
    TR_CO_RETURN_IF_ERROR(co_await run_rounds(row, ours, eager, compiled));
    if (o_.profile && row.device == "cuda") {
      std::string line = fmt::format("gaps {}", ours.steps);
      TR_CO_ASSIGN_OR_RETURN(const std::string text, co_await ours.side->ask(std::move(line), "gaps"));
      TR_CO_ASSIGN_OR_RETURN(row.gaps, parse_json(text, "the gaps"));
    }
    TR_CO_RETURN_IF_ERROR(co_await finish(ours, row.ours));
    if (eager) TR_CO_RETURN_IF_ERROR(co_await finish(*eager, row.eager.emplace()));
    if (compiled) TR_CO_RETURN_IF_ERROR(co_await finish(*compiled, row.compile.emplace()));
  }
  TR_CO_RETURN_IF_ERROR(co_await dissect(row));
  co_return row;
}

}  // namespace

StepTiming summarise_rounds(std::vector<double> rounds_ms) {
  StepTiming t;
  t.rounds_ms = rounds_ms;
  if (rounds_ms.empty()) return t;
  std::sort(rounds_ms.begin(), rounds_ms.end());
  t.median_ms = quantile(rounds_ms, 0.5);
  t.low_ms = quantile(rounds_ms, 0.25);
  t.high_ms = quantile(rounds_ms, 0.75);
  return t;
}

const StepTiming* TrainRow::best_torch() const {
  if (eager && compile) return compile->median_ms < eager->median_ms ? &*compile : &*eager;
  return eager ? &*eager : compile ? &*compile : nullptr;
}

std::optional<double> TrainRow::ratio() const {
  const StepTiming* torch = best_torch();
  if (torch == nullptr || ours.median_ms <= 0) return std::nullopt;
  return torch->median_ms / ours.median_ms;
}

std::optional<std::pair<double, double>> TrainRow::ratio_spread() const {
  const StepTiming* torch = best_torch();
  if (torch == nullptr || ours.rounds_ms.size() != torch->rounds_ms.size() || ours.rounds_ms.empty())
    return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.rounds_ms.size(); ++i)
    ratios.push_back(torch->rounds_ms[i] / ours.rounds_ms[i]);
  std::sort(ratios.begin(), ratios.end());
  return std::pair(quantile(ratios, 0.25), quantile(ratios, 0.75));
}

std::optional<double> TrainRow::ceiling() const {
  const StepTiming* torch = best_torch();
  if (torch == nullptr || !kernels.is_object()) return std::nullopt;
  return torch->median_ms / kernels.value("least_ms", 1.0);
}

std::optional<std::int64_t> TrainRow::torch_peak_bytes() const {
  if (eager && compile) return std::min(eager->peak_bytes, compile->peak_bytes);
  if (!eager && !compile) return std::nullopt;
  return eager ? eager->peak_bytes : compile->peak_bytes;
}

Task<Result<std::vector<TrainRow>>> run_train_bench(runtime::Runtime& rt, TrainBenchOptions options,
                                                    std::string dir,
                                                    std::function<void(const std::string&)> say,
                                                    std::function<void(const TrainRow&)> on_row) {
  Bench bench(rt, std::move(options), std::move(dir), std::move(say));
  std::vector<TrainRow> rows;
  for (const std::string& dtype : bench.options().dtypes)
    for (const Workload* workload : bench.options().workloads) {
      Result<TrainRow> row = co_await bench.row(*workload, dtype);
      if (!row.ok())
        co_return row.status().with_prefix(fmt::format("[bench] {} {}: ", workload->name, dtype));
      on_row(*row);
      rows.push_back(std::move(*row));
    }
  co_return rows;
}

}  // namespace trireme::cli::bench
