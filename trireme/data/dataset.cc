#include "trireme/data/dataset.h"

#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"

namespace trireme::data {
namespace {

// How many windows of context + 1 tokens start at multiples of `stride` in `tokens` tokens.
std::int64_t num_windows(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  return tokens <= context ? 0 : (tokens - context - 1) / stride + 1;
}

struct Normal {
  float mean, scale;
};
Normal normal_of(const Dataset& set, std::size_t channel) {
  if (set.dtype == DType::kF32) return {0, 1};
  if (set.channel_mean.empty()) return {set.mean, set.scale};
  return {set.channel_mean[channel], set.channel_scale[channel]};
}

template <typename T>
void normalise(std::span<const T> in, Normal n, std::span<float> out) {
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = (static_cast<float>(in[i]) - n.mean) * n.scale;
}

// Stored values of a row, channel by channel: seen through the view, then normalised.
template <typename T>
void fill_stored(const Dataset& set, std::span<const T> in, const AugmentedView* view, std::span<float> out) {
  const bool picture = set.sample_shape.rank() == 3;
  const std::size_t channels = picture ? static_cast<std::size_t>(set.sample_shape[0]) : 1;
  if (channels == 0) return;
  const std::size_t size = in.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    const Normal normal = normal_of(set, c);
    const auto to = out.subspan(c * size, size);
    if (view != nullptr) {
      view_channel(*view, in.subspan(c * size, size), set.sample_shape[1], set.sample_shape[2], to);
      normalise(std::span<const float>(to), normal, to);
    } else {
      normalise(in.subspan(c * size, size), normal, to);
    }
  }
}

void fill_features(const Dataset& set, std::int64_t id, const FillOptions& options, std::span<float> out) {
  const auto elems = out.size();
  const std::int64_t row = set.row_of(id);
  const auto begin = static_cast<std::size_t>(row) * elems;
  AugmentedView view;
  const bool viewed = options.augment && set.augment.any();
  if (viewed) view = draw_view(set.augment, set.sample_shape, options.seed, options.epoch, id);
  const AugmentedView* through = viewed ? &view : nullptr;
  if (set.dtype == DType::kU8) {
    fill_stored(set, set.pixels.view().subspan(begin, elems), through, out);
  } else if (!set.generate) {
    fill_stored(set, std::span(set.features).subspan(begin, elems), through, out);
  } else if (!viewed) {
    set.generate(row, out);
  } else {
    std::vector<float> drawn(elems);
    set.generate(row, drawn);
    fill_stored(set, std::span<const float>(drawn), through, out);
  }
}

// Windows of training move by less than a stride, a new draw every epoch, as far as the stream goes.
std::int64_t window_start(const TokenStream& stream, std::int64_t row, std::int64_t id,
                          const FillOptions& options) {
  const std::int64_t start = stream.row_start(row);
  if (!options.augment || row >= stream.num_train_rows()) return start;
  Philox rng(mix_key(options.seed, hash_text("augment"), static_cast<std::uint64_t>(options.epoch)),
             static_cast<std::uint64_t>(id));
  const std::int64_t room = std::min(stream.stride - 1, stream.train_tokens - stream.context - 1 - start);
  return start + rng.next_below(static_cast<std::uint32_t>(room + 1));
}

void fill_tokens(const Dataset& set, std::int64_t id, const FillOptions& options,
                 std::span<std::int32_t> tokens, std::span<std::int32_t> labels) {
  const std::int64_t start = window_start(set.stream, set.row_of(id), id, options);
  const std::uint16_t* from = set.stream.tokens.data() + start;
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = from[i];
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = from[i + 1];
}

void pad(std::size_t i, std::size_t elems, std::size_t label_elems, const BatchView& out) {
  if (!out.features.empty()) std::ranges::fill(out.features.subspan(i * elems, elems), 0.0F);
  if (!out.tokens.empty()) std::ranges::fill(out.tokens.subspan(i * elems, elems), 0);
  if (!out.labels.empty()) std::ranges::fill(out.labels.subspan(i * label_elems, label_elems), 0);
  out.weights[i] = 0;
}

Status check_counts(const Dataset& set, std::int64_t num_rows) {
  if (set.num_train < 0 || set.num_test < 0 || set.num_validation < 0)
    return error(Code::kInvalid, "[data] {}: sample counts below 0", set.name);
  if (set.rows.empty() ? set.num_samples() > num_rows
                       : set.num_samples() != static_cast<std::int64_t>(set.rows.size()))
    return error(Code::kInvalid, "[data] {}: {} samples, but {} rows", set.name, set.num_samples(),
                 set.rows.empty() ? num_rows : static_cast<std::int64_t>(set.rows.size()));
  for (const std::int64_t row : set.rows)
    if (row < 0 || row >= num_rows)
      return error(Code::kInvalid, "[data] {}: row {} of {}", set.name, row, num_rows);
  return {};
}

Status check_labels(const Dataset& set, std::int64_t num_rows) {
  if (static_cast<std::int64_t>(set.labels.size()) != num_rows)
    return error(Code::kInvalid, "[data] {}: {} labels for {} samples", set.name, set.labels.size(),
                 num_rows);
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    if (set.labels[i] < 0 || set.labels[i] >= set.num_classes)
      return error(Code::kInvalid, "[data] {}: sample {} has label {}, expected 0 to {}", set.name, i,
                   set.labels[i], set.num_classes - 1);
  return {};
}

}  // namespace

