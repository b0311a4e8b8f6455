#include "trireme/measure/collective/side.h"

#include <algorithm>
#include <charconv>

#include "trireme/measure/collective/start_line.h"
#include "trireme/measure/last_words.h"
#include "trireme/runtime/files.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr TimeNs kLook = 100 * kMilli;  // how often a waiting driver looks whether a process ended
constexpr TimeNs kQuit = 5 * kSecond;
constexpr TimeNs kAnswer = 300 * kSecond;  // for one measurement
constexpr int kCrossings = 64;

// One connection to a rank.
struct Link {
  explicit Link(std::unique_ptr<runtime::Stream> s) : stream(std::move(s)), lines(*stream) {}
  std::unique_ptr<runtime::Stream> stream;
  LineReader lines;
};

class ProcessSide final : public Side {
 public:
  ProcessSide(runtime::Runtime& rt, SideSpec spec) : rt_(rt), spec_(std::move(spec)) {
    links_.resize(static_cast<std::size_t>(spec_.world));
  }

  const std::string& name() const override { return spec_.name; }

  Task<Status> start() {
    Status status = co_await start_all();
    if (status.ok()) co_return status;
    co_return co_await explain(std::move(status));
  }

  Task<Result<std::vector<double>>> measure(Work work) override {
    Result<std::vector<double>> times = co_await ask_all(to_line(work), work.calls);
    if (times.ok()) co_return times;
    Status failure = times.status();
    co_return co_await explain(std::move(failure));
  }

  Task<Result<double>> crossing_ns() override {
    Result<std::vector<double>> times = co_await ask_all(to_cross_line(kCrossings), 1);
    if (times.ok()) co_return times->front() * 1e3;
    Status failure = times.status();
    co_return co_await explain(std::move(failure));
  }

  Task<void> stop() override {
    for (auto& link : links_)
      if (link != nullptr) (void)co_await write_line(*link->stream, "quit", rt_.now() + kQuit);
    const TimeNs end = rt_.now() + kQuit;
    for (auto& process : processes_) (void)co_await process->wait(end);
    links_.clear();
  }

 private:
  Task<Status> start_all();
  Task<Status> accept_one(runtime::Listener& listener, TimeNs deadline);
  Task<Status> welcome(std::unique_ptr<runtime::Stream> stream, TimeNs deadline);
  Task<Result<std::vector<double>>> ask_all(std::string line, int num_times);
  Task<Status> explain(Status failure);
  std::string log_path() const { return fmt::format("{}/{}.log", spec_.dir, spec_.name); }

  runtime::Runtime& rt_;
  SideSpec spec_;
  std::unique_ptr<runtime::SharedSegment> page_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank
  std::vector<std::unique_ptr<runtime::Process>> processes_;
};

Task<Status> ProcessSide::start_all() {
  const std::string path = fmt::format("{}/{}.sock", spec_.dir, spec_.name);
  auto listener = rt_.network().listen_local(path);
  if (!listener.ok()) co_return listener.status();
  auto page = rt_.network().create_segment("start-line", start_line_bytes(spec_.world));
  if (!page.ok()) co_return page.status();
  page_ = std::move(*page);
  for (runtime::ProcessSpec process : spec_.processes) {
    process.argv.push_back(path);
    process.own_group = true;
    process.stdout_path = process.stderr_path = log_path();
    auto started = rt_.processes().spawn(std::move(process));
    if (!started.ok()) co_return started.status();
    processes_.push_back(std::move(*started));
  }
  const TimeNs deadline = rt_.now() + spec_.arrival;
  for (int r = 0; r < spec_.world; ++r) TR_CO_RETURN_IF_ERROR(co_await accept_one(**listener, deadline));
  for (auto& link : links_) {
    Result<std::string> line = co_await link->lines.next(deadline);
    if (!line.ok()) co_return line.status();
    if (*line != "ready") co_return times_from_line(*line).status();
  }
  co_return Status();
}

// The next rank, or the end of a process that will not come.
Task<Status> ProcessSide::accept_one(runtime::Listener& listener, TimeNs deadline) {
  for (;;) {
    auto stream = co_await listener.accept(std::min(deadline, rt_.now() + kLook));
    if (stream.ok()) co_return co_await welcome(std::move(*stream), deadline);
    if (stream.status().code() != Code::kDeadline) co_return stream.status();
    for (auto& process : processes_) {
      Result<runtime::ExitStatus> ended = co_await process->wait(rt_.now());
      if (ended.ok())
        co_return error(Code::kUnavailable, "[bench] a process ended before its rank was ready");
    }
    if (rt_.now() >= deadline)
      co_return error(Code::kDeadline, "[bench] not every rank came within {}",
                      format_duration(spec_.arrival));
  }
}

Task<Status> ProcessSide::welcome(std::unique_ptr<runtime::Stream> stream, TimeNs deadline) {
  auto link = std::make_unique<Link>(std::move(stream));
  Result<std::string> line = co_await link->lines.next(deadline);
  if (!line.ok()) co_return line.status();
  std::string_view text = *line;
  std::size_t rank = 0;
  const bool hello = text.starts_with("hello ");
  if (hello) text.remove_prefix(6);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (!hello || failure != std::errc() || end != text.data() + text.size() || rank >= links_.size() ||
      links_[rank] != nullptr)
    co_return error(Code::kCorrupt, "[bench] expected 'hello RANK' of one of {} ranks: got '{}'", spec_.world,
                    *line);
  TR_CO_RETURN_IF_ERROR(co_await link->stream->send_segment(*page_, deadline));
  links_[rank] = std::move(link);
  co_return Status();
}

// The slowest rank's times, in microseconds.
Task<Result<std::vector<double>>> ProcessSide::ask_all(std::string line, int num_times) {
  const TimeNs deadline = rt_.now() + kAnswer;
  for (auto& link : links_) TR_CO_RETURN_IF_ERROR(co_await write_line(*link->stream, line, deadline));
  std::vector<double> slowest(static_cast<std::size_t>(num_times), 0);
  for (auto& link : links_) {
    Result<std::string> reply = co_await link->lines.next(deadline);
    if (!reply.ok()) co_return reply.status();
    Result<std::vector<TimeNs>> times = times_from_line(*reply);
    if (!times.ok()) co_return times.status();
    if (times->size() != slowest.size())
      co_return error(Code::kCorrupt, "[bench] a rank of {} timed {} calls: expected {}", spec_.name,
                      times->size(), slowest.size());
    for (std::size_t i = 0; i < slowest.size(); ++i)
      slowest[i] = std::max(slowest[i], static_cast<double>((*times)[i]) * 1e-3);
  }
  co_return slowest;
}

Task<Status> ProcessSide::explain(Status failure) {
  std::vector<runtime::Process*> processes;
  for (const auto& process : processes_) processes.push_back(process.get());
  return with_last_words(rt_, std::move(processes), log_path(), std::move(failure));
}

}  // namespace

Task<Result<std::unique_ptr<Side>>> start_side(runtime::Runtime& rt, SideSpec spec) {
  auto side = std::make_unique<ProcessSide>(rt, std::move(spec));
  Status status = co_await side->start();
  if (!status.ok()) co_return status;
  co_return std::unique_ptr<Side>(std::move(side));
}

}  // namespace trireme::measure
