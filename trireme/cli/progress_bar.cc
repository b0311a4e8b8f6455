#include "trireme/cli/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace trireme::cli {
namespace {

constexpr TimeNs kRedraw = 100 * kMilli;
constexpr TimeNs kPlainLine = 2 * kSecond;     // least time between lines where nothing can be drawn over
constexpr TimeNs kLongSilence = 60 * kSecond;  // and a line after that long in any case
constexpr TimeNs kWorkerLine = 5 * kSecond;    // between the lines of a worker
constexpr TimeNs kKnownRate = 200 * kMilli;    // before that, a rate says nothing
// Loss and accuracy are means over the last steps: a twentieth of the run, at most this many.
constexpr std::int64_t kMostRecent = 20;

class ProgressBar final : public record::Progress {
 public:
  ProgressBar(Terminal terminal, bool verbose) : terminal_(std::move(terminal)), verbose_(verbose) {
    if (terminal_.redraws) over("preparing the model ...");
  }
  ~ProgressBar() override { clear(); }

  void on_start(const Start& s) override {
    start_ = s;
    std::string text =
        fmt::format("{} parameters, {} batches", format_count(static_cast<double>(s.num_parameters)),
                    format_integer(s.total_batches));
    if (const parallel::Mesh mesh = s.plan->mesh(); mesh.num_ranks() > 1)
      text += mesh.axes.size() > 1 ? fmt::format(", mesh {} over {}", mesh_text(mesh), s.plan->transport)
                                   : fmt::format(", {} workers over {}", mesh.num_ranks(), s.plan->transport);
    if (const double bubble = s.plan->prediction.bubble_fraction; bubble > 0)
      text += fmt::format(", pipeline {}, about {:.0f} % bubble", s.plan->pipeline, 100 * bubble);
    if (s.first_step > 0) text += fmt::format(", resuming after step {}", format_integer(s.first_step));
    if (!s.run_dir.empty()) text += fmt::format("; run folder {}", s.run_dir);
    print(text);
  }

  void on_step(const Step& s) override {
    if (first_time_ < 0) {
      first_time_ = s.now;
      first_batch_ = s.batches;
      if (!terminal_.redraws) drawn_ = s.now;
    } else {
      samples_ += s.samples;
    }
    if (s.skipped) {
      print(fmt::format("step {} was skipped: its loss or a gradient is not a number", s.step));
    } else {
      recent_.push_back({s.loss, s.accuracy});
      const std::int64_t most = std::clamp<std::int64_t>(start_.total_batches / 20, 1, kMostRecent);
      if (static_cast<std::int64_t>(recent_.size()) > most) recent_.pop_front();
    }
    const std::int64_t fifth = std::max<std::int64_t>(1, start_.batches_per_epoch / 5);
    const bool passes_mark = s.batches / fifth != last_.batches / fifth;
    last_ = s;
    if (is_due(s.now - drawn_, passes_mark)) draw();
  }

  void on_evaluation(const Evaluation& e) override {
    const char* part = e.part == engine::Part::kTest ? "test" : "validation";
    // Printed without the sign that a NaN may have.
    std::string text = fmt::format("epoch {:>2}  {} loss {:.4f}", e.epoch, part,
                                   std::isnan(e.loss) ? std::abs(e.loss) : e.loss);
    if (has_accuracy()) text += fmt::format("  {} accuracy {:.2f} %", part, 100 * e.accuracy);
    print(text);
  }

  void on_worker(const Worker& w) override {
    const auto at = static_cast<std::size_t>(w.worker);
    if (workers_.size() <= at) workers_.resize(at + 1);
    Told& told = workers_[at];
    if (!w.alive) {
      if (!told.lost) print(fmt::format("worker {} is lost; the others continue without it", w.worker));
      told.lost = true;
      return;
    }
    if (!verbose_ || (told.at >= 0 && w.now - told.at < kWorkerLine)) return;
    told.at = w.now;
    std::string text = fmt::format("worker {:>2}  step {}  loss {:.4f}  {} samples/s", w.worker, w.steps,
                                   w.loss, format_count(w.samples_per_second));
    if (w.staleness > 0) text += fmt::format("  staleness {:.2f}", w.staleness);
    print(text);
  }

 private:
  struct Told {
    TimeNs at = -1;  // of the last line
    bool lost = false;
  };
  struct Recent {
    double loss = 0, accuracy = 0;
  };

  bool is_due(TimeNs since, bool passes_mark) const {
    if (terminal_.redraws) return since >= kRedraw;
    return (passes_mark && since >= kPlainLine) || since >= kLongSilence;
  }

