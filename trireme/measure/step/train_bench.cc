#include "trireme/measure/step/train_bench.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "trireme/measure/step/step_side.h"
#include "trireme/runtime/sync.h"

namespace trireme::measure {
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
  double warm_ms = 0;
  std::vector<double> rounds_ms;
  std::int64_t peak_bytes = 0;
};

// A line of the table in the making, with PyTorch's processes where they run already.
struct Line {
  TrainRow row;
  std::optional<Measured> eager, compiled;
};

class Bench {
 public:
  Bench(runtime::Runtime& rt, TrainBenchOptions options, std::string dir,
        std::function<void(const std::string&)> say)
      : rt_(rt), o_(std::move(options)), dir_(std::move(dir)), say_(std::move(say)) {}

  std::vector<Line> make_lines() const;
  // PyTorch's processes of all lines, `ahead` at a time, until each has made its first steps.
  Task<void> start_ahead(std::vector<Line>& lines);
  Task<Status> measure(Line& line);

 private:
  StepSideSpec own_spec(const TrainRow& row, bool profile);
  StepSideSpec torch_spec(const TrainRow& row, std::string mode);
  Task<Result<Measured>> start(const TrainRow& row, StepSideSpec spec);
  Task<Status> settle(Measured& measured);
  Task<void> start_torch(TrainRow& row, std::string mode, std::optional<Measured>& out, std::string& absent);
  Task<Status> start_next(std::vector<Line>& lines, std::size_t& next);
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

// Warm, and with the number of steps that fill a round.
Task<Status> Bench::settle(Measured& measured) {
  Result<std::vector<double>> warm = co_await measured.side->steps_ms(kWarmup);
  if (!warm.ok()) co_return warm.status();
  measured.warm_ms = warm->back();
  const double steps = o_.seconds * 1e3 / std::max(measured.warm_ms, 1e-3);
  measured.steps = std::clamp(static_cast<int>(steps), 1, kMostSteps);
  co_return Status();
}

Task<Result<Measured>> Bench::start(const TrainRow& row, StepSideSpec spec) {
  spec.dir = dir_;
  spec.patience = from_seconds(o_.patience_seconds);
  const std::string label = spec.name;
  spec.name = fmt::format("{}-{}", num_sides_++, spec.name);
  Measured measured;
  TR_CO_ASSIGN_OR_RETURN(measured.side, co_await start_step_side(rt_, std::move(spec)));
  TR_CO_RETURN_IF_ERROR(co_await settle(measured));
  tell(row, fmt::format("{} is ready ({}), {:.1f} ms a step, {} in a round", label, measured.side->about(),
                        measured.warm_ms, measured.steps));
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

std::vector<Line> Bench::make_lines() const {
  std::vector<Line> lines;
  for (const std::string& dtype : o_.dtypes)
    for (const Workload* workload : o_.workloads) {
      TrainRow& row = lines.emplace_back().row;
      row.workload = workload;
      row.dtype = dtype;
      row.device = o_.device;
      row.batch = batch_of(*workload, o_.device, o_.quick);
    }
  return lines;
}

// Takes the sides one by one, as its neighbours do, until none is left.
Task<Status> Bench::start_next(std::vector<Line>& lines, std::size_t& next) {
  const std::size_t modes = o_.compile ? 2 : 1;
  while (next < lines.size() * modes) {
    const std::size_t side = next++;
    // Compiled ones first: they take longest.
    Line& line = lines[side % lines.size()];
    if (side / lines.size() + 1 < modes) {
      co_await start_torch(line.row, "compile", line.compiled, line.row.compile_absent);
    } else {
      co_await start_torch(line.row, "eager", line.eager, line.row.eager_absent);
    }
  }
  co_return Status();
}

Task<void> Bench::start_ahead(std::vector<Line>& lines) {
  std::size_t next = 0;
  std::vector<Task<Status>> starting;
  for (int i = 0; i < o_.ahead; ++i) starting.push_back(start_next(lines, next));
  (void)co_await runtime::when_all(rt_, std::move(starting));  // who could not start is named in its row
}

Task<Status> Bench::measure(Line& line) {
  TrainRow& row = line.row;
  if (o_.rounds > 0) {
    TR_CO_ASSIGN_OR_RETURN(Measured ours, co_await start(row, own_spec(row, false)));
    const bool late = o_.torch && o_.ahead == 0;
    if (late) co_await start_torch(row, "eager", line.eager, row.eager_absent);
    if (late && o_.compile) co_await start_torch(row, "compile", line.compiled, row.compile_absent);
    for (std::optional<Measured>* side : {&line.eager, &line.compiled})
      if (!late && *side) TR_CO_RETURN_IF_ERROR(co_await settle(**side));
    TR_CO_RETURN_IF_ERROR(co_await run_rounds(row, ours, line.eager, line.compiled));
    if (o_.profile && row.device == "cuda") {
      std::string ask = fmt::format("gaps {}", ours.steps);
      TR_CO_ASSIGN_OR_RETURN(const std::string text, co_await ours.side->ask(std::move(ask), "gaps"));
      TR_CO_ASSIGN_OR_RETURN(row.gaps, parse_json(text, "the gaps"));
    }
    TR_CO_RETURN_IF_ERROR(co_await finish(ours, row.ours));
    if (line.eager) TR_CO_RETURN_IF_ERROR(co_await finish(*line.eager, row.eager.emplace()));
    if (line.compiled) TR_CO_RETURN_IF_ERROR(co_await finish(*line.compiled, row.compile.emplace()));
  }
  co_return co_await dissect(row);
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

Task<Status> check_torch(runtime::Runtime& rt, const TrainBenchOptions& options, std::string dir) {
  runtime::ProcessSpec spec;
  spec.argv = {options.python, "-c", "import torch"};
  spec.stdout_path = spec.stderr_path = dir + "/torch.log";
  auto process = rt.processes().spawn(std::move(spec));
  constexpr TimeNs kImport = 300 * kSecond;
  bool found = false;
  if (process.ok()) {
    Result<runtime::ExitStatus> ended = co_await (*process)->wait(rt.now() + kImport);
    found = ended.ok() && ended->ok();
  }
  if (!found)
    co_return error(Code::kUnavailable,
                    "[bench] --against torch: '{}' cannot import torch; --python PATH (or $TRIREME_PYTHON) "
                    "names a Python with PyTorch (pip install torch)",
                    options.python);
  Result<Bytes> read = co_await rt.files().read(options.script);
  if (read.ok()) co_return Status();
  co_return error(Code::kNotFound,
                  "[bench] PyTorch's side is missing: got no '{}'; name its folder with --peers",
                  options.script);
}

Task<Result<std::vector<TrainRow>>> run_train_bench(runtime::Runtime& rt, TrainBenchOptions options,
                                                    std::string dir,
                                                    std::function<void(const std::string&)> say,
                                                    std::function<void(const TrainRow&)> on_row) {
  const bool ahead = options.torch && options.rounds > 0 && options.ahead > 0;
  Bench bench(rt, std::move(options), std::move(dir), std::move(say));
  std::vector<Line> lines = bench.make_lines();
  if (ahead) co_await bench.start_ahead(lines);
  std::vector<TrainRow> rows;
  for (Line& line : lines) {
    const TrainRow& row = line.row;
    Status status = co_await bench.measure(line);
    if (!status.ok())
      co_return status.with_prefix(fmt::format("[bench] {} {}: ", row.workload->name, row.dtype));
    on_row(row);
    rows.push_back(std::move(line.row));
  }
  co_return rows;
}

}  // namespace trireme::measure
