#include "trireme/apply/predict_sheet.h"

#include <algorithm>
#include <cmath>

namespace trireme::apply {
namespace {

using data::Picture;

constexpr std::int64_t kGap = 4;          // pixels between tiles
constexpr std::uint8_t kPaper = 96;       // grey between tiles
constexpr std::int64_t kGoodSide = 96;    // tiles are enlarged up to it
constexpr std::int64_t kMaxTiles = 4096;  // of a sheet
constexpr std::int64_t kMaxSheetSide = 1 << 15;

struct Tile {
  std::int64_t channels = 1, height = 0, width = 0;
  std::size_t elems() const { return static_cast<std::size_t>(channels * height * width); }
};

// A sheet that is filled tile by tile.
class Sheet {
 public:
  Sheet(Tile tile, std::int64_t columns, std::int64_t rows, std::int64_t good_side) : tile_(tile) {
    factor_ = std::max<std::int64_t>(1, good_side / std::max(tile.height, tile.width));
    picture_.channels = static_cast<int>(tile.channels);
    picture_.width = columns * (factor_ * tile.width + kGap) + kGap;
    picture_.height = rows * (factor_ * tile.height + kGap) + kGap;
  }

  Status check() const {
    if (picture_.width <= kMaxSheetSide && picture_.height <= kMaxSheetSide) return {};
    return error(Code::kInvalid, "[predict] a sheet of {} x {} pixels is too large; take fewer --samples",
                 picture_.height, picture_.width);
  }

  void begin() {
    picture_.pixels.assign(static_cast<std::size_t>(picture_.height * picture_.width * picture_.channels),
                           kPaper);
  }

  // Planes [C, H, W] of values 0 to 255.
  void put(std::int64_t row, std::int64_t column, std::span<const float> planes) {
    const std::int64_t top = kGap + row * (factor_ * tile_.height + kGap),
                       left = kGap + column * (factor_ * tile_.width + kGap);
    for (std::int64_t y = 0; y < factor_ * tile_.height; ++y)
      for (std::int64_t x = 0; x < factor_ * tile_.width; ++x)
        for (std::int64_t c = 0; c < tile_.channels; ++c) {
          const std::int64_t from = (c * tile_.height + y / factor_) * tile_.width + x / factor_;
          const std::int64_t to = ((top + y) * picture_.width + left + x) * tile_.channels + c;
          const float value = std::clamp(planes[static_cast<std::size_t>(from)] + 0.5F, 0.0F, 255.0F);
          picture_.pixels[static_cast<std::size_t>(to)] = static_cast<std::uint8_t>(value);
        }
  }

  Picture take() { return std::move(picture_); }

 private:
  Tile tile_;
  std::int64_t factor_ = 1;
  Picture picture_;
};

// From what the model sees to 0 to 255: bytes as they were, other values by the range of the originals.
class Denormaliser {
 public:
  Denormaliser(const data::Dataset& data, std::span<const float> originals) : data_(data) {
    const auto [low, high] = std::minmax_element(originals.begin(), originals.end());
    low_ = *low;
    range_ = *high > *low ? *high - *low : 1;
  }

  std::vector<float> operator()(std::span<const float> values, const Tile& tile) const {
    std::vector<float> out(values.size());
    const std::size_t plane = static_cast<std::size_t>(tile.height * tile.width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (data_.dtype != DType::kU8) {
        out[i] = 255 * (values[i] - low_) / range_;
        continue;
      }
      const bool per_channel = !data_.channel_mean.empty();
      const float mean = per_channel ? data_.channel_mean[i / plane] : data_.mean;
      const float scale = per_channel ? data_.channel_scale[i / plane] : data_.scale;
      out[i] = values[i] / scale + mean;
    }
    return out;
  }

