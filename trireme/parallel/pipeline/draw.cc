#include "trireme/parallel/pipeline/draw.h"

#include <algorithm>
#include <cmath>

namespace trireme::parallel {
namespace {

std::string letter_of_chunk(const TimetableSpec& spec, const TimetableAction& a) {
  if (spec.virtual_stages == 1) return "";
  const int chunk = a.virtual_stage / spec.stages;
  return chunk < 26 ? std::string(1, static_cast<char>('a' + chunk)) : fmt::format(".{}", chunk);
}

std::string label_of(const TimetableSpec& spec, const TimetableAction& a) {
  return fmt::format("{}{}{}", phase_letter(a.phase), a.micro_batch, letter_of_chunk(spec, a));
}

// The shortest computation of all that takes time; 0: there is none. Updates may be much shorter.
double shortest(const PricedTimetable& t) {
  double least = 0;
  for (std::size_t s = 0; s < t.stages.size(); ++s)
    for (std::size_t i = 0; i < t.stages[s].size(); ++i) {
      const ActionTime& time = t.price.stages[s].times[i];
      const double seconds = time.end - time.start;
      if (t.stages[s][i].phase != Phase::kUpdate && seconds > 0 && (least == 0 || seconds < least))
        least = seconds;
    }
  return least;
}

std::size_t longest_label(const PricedTimetable& t) {
  std::size_t longest = 1;
  for (const StageActions& actions : t.stages)
    for (const TimetableAction& a : actions) longest = std::max(longest, label_of(t.spec, a).size());
  return longest;
}

// A row of characters in which a column is `seconds` long.
class TextRow {
 public:
  TextRow(const TimetableSpec& spec, double seconds, bool letters_only)
      : spec_(spec), seconds_(seconds), letters_only_(letters_only) {}

  // False: there is no room.
  bool add(const TimetableAction& a, const ActionTime& time, bool is_last) {
    const std::string label = letters_only_ ? std::string(1, phase_letter(a.phase)) : label_of(spec_, a);
    const auto begin = static_cast<std::size_t>(std::llround(time.start / seconds_));
    const auto end = static_cast<std::size_t>(std::llround(time.end / seconds_));
    const std::size_t gap = letters_only_ ? 0 : 1;
    // What follows nothing but the last actions has all the room there is.
    if (end - begin < label.size() && !is_last) return false;
    const std::size_t at = std::max(begin, text_.size() + (is_last && !text_.empty() ? gap : 0));
    text_.resize(at, ' ');
    text_ += label;
    if (text_.size() + gap < end) text_.append(end - gap - text_.size(), '-');
    return true;
  }
  const std::string& text() const { return text_; }

 private:
  const TimetableSpec& spec_;
  const double seconds_;
  const bool letters_only_;
  std::string text_;
};

std::string rows_of(const PricedTimetable& t, double seconds, bool letters_only) {
  std::string text;
  bool all = true;
  for (std::size_t s = 0; s < t.stages.size(); ++s) {
    TextRow row(t.spec, seconds, letters_only);
    const std::size_t num = t.stages[s].size();
    for (std::size_t i = 0; i < num; ++i) {
      // Updates at the end of a step take as many columns as they need.
      const bool is_last =
          t.stages[s][i].phase == Phase::kUpdate &&
          std::all_of(t.stages[s].begin() + static_cast<std::ptrdiff_t>(i), t.stages[s].end(),
                      [](const TimetableAction& a) { return a.phase == Phase::kUpdate; });
      all = row.add(t.stages[s][i], t.price.stages[s].times[i], is_last) && all;
    }
    text += fmt::format("stage {:<3}{}\n", s, row.text());
  }
  text += fmt::format(
      "F: forward, B: backward, W: gradients of weights, U: update{}{}; - goes on. A column is {:.3g}.\n",
      letters_only ? "" : "; number: micro-batch",
      t.spec.virtual_stages > 1 && !letters_only ? "; a, b...: virtual stage of the stage" : "", seconds);
  if (letters_only)
    text += fmt::format("Numbers of micro-batches need more than {} columns; an SVG has them.\n",
                        kMaxDrawnColumns);
  if (!all) text += "Actions that take too little time for a column are left out.\n";
  return text;
}

constexpr double kLeft = 76, kRight = 24, kTop = 48, kBottom = 64, kRow = 30, kLeastWidth = 760;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

class Lanes {
 public:
  Lanes(const PricedTimetable& timetable, double pixels_per_second)
      : t_(timetable), scale_(pixels_per_second) {}

  std::string draw(std::string_view title) {
    const double width = std::max(kLeastWidth, kLeft + scale_ * t_.price.makespan_seconds + kRight);
    const double height = kTop + kRow * t_.spec.stages + kBottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n{2}<rect class=\"page\" width=\"100%\" "
        "height=\"100%\"/>\n<text class=\"text\" x=\"12\" y=\"24\" font-size=\"15\" "
        "font-weight=\"bold\">{3}</text>\n",
        width, height, kStyle, escaped(title));
    for (std::size_t s = 0; s < t_.stages.size(); ++s) {
      out_ += fmt::format(
          "<text class=\"text\" x=\"12\" y=\"{:.1f}\">stage {}</text>"
          "<line class=\"line\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
          top_of(s) + 18, s, kLeft, top_of(s) + kRow - 2, width - kRight, top_of(s) + kRow - 2);
      for (std::size_t i = 0; i < t_.stages[s].size(); ++i)
        bar(s, t_.stages[s][i], t_.price.stages[s].times[i]);
    }
    legend(height);
    return out_ + "</svg>\n";
  }

