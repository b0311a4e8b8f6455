#include "trireme/record/metrics.h"

#include <algorithm>
#include <optional>

#include "trireme/base/json.h"
#include "trireme/runtime/sync.h"

namespace trireme::record {
namespace {

using runtime::Task;

bool is_evaluation_tag(std::string_view tag) {
  return tag.starts_with("test/") || tag.starts_with("validation/");
}

bool is_evaluation(const Json& line) {
  return line.contains("test_loss") || line.contains("validation_loss");
}

// The lines of an earlier start that this one goes on after.
std::string kept_lines(std::string_view text, const std::string& path, std::int64_t last_step,
                       bool evaluates_again) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const Result<Json> json = parse_json(line, path);  // a torn last line of a crash is dropped
    if (!json.ok()) continue;
    const Result<std::int64_t> step = json_get<std::int64_t>(*json, "step");
    if (!step.ok() || *step > last_step) continue;
    if (*step == last_step && evaluates_again && is_evaluation(*json)) continue;
    kept += std::string(line) + "\n";
  }
  return kept;
}

}  // namespace

// Shared with the Task that writes by itself, which may outlive the log.
struct MetricsLog::Files {
  Files(runtime::Runtime& runtime, const std::string& run_dir, bool with_events)
      : rt(runtime), path(run_dir + "/metrics.jsonl") {
    if (with_events) events.emplace(rt, run_dir);
  }

  runtime::Runtime& rt;
  const std::string path;
  std::optional<io::EventWriter> events;
  std::string pending;
  std::uint64_t good_bytes = 0;  // of the file
  bool torn = false;             // the file may end in a part of a failed write
  bool unsynced = false;
  bool told = false;                      // that writing failed
  runtime::TimerId timer = 0;             // 0: none is set
  bool writing = false;                   // one at a time
  runtime::OneShot<bool>* end = nullptr;  // of whoever waits for the one under way

  Task<Status> append() {
    if (pending.empty()) co_return Status();
    std::string text = std::exchange(pending, {});
    unsynced = true;
    Status done;
    if (!torn) {
      done = co_await rt.files().append(path, as_bytes(text));
    } else {
      Result<Bytes> read = co_await rt.files().read(path);
      done = read.status();
      if (done.ok()) {
        Bytes whole = std::move(*read);
        whole.resize(std::min<std::size_t>(whole.size(), good_bytes));
        whole.insert(whole.end(), as_bytes(text).begin(), as_bytes(text).end());
        done = co_await rt.files().write_atomic(path, whole);
      }
    }
    torn = !done.ok();
    if (done.ok()) good_bytes += text.size();
    if (!done.ok()) pending.insert(0, text);
    co_return done;
  }

  Task<Status> write() {
    writing = true;
    Status done;
    if (events) done = co_await events->flush();
    if (done.ok()) done = co_await append();
    writing = false;
    if (end != nullptr) end->set(true);
    co_return done;
  }

  // What it cannot write waits for the next one; flush() reports.
  static Task<void> write_by_itself(std::shared_ptr<Files> files) {
    const Status done = co_await files->write();
    if (done.ok() || std::exchange(files->told, true)) co_return;
    files->rt.log(fmt::format("warning: {}; metrics wait in memory", done.message()));
  }

  static void write_soon(const std::shared_ptr<Files>& files) {
    if (files->timer != 0) return;
    files->timer = files->rt.call_at(files->rt.now() + kMetricsDelay, [weak = std::weak_ptr(files)] {
      const std::shared_ptr<Files> f = weak.lock();
      if (f == nullptr) return;
      f->timer = 0;
      if (f->writing)
        write_soon(f);
      else
        f->rt.spawn(write_by_itself(f));
    });
  }

  void stop_timer() {
    if (timer != 0) rt.cancel_timer(std::exchange(timer, 0));
  }
};

MetricsLog::MetricsLog(runtime::Runtime& rt, std::string run_dir, bool events) {
  if (!run_dir.empty()) files_ = std::make_shared<Files>(rt, run_dir, events);
}

MetricsLog::~MetricsLog() {
  if (files_ != nullptr) files_->stop_timer();
}

Task<Status> MetricsLog::open(std::int64_t last_step, bool evaluates_again) {
  if (files_ == nullptr) co_return Status();
  Files& f = *files_;
  if (f.events) {
    io::EventWriter::ComesAgain again;
    if (evaluates_again) again = is_evaluation_tag;
    TR_CO_RETURN_IF_ERROR(co_await f.events->open(last_step, std::move(again)));
  }
  Result<Bytes> bytes = co_await f.rt.files().read(f.path);
  std::string kept;
  if (bytes.ok()) kept = kept_lines(as_text(*bytes), f.path, last_step, evaluates_again);
  f.good_bytes = kept.size();
  co_return co_await f.rt.files().write_atomic(f.path, as_bytes(kept));
}

void MetricsLog::add_line(const std::string& line) {
  files_->pending += line + "\n";
  Files::write_soon(files_);
}

void MetricsLog::add_step(const Step& row) {
  if (files_ == nullptr) return;
  Json line = {{"step", row.step},
               {"epoch", row.epoch},
               {"loss", row.loss},
               {"accuracy", row.accuracy},
               {"lr", row.lr},
               {"samples", row.samples},
               {"seconds", to_seconds(row.since_start)}};
  if (row.grad_norm != 0) line["grad_norm"] = row.grad_norm;
  if (row.skipped) line["skipped"] = true;
  add_line(line.dump());
  if (!files_->events || row.skipped) return;
  io::EventWriter& events = *files_->events;
  events.add_scalar("train/loss", row.step, row.loss);
  events.add_scalar("train/accuracy", row.step, row.accuracy);
  events.add_scalar("train/lr", row.step, row.lr);
  if (row.grad_norm != 0) events.add_scalar("train/grad_norm", row.step, row.grad_norm);
}

void MetricsLog::add_evaluation(const Evaluation& row) {
  if (files_ == nullptr) return;
  const std::string part = row.part == engine::Part::kTest ? "test" : "validation";
  const Json line = {{"step", row.step},
                     {"epoch", row.epoch},
                     {part + "_loss", row.loss},
                     {part + "_accuracy", row.accuracy}};
  add_line(line.dump());
  if (!files_->events) return;
  io::EventWriter& events = *files_->events;
  events.add_scalar(part + "/loss", row.step, row.loss);
  events.add_scalar(part + "/accuracy", row.step, row.accuracy);
}

void MetricsLog::add_codec(std::int64_t step, const std::string& codec, const std::string& why) {
  if (files_ != nullptr) add_line(Json{{"step", step}, {"codec", codec}, {"why", why}}.dump());
}

Task<Status> MetricsLog::flush() {
  const std::shared_ptr<Files> files = files_;
  if (files == nullptr) co_return Status();
  Files& f = *files;
  f.stop_timer();
  if (f.writing) {
    runtime::OneShot<bool> ended(f.rt);
    f.end = &ended;
    const std::shared_ptr<void> forgotten(nullptr, [&f](void*) { f.end = nullptr; });
    co_await ended.wait_until(kForever);
  }
  TR_CO_RETURN_IF_ERROR(co_await f.write());
  if (!f.unsynced) co_return Status();
  // Before the checkpoint that these lines lead to: it must not survive a crash that they do not.
  f.unsynced = false;
  const Status synced = co_await f.rt.files().sync(f.path);
  if (!synced.ok()) f.unsynced = true;
  co_return synced;
}

}  // namespace trireme::record
