#include "trireme/cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace trireme::cli {
namespace {

constexpr TimeNs kRedraw = 100 * kMilli;
constexpr TimeNs kWorkerLine = 5 * kSecond;  // between the lines of a worker
constexpr double kSmooth = 0.05;             // weight of the newest step in the shown loss and accuracy

class ProgressBar final : public train::Progress {
 public:
  ProgressBar(bool terminal, bool verbose) : terminal_(terminal), verbose_(verbose) {}
  ~ProgressBar() override { clear(); }

  void on_start(const Start& s) override {
    start_ = s;
    std::string text = fmt::format("{} parameters, {} batches",
                                   format_count(static_cast<double>(s.num_parameters)), s.total_batches);
    if (s.plan->workers() > 1)
      text += fmt::format(", {} workers over {}", s.plan->workers(), s.plan->transport);
    if (s.first_step > 0) text += fmt::format(", going on after step {}", s.first_step);
    if (!s.run_dir.empty()) text += fmt::format("; run folder {}", s.run_dir);
    print(text);
  }

  void on_step(const Step& s) override {
    if (first_time_ < 0) {
      first_time_ = s.now;
      first_batch_ = s.batches;
      loss_ = s.loss;
      accuracy_ = s.accuracy;
    } else {
      samples_ += s.samples;
    }
    if (s.skipped) {
      print(fmt::format("step {} was skipped: its loss or a gradient is not a number", s.step));
    } else {
      loss_ += kSmooth * (s.loss - loss_);
      accuracy_ += kSmooth * (s.accuracy - accuracy_);
    }
    const std::int64_t fifth = std::max<std::int64_t>(1, start_.batches_per_epoch / 5);
    const bool passes_mark = s.batches / fifth != last_.batches / fifth;
    last_ = s;
    if (terminal_ ? s.now - drawn_ >= kRedraw : passes_mark) draw();
  }

  void on_evaluation(const Evaluation& e) override {
    const char* part = e.part == train::Part::kTest ? "test" : "validation";
    std::string text = fmt::format("epoch {:>2}  {} loss {:.4f}", e.epoch, part, e.loss);
    if (has_accuracy()) text += fmt::format("  {} accuracy {:.2f} %", part, 100 * e.accuracy);
    print(text);
  }

  void on_worker(const Worker& w) override {
    const auto at = static_cast<std::size_t>(w.worker);
    if (workers_.size() <= at) workers_.resize(at + 1);
    Told& told = workers_[at];
    if (!w.alive) {
      if (!told.lost) print(fmt::format("worker {} is lost; the others go on without it", w.worker));
      told.lost = true;
      return;
    }
    if (!verbose_ || (told.at >= 0 && w.now - told.at < kWorkerLine)) return;
    told.at = w.now;
    std::string text = fmt::format("worker {:>2}  step {}  loss {:.4f}  {}/s", w.worker, w.steps, w.loss,
                                   format_count(w.samples_per_second));
    if (w.staleness > 0) text += fmt::format("  staleness {:.2f}", w.staleness);
    print(text);
  }

 private:
  struct Told {
    TimeNs at = -1;  // of the last line
    bool lost = false;
  };

  void draw() {
    drawn_ = last_.now;
    const auto total = static_cast<double>(std::max<std::int64_t>(1, start_.total_batches));
    const double fraction = static_cast<double>(last_.batches) / total;
    const double seconds = to_seconds(last_.now - first_time_);
    const double rate = seconds > 0 ? static_cast<double>(samples_) / seconds : 0;
    const double done = static_cast<double>(last_.batches - first_batch_);
    const double left = done > 0 ? seconds / done * (total - static_cast<double>(last_.batches)) : 0;
    const std::int64_t epochs =
        (start_.total_batches + start_.batches_per_epoch - 1) / start_.batches_per_epoch;
    std::string text = fmt::format("epoch {}/{}  {} {:3.0f} %  loss {:.4f}", last_.epoch + 1, epochs,
                                   draw_bar(fraction, 20), 100 * fraction, loss_);
    if (has_accuracy()) text += fmt::format("  accuracy {:5.2f} %", 100 * accuracy_);
    text += fmt::format("  {}/s", format_count(rate));
    if (left > 0) text += fmt::format("  {} left", format_duration(from_seconds(left)));
    if (!terminal_) return print(text);
    std::fputs(fmt::format("\r{}\x1b[K", text).c_str(), stderr);
    std::fflush(stderr);
    dirty_ = true;
  }

  bool has_accuracy() const { return start_.task != model::ModelTask::kReconstruct; }

  void clear() {
    if (dirty_) std::fputs("\r\x1b[K", stderr);
    dirty_ = false;
  }

  void print(const std::string& text) {
    clear();
    std::fputs((text + "\n").c_str(), stderr);
    std::fflush(stderr);
  }

  bool terminal_, verbose_;
  std::vector<Told> workers_;
  bool dirty_ = false;
  Start start_;
  Step last_;
  TimeNs first_time_ = -1, drawn_ = 0;
  std::int64_t samples_ = 0, first_batch_ = 0;
  double loss_ = 0, accuracy_ = 0;
};

}  // namespace

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string draw_bar(double fraction, int width) {
  static constexpr const char* kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width * 8);
  std::string bar = "│";
  int cells = 0;
  for (; cells < eighths / 8; ++cells) bar += "█";
  if (eighths % 8 != 0) bar += kParts[eighths % 8], ++cells;
  for (; cells < width; ++cells) bar += " ";
  return bar + "│";
}

std::unique_ptr<train::Progress> make_progress_bar(bool terminal, bool verbose) {
  return std::make_unique<ProgressBar>(terminal, verbose);
}

}  // namespace trireme::cli