 private:
  // Colours that colour-blind readers tell apart (Okabe and Ito, "Color Universal Design", 2008).
  static constexpr const char* kStyle =
      "<style>.page{fill:#ffffff}.text{fill:#222222}.line{stroke:#dddddd}.bar{stroke:#ffffff}"
      ".F{fill:#0072b2}.B{fill:#d55e00}.W{fill:#009e73}.U{fill:#777777}.label{fill:#ffffff;font-size:10px}"
      "@media (prefers-color-scheme: dark){.page{fill:#16181c}.text{fill:#dddddd}.line{stroke:#3a3f47}"
      ".bar{stroke:#16181c}.F{fill:#56b4e9}.B{fill:#e69f00}.W{fill:#33b890}.U{fill:#aaaaaa}"
      ".label{fill:#16181c}}</style>\n";

  double top_of(std::size_t stage) const { return kTop + kRow * static_cast<double>(stage); }

  void bar(std::size_t stage, const TimetableAction& a, const ActionTime& time) {
    const double x = kLeft + scale_ * time.start, width = std::max(2.0, scale_ * (time.end - time.start));
    const int chunk = a.virtual_stage / t_.spec.stages;
    out_ += fmt::format(
        "<g><title>{}: {:.6g} to {:.6g}</title><rect class=\"bar {}\" fill-opacity=\"{:.2f}\" x=\"{:.1f}\" "
        "y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>",
        a.to_text(), time.start, time.end, phase_letter(a.phase), 1 - 0.45 * chunk / t_.spec.virtual_stages,
        x, top_of(stage) + 2, width, kRow - 6);
    const std::string label = fmt::format("{}{}", a.micro_batch, letter_of_chunk(t_.spec, a));
    if (width > 7.0 * static_cast<double>(label.size()))
      out_ += fmt::format("<text class=\"label\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                          x + width / 2, top_of(stage) + 18, label);
    out_ += "</g>\n";
  }

  void legend(double height) {
    double x = kLeft;
    for (const auto& [phase, name] :
         {std::pair(Phase::kForward, "forward"), std::pair(Phase::kBackward, "backward"),
          std::pair(Phase::kWeights, "gradients of weights"), std::pair(Phase::kUpdate, "update")}) {
      out_ += fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\"/>"
          "<text class=\"text\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          phase_letter(phase), x, height - 50, x + 17, height - 40, name);
      x += 40 + 6.5 * static_cast<double>(std::string_view(name).size());
    }
    out_ += fmt::format(
        "<text class=\"text\" x=\"{:.1f}\" y=\"{:.1f}\">numbers: micro-batches{}; a step takes {:.6g}, of "
        "which "
        "{:.1f} % are waits</text>\n",
        kLeft, height - 16,
        t_.spec.virtual_stages > 1 ? ", a, b...: virtual stages of a stage, ever lighter" : "",
        t_.price.step_seconds, 100 * t_.price.bubble_fraction);
  }

  const PricedTimetable& t_;
  const double scale_;
  std::string out_;
};

}  // namespace

std::string draw_text(const PricedTimetable& timetable) {
  const double least = shortest(timetable);
  if (least == 0) return "No action takes time.\n";
  const std::size_t label = longest_label(timetable);
  const auto columns = [&](double per_action) {
    return 9 + std::ceil(timetable.price.makespan_seconds / least * per_action);
  };
  for (const double per_action : {static_cast<double>(label + 1), 1.0})
    if (columns(per_action) <= kMaxDrawnColumns)
      return rows_of(timetable, least / per_action, per_action == 1);
  return fmt::format("The drawing needs {:.0f} columns, more than {}; take fewer micro-batches, or an SVG.\n",
                     columns(1), kMaxDrawnColumns);
}

Result<std::string> draw_svg(const PricedTimetable& timetable, std::string_view title) {
  const double least = shortest(timetable);
  const double per_action = 8.0 * static_cast<double>(longest_label(timetable) - 1) + 2;
  const double pixels = least == 0 ? 0 : timetable.price.makespan_seconds / least * per_action;
  if (timetable.spec.stages > kMaxDrawnStages || pixels > kMaxDrawnPixels)
    return error(
        Code::kInvalid,
        "[pipeline] {} stages and {:.0f} pixels are too many for a readable drawing: expected at most "
        "{} and {}; take fewer stages or micro-batches",
        timetable.spec.stages, pixels, kMaxDrawnStages, kMaxDrawnPixels);
  return Lanes(timetable, least == 0 ? 1 : per_action / least).draw(title);
}

}  // namespace trireme::parallel
