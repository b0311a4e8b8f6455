#include "trireme/data/read/image.h"

#include <algorithm>
#include <cmath>

#include "trireme/data/read/image_codec.h"

namespace trireme::data {
namespace {

bool begins_with(ByteView bytes, std::initializer_list<unsigned> first) {
  std::size_t i = 0;
  for (const unsigned byte : first)
    if (i >= bytes.size() || static_cast<unsigned>(bytes[i++]) != byte) return false;
  return true;
}

// Which input samples make output sample i of a line, and how much of each: weights add up to 1.
struct Tap {
  std::int64_t first = 0;
  std::vector<float> weights;
};

// Output sample i lies at (begin + (i + 0.5) * scale) of a line of `size` samples.
std::vector<Tap> make_taps(std::int64_t size, std::int64_t count, double begin, double scale) {
  const double reach = std::max(scale, 1.0);
  std::vector<Tap> taps(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto first =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(centre - reach)), 0, size - 1);
    const auto last =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(centre + reach)), first + 1, size);
    Tap& tap = taps[static_cast<std::size_t>(i)];
    tap.first = first;
    double sum = 0;
    std::vector<double> weights;
    for (std::int64_t j = first; j < last; ++j) {
      const double distance = std::abs(static_cast<double>(j) + 0.5 - centre) / reach;
      weights.push_back(std::max(0.0, 1 - distance));
      sum += weights.back();
    }
    TR_CHECK(sum > 0, "an output sample that shows nothing");
    for (const double w : weights) tap.weights.push_back(static_cast<float>(w / sum));
  }
  return taps;
}

}  // namespace

Status check_picture_size(std::int64_t height, std::int64_t width, std::string_view source,
                          std::int64_t max_pixels) {
  if (height < 1 || width < 1)
    return error(Code::kCorrupt, "[data] {}, offset 0: an image of {} x {} pixels", source, height, width);
  if (width > max_pixels / height)
    return error(Code::kExhausted,
                 "[data] {}, offset 0: an image of {} x {} pixels, expected at most {} in all; scale it down",
                 source, height, width, max_pixels);
  return {};
}

bool is_image_name(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower.ends_with(".png") || lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

Result<Picture> decode_image(ByteView bytes, std::string_view source, int channels, std::int64_t max_pixels) {
  if (channels != 1 && channels != 3)
    return error(Code::kInvalid, "[data] images of {} channels; expected 1 (gray) or 3 (color)", channels);
  if (bytes.empty())
    return error(Code::kCorrupt, "[data] {}, offset 0: the file is empty; remove it", source);
  if (begins_with(bytes, {0x89, 'P', 'N', 'G'})) return decode_png(bytes, source, channels, max_pixels);
  if (begins_with(bytes, {0xFF, 0xD8})) return decode_jpeg(bytes, source, channels, max_pixels);
  return error(Code::kCorrupt, "[data] {}, offset 0: neither a JPEG nor a PNG image; remove or convert it",
               source);
}

void fit_picture(const Picture& picture, std::int64_t height, std::int64_t width,
                 std::span<std::uint8_t> out) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  const auto h = static_cast<std::size_t>(height), w = static_cast<std::size_t>(width);
  TR_CHECK(out.size() == channels * h * w);
  const auto in_h = static_cast<double>(picture.height), in_w = static_cast<double>(picture.width);
  const double scale = std::min(in_h / static_cast<double>(height), in_w / static_cast<double>(width));
  const auto down =
      make_taps(picture.height, height, (in_h - scale * static_cast<double>(height)) / 2, scale);
  const auto across = make_taps(picture.width, width, (in_w - scale * static_cast<double>(width)) / 2, scale);
  const std::size_t row_size = static_cast<std::size_t>(picture.width) * channels;
  std::vector<float> line(row_size);  // one output row, not yet scaled across
  for (std::size_t y = 0; y < h; ++y) {
    std::ranges::fill(line, 0.0F);
    for (std::size_t k = 0; k < down[y].weights.size(); ++k) {
      const std::uint8_t* from =
          picture.pixels.data() + (static_cast<std::size_t>(down[y].first) + k) * row_size;
      const float weight = down[y].weights[k];
      for (std::size_t i = 0; i < row_size; ++i) line[i] += weight * static_cast<float>(from[i]);
    }
    for (std::size_t x = 0; x < w; ++x) {
      const Tap& tap = across[x];
      for (std::size_t c = 0; c < channels; ++c) {
        const float* from = line.data() + static_cast<std::size_t>(tap.first) * channels + c;
        float sum = 0.5F;  // rounds
        for (std::size_t k = 0; k < tap.weights.size(); ++k) sum += tap.weights[k] * from[k * channels];
        out[(c * h + y) * w + x] = static_cast<std::uint8_t>(std::clamp(sum, 0.0F, 255.0F));
      }
    }
  }
}

}  // namespace trireme::data
