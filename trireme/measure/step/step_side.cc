#include "trireme/measure/step/step_side.h"

#include <algorithm>

#include "trireme/measure/collective/work.h"
#include "trireme/measure/last_words.h"
#include "trireme/runtime/files.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr TimeNs kLook = 100 * kMilli;  // how often a waiting driver looks whether the process ended
constexpr TimeNs kQuit = 5 * kSecond;

class ProcessStepSide final : public StepSide {
 public:
  ProcessStepSide(runtime::Runtime& rt, StepSideSpec spec) : rt_(rt), spec_(std::move(spec)) {}

  const std::string& name() const override { return spec_.name; }
  const std::string& about() const override { return about_; }

  Task<Status> start() {
    Status status = co_await connect();
    if (status.ok()) co_return status;
    co_return co_await explain(std::move(status));
  }

  Task<Result<std::string>> ask(std::string line, std::string word) override {
    const TimeNs deadline = rt_.now() + spec_.patience;
    Status failure = co_await write_line(*stream_, std::move(line), deadline);
    if (failure.ok()) {
      Result<std::string> reply = co_await expect(std::move(word), deadline);
      if (reply.ok()) co_return reply;
      failure = reply.status();
    }
    co_return co_await explain(std::move(failure));
  }

  Task<Result<std::vector<double>>> steps_ms(int count) override {
    std::string line = fmt::format("steps {}", count);
    Result<std::string> reply = co_await ask(std::move(line), "times");
    if (!reply.ok()) co_return reply.status();
    TR_CO_ASSIGN_OR_RETURN(const std::vector<TimeNs> times, times_from_line("times " + *reply));
    if (times.size() != static_cast<std::size_t>(count))
      co_return error(Code::kCorrupt, "[bench] {} timed {} steps: expected {}", spec_.name, times.size(),
                      count);
    std::vector<double> ms;
    for (const TimeNs t : times) ms.push_back(to_seconds(t) * 1e3);
    co_return ms;
  }

  Task<void> stop() override {
    if (stream_ != nullptr) (void)co_await write_line(*stream_, "quit", rt_.now() + kQuit);
    if (process_ != nullptr) (void)co_await process_->wait(rt_.now() + kQuit);
    process_.reset();  // killed where it still runs
  }

 private:
  Task<Status> connect();
  Task<Result<std::string>> expect(std::string word, TimeNs deadline);
  Task<Status> explain(Status failure);
  std::string log_path() const { return fmt::format("{}/{}.log", spec_.dir, spec_.name); }

  runtime::Runtime& rt_;
  StepSideSpec spec_;
  std::string about_;
  std::unique_ptr<runtime::Process> process_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<LineReader> lines_;
};

Task<Status> ProcessStepSide::connect() {
  const std::string path = fmt::format("{}/{}.sock", spec_.dir, spec_.name);
  auto listener = rt_.network().listen_local(path);
  if (!listener.ok()) co_return listener.status();
  runtime::ProcessSpec process;
  process.argv = spec_.argv;
  process.argv.push_back(path);
  process.own_group = true;
  process.stdout_path = process.stderr_path = log_path();
  TR_CO_ASSIGN_OR_RETURN(process_, rt_.processes().spawn(std::move(process)));
  const TimeNs deadline = rt_.now() + spec_.patience;
  while (stream_ == nullptr) {
    auto stream = co_await (*listener)->accept(std::min(deadline, rt_.now() + kLook));
    if (stream.ok()) {
      stream_ = std::move(*stream);
      break;
    }
    if (stream.status().code() != Code::kDeadline) co_return stream.status();
    if (Result<runtime::ExitStatus> ended = co_await process_->wait(rt_.now()); ended.ok())
      co_return error(Code::kUnavailable, "[bench] {} ended before it was ready", spec_.name);
    if (rt_.now() >= deadline)
      co_return error(Code::kDeadline, "[bench] {} was not ready within {}", spec_.name,
                      format_duration(spec_.patience));
  }
  lines_ = std::make_unique<LineReader>(*stream_);
  TR_CO_ASSIGN_OR_RETURN(about_, co_await expect("ready", deadline));
  co_return Status();
}

Task<Result<std::string>> ProcessStepSide::expect(std::string word, TimeNs deadline) {
  Result<std::string> line = co_await lines_->next(deadline);
  if (!line.ok()) co_return line.status();
  if (line->starts_with("error ")) co_return Status(Code::kUnavailable, line->substr(6));
  if (!line->starts_with(word + " "))
    co_return error(Code::kCorrupt, "[bench] {} answered '{}', expected '{} ...'", spec_.name,
                    line->substr(0, 200), word);
  co_return line->substr(word.size() + 1);
}

Task<Status> ProcessStepSide::explain(Status failure) {
  std::vector<runtime::Process*> processes;
  if (process_ != nullptr) processes.push_back(process_.get());
  return with_last_words(rt_, std::move(processes), log_path(), std::move(failure));
}

}  // namespace

Task<Result<std::unique_ptr<StepSide>>> start_step_side(runtime::Runtime& rt, StepSideSpec spec) {
  auto side = std::make_unique<ProcessStepSide>(rt, std::move(spec));
  Status status = co_await side->start();
  if (!status.ok()) co_return status;
  co_return std::unique_ptr<StepSide>(std::move(side));
}

}  // namespace trireme::measure
