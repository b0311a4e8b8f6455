#include "trireme/data/synthetic.h"

#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/data/content_hash.h"
#include "trireme/data/options.h"
#include "trireme/data/read/load.h"

namespace trireme::data {
namespace {

constexpr float kSpread = 3.46410161F;  // sqrt(12): uniform in [-1/2, 1/2) times this has variance 1
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 32;

std::array<std::uint32_t, 4> block(std::uint64_t key, std::int64_t which, std::size_t at) {
  return philox4x32(key, {static_cast<std::uint32_t>(at), 0, static_cast<std::uint32_t>(which),
                          static_cast<std::uint32_t>(which >> 32)});
}

float centred(std::uint32_t bits) { return (to_uniform(bits) - 0.5F) * kSpread; }

}  // namespace

std::int32_t synthetic_label(const SyntheticSpec& spec, std::int64_t index) {
  const std::int64_t run = index / spec.classes, place = index % spec.classes;
  const std::uint64_t key =
      mix_key(spec.seed, hash_text("synthetic labels"), static_cast<std::uint64_t>(run));
  return static_cast<std::int32_t>(
      permute_index(key, static_cast<std::uint64_t>(spec.classes), static_cast<std::uint64_t>(place)));
}

void draw_synthetic(const SyntheticSpec& spec, std::int64_t index, std::span<float> out) {
  const std::uint64_t noise_key = mix_key(spec.seed, hash_text("synthetic noise"));
  const std::uint64_t centre_key = mix_key(spec.seed, hash_text("synthetic centres"));
  const std::int32_t label = synthetic_label(spec, index);
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const auto noise = block(noise_key, index, i / 4), centre = block(centre_key, label, i / 4);
    for (std::size_t j = 0; j < std::min<std::size_t>(4, out.size() - i); ++j)
      out[i + j] = centred(noise[j]) + 0.5F * centred(centre[j]);
  }
}

namespace {

constexpr OptionSpec kClasses{.name = "classes",
                              .default_value = 10,
                              .doc = "synthetic: number of classes.",
                              .range = {.least = 1, .most = 16777216}};
constexpr OptionSpec kNumTrain{.name = "num_train",
                               .default_value = 10000,
                               .doc = "synthetic: number of training samples.",
                               .range = {.least = 1, .words = "1 or more"}};
constexpr OptionSpec kNumTest{.name = "num_test",
                              .default_value = 1000,
                              .doc = "synthetic: number of test samples.",
                              .range = {.least = 0, .words = "0 or more"}};
constexpr OptionSpec kOptions[] = {kSampleShape, kClasses, kNumTrain, kNumTest};

Result<Shape> shape_of(const OptionValues& options) {
  const std::string written = options.text(kSampleShape);
  return parse_sample_shape(written.empty() ? "1x28x28" : written);
}

KnownSamples known(const OptionValues& options) {
  return {*shape_of(options), static_cast<int>(options.integer(kClasses)), "of data.shape"};
}

runtime::Task<Loaded> load(runtime::Runtime&, const DataSpec& spec) {
  TR_CO_ASSIGN_OR_RETURN(const Shape shape, shape_of(spec.options));
  const std::int64_t classes = spec.options.integer(kClasses), all_train = spec.options.integer(kNumTrain),
                     all_test = spec.options.integer(kNumTest);
  if (classes < 1 || classes > 1'000'000)
    co_return error(Code::kInvalid, "[data] classes: got {}, expected 1 to 1000000", classes);
  if (all_train < 1 || all_train > kMaxSamples || all_test < 0 || all_test > kMaxSamples - all_train)
    co_return error(Code::kInvalid,
                    "[data] synthetic samples: got {} to train and {} to test, expected 1 to {}", all_train,
                    all_test, kMaxSamples);
  auto set = std::make_shared<Dataset>();
  set->name = "synthetic";
  set->source = fmt::format("synthetic samples, seed {}", spec.seed);
  set->sample_shape = shape;
  set->dtype = DType::kF32;
  set->num_classes = static_cast<int>(classes);
  set->num_train = spec.limit_train > 0 ? std::min(spec.limit_train, all_train) : all_train;
  set->num_test = spec.limit_test > 0 ? std::min(spec.limit_test, all_test) : all_test;
  set->content_sha256 = named_content_sha256(
      *set,
      fmt::format("synthetic 1 {} {} {} {} {}", spec.seed, shape.to_string(), classes, all_train, all_test));
  const SyntheticSpec drawn{spec.seed, static_cast<std::int32_t>(classes)};
  // Test samples keep their numbers whatever the number of training samples that are used.
  const std::int64_t skipped = all_train - set->num_train, num_train = set->num_train;
  const auto index_of = [=](std::int64_t row) { return row < num_train ? row : row + skipped; };
  for (std::int64_t row = 0; row < set->num_samples(); ++row)
    set->labels.push_back(synthetic_label(drawn, index_of(row)));
  set->generate = [=](std::int64_t row, std::span<float> out) { draw_synthetic(drawn, index_of(row), out); };
  co_return set;
}

}  // namespace

extern const DataKind kSynthetic{.name = "synthetic",
                                 .doc = "Classes of noise drawn by code.",
                                 .options = kOptions,
                                 .check = check_sample_shape,
                                 .known = known,
                                 .load = load};

}  // namespace trireme::data
