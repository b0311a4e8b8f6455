#include "trireme/train/metrics.h"

#include "trireme/base/json.h"

namespace trireme::train {

using runtime::Task;

MetricsLog::MetricsLog(runtime::Runtime& rt, std::string run_dir, bool events)
    : rt_(rt), path_(run_dir + "/metrics.jsonl"), active_(!run_dir.empty()) {
  if (active_ && events) events_.emplace(rt, run_dir);
}

Task<Status> MetricsLog::open(std::int64_t last_step) {
  if (!active_) co_return Status();
  if (events_) TR_CO_RETURN_IF_ERROR(co_await events_->open(last_step));
  Result<Bytes> bytes = co_await rt_.files().read(path_);
  std::string kept;
  if (bytes.ok()) {
    std::string_view rest = as_text(*bytes);
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      const Result<Json> json = parse_json(line, path_);  // a torn last line of a crash is dropped
      if (!json.ok()) continue;
      const Result<std::int64_t> step = json_get<std::int64_t>(*json, "step");
      if (step.ok() && *step <= last_step) kept += std::string(line) + "\n";
    }
  }
  co_return co_await rt_.files().write_atomic(path_, as_bytes(kept));
}

void MetricsLog::add_step(const Step& row) {
  if (!active_) return;
  Json line = {{"step", row.step},
               {"epoch", row.epoch},
               {"loss", row.loss},
               {"accuracy", row.accuracy},
               {"lr", row.lr},
               {"samples", row.samples},
               {"seconds", to_seconds(row.since_start)}};
  if (row.grad_norm != 0) line["grad_norm"] = row.grad_norm;
  if (row.skipped) line["skipped"] = true;
  pending_ += line.dump() + "\n";
  if (!events_ || row.skipped) return;
  events_->add_scalar("train/loss", row.step, row.loss);
  events_->add_scalar("train/accuracy", row.step, row.accuracy);
  events_->add_scalar("train/lr", row.step, row.lr);
  if (row.grad_norm != 0) events_->add_scalar("train/grad_norm", row.step, row.grad_norm);
}

void MetricsLog::add_evaluation(const Evaluation& row) {
  if (!active_) return;
  const std::string part = row.part == Part::kTest ? "test" : "validation";
  const Json line = {{"step", row.step},
                     {"epoch", row.epoch},
                     {part + "_loss", row.loss},
                     {part + "_accuracy", row.accuracy}};
  pending_ += line.dump() + "\n";
  if (!events_) return;
  events_->add_scalar(part + "/loss", row.step, row.loss);
  events_->add_scalar(part + "/accuracy", row.step, row.accuracy);
}

void MetricsLog::add_codec(std::int64_t step, const std::string& codec, const std::string& why) {
  if (active_) pending_ += Json{{"step", step}, {"codec", codec}, {"why", why}}.dump() + "\n";
}

Task<Status> MetricsLog::flush() {
  if (events_) TR_CO_RETURN_IF_ERROR(co_await events_->flush());
  if (!active_ || pending_.empty()) co_return Status();
  const std::string text = std::exchange(pending_, {});
  TR_CO_RETURN_IF_ERROR(co_await rt_.files().append(path_, as_bytes(text)));
  // Before the checkpoint that these lines lead to: it must not survive a crash that they do not.
  co_return co_await rt_.files().sync(path_);
}

}  // namespace trireme::train