  ProgressView view() const {
    ProgressView v;
    const auto total = static_cast<double>(std::max<std::int64_t>(1, start_.total_batches));
    const TimeNs took = last_.now - first_time_;
    const double done = static_cast<double>(last_.batches - first_batch_);
    v.epoch = last_.epoch + 1;
    v.epochs = (start_.total_batches + start_.batches_per_epoch - 1) / start_.batches_per_epoch;
    v.fraction = static_cast<double>(last_.batches) / total;
    if (took >= kKnownRate && done > 0) {
      v.samples_per_second = static_cast<double>(samples_) / to_seconds(took);
      v.seconds_left = to_seconds(took) / done * (total - static_cast<double>(last_.batches));
    }
    double accuracy = 0;
    for (const Recent& r : recent_) v.loss += r.loss, accuracy += r.accuracy;
    const double count = static_cast<double>(std::max<std::size_t>(1, recent_.size()));
    v.loss /= count;
    if (has_accuracy()) v.accuracy = accuracy / count;
    return v;
  }

  void draw() {
    drawn_ = last_.now;
    if (!terminal_.redraws) return print(progress_line(view(), 0, terminal_.blocks));
    over(progress_line(view(), terminal_.columns(), terminal_.blocks));
  }

  void over(const std::string& line) {
    terminal_.write("\r" + line + "\x1b[K");
    dirty_ = true;
  }

  bool has_accuracy() const { return start_.task != model::ModelTask::kReconstruct; }

  void clear() {
    if (dirty_) terminal_.write("\r\x1b[K");
    dirty_ = false;
  }

  void print(const std::string& text) {
    clear();
    terminal_.write(text + "\n");
  }

  Terminal terminal_;
  bool verbose_;
  std::vector<Told> workers_;
  bool dirty_ = false;
  Start start_;
  Step last_;
  TimeNs first_time_ = -1, drawn_ = 0;
  std::int64_t samples_ = 0, first_batch_ = 0;
  std::deque<Recent> recent_;
};

std::string time_left(double seconds) {
  if (seconds < 1) return "";
  if (seconds < 60) return fmt::format("  {:.0f} s left", seconds);
  return fmt::format("  {} left", format_duration(from_seconds(seconds)));
}

}  // namespace

std::string progress_line(const ProgressView& v, int columns, bool blocks) {
  constexpr int kMostCells = 20, kLeastCells = 8, kEdges = 3;  // two edges and a blank
  // A terminal goes to the next line when the last column is written.
  const int room = columns > 0 ? columns - 1 : std::numeric_limits<int>::max();
  std::string epoch = fmt::format("epoch {}/{}  ", v.epoch, v.epochs);
  const std::string percent = fmt::format("{:3.0f} %", 100 * v.fraction);
  constexpr double kLargeLoss = 1e5;
  std::string loss =
      v.loss < kLargeLoss ? fmt::format("  loss {:.4f}", v.loss) : fmt::format("  loss {:.3g}", v.loss);
  std::string accuracy = v.accuracy ? fmt::format("  accuracy {:.2f} %", 100 * *v.accuracy) : "";
  const std::string count = v.samples_per_second > 0 ? format_count(v.samples_per_second) : "";
  std::string left = time_left(v.seconds_left);
  struct Tail {
    std::string rate, left;
  };
  const Tail tails[] = {{count.empty() ? "" : fmt::format("  {} samples/s", count), left},
                        {count.empty() ? "" : fmt::format("  {}/s", count), left},
                        {"", left},
                        {"", ""}};
  int cells = 0;
  std::string tail;
  for (const Tail& t : tails) {
    tail = t.rate + t.left;
    const std::size_t length =
        epoch.size() + percent.size() + loss.size() + accuracy.size() + tail.size() + kEdges;
    cells = std::min(kMostCells, room - static_cast<int>(length));
    if (cells >= kLeastCells) break;
  }
  if (cells >= kLeastCells)
    return fmt::format("{}{} {}{}{}{}", epoch, draw_bar(v.fraction, cells, blocks), percent, loss, accuracy,
                       tail);
  for (std::string* part : {&epoch, &accuracy, &loss})
    if (static_cast<int>(epoch.size() + percent.size() + loss.size() + accuracy.size()) > room) part->clear();
  return (epoch + percent + loss + accuracy).substr(0, static_cast<std::size_t>(room));
}

std::unique_ptr<record::Progress> make_progress_bar(Terminal terminal, bool verbose) {
  return std::make_unique<ProgressBar>(std::move(terminal), verbose);
}

}  // namespace trireme::cli
