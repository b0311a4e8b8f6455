// The space-time diagram of a schedule as SVG. No script, no font file: any viewer shows it.
#include <algorithm>
#include <cmath>
#include <map>

#include "trireme/collective/draw.h"

namespace trireme::collective {
namespace {

constexpr double kLane = 56, kLeft = 84, kTop = 84, kRight = 24, kBottom = 56;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// A full turn of hues, dark enough to read on white. Plain RGB: not every viewer knows hsl().
std::string hue(double turn) {
  const auto channel = [&](double phase) {
    const double distance = std::abs(std::fmod(turn + phase + 1.5, 1.0) - 0.5) * 6;  // 0..3 from its peak
    return static_cast<int>(20 + 170 * std::clamp(2 - distance, 0.0, 1.0));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(2.0 / 3), channel(1.0 / 3));
}

struct Point {
  double x, y;
};

class Diagram {
 public:
  Diagram(std::vector<DrawnMessage> messages, const ScheduleSpec& spec)
      : messages_(std::move(messages)), spec_(spec) {
    std::map<std::pair<std::int64_t, int>, int> sends, arrivals;
    for (const DrawnMessage& m : messages_) {
      num_rounds_ = std::max(num_rounds_, m.round);
      num_chunks_ = std::max(num_chunks_, m.first_chunk + m.num_chunks);
      turn_out_.push_back(sends[{m.round, m.from}]++);
      turn_in_.push_back(arrivals[{m.round, m.to}]++);
      busiest_ = std::max({busiest_, turn_out_.back() + 1, turn_in_.back() + 1});
    }
    sends_ = std::move(sends);
    arrivals_ = std::move(arrivals);
    // Room for a label per message, and for the turns of a rank with many.
    width_ = std::clamp(80.0 + 26.0 * busiest_ + 6.0 * spec.world, 120.0, 460.0);
  }

  std::string draw(std::string_view title) {
    const double w = kLeft + width_ * static_cast<double>(num_rounds_) + kRight,
                 h = kTop + kLane * spec_.world + kBottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"12\" y=\"24\" font-size=\"15\" font-weight=\"bold\" fill=\"#222222\">{2}</text>\n",
        std::max(w, 860.0), h, escaped(title));
    lanes(h);
    for (std::size_t i = 0; i < messages_.size(); ++i) arrow(i);
    out_ += labels_;
    legend(h);
    return out_ + "</svg>\n";
  }

 private:
  double lane(int rank) const { return kTop + kLane * (rank + 0.5); }
  double begin_of(std::int64_t round) const { return kLeft + width_ * static_cast<double>(round - 1); }

