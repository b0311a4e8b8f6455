// How fast codecs encode and decode, on one core or a GPU, beside copies in the same run.
#pragma once

#include "trireme/codec/codec.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/runtime/runtime.h"

namespace trireme::measure {

struct CodecFigures {
  std::string codec;
  std::uint64_t bytes = 0, encoded = 0;
  double memcpy_seconds = 1e9, encode_seconds = 1e9, decode_seconds = 1e9;
  double rate(double seconds) const { return static_cast<double>(bytes) / seconds / 1e9; }
};

// On the calling thread. Rounds alternate, so that all meet the same machine; the best of each counts.
Result<CodecFigures> measure_on_core(runtime::Runtime& rt, const codec::CodecRow& row,
                                     const codec::Options& options, std::uint64_t bytes, int repeats);

// Beside copies on the GPU. kInvalid: the codec has no kernels there.
Result<CodecFigures> measure_on_gpu(runtime::Runtime& rt, kernel::cuda::CudaDevice& gpu,
                                    const codec::CodecRow& row, const codec::Options& options,
                                    std::uint64_t bytes, int repeats);

}  // namespace trireme::measure