 private:
  const data::Dataset& data_;
  float low_ = 0, range_ = 1;
};

Result<Tile> tile_of(const Shape& shape) {
  if (shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3))
    return error(Code::kInvalid, "[predict] samples of {} are no images of 1 or 3 channels: nothing to draw",
                 shape.to_string());
  return Tile{shape[0], shape[1], shape[2]};
}

// The first layer's weights as tiles; unit u's value i lies at u * unit_step + i * value_step.
struct Filters {
  Tile tile;
  std::int64_t count = 0;
  std::size_t unit_step = 1, value_step = 1;
};

Result<Filters> filters_of(const model::Parameter& p, const data::Dataset& data) {
  const Shape& shape = p.type.shape;
  if (shape.rank() == 4 && (shape[1] == 1 || shape[1] == 3)) {
    const Tile tile{shape[1], shape[2], shape[3]};
    return Filters{tile, shape[0], tile.elems(), 1};
  }
  if (shape.rank() == 2) {
    if (const Result<Tile> tile = tile_of(data.sample_shape); tile.ok()) {
      const auto elems = static_cast<std::int64_t>(tile->elems());
      if (shape[0] == elems) return Filters{*tile, shape[1], 1, static_cast<std::size_t>(shape[1])};
      if (shape[1] == elems) return Filters{*tile, shape[0], tile->elems(), 1};
    }
  }
  return error(
      Code::kInvalid,
      "[predict] --filters: the first layer '{}' has weights {}, which are no images; expected a dense "
      "layer over images or a convolution of 1 or 3 channels",
      p.name, shape.to_string());
}

}  // namespace

Result<Picture> reconstruction_sheet(const Reconstructions& r, const data::Dataset& data) {
  constexpr std::int64_t kColumns = 8;
  TR_ASSIGN_OR_RETURN(const Tile tile, tile_of(data.sample_shape));
  const auto count = static_cast<std::int64_t>(r.names.size());
  const std::int64_t blocks = (count + kColumns - 1) / kColumns;
  Sheet sheet(tile, std::min(count, kColumns), 2 * blocks, kGoodSide);
  TR_RETURN_IF_ERROR(sheet.check());
  sheet.begin();
  const Denormaliser denormalise(data, r.originals);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * tile.elems();
    const auto of = [&](const std::vector<float>& values) {
      return denormalise(std::span(values).subspan(at, tile.elems()), tile);
    };
    sheet.put(2 * (i / kColumns), i % kColumns, of(r.originals));
    sheet.put(2 * (i / kColumns) + 1, i % kColumns, of(r.rebuilt));
  }
  return sheet.take();
}

Result<Picture> filter_sheet(const LoadedModel& model) {
  const auto first = std::find_if(model.parameters.begin(), model.parameters.end(),
                                  [](const auto& p) { return p.type.shape.rank() >= 2; });
  if (first == model.parameters.end())
    return error(Code::kInvalid, "[predict] --filters: the model has no layer with weights");
  TR_ASSIGN_OR_RETURN(const Filters filters, filters_of(*first, *model.data));
  TR_ASSIGN_OR_RETURN(const Tensor weights, model.variables->get(first->name));
  const auto values = weights.values<float>();
  const std::int64_t count = std::min(filters.count, kMaxTiles);
  const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  Sheet sheet(filters.tile, columns, (count + columns - 1) / columns, kGoodSide / 2);
  TR_RETURN_IF_ERROR(sheet.check());
  sheet.begin();
  for (std::int64_t u = 0; u < count; ++u) {
    std::vector<float> tile(filters.tile.elems());
    float most = 0;
    for (std::size_t i = 0; i < tile.size(); ++i) {
      tile[i] = values[static_cast<std::size_t>(u) * filters.unit_step + i * filters.value_step];
      most = std::max(most, std::abs(tile[i]));
    }
    for (float& v : tile) v = 127.5F + (most > 0 ? 127.5F * v / most : 0);
    sheet.put(u / columns, u % columns, tile);
  }
  return sheet.take();
}

}  // namespace trireme::apply
