// Packer: a vector of several tensors as one message, and sums of such messages.
//
// A message: the length of every encoding (u32 each), the values that travel as they are (f32), the
// encodings. Tensors keep their boundaries; one of more than kMostElems values is encoded in parts, so that
// several threads can work on it. Nothing here has state; what one message leaves to the next is the caller's
// (residual, velocity), laid out as the vector.
#pragma once

#include <optional>
#include <vector>

#include "trireme/codec/coding.h"

namespace trireme::codec {

struct ElementRange {
  std::int64_t offset = 0, count = 0;  // elements of the vector
  // Somebody else encodes the same values and must make the same of them: it is drawn by DrawKeys::common.
  bool is_common = false;
};

// What random draws follow from.
struct DrawKeys {
  std::uint64_t own = 0, common = 0;
  DrawKeys() = default;
  DrawKeys(std::uint64_t key) : own(key), common(key) {}  // NOLINT: one key is both
  DrawKeys(std::uint64_t of_own, std::uint64_t of_common) : own(of_own), common(of_common) {}
};

inline constexpr std::int64_t kMostElems = 1 << 20;

// Which parts of a vector travel encoded, and which as they are. What is in neither is not sent.
struct Packing {
  std::vector<ElementRange> coded, plain;
};
// `tensors` of at least `least_elems` are coded, the others and `plain` are not.
Packing packing_of(const std::vector<ElementRange>& tensors, const std::vector<ElementRange>& plain,
                   std::int64_t least_elems);

// What a vector's owner keeps from message to message; may be empty.
struct Carry {
  std::span<float> residual, velocity;
};

class Packer {
 public:
  // kInvalid: options that the codec does not take.
  static Result<Packer> make(const CodecRow& row, const Options& options, double momentum, Packing packing);

  std::size_t max_bytes() const { return places_.back(); }
  // Every message has max_bytes().
  bool is_fixed() const { return codec_->has_fixed_size(); }
  // About how long a message is; for prices and where nothing is computed.
  double usual_bytes() const;
  std::int64_t num_coded_elems() const { return coded_elems_; }
  // Work of packing or adding one message: bytes of memory moved.
  double work_bytes() const {
    return 12.0 * static_cast<double>(coded_elems_) + 8.0 * static_cast<double>(plain_elems_);
  }

  // A part of the message that can be made and read for itself: a coded piece, or all plain ones.
  std::size_t num_parts() const { return packing_.coded.size() + 1; }

  // Parts are encoded, in any order, into places of `out` as long as they may get; `out` has max_bytes().
  // Then finish() moves them together and gives the bytes of the message.
  void pack_part(std::size_t part, std::span<const float> values, const Carry& carry, DrawKeys keys,
                 MutByteView out) const;
  std::size_t finish(MutByteView out) const;
  // What a message that is not encoded leaves to the next: velocities of coded pieces gather its values.
  void watch_part(std::size_t part, std::span<const float> values, const Carry& carry) const;
  // All parts.
  std::size_t pack(std::span<const float> values, const Carry& carry, DrawKeys keys, MutByteView out) const;

  // A message as its parts. kCorrupt for what pack() does not write.
  Result<std::vector<ByteView>> parts_of(ByteView message) const;
  // into += message.
  Status add(ByteView message, std::span<float> into) const;
  // The same for one part of it, which parts_of() gave; different parts may be added at once.
  Status add_part(std::size_t part, ByteView encoded, std::span<float> into) const;
  // That part of `into` = the sum of that part of the messages, which parts_of() gave, in the order of the
  // fixed binary tree over them.
  Status sum_part(std::size_t part, std::span<const std::vector<ByteView>> messages,
                  std::span<float> into) const;

 private:
  Packer() = default;
  bool is_plain(std::size_t part) const { return part == packing_.coded.size(); }
  std::int64_t elems_of(std::size_t part) const;
  // values += part; only the part's values, one after the other.
  Status add_values(std::size_t part, ByteView encoded, std::span<float> values) const;
  Status sum_node(std::size_t part, std::span<const std::vector<ByteView>> messages,
                  std::span<float> values) const;

  const CodecRow* row_ = nullptr;
  Options options_;
  float momentum_ = 0;
  Packing packing_;
  std::shared_ptr<const Codec> codec_;
  std::vector<std::size_t> places_;  // where the encoding of a coded piece may begin
  std::int64_t coded_elems_ = 0, plain_elems_ = 0;
};

}  // namespace trireme::codec
