// Dataset: samples of one shape in memory; batches are made from it by sample ids.
//
// A sample is one of three things, told by `dtype`: bytes that are normalised on the fly (kU8: pictures),
// features as they are (kF32, stored or drawn by `generate`), or a window of a token stream (kI32: language).
// Sample ids: the train samples first, then test, then validation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/data/augment.h"
#include "trireme/data/pixels.h"
#include "trireme/runtime/files.h"
#include "trireme/tensor/shape.h"

namespace trireme::data {

enum class Labels : std::uint8_t {
  kClass,  // one class per sample
  kNext,   // the token after each token of the window
  kNone,   // the sample is its own target; label spans are not written
};

// The tokens that language samples are windows of. Row r < num_train_rows() starts at r * stride of the first
// `train_tokens` tokens; later rows at multiples of `context` of the rest, so that held-out windows never
// overlap. A window is context + 1 tokens: inputs and the token after each.
struct TokenStream {
  std::vector<std::uint16_t> tokens;
  std::int64_t train_tokens = 0;
  std::int64_t context = 0;
  std::int64_t stride = 0;

  std::int64_t num_train_rows() const;
  std::int64_t num_held_out_rows() const;
  std::int64_t row_start(std::int64_t row) const;
};

// By how much features were standardised: a value v of column j became (v - mean[j]) * scale[j].
struct Standard {
  std::vector<double> mean, scale;  // per value of a sample; scale 1 where all are equal
};

// Immutable after loading, shared by every rank of a process.
struct Dataset {
  std::string name;
  std::string source;  // where it came from, for people
  // Hash of what the source holds (content_hash.h), whatever part of it is used. Empty: not known.
  std::string content_sha256;
  Shape sample_shape;        // [1, 28, 28]; [context] for language
  DType dtype = DType::kU8;  // kU8, kF32 or kI32, as above
  Labels label_kind = Labels::kClass;
  int num_classes = 10;                      // of language: the size of the vocabulary
  std::vector<std::string> class_names;      // empty, or num_classes of them; of language: the tokens
  std::int64_t num_train = 0, num_test = 0;  // test samples follow the train samples
  std::int64_t num_validation = 0;           // and validation samples follow those
  Pixels pixels;                             // kU8: rows x sample
  std::vector<float> features;               // kF32: rows x sample, unless `generate` is set
  Standard standard;                         // kF32: how `features` were standardised; empty: they were not
  TokenStream stream;                        // kI32
  std::vector<std::int32_t> labels;          // kClass: one per row
  std::vector<std::int64_t> rows;            // row of each sample id; empty: row = id
  // kF32: writes the features of a row. Pure and thread-safe.
  std::function<void(std::int64_t row, std::span<float> out)> generate;
  float mean = 0, scale = 1;                       // kU8: a value v becomes (v - mean) * scale
  std::vector<float> channel_mean, channel_scale;  // kU8 and not empty: per channel of [C, H, W], instead
  Augment augment;                                 // what training may do to pictures [C, H, W]

  std::int64_t sample_elems() const { return sample_shape.num_elems(); }
  std::int64_t label_elems() const { return label_kind == Labels::kNext ? sample_elems() : 1; }
  std::int64_t num_samples() const { return num_train + num_test + num_validation; }
  std::int64_t row_of(std::int64_t id) const {
    return rows.empty() ? id : rows[static_cast<std::size_t>(id)];
  }
  std::int32_t label_of(std::int64_t id) const { return labels[static_cast<std::size_t>(row_of(id))]; }
};

// Sizes and ranges that must fit together whatever the source: counts, labels below num_classes, tokens below
// the vocabulary. Loaders end with it.
Status check_dataset(const Dataset& set);

// Where a batch of n samples goes. Spans that the set does not fill may be empty.
struct BatchView {
  std::span<float> features;       // n x sample_elems: kU8 and kF32
  std::span<std::int32_t> tokens;  // n x sample_elems: kI32
  std::span<std::int32_t> labels;  // n x label_elems; empty: not wanted
  std::span<float> weights;        // n
};

struct FillOptions {
  float weight = 1;      // of every sample that is not padding
  bool augment = false;  // as the set's `augment` says; language: windows move by up to a stride
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

// Writes the samples `ids` (-1: padding: zeros, label 0, weight 0). A sample's values depend on the set, the
// id and, augmented, on (seed, epoch) alone. Thread-safe.
void fill_batch(const Dataset& set, std::span<const std::int64_t> ids, const FillOptions& options,
                const BatchView& out);

// The same for labelled pictures, without augmentation.
void fill_batch(const Dataset& set, std::span<const std::int64_t> ids, float weight, std::span<float> images,
                std::span<std::int32_t> labels, std::span<float> weights);

// The built-in digits. Drawn on the compute pool, kept in `cache_dir` (empty: no cache); a damaged cache is
// drawn anew. limit > 0 takes only the first `limit_train`/`limit_test` samples.
struct DigitsOptions {
  std::uint64_t seed = 2024;
  std::int64_t limit_train = 0, limit_test = 0;
  std::string cache_dir;
};
runtime::Task<Result<std::shared_ptr<const Dataset>>> load_digits(runtime::Runtime& rt,
                                                                  DigitsOptions options);

}  // namespace trireme::data
