// Draws the built-in digits once and keeps them in a cache file: "TRDIGIT1", u64 seed, u64 count, pixels,
// labels, and the SHA-256 (hex) of all that before it.
#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/data/content_hash.h"
#include "trireme/data/dataset.h"
#include "trireme/data/digits.h"
#include "trireme/data/read/load.h"

namespace trireme::data {
namespace {

constexpr std::string_view kMagic = "TRDIGIT1";
constexpr std::size_t kPixels = kDigitSide * kDigitSide;
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kDigestBytes = 64;
constexpr std::int64_t kSamplesPerTask = 5000;

Bytes encode(const Dataset& set, std::uint64_t seed) {
  Bytes out = to_bytes(kMagic);
  out.reserve(kHeaderBytes + set.pixels.size() + set.labels.size() + kDigestBytes);
  append_le(out, seed);
  append_le(out, static_cast<std::uint64_t>(set.labels.size()));
  const auto pixels = std::as_bytes(set.pixels.view());
  out.insert(out.end(), pixels.begin(), pixels.end());
  for (const std::int32_t label : set.labels) out.push_back(static_cast<std::byte>(label));
  const std::string digest = sha256_hex(out);
  const ByteView tail = as_bytes(digest);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

bool decode(const runtime::FileView& mapped, std::uint64_t seed, std::size_t count, Dataset& set) {
  const ByteView file = mapped.bytes;
  if (file.size() != kHeaderBytes + count * (kPixels + 1) + kDigestBytes) return false;
  const ByteView body = file.first(file.size() - kDigestBytes);
  if (as_text(file.last(kDigestBytes)) != sha256_hex(body)) return false;
  ByteView rest = body.subspan(kMagic.size());
  std::uint64_t file_seed = 0, file_count = 0;
  if (as_text(body.first(kMagic.size())) != kMagic || !take_le(rest, file_seed) || !take_le(rest, file_count))
    return false;
  if (file_seed != seed || file_count != count) return false;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(rest.data());
  set.pixels.share({bytes, count * kPixels}, mapped.owner);
  set.labels.assign(bytes + count * kPixels, bytes + count * (kPixels + 1));
  return true;
}

// Sample ids are those of the full set, so that a limited set holds the same pictures.
void draw_range(Dataset& set, const DigitSpec& spec, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t index = i < set.num_train ? i : kDigitTrain + (i - set.num_train);
    const auto at = static_cast<std::size_t>(i);
    const int label = draw_digit(
        spec, index, std::span<std::uint8_t, kPixels>(set.pixels.writable().data() + at * kPixels, kPixels));
    set.labels[at] = label;
  }
}

}  // namespace

runtime::Task<Loaded> make_digits(runtime::Runtime& rt, DigitsOptions options) {
  auto set = std::make_shared<Dataset>();
  set->name = "digits";
  set->source = fmt::format("built-in digits, seed {}", options.seed);
  set->content_sha256 = named_content_sha256(*set, fmt::format("digits 1 {}", options.seed));
  set->sample_shape = {1, kDigitSide, kDigitSide};
  set->num_train = options.limit_train > 0 ? std::min(options.limit_train, kDigitTrain) : kDigitTrain;
  set->num_test = options.limit_test > 0 ? std::min(options.limit_test, kDigitTest) : kDigitTest;
  set->mean = 33.0F;
  set->scale = 1.0F / 78.0F;
  const std::int64_t count = set->num_train + set->num_test;
  const bool whole = count == kDigitTrain + kDigitTest;
  const std::string path = fmt::format("{}/digits-{}.bin", options.cache_dir, options.seed);
  const bool use_cache = whole && !options.cache_dir.empty();
  if (use_cache) {
    Result<runtime::FileView> file = co_await rt.files().map(path);
    if (file.ok() && decode(*file, options.seed, static_cast<std::size_t>(count), *set)) co_return set;
  }
  set->pixels.resize(static_cast<std::size_t>(count) * kPixels);
  set->labels.resize(static_cast<std::size_t>(count));
  const DigitSpec spec{.seed = options.seed};
  for (std::int64_t begin = 0; begin < count; begin += kSamplesPerTask) {
    const std::int64_t end = std::min(begin + kSamplesPerTask, count);
    const cost::OpCost work{.flops = 2e4 * static_cast<double>(end - begin),
                            .bytes = 800.0 * static_cast<double>(end - begin)};
    co_await rt.compute(
        work,
        [&](runtime::ComputeContext& context) {
          context.parallel_for(end - begin, [&](std::int64_t b, std::int64_t e, int) {
            draw_range(*set, spec, begin + b, begin + e);
          });
        },
        rt.compute_threads(), "draw digits");
  }
  if (use_cache) {
    const Bytes file = encode(*set, options.seed);
    Status written = co_await rt.files().make_dirs(options.cache_dir);
    if (written.ok()) written = co_await rt.files().write_atomic(path, file);
    if (!written.ok()) rt.log(fmt::format("the digits are not cached: {}", written.message()));
  }
  co_return set;
}

runtime::Task<Result<std::shared_ptr<const Dataset>>> load_digits(runtime::Runtime& rt,
                                                                  DigitsOptions options) {
  Loaded set = co_await make_digits(rt, std::move(options));
  if (!set.ok()) co_return set.status();
  co_return std::shared_ptr<const Dataset>(std::move(*set));
}

namespace {

runtime::Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  DigitsOptions options;
  options.seed = spec.seed;
  options.limit_train = spec.limit_train;
  options.limit_test = spec.limit_test;
  options.cache_dir = spec.cache_dir;
  co_return co_await make_digits(rt, options);
}

KnownSamples known(const OptionValues&) { return {Shape{1, 28, 28}, 10, "of the built-in digits"}; }

}  // namespace

extern const DataKind kDigits{.name = "digits",
                              .doc = "The built-in digits, drawn by code (docs/digits.md).",
                              .known = known,
                              .load = load};

}  // namespace trireme::data
