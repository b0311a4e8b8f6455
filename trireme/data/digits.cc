// Integer units: lengths and positions on the image are in 1/256 pixel (kPixel); factors are in 1/65536
// (kOne). Right shifts of negative values are arithmetic (C++20), so rounding is the same everywhere. At most
// one draw per function call's arguments: their order of evaluation is the compiler's choice.
#include "trireme/data/digits.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "trireme/base/check.h"
#include "trireme/base/rng.h"
#include "trireme/data/glyphs.h"

namespace trireme::data {
namespace {

constexpr int kPixel = 256;
constexpr int kOne = 65536;
constexpr int kSide = kDigitSide;
constexpr int kImage = kSide * kPixel;
constexpr int kMargin = kPixel;  // the knots of the digit keep this far from the edge
constexpr std::uint64_t kLabelStream =
    0x6C6162656C;  // "label": above every sample index, which are the other streams

// Integer draws from a sample's own stream.
class Dice {
 public:
  Dice(std::uint64_t seed, std::int64_t index) : rng_(seed, static_cast<std::uint64_t>(index)) {}

  std::uint32_t bits() { return rng_.next_u32(); }
  // Uniform in [low, high].
  int between(int low, int high) {
    return low + static_cast<int>(rng_.next_below(static_cast<std::uint32_t>(high - low + 1)));
  }
  bool percent(int chance) { return between(0, 99) < chance; }
  // A bell-shaped draw with mean 0 and standard deviation `spread`, never beyond 3.5 of them: the sum of the
  // four bytes of one word has mean 510 and deviation 147.8.
  int bell(int spread) {
    const std::uint32_t b = bits();
    const int sum = static_cast<int>((b & 255U) + (b >> 8 & 255U) + (b >> 16 & 255U) + (b >> 24));
    return (sum - 510) * spread / 148;
  }

 private:
  Philox rng_;
};

// A point the pen passes, on the image, with the pen's radius there.
struct Knot {
  Pen pen;
  int x, y, radius;
};

struct Path {
  std::array<Knot, kMaxGlyphPoints> knots;
  int size = 0;

  void add(const Knot& k) { knots[static_cast<std::size_t>(size++)] = k; }
  const Knot& operator[](int i) const { return knots[static_cast<std::size_t>(i)]; }
  Knot& operator[](int i) { return knots[static_cast<std::size_t>(i)]; }
};

class Canvas {
 public:
  explicit Canvas(std::span<std::uint8_t, kSide * kSide> pixels) : pixels_(pixels) {
    std::ranges::fill(pixels_, 0);
  }

  // A round dab of ink centred at (x, y). The edge is one pixel wide and linear in the squared distance,
  // which needs no square root; dabs darken, they never add up.
  void dab(int x, int y, int radius, int ink) {
    const int outer = radius + kPixel / 2, outer2 = outer * outer;
    const int slope = ink * 128 / radius;  // outer^2 - inner^2 = 2 * radius * kPixel; scaled by kOne
    // The centre of pixel i is at i * kPixel + kPixel / 2.
    const int left = std::max(0, (x - outer + kPixel / 2) >> 8),
              right = std::min(kSide - 1, (x + outer - kPixel / 2) >> 8);
    const int top = std::max(0, (y - outer + kPixel / 2) >> 8),
              bottom = std::min(kSide - 1, (y + outer - kPixel / 2) >> 8);
    for (int row = top; row <= bottom; ++row) {
      const int dy = row * kPixel + kPixel / 2 - y;
      for (int col = left; col <= right; ++col) {
        const int dx = col * kPixel + kPixel / 2 - x;
        const int inside = outer2 - dx * dx - dy * dy;
        if (inside <= 0) continue;
        const auto level =
            static_cast<std::uint8_t>(std::min(ink, static_cast<int>((std::int64_t{inside} * slope) >> 16)));
        std::uint8_t& p = pixels_[static_cast<std::size_t>(row * kSide + col)];
        p = std::max(p, level);
      }
    }
  }

