// Train, test and validation parts, limits, and normalisation by what is trained on.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/data/read/load.h"
#include "trireme/data/standardise.h"

namespace trireme::data {
namespace {

using Rows = std::vector<std::int64_t>;

// Takes a share of `from`, drawn from the seed, in their old order; at least one where any is asked for. The
// end of a stream rather than a draw: windows beside each other share text.
Rows take_share(Rows& from, double share, std::uint64_t seed, std::string_view purpose, bool from_end) {
  const auto n = static_cast<std::int64_t>(from.size());
  if (share <= 0 || n == 0) return {};
  const std::int64_t take = std::max<std::int64_t>(1, std::llround(share * static_cast<double>(n)));
  std::vector<bool> taken(from.size(), false);
  const std::uint64_t key = mix_key(seed, hash_text("held out"), hash_text(purpose));
  for (std::int64_t i = 0; i < take; ++i) {
    const std::int64_t at = from_end
                                ? n - 1 - i
                                : static_cast<std::int64_t>(permute_index(key, static_cast<std::uint64_t>(n),
                                                                          static_cast<std::uint64_t>(i)));
    taken[static_cast<std::size_t>(at)] = true;
  }
  Rows out, rest;
  for (std::size_t i = 0; i < from.size(); ++i) (taken[i] ? out : rest).push_back(from[i]);
  from = std::move(rest);
  return out;
}

Rows part_of(const Dataset& set, std::int64_t begin, std::int64_t count) {
  Rows rows(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) rows[static_cast<std::size_t>(i)] = set.row_of(begin + i);
  return rows;
}

void limit(Rows& rows, std::int64_t most) {
  if (most > 0 && static_cast<std::int64_t>(rows.size()) > most) rows.resize(static_cast<std::size_t>(most));
}

// Sums of bytes and of their squares: whole numbers, so the order of adding does not matter.
void measure_pixels(Dataset& set) {
  const bool picture = set.sample_shape.rank() == 3;
  const std::size_t channels = picture ? static_cast<std::size_t>(set.sample_shape[0]) : 1;
  const std::size_t elems = static_cast<std::size_t>(set.sample_elems()), size = elems / channels;
  std::vector<std::uint64_t> sum(channels), squares(channels);
  for (std::int64_t id = 0; id < set.num_train; ++id) {
    const std::uint8_t* at = set.pixels.data() + static_cast<std::size_t>(set.row_of(id)) * elems;
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < size; ++i, ++at) {
        sum[c] += *at;
        squares[c] += std::uint64_t{*at} * *at;
      }
  }
  const double count = static_cast<double>(set.num_train) * static_cast<double>(size);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sum[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - mean * mean;
    set.channel_mean.push_back(static_cast<float>(mean));
    set.channel_scale.push_back(variance > 0 ? static_cast<float>(1 / std::sqrt(variance)) : 1.0F);
  }
}

}  // namespace

Status split_parts(Dataset& set, const DataSpec& spec) {
  const bool language = set.dtype == DType::kI32;
  Rows train = part_of(set, 0, set.num_train), test = part_of(set, set.num_train, set.num_test);
  if (test.empty()) test = take_share(train, spec.test, spec.seed, "test", language);
  Rows validation = take_share(train, spec.validation, spec.seed, "validation", language);
  if (train.empty())
    return error(Code::kInvalid, "[data] {}: no training samples are left of {}; hold out less", set.source,
                 set.num_train);
  limit(train, spec.limit_train);
  limit(test, spec.limit_test);
  set.num_train = static_cast<std::int64_t>(train.size());
  set.num_test = static_cast<std::int64_t>(test.size());
  set.num_validation = static_cast<std::int64_t>(validation.size());
  for (const Rows* part : {&test, &validation}) train.insert(train.end(), part->begin(), part->end());
  bool identity = true;
  for (std::size_t i = 0; i < train.size() && identity; ++i)
    identity = train[i] == static_cast<std::int64_t>(i);
  set.rows = identity ? Rows() : std::move(train);
  return {};
}

void normalise_by_training(Dataset& set, Statistics which) {
  if (which != Statistics::kNone && set.dtype == DType::kU8) measure_pixels(set);
  if (which != Statistics::kAll || set.dtype != DType::kF32) return;
  set.standard = measure_features(set);
  standardise(set.standard, set.features);
}

}  // namespace trireme::data
