// How codecs' messages are made on a GPU: what codec::Packer lays out, as kernel/cuda has it.
#pragma once

#include "trireme/codec/packer.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

// Whether a GPU has kernels for it. The others are encoded on the host.
bool has_device_codec(const codec::CodecRow& row);
bool is_half(const codec::CodecRow& row);

// The format whose messages have the bytes that Packer::make() with these arguments gives.
Result<kernel::cuda::MessageFormat> device_format(const codec::CodecRow& row, const codec::Options& options,
                                                  double momentum, const codec::Packing& packing,
                                                  std::int64_t num_elems);

// The same values without lengths and headers, for sums by a library: f32 values as they are, then all
// halves.
struct HalvesFormat {
  kernel::cuda::MessageFormat format;
  std::int64_t num_plain = 0, num_halves = 0;
  std::int64_t halves_at = 0;  // bytes
  DType dtype = DType::kBF16;
};
HalvesFormat halves_format(const codec::CodecRow& row, double momentum, const codec::Packing& packing,
                           std::int64_t num_elems);

// All values as they are.
kernel::cuda::MessageFormat dense_format(std::int64_t num_elems);

}  // namespace trireme::comm
