// Messages of encoded vectors, made and read on a GPU: the bytes of docs/format_codec.md and the arithmetic
// of codec/, to the bit. Without a CUDA header.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trireme/kernel/cuda/update/vector_sum.h"

namespace trireme::kernel::cuda {

enum class Encoding : std::uint8_t { kF16, kBf16, kOneBit, kTopK };

struct MessagePiece {
  std::int64_t offset = 0, count = 0;  // elements of the vector
  std::int64_t place = 0;              // bytes of the message: where it begins; with top-k, at the latest
  std::int64_t kept = 0, rice = 0;     // top-k: how many values are sent, the parameter of their positions;
                                       // 1bit: log2 of the values of a block
};

struct MessageFormat {
  Encoding encoding = Encoding::kBf16;
  std::uint8_t wire_id = 0;
  std::int64_t num_elems = 0;              // of the vector
  std::vector<MessagePiece> coded, plain;  // plain ones travel as f32; coded ones have values
  std::int64_t most_bytes = 0;             // of a message
  // Lengths in front and a header before every encoding. Without: halves alone, for sums by a library.
  bool framed = true;
  float momentum = 0;
};

// A message may be read this far beyond its end; what is there does not matter.
inline constexpr std::size_t kMessageSlack = 16;

// For one vector and a number of messages. Enqueues and does not wait; used with one Session at a time.
// Vectors and messages are aligned to 16 bytes.
class MessageCoder {
 public:
  virtual ~MessageCoder() = default;
  // As codec::Packer::pack: residual and velocity, laid out as the vector, may be null. The lengths in front
  // of the message tell its own.
  virtual Status encode(Session& session, const float* values, float* residual, float* velocity,
                        std::byte* message) = 0;
  // As codec::Packer::watch_part of all parts.
  virtual Status watch(Session& session, const float* values, float* velocity) = 0;
  // out = the sum of the messages in the order of the additions; what is in no piece stays.
  virtual Status sum(Session& session, std::span<const std::byte* const> messages, float* out) = 0;
  // Waits for all of it. kCorrupt: a message that no encoder wrote was summed.
  virtual Status finish(Session& session) = 0;
};

// `additions` as in VectorSum, over the messages.
Result<std::unique_ptr<MessageCoder>> make_message_coder(CudaDevice& device, const MessageFormat& format,
                                                         int num_messages,
                                                         std::span<const Addition> additions);

}  // namespace trireme::kernel::cuda
