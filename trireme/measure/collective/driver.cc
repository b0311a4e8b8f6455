#include "trireme/measure/collective/driver.h"

#include <algorithm>
#include <cmath>

#include "trireme/runtime/files.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr double kSlice = 0.05;  // seconds per side and round where no budget is given
constexpr int kLeastCalls = 3, kMostCalls = 1000, kProbeCalls = 3, kWarmup = 2;
constexpr int kTrialRounds = 5;
constexpr double kClearlyBetter = 0.97;         // of the default's time
constexpr double kRewriteBytesPerSecond = 4e9;  // rewriting the input takes its share of a slice

struct NamedSide {
  std::string setting;
  std::unique_ptr<Side> side;
};

// The sides of one world.
class World {
 public:
  World(runtime::Runtime& rt, const BenchOptions& options, int world, std::string dir, Report& report)
      : rt_(rt), o_(options), world_(world), dir_(std::move(dir)), report_(report) {}

  Task<Status> run(const std::function<void(const BenchRow&)>& on_row);

 private:
  Task<Status> start();
  Task<Status> start_mpi();
  Task<std::vector<std::vector<double>>> try_settings(std::uint64_t bytes);
  Task<void> choose_mpi(std::uint64_t bytes);
  Task<Status> measure_point(std::uint64_t bytes, BenchRow& row);
  Task<void> stop();
  Status lose(const char* side, const Status& why);
  Status absent(const char* side, const Status& why);
  Work work_for(std::uint64_t bytes, const Side& side) const;
  int calls_for(double call_us, std::uint64_t bytes) const;
  NamedSide* mpi_side_now();  // null: none works

  runtime::Runtime& rt_;
  const BenchOptions& o_;
  const int world_;
  const std::string dir_;
  Report& report_;
  std::unique_ptr<Side> ours_, gloo_;
  std::vector<NamedSide> mpi_;
  std::string chosen_;       // algorithm of ours at the point under way; empty: the group's own way
  std::size_t mpi_now_ = 0;  // into mpi_: the setting for the size under way
};

bool wants(const BenchOptions& o, const char* side) {
  return std::find(o.against.begin(), o.against.end(), side) != o.against.end();
}

Work World::work_for(std::uint64_t bytes, const Side& side) const {
  Work w;
  w.kind = o_.kind;
  w.elems = static_cast<std::int64_t>(bytes / 4);
  if (has_blocks(o_.kind)) w.elems = (w.elems + world_ - 1) / world_ * world_;
  if (o_.kind == collective::Kind::kBarrier) w.elems = 0;
  w.in_place = o_.in_place;
  if (&side == ours_.get()) w.algorithm = o_.algorithm.empty() ? chosen_ : o_.algorithm;
  w.crowded = world_ > o_.cores;
  w.warmup = kWarmup;
  return w;
}

int World::calls_for(double call_us, std::uint64_t bytes) const {
  double slice = kSlice;
  if (o_.seconds > 0)
    slice = o_.seconds / static_cast<double>(o_.worlds.size() * o_.sizes.size() * (1 + o_.against.size()) *
                                             static_cast<std::size_t>(o_.repeats));
  const double per_call = call_us * 1e-6 + static_cast<double>(bytes) / kRewriteBytesPerSecond + 1e-6;
  return static_cast<int>(std::clamp(slice / per_call, double{kLeastCalls}, double{kMostCalls}));
}

// While it is measured a side may be lost at one point or world: a row without it, with the reason.
Status World::lose(const char* side, const Status& why) {
  report_.absent.push_back({side, world_, why.message()});
  return {};
}

// A side that was asked for and does not even start in the first world is not there.
Status World::absent(const char* side, const Status& why) {
  if (!report_.rows.empty()) return lose(side, why);
  if (std::string_view(side) == "mpi")
    return error(
        Code::kUnavailable,
        "[bench] --against mpi: Open MPI does not run ({}); install it, then build again: apt install "
        "openmpi-bin libopenmpi-dev; or leave out --against mpi",
        why.message());
  return error(
      Code::kUnavailable,
      "[bench] --against gloo: PyTorch's Gloo does not run ({}); install it: {} -m pip install torch; "
      "or name a Python that has it with --python, or leave out --against gloo",
      why.message(), o_.peers.python);
}