std::int64_t TokenStream::num_train_rows() const { return num_windows(train_tokens, context, stride); }
std::int64_t TokenStream::num_held_out_rows() const {
  return num_windows(static_cast<std::int64_t>(tokens.size()) - train_tokens, context, context);
}
std::int64_t TokenStream::row_start(std::int64_t row) const {
  const std::int64_t train = num_train_rows();
  return row < train ? row * stride : train_tokens + (row - train) * context;
}

Status check_dataset(const Dataset& set) {
  if (set.num_train == 0)
    return error(Code::kInvalid, "[data] {}: no training samples; is {} empty?", set.name, set.source);
  const std::int64_t elems = set.sample_elems();
  if (elems <= 0) return error(Code::kInvalid, "[data] {}: samples of no values", set.name);
  if (!set.class_names.empty() && static_cast<std::int64_t>(set.class_names.size()) != set.num_classes)
    return error(Code::kInvalid, "[data] {}: {} class names for {} classes", set.name, set.class_names.size(),
                 set.num_classes);
  TR_RETURN_IF_ERROR(check_augment(set.dtype == DType::kI32 ? Augment{} : set.augment, set.sample_shape));
  std::int64_t num_rows = 0;
  if (set.dtype == DType::kI32) {
    const auto& stream = set.stream;
    if (stream.context != elems || stream.stride < 1 || stream.train_tokens < 0 ||
        stream.train_tokens > static_cast<std::int64_t>(stream.tokens.size()))
      return error(Code::kInvalid, "[data] {}: windows that do not fit the stream", set.name);
    num_rows = stream.num_train_rows() + stream.num_held_out_rows();
    for (const std::uint16_t token : stream.tokens)
      if (token >= set.num_classes)
        return error(Code::kInvalid, "[data] {}: token {} of {}", set.name, token, set.num_classes);
  } else {
    const auto stored =
        static_cast<std::int64_t>(set.dtype == DType::kU8 ? set.pixels.size() : set.features.size());
    num_rows = set.generate ? set.num_samples() : stored / elems;
    if (!set.generate && stored % elems != 0)
      return error(Code::kInvalid, "[data] {}: {} values are not whole samples of {}", set.name, stored,
                   elems);
  }
  const auto channels = set.sample_shape.rank() == 3 ? static_cast<std::size_t>(set.sample_shape[0]) : 1;
  if (set.channel_mean.size() != set.channel_scale.size() ||
      (!set.channel_mean.empty() && set.channel_mean.size() != channels))
    return error(Code::kInvalid, "[data] {}: normalisation of {} channels, expected {}", set.name,
                 set.channel_mean.size(), channels);
  if (set.label_kind == Labels::kClass) TR_RETURN_IF_ERROR(check_labels(set, num_rows));
  return check_counts(set, num_rows);
}

void fill_batch(const Dataset& set, std::span<const std::int64_t> ids, const FillOptions& options,
                const BatchView& out) {
  const auto elems = static_cast<std::size_t>(set.sample_elems());
  const auto label_elems = static_cast<std::size_t>(set.label_elems());
  const bool language = set.dtype == DType::kI32;
  TR_CHECK((language ? out.tokens.size() : out.features.size()) == ids.size() * elems,
           "features or tokens of {} samples", ids.size());
  TR_CHECK(out.labels.empty() || out.labels.size() == ids.size() * label_elems);
  TR_CHECK(out.weights.size() == ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) {
      pad(i, elems, label_elems, out);
      continue;
    }
    const auto labels = out.labels.empty() ? out.labels : out.labels.subspan(i * label_elems, label_elems);
    if (language) {
      fill_tokens(set, ids[i], options, out.tokens.subspan(i * elems, elems), labels);
    } else {
      fill_features(set, ids[i], options, out.features.subspan(i * elems, elems));
      if (!labels.empty()) labels[0] = set.label_kind == Labels::kClass ? set.label_of(ids[i]) : 0;
    }
    out.weights[i] = options.weight;
  }
}

void fill_batch(const Dataset& set, std::span<const std::int64_t> ids, float weight, std::span<float> images,
                std::span<std::int32_t> labels, std::span<float> weights) {
  TR_CHECK(images.size() == ids.size() * static_cast<std::size_t>(set.sample_elems()) &&
           labels.size() == ids.size());
  FillOptions options;
  options.weight = weight;
  fill_batch(set, ids, options, {images, {}, labels, weights});
}

}  // namespace trireme::data
