#include "trireme/model/parameter.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"

namespace trireme::model {
namespace {

double count(std::int64_t n) { return static_cast<double>(n); }

constexpr InitRow kRows[] = {
    {"he", "He et al. 2015, uniform: variance 2 / fan_in.", InitKind::kUniform,
     [](Fans f, double) { return std::sqrt(6.0 / count(f.in)); }, false},
    {"he-normal", "He et al. 2015, normal: variance 2 / fan_in.", InitKind::kNormal,
     [](Fans f, double) { return std::sqrt(2.0 / count(f.in)); }, false},
    {"xavier", "Glorot and Bengio 2010, uniform: variance 2 / (fan_in + fan_out).", InitKind::kUniform,
     [](Fans f, double) { return std::sqrt(6.0 / (count(f.in) + count(f.out))); }, false},
    {"xavier-normal", "Glorot and Bengio 2010, normal: variance 2 / (fan_in + fan_out).", InitKind::kNormal,
     [](Fans f, double) { return std::sqrt(2.0 / (count(f.in) + count(f.out))); }, false},
    {"lecun", "LeCun et al. 1998, uniform: variance 1 / fan_in.", InitKind::kUniform,
     [](Fans f, double) { return std::sqrt(3.0 / count(f.in)); }, false},
    {"lecun-normal", "LeCun et al. 1998, normal: variance 1 / fan_in.", InitKind::kNormal,
     [](Fans f, double) { return std::sqrt(1.0 / count(f.in)); }, false},
    {"torch", "PyTorch's default of linear and conv: uniform, variance 1 / (3 fan_in).", InitKind::kUniform,
     [](Fans f, double) { return std::sqrt(1.0 / count(f.in)); }, false},
    {"orthogonal", "Saxe et al. 2014: orthonormal rows or columns, whichever are fewer.",
     InitKind::kOrthogonal, [](Fans, double) { return 1.0; }, false},
    {"zeros", "All 0.", InitKind::kConstant, [](Fans, double) { return 0.0; }, false},
    {"ones", "All 1.", InitKind::kConstant, [](Fans, double) { return 1.0; }, false},
    {"constant", "constant(v): all v.", InitKind::kConstant, [](Fans, double v) { return v; }, true},
    {"normal", "normal(sd): normal with that deviation.", InitKind::kNormal,
     [](Fans, double sd) { return sd; }, true},
    {"uniform", "uniform(b): uniform in [-b, b).", InitKind::kUniform, [](Fans, double b) { return b; },
     true},
};

Status unknown_init(std::string_view text) {
  std::string known;
  for (const InitRow& row : kRows)
    known += fmt::format("{}{}{}", known.empty() ? "" : ", ", row.name, row.takes_argument ? "(x)" : "");
  return error(Code::kInvalid, "[model] initialiser: got '{}', expected one of: {}", text, known);
}

std::uint64_t key_of(const Parameter& p, std::uint64_t seed) {
  return mix_key(seed, hash_text("initial values"), hash_text(p.name));
}

std::array<std::uint32_t, 4> block_of(std::uint64_t key, std::size_t element) {
  const std::uint64_t block = element / 4;
  return philox4x32(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
}

// Box and Muller (1958), pairs of words making pairs of elements, as in op `normal`: the four of a block.
std::array<double, 4> normals_of(std::uint64_t key, std::size_t element) {
  constexpr double kTwoPi = 6.283185307179586;
  const auto words = block_of(key, element);
  std::array<double, 4> out;
  for (std::size_t k = 0; k < 4; k += 2) {
    const double u = (words[k] + 0.5) * 0x1.0p-32, angle = kTwoPi * (words[k + 1] * 0x1.0p-32);
    const double length = std::sqrt(-2 * std::log(u));
    out[k] = length * std::cos(angle);
    out[k + 1] = length * std::sin(angle);
  }
  return out;
}

// fn(element, its value) for elements [first, first + n), each block made once.
template <typename MakeBlock, typename Fn>
void for_blocks(std::size_t first, std::size_t n, MakeBlock make, Fn fn) {
  for (std::size_t i = first; i < first + n;) {
    const auto block = make(i);
    for (const std::size_t end = std::min((i / 4 + 1) * 4, first + n); i < end; ++i) fn(i, block[i % 4]);
  }
}

// The Gaussian matrix [rows, columns] made orthonormal along its shorter side by Gram and Schmidt, twice per
// vector ("twice is enough": Giraud et al. 2005).
void orthogonal(std::uint64_t key, std::int64_t rows, double gain, std::span<float> values) {
  const std::size_t m = static_cast<std::size_t>(rows), n = m == 0 ? 0 : values.size() / m;
  const bool by_rows = m <= n;
  const std::size_t vectors = by_rows ? m : n, length = by_rows ? n : m;
  std::vector<double> basis(vectors * length);
  for_blocks(
      0, basis.size(), [&](std::size_t i) { return normals_of(key, i); },
      [&](std::size_t i, double v) { basis[i] = v; });
  for (std::size_t v = 0; v < vectors; ++v) {
    double* own = &basis[v * length];
    for (std::size_t earlier = 0; earlier < 2 * v; ++earlier) {
      const double* other = &basis[(earlier % v) * length];
      double dot = 0;
      for (std::size_t i = 0; i < length; ++i) dot += own[i] * other[i];
      for (std::size_t i = 0; i < length; ++i) own[i] -= dot * other[i];
    }
    double squares = 0;
    for (std::size_t i = 0; i < length; ++i) squares += own[i] * own[i];
    for (std::size_t i = 0; i < length; ++i) own[i] /= std::sqrt(squares);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / n, column = i % n;
    values[i] = static_cast<float>(gain * basis[by_rows ? i : column * length + row]);
  }
}

}  // namespace

std::span<const InitRow> init_table() { return kRows; }

Result<Init> find_init(std::string_view text, Fans fans) {
  std::string_view name = text, inside;
  const std::size_t open = text.find('(');
  if (open != std::string_view::npos) {
    if (text.back() != ')') return unknown_init(text);
    name = text.substr(0, open);
    inside = text.substr(open + 1, text.size() - open - 2);
  }
  for (const InitRow& row : kRows) {
    if (name != row.name) continue;
    double argument = 0;
    if (row.takes_argument != (open != std::string_view::npos)) return unknown_init(text);
    if (row.takes_argument) {
      const char* end = inside.data() + inside.size();
      const auto [at, failure] = std::from_chars(inside.data(), end, argument);
      const bool bad = failure != std::errc() || at != end || !std::isfinite(argument);
      if (bad || (argument < 0 && row.kind != InitKind::kConstant)) return unknown_init(text);
    }
    return Init{row.kind, row.bound(fans, argument)};
  }
  return unknown_init(text);
}

void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> values) {
  if (parameter.init != InitKind::kOrthogonal) return initialise_part(parameter, seed, 0, values);
  orthogonal(key_of(parameter, seed), parameter.type.shape.rank() > 0 ? parameter.type.shape[0] : 1,
             parameter.bound, values);
}

void initialise_part(const Parameter& parameter, std::uint64_t seed, std::size_t first,
                     std::span<float> values) {
  TR_CHECK(parameter.init != InitKind::kOrthogonal, "an orthogonal matrix is made as a whole");
  const std::uint64_t key = key_of(parameter, seed);
  const auto narrow = static_cast<float>(parameter.bound);
  if (parameter.init == InitKind::kConstant || narrow == 0) {
    std::fill(values.begin(), values.end(), narrow == 0 ? 0.0F : narrow);
  } else if (parameter.init == InitKind::kUniform) {
    for_blocks(
        first, values.size(), [&](std::size_t i) { return block_of(key, i); },
        [&](std::size_t i, std::uint32_t word) {
          values[i - first] = narrow * (2.0F * to_uniform(word) - 1.0F);
        });
  } else {
    for_blocks(
        first, values.size(), [&](std::size_t i) { return normals_of(key, i); },
        [&](std::size_t i, double v) { values[i - first] = static_cast<float>(parameter.bound * v); });
  }
}

}  // namespace trireme::model
