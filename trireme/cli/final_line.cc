#include "trireme/cli/final_line.h"

#include "trireme/base/units.h"

namespace trireme::cli {
namespace {

// Three digits are enough for a headline.
std::string took(double seconds) {
  constexpr double kMinute = 60;
  if (seconds >= 1 && seconds < kMinute) return fmt::format("{:.3g} s", seconds);
  return format_duration(from_seconds(seconds));
}

// Absent, or null, without test samples.
std::optional<double> number(const Json& s, const char* name) {
  const auto at = s.find(name);
  if (at == s.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

// The result that the task is about; without test samples the training loss.
std::string result_of(const Json& s) {
  const std::string task = s.value("task", "classify");
  const std::optional<double> loss = number(s, "test_loss"), accuracy = number(s, "test_accuracy");
  if (task == "classify" && accuracy) return fmt::format("Test accuracy {:.2f} %", 100 * *accuracy);
  if (task == "language" && loss && accuracy)
    return fmt::format("Test loss {:.4f} nats per token (accuracy {:.2f} %)", *loss, 100 * *accuracy);
  if (task == "reconstruct" && loss) return fmt::format("Test loss {:.4f} per sample", *loss);
  return fmt::format("No test samples (data.test = 0); training loss {:.4f}", s.value("train_loss", 0.0));
}

}  // namespace

std::string final_line(const Json& s, const std::string& run_dir) {
  const std::string steps = format_integer(s.value("steps", std::int64_t{0}));
  if (!s.value("finished", false))
    return fmt::format("Stopped after step {}. The same command resumes from there. Results: {}", steps,
                       run_dir);
  const std::string codec = s.value("codec", "none");
  return fmt::format("{} after {} steps ({}, {} samples/s{}). Results: {}", result_of(s), steps,
                     took(s.value("wall_seconds", 0.0)), format_count(s.value("samples_per_second", 0.0)),
                     codec == "none" || codec.empty() ? "" : ", codec " + codec, run_dir);
}

}  // namespace trireme::cli