  // Draws the strokes of a path: between neighbouring knots a Catmull-Rom curve, whose tangent ends at
  // corners and at pen lifts, as dabs about half a pixel apart.
  void strokes(const Path& path, int ink) {
    for (int i = 0; i + 1 < path.size; ++i) {
      if (path[i + 1].pen == Pen::kDown) continue;
      const bool free_start = path[i].pen != Pen::kSmooth;
      const bool free_end =
          path[i + 1].pen == Pen::kCorner || i + 2 == path.size || path[i + 2].pen == Pen::kDown;
      span(path[free_start ? i : i - 1], path[i], path[i + 1], path[free_end ? i + 1 : i + 2], ink);
    }
  }

  // Paper grain: moves every pixel by up to `amount` towards the middle grey, bare paper most, so ink gets a
  // texture.
  void grain(Dice& dice, int amount) {
    for (std::size_t i = 0; i < pixels_.size(); i += 4) {
      std::uint32_t b = dice.bits();
      for (std::size_t j = i; j < i + 4; ++j, b >>= 8) {
        const int noise = static_cast<int>(b & 255U) * amount >> 8;
        pixels_[j] = static_cast<std::uint8_t>(pixels_[j] + noise * (255 - 2 * pixels_[j]) / 255);
      }
    }
  }

 private:
  void span(const Knot& a, const Knot& b, const Knot& c, const Knot& d, int ink) {
    constexpr int kStep = 110;  // distance of dabs
    const int dx = std::abs(c.x - b.x), dy = std::abs(c.y - b.y);
    const int steps = 1 + (std::max(dx, dy) + std::min(dx, dy) / 2) / kStep;
    const auto curve = [](int p0, int p1, int p2, int p3, int t) {  // t in 1/1024
      const int cubic = 3 * (p1 - p2) + p3 - p0, square = 2 * p0 - 5 * p1 + 4 * p2 - p3, linear = p2 - p0;
      return p1 + ((((((cubic * t >> 10) + square) * t >> 10) + linear) * t) >> 11);
    };
    for (int s = 0; s <= steps; ++s) {
      const int t = s * 1024 / steps;
      dab(curve(a.x, b.x, c.x, d.x, t), curve(a.y, b.y, c.y, d.y, t),
          b.radius + ((c.radius - b.radius) * t >> 10), ink);
    }
  }