Task<Status> World::start() {
  SideSpec own = own_side(o_.own, world_, dir_);
  auto side = co_await start_side(rt_, std::move(own));
  if (!side.ok()) co_return side.status();
  ours_ = std::move(*side);
  if (wants(o_, "mpi")) TR_CO_RETURN_IF_ERROR(co_await start_mpi());
  if (wants(o_, "gloo")) {
    SideSpec spec = gloo_side(o_.peers, world_, dir_);
    auto gloo = co_await start_side(rt_, std::move(spec));
    if (gloo.ok())
      gloo_ = std::move(*gloo);
    else
      TR_CO_RETURN_IF_ERROR(absent("gloo", gloo.status()));
  }
  co_return Status();
}

Task<Status> World::start_mpi() {
  Status first;
  int index = 0;
  for (const MpiSetting& setting : mpi_settings(o_.peers, o_.kind)) {
    SideSpec spec = mpi_side(o_.peers, setting, index++, world_, dir_);
    auto side = co_await start_side(rt_, std::move(spec));
    if (side.ok())
      mpi_.push_back({setting.name, std::move(*side)});
    else if (first.ok())
      first = side.status();
  }
  co_return mpi_.empty() ? absent("mpi", first) : Status();
}

// Times of every setting at one size, round by round. Settings that fail are ended.
Task<std::vector<std::vector<double>>> World::try_settings(std::uint64_t bytes) {
  std::vector<std::vector<double>> rounds(mpi_.size());
  std::vector<double> guess_us(mpi_.size(), 0);
  for (int round = -1; round < kTrialRounds; ++round) {
    for (std::size_t i = 0; i < mpi_.size(); ++i) {
      if (mpi_[i].side == nullptr) continue;
      Work work = work_for(bytes, *mpi_[i].side);
      work.calls = round < 0 ? kProbeCalls : std::max(kLeastCalls, calls_for(guess_us[i], bytes) / 2);
      Result<std::vector<double>> times = co_await mpi_[i].side->measure(std::move(work));
      if (!times.ok()) {
        mpi_[i].side.reset();
        continue;
      }
      guess_us[i] = quantile(*times, 0.5);
      if (round >= 0) rounds[i].push_back(guess_us[i]);
    }
  }
  co_return rounds;
}

// The best setting at this very size: what is best for 4 KB may be far from it for 1 KB. Compared round by
// round with the first that works (the default), which stays unless another is clearly better.
Task<void> World::choose_mpi(std::uint64_t bytes) {
  mpi_now_ = 0;
  if (mpi_.size() < 2) co_return;
  std::vector<std::vector<double>> rounds = co_await try_settings(bytes);
  std::size_t base = 0;
  while (base < mpi_.size() && mpi_[base].side == nullptr) ++base;
  if (base == mpi_.size()) co_return;
  mpi_now_ = base;
  double best_ratio = kClearlyBetter;
  for (std::size_t i = base + 1; i < mpi_.size(); ++i) {
    if (mpi_[i].side == nullptr) continue;
    const double ratio = ratio_of(summarise(rounds[i], 0), summarise(rounds[base], 0)).median;
    if (ratio < best_ratio) best_ratio = ratio, mpi_now_ = i;
  }
}

NamedSide* World::mpi_side_now() {
  return mpi_now_ < mpi_.size() && mpi_[mpi_now_].side != nullptr ? &mpi_[mpi_now_] : nullptr;
}

