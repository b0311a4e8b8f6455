// What encoded sums share: memory, and encoding and decoding of several messages at once on the pool.
// Internal to comm.
#pragma once

#include <numeric>

#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

Device& device_of(const runtime::Runtime& rt);
// f32 [rows, elems] of zeros.
Result<Tensor> zeros(const runtime::Runtime& rt, std::int64_t rows, std::int64_t elems);

// Memory that grows and stays.
struct Room {
  Tensor bytes;
  Result<Tensor> take(runtime::Runtime& rt, std::size_t size) {
    const auto n = static_cast<std::int64_t>(std::max<std::size_t>(size, 1));
    if (bytes.is_null() || bytes.shape().num_elems() < n) {
      TR_ASSIGN_OR_RETURN(bytes, Tensor::allocate(device_of(rt), {DType::kU8, {n + n / 8}}));
    }
    return Tensor(bytes.buffer(), {DType::kU8, {n}}, 0);
  }
};

inline Tensor first_bytes(const Tensor& t, std::size_t size) {
  return Tensor(t.buffer(), {DType::kU8, {static_cast<std::int64_t>(size)}}, t.offset_bytes());
}

// The length of a message that is not looked at: fixed, or where nothing is computed.
inline std::size_t size_unseen(const codec::Packer& packer) {
  return packer.is_fixed() ? packer.max_bytes()
                           : std::min(packer.max_bytes(), static_cast<std::size_t>(packer.usual_bytes()));
}

// Messages one after the other in one tensor, with their lengths.
struct Mail {
  Tensor bytes;
  std::vector<std::size_t> sizes;
  std::size_t total() const { return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}); }
};

// What is to be encoded: values, what its owner keeps, and the keys of draws.
struct Encoding {
  const codec::Packer* packer;
  std::span<const float> values;
  codec::Carry carry;
  codec::DrawKeys keys;
};

// A sum of messages to be made: which part of the result, by which packer, of which messages.
struct Decoding {
  const codec::Packer* packer;
  std::vector<ByteView> messages;
  std::span<float> into;
};

class CodedWork {
 public:
  CodedWork(runtime::Runtime& rt, SumStats& stats) : rt_(rt), stats_(stats) {}

  // All of them, one after the other in `room`.
  runtime::Task<Result<Mail>> encode(std::vector<Encoding> all, Room& room);
  // Velocities gather values that travel as they are.
  runtime::Task<void> watch(std::vector<Encoding> all);
  // kCorrupt: what no encoder wrote.
  runtime::Task<Status> decode(std::vector<Decoding> all);
  // into += the message.
  runtime::Task<Status> add(const codec::Packer& packer, ByteView message, std::span<float> into);

 private:
  int width_for(std::size_t parts) const;

  runtime::Runtime& rt_;
  SumStats& stats_;
};

}  // namespace trireme::comm