  void lanes(double h) {
    for (std::int64_t round = 1; round <= num_rounds_ + 1; ++round)
      out_ += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\" "
          "stroke-dasharray=\"3 3\"/>\n",
          begin_of(round), kTop - 8, h - kBottom + 8);
    for (std::int64_t round = 1; round <= num_rounds_; ++round)
      out_ += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#666666\">round {}</text>\n",
          begin_of(round) + width_ / 2, kTop - 16, round);
    for (int r = 0; r < spec_.world; ++r)
      out_ += fmt::format(
          "<text x=\"12\" y=\"{0:.1f}\" fill=\"#222222\">rank {1}</text>\n<line x1=\"{2:.1f}\" "
          "y1=\"{3:.1f}\" "
          "x2=\"{4:.1f}\" y2=\"{3:.1f}\" stroke=\"#999999\" stroke-width=\"1.5\"/>\n",
          lane(r) + 4, r, kLeft - 12, lane(r), begin_of(num_rounds_ + 1) + 8);
  }

  std::string colour(const DrawnMessage& m) const {
    if (m.count == 0) return "#888888";
    if (m.first_chunk < 0 || num_chunks_ <= 1) return "#1f5fa8";
    return hue(static_cast<double>(m.first_chunk) / num_chunks_);
  }

  std::string label(const DrawnMessage& m) const {
    if (m.count == 0) return "";
    const std::string bytes = format_bytes(static_cast<std::uint64_t>(m.count * spec_.elem_bytes));
    std::string chunk;
    if (m.first_chunk >= 0 && num_chunks_ > 1)
      chunk = m.num_chunks == 1 ? fmt::format("c{} ", m.first_chunk)
                                : fmt::format("c{}-{} ", m.first_chunk, m.first_chunk + m.num_chunks - 1);
    return busiest_ <= 2 || chunk.empty() ? chunk + bytes : chunk;
  }

  void arrow(std::size_t i) {
    const DrawnMessage& m = messages_[i];
    const double room = width_ - 28;
    const int out = sends_[{m.round, m.from}], in = arrivals_[{m.round, m.to}];
    const Point a{begin_of(m.round) + 8 + 0.45 * room * turn_out_[i] / std::max(1, out), lane(m.from)};
    const Point b{begin_of(m.round) + 20 + room - 0.45 * room * (in - 1 - turn_in_[i]) / std::max(1, in),
                  lane(m.to)};
    const double dx = b.x - a.x, dy = b.y - a.y, length = std::hypot(dx, dy), ux = dx / length,
                 uy = dy / length;
    const std::string c = colour(m);
    const Point tip{b.x - 5 * ux, b.y - 5 * uy};
    out_ += fmt::format("<g><title>round {}: rank {} {} rank {}: {}{}</title>", m.round, m.from,
                        m.is_read ? "is read by" : "sends to", m.to,
                        m.count == 0 ? "a signal without elements"
                                     : format_bytes(static_cast<std::uint64_t>(m.count * spec_.elem_bytes)),
                        m.is_added ? ", added" : "");
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"1.4\"{}/>",
        a.x, a.y, tip.x, tip.y, c, m.is_read ? " stroke-dasharray=\"5 3\"" : "");
    out_ += fmt::format("<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" fill=\"{}\"/>", tip.x,
                        tip.y, tip.x - 8 * ux - 3.5 * uy, tip.y - 8 * uy + 3.5 * ux,
                        tip.x - 8 * ux + 3.5 * uy, tip.y - 8 * uy - 3.5 * ux, c);
    if (m.count > 0)
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"{}\"/>", b.x, b.y,
                          m.is_added ? c : "#ffffff", c);
    out_ += "</g>\n";
    write_label(label(m), a, {dx, dy}, c);
  }

  // Near its sender, along the arrow: arrows cross in the middle. Twice, first as a white rim.
  void write_label(const std::string& text, Point from, Point way, const std::string& colour) {
    if (text.empty()) return;
    const double length = std::hypot(way.x, way.y);
    const double share = std::min(0.26, (text.size() > 6 ? 44 : 26) / length);
    const Point at{from.x + share * way.x + 4 * way.y / length, from.y + share * way.y - 4 * way.x / length};
    for (const char* rim : {"#ffffff\" stroke=\"#ffffff\" stroke-width=\"3", ""})
      labels_ += fmt::format(
          "<text x=\"{0:.1f}\" y=\"{1:.1f}\" transform=\"rotate({2:.1f} {0:.1f} {1:.1f})\" font-size=\"10\" "
          "text-anchor=\"middle\" fill=\"{3}\">{4}</text>\n",
          at.x, at.y, std::atan2(way.y, way.x) * 180 / 3.14159265358979, *rim != '\0' ? rim : colour.c_str(),
          text);
  }

  void legend(double h) {
    const double y = h - 18;
    out_ += fmt::format(
        "<circle cx=\"18\" cy=\"{0:.1f}\" r=\"4\" fill=\"#444444\" stroke=\"#444444\"/>"
        "<text x=\"28\" y=\"{1:.1f}\" fill=\"#444444\">added</text>"
        "<circle cx=\"78\" cy=\"{0:.1f}\" r=\"4\" fill=\"#ffffff\" stroke=\"#444444\"/>"
        "<text x=\"88\" y=\"{1:.1f}\" fill=\"#444444\">put in place</text>"
        "<text x=\"172\" y=\"{1:.1f}\" fill=\"#444444\">{2} in {3} chunk{4} of about {5}, a colour each (c0, "
        "c1...); dashed: read from memory; grey: signal</text>\n",
        y - 4, y, format_bytes(spec_.bytes()), std::max(num_chunks_, 1), num_chunks_ <= 1 ? "" : "s",
        format_bytes(spec_.bytes() / static_cast<std::uint64_t>(std::max(num_chunks_, 1))));
  }

  std::vector<DrawnMessage> messages_;
  const ScheduleSpec& spec_;
  std::vector<int> turn_out_, turn_in_;  // of every message among those of its rank and round
  std::map<std::pair<std::int64_t, int>, int> sends_, arrivals_;
  std::int64_t num_rounds_ = 0;
  int num_chunks_ = 0, busiest_ = 1;
  double width_ = 0;
  std::string out_, labels_;  // labels lie above all arrows
};

}  // namespace

Result<std::string> draw_svg(std::span<const RankProgram> programs, const ScheduleSpec& spec,
                             std::string_view title) {
  if (spec.world > kMaxDrawnWorld)
    return error(Code::kInvalid,
                 "[collective] {} ranks are too many for a readable drawing: expected at most {}; use --draw "
                 "text for sums per round, or a smaller --world",
                 spec.world, kMaxDrawnWorld);
  return Diagram(messages_by_round(programs), spec).draw(title);
}

}  // namespace trireme::collective