  std::span<std::uint8_t, kSide * kSide> pixels_;
};

// How one sample is held: everything that turns a glyph into a path on the image.
struct Pose {
  int height;              // of the digit, in 1/256 pixel
  int width;               // relative to the height, kOne = as in the glyph table
  int shear, bend, taper;  // slant, curvature of the upright, top wider than foot
  int cosine, sine;        // rotation
  int wobble;              // displacement of the knots, in 1/256 per cent of the height
};

Pose random_pose(Dice& dice) {
  Pose p;
  p.height = dice.between(15 * kPixel, 21 * kPixel);
  p.width = dice.between(kOne * 72 / 100, kOne * 118 / 100);
  p.shear = dice.bell(kOne * 16 / 100);
  p.bend = dice.bell(kOne * 12 / 100);
  p.taper = dice.bell(kOne * 12 / 100);
  // With t = tan(angle / 2), cos = (1 - t^2) / (1 + t^2) and sin = 2t / (1 + t^2): an exact rotation without
  // libm.
  const std::int64_t t = dice.bell(kOne * 8 / 100), t2 = t * t >> 16;
  p.cosine = static_cast<int>((kOne - t2) * kOne / (kOne + t2));
  p.sine = static_cast<int>(2 * t * kOne / (kOne + t2));
  p.wobble = dice.between(200, 1300);
  return p;
}

int scale(std::int64_t value, int factor) { return static_cast<int>(value * factor >> 16); }

// The glyph's point on an image whose origin is the middle of the digit.
Knot place(const Pose& pose, const GlyphPoint& point, int radius, Dice& dice) {
  const auto on_image = [&](int percent, int wobble) {
    return static_cast<int>(std::int64_t{(percent - 50) * 256 + wobble} * pose.height / 25600);
  };
  int x = on_image(point.x, dice.bell(pose.wobble));
  const int y = on_image(point.y, dice.bell(pose.wobble));
  const int along =
      static_cast<int>(std::int64_t{y} * 2 * kOne / pose.height);  // -kOne at the top, kOne at the foot
  x = scale(x, pose.width);
  x += scale(x, scale(along, pose.taper));
  x += scale(y, pose.shear) + scale(scale(pose.height, pose.bend), scale(along, along) - kOne / 3);
  return {point.pen, scale(x, pose.cosine) - scale(y, pose.sine), scale(x, pose.sine) + scale(y, pose.cosine),
          radius};
}

// Moves the path to a random place near the middle of the image, so that none of its knots leaves the image.
void shift_into_image(Path& path, Dice& dice) {
  constexpr int kMaxShift = 2 * kPixel;
  const auto offset = [&](int low, int high) {
    const int middle = kImage / 2;
    const int first = std::max(middle - kMaxShift, kMargin - low),
              last = std::min(middle + kMaxShift, kImage - kMargin - high);
    return first <= last ? dice.between(first, last) : (first + last) / 2;
  };
  const auto knots = std::span(path.knots).first(static_cast<std::size_t>(path.size));
  const auto [left, right] = std::ranges::minmax_element(knots, {}, &Knot::x);
  const auto [top, bottom] = std::ranges::minmax_element(knots, {}, &Knot::y);
  const int dx = offset(left->x, right->x), dy = offset(top->y, bottom->y);
  for (Knot& k : knots) {
    k.x += dx;
    k.y += dy;
  }
}

void draw_glyph(Canvas& canvas, int label, Dice& dice) {
  const std::span<const Glyph> styles = glyph_styles(label);
  const Glyph glyph = styles[static_cast<std::size_t>(dice.between(0, static_cast<int>(styles.size()) - 1))];
  const Pose pose = random_pose(dice);
  const int pen = dice.between(kPixel * 65 / 100, kPixel * 165 / 100);
  Path path;
  for (const GlyphPoint& point : glyph) path.add(place(pose, point, pen + dice.bell(pen / 10), dice));
  shift_into_image(path, dice);
  canvas.strokes(path, dice.between(170, 255));
}

// A short curved stroke somewhere, thinner and paler than the digit.
void draw_stray_stroke(Canvas& canvas, Dice& dice) {
  Path path;
  Knot k{Pen::kDown, dice.between(0, kImage), dice.between(0, kImage), dice.between(100, 200)};
  path.add(k);
  const int dx = dice.bell(2 * kPixel), dy = dice.bell(2 * kPixel);
  for (int i = 0; i < 2; ++i) {
    k = {Pen::kSmooth, k.x + dx + dice.bell(kPixel), k.y + dy + dice.bell(kPixel), k.radius};
    path.add(k);
  }
  canvas.strokes(path, dice.between(70, 190));
}

// A rule of the paper: faint, thin, almost level, right across the image.
void draw_rule(Canvas& canvas, Dice& dice) {
  const int y = dice.between(0, kImage), ink = dice.between(40, 100);
  Path path;
  path.add({Pen::kDown, 0, y, 90});
  path.add({Pen::kSmooth, kImage, y + dice.bell(kPixel / 2), 90});
  canvas.strokes(path, ink);
}

void draw_clutter(Canvas& canvas, Dice& dice) {
  if (dice.percent(20)) draw_rule(canvas, dice);
  for (int n = dice.between(0, 2); n > 0; --n) draw_stray_stroke(canvas, dice);
  for (int n = dice.between(0, 5); n > 0; --n) {
    const int x = dice.between(0, kImage), y = dice.between(0, kImage);
    const int radius = dice.between(60, 240), ink = dice.between(60, 220);
    canvas.dab(x, y, radius, ink);
  }
}

}  // namespace

int digit_label(const DigitSpec& spec, std::int64_t index) {
  TR_CHECK(index >= 0 && index < kDigitTrain + kDigitTest, "index {}", index);
  const auto i = static_cast<std::uint64_t>(index);
  return static_cast<int>(permute_index(mix_key(spec.seed, i / 10, kLabelStream), 10, i % 10));
}

int draw_digit(const DigitSpec& spec, std::int64_t index,
               std::span<std::uint8_t, kDigitSide * kDigitSide> out) {
  const int label = digit_label(spec, index);
  Dice dice(spec.seed, index);
  Canvas canvas(out);
  draw_clutter(canvas, dice);
  draw_glyph(canvas, label, dice);
  canvas.grain(dice, dice.between(0, 40));
  return label;
}

}  // namespace trireme::data
