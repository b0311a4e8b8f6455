// The rows of codec_table(), one per file.
#pragma once

#include "trireme/codec/codec.h"

namespace trireme::codec {

extern const CodecRow kFp16, kBf16, kOneBit, kQsgd, kTernGrad, kThreshold, kTopK, kRandomK, kNonzero;

}  // namespace trireme::codec
