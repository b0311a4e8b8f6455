// Dataset: labelled samples of one shape in memory, as bytes; batches are made from it by sample ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/runtime/files.h"
#include "trireme/tensor/shape.h"

namespace trireme::data {

// Immutable after loading, shared by every rank of a process.
struct Dataset {
  std::string name;
  Shape sample_shape;  // [1, 28, 28]
  int num_classes = 10;
  std::int64_t num_train = 0, num_test = 0;  // test samples follow the train samples
  std::vector<std::uint8_t> pixels;          // (num_train + num_test) x sample
  std::vector<std::uint8_t> labels;
  float mean = 0, scale = 1;  // a value v becomes (v - mean) * scale

  std::int64_t sample_elems() const { return sample_shape.num_elems(); }
};

// Writes normalised images, labels and weights of `ids` (-1: padding: zeros, label 0, weight 0).
// weights[i] = weight for valid samples. Spans are ids.size() long (images: times sample_elems()).
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