Task<Status> World::measure_point(std::uint64_t bytes, BenchRow& row) {
  co_await choose_mpi(bytes);
  NamedSide* mpi = mpi_side_now();
  struct Contender {
    Side* side;
    Work work;
    std::vector<double> rounds_us;
    Status failure;
  };
  std::vector<Contender> all;
  for (Side* side : {ours_.get(), mpi != nullptr ? mpi->side.get() : nullptr, gloo_.get()})
    if (side != nullptr) all.push_back({side, work_for(bytes, *side), {}, {}});
  for (int round = -1; round < o_.repeats; ++round) {
    if (round >= 0 && !row.oversubscribed && world_ > 1) {
      Result<double> crossing = co_await ours_->crossing_ns();
      if (!crossing.ok()) co_return crossing.status();
      row.crossing_ns.push_back(*crossing);
    }
    for (Contender& c : all) {
      if (!c.failure.ok()) continue;
      if (round < 0) c.work.calls = kProbeCalls;
      Result<std::vector<double>> times = co_await c.side->measure(c.work);
      c.failure = times.status();
      if (!times.ok() && c.side == ours_.get()) co_return c.failure;
      if (!times.ok()) continue;
      const double median = quantile(*times, 0.5);
      if (round < 0)
        c.work.calls = calls_for(median, bytes);
      else
        c.rounds_us.push_back(median);
    }
  }
  row.ours = summarise(all[0].rounds_us, all[0].work.calls);
  for (Contender& c : all) {
    if (c.side == ours_.get()) continue;
    const bool is_gloo = c.side == gloo_.get();
    if (!c.failure.ok()) {
      TR_CO_RETURN_IF_ERROR(lose(is_gloo ? "gloo" : "mpi", c.failure));
      (is_gloo ? gloo_ : mpi->side).reset();
      continue;
    }
    const Timing timing = summarise(c.rounds_us, c.work.calls);
    (is_gloo ? row.gloo : row.mpi) = timing;
    (is_gloo ? row.gloo_ratio : row.mpi_ratio) = ratio_of(timing, row.ours);
    if (!is_gloo) row.mpi_setting = mpi->setting;
  }
  co_return Status();
}

Task<void> World::stop() {
  if (ours_ != nullptr) co_await ours_->stop();
  if (gloo_ != nullptr) co_await gloo_->stop();
  for (NamedSide& mpi : mpi_)
    if (mpi.side != nullptr) co_await mpi.side->stop();
}

Task<Status> World::run(const std::function<void(const BenchRow&)>& on_row) {
  const Status started = co_await start();
  if (!started.ok()) {
    co_await stop();
    co_return started;
  }
  const Models models = o_.models(world_);
  for (const std::uint64_t bytes : o_.sizes) {
    chosen_.clear();
    BenchRow row;
    row.kind = o_.kind;
    row.world = world_;
    row.transport = o_.own.transport;
    row.oversubscribed = world_ > o_.cores;
    const Work work = work_for(bytes, *ours_);
    row.bytes = static_cast<std::uint64_t>(work.elems) * 4;
    Result<PredictedTime> prediction = predict(models, work, world_, o_.own.shared_buffers);
    if (!prediction.ok()) co_return prediction.status();
    // Named in the calls, so that what is measured is what was priced.
    if (prediction->algorithm != kDirect) chosen_ = prediction->algorithm;
    row.algorithm = prediction->algorithm;
    row.predicted_us = prediction->microseconds;
    row.bound_us = bound_us(models, o_.kind, world_, static_cast<double>(row.bytes));
    TR_CO_RETURN_IF_ERROR(co_await measure_point(bytes, row));
    on_row(row);
    report_.rows.push_back(std::move(row));
  }
  co_await stop();
  co_return Status();
}

}  // namespace

Task<Result<Report>> run_bench(runtime::Runtime& rt, const BenchOptions& options, std::string dir,
                               std::function<void(const BenchRow&)> on_row) {
  Report report;
  for (const int world : options.worlds) {
    const std::string sub = fmt::format("{}/{}", dir, world);
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(sub));
    World one(rt, options, world, sub, report);
    Status status = co_await one.run(on_row);
    if (!status.ok()) co_return status;
  }
  co_return report;
}

double quantile(std::vector<double> values, double fraction) {
  TR_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const double at = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - std::floor(at));
}

Timing summarise(std::vector<double> rounds_us, int calls) {
  Timing t;
  t.median_us = quantile(rounds_us, 0.5);
  t.low_us = quantile(rounds_us, 0.25);
  t.high_us = quantile(rounds_us, 0.75);
  t.calls = calls;
  t.rounds_us = std::move(rounds_us);
  return t;
}

Ratio ratio_of(const Timing& theirs, const Timing& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(theirs.rounds_us.size(), ours.rounds_us.size()); ++i)
    ratios.push_back(theirs.rounds_us[i] / std::max(1e-3, ours.rounds_us[i]));
  if (ratios.empty()) return {};
  return {quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75)};
}

}  // namespace trireme::measure
