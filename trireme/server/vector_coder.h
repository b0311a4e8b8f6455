// VectorCoder: vectors as coded messages between two ranks. Both sides make it of the same Coding and
// Packing.
//
// A message: the number of the exchange that it was made in (i64), which says how far the warm-up is; then
// what codec::Packer writes. Memory is lent as f32 tensors of at least num_elems_for(max_bytes()).
#pragma once

#include "trireme/codec/packer.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/task.h"
#include "trireme/server/factor_link.h"
#include "trireme/tensor/tensor.h"

namespace trireme::server {

// How vectors travel between workers and servers.
struct LinkCoding {
  codec::Coding coding;                  // row null: as they are
  std::vector<codec::Coding> codings;    // per key, where they differ; none: `coding` for all
  std::vector<codec::Packing> packings;  // per key; none: by the parts of the keys and coding.least_elems
  std::vector<FactorKey> factors;        // per key: those that are pushed as factors; none: no key is
  // Answers to pulls are coded too: the difference to what the worker has. Servers then keep a vector per
  // worker and slice.
  bool pulls = false;

  bool is_on() const { return coding.row != nullptr || !codings.empty(); }
  const codec::Coding& coding_of(std::uint32_t key) const { return codings.empty() ? coding : codings[key]; }
};

class VectorCoder {
 public:
  // kInvalid: options that the codec does not take.
  static Result<VectorCoder> make(const codec::Coding& coding, codec::Packing packing);

  bool encodes_at(std::int64_t exchange) const { return coding_.encodes_at(exchange); }
  // No message is longer.
  std::uint64_t max_bytes() const { return max_bytes_; }
  static std::int64_t num_elems_for(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes / 4 + 1); }
  std::shared_ptr<const codec::Packer> any_packer() const { return packer_; }  // for costs
  // kInvalid: not an exchange that is encoded.
  Result<std::shared_ptr<const codec::Packer>> packer_at(std::int64_t exchange) const;

 private:
  VectorCoder() = default;
  codec::Coding coding_;
  codec::Packing packing_;
  std::uint64_t max_bytes_ = 0;
  // The last one: the fraction changes during the warm-up only.
  mutable std::shared_ptr<const codec::Packer> packer_;
  mutable double fraction_ = -1;
};

// The coders of the slices of a layout, by their ids, null where the key is not coded; nothing where the link
// is not.
// kInvalid: a codec or packings that do not fit.
using SharedCoder = std::shared_ptr<const VectorCoder>;
Result<std::vector<SharedCoder>> slice_coders(const LinkCoding& link, const ServerLayout& layout,
                                              std::span<const Key> keys);

// The pieces of `packing` that lie in [begin, end), counted from `begin`.
codec::Packing cut_packing(const codec::Packing& packing, std::int64_t begin, std::int64_t end);

// What one message is made of. Tensors may be null where nothing is kept; `first` is the place of the coded
// vector in each of them.
struct ToEncode {
  Tensor values, residual, velocity;
  std::int64_t first = 0;
  std::int64_t exchange = 0;
  std::uint64_t key = 0;  // of the random draws
};
// Writes the message into `memory` and gives its bytes; on a phantom Runtime about how many there would be.
runtime::Task<Result<std::uint64_t>> encode_vector(runtime::Runtime& rt, const VectorCoder& coder,
                                                   ToEncode from, Tensor memory);

// into[first...] += what `memory` says, which begins with a message of `bytes`. kCorrupt: no message of this
// coder.
runtime::Task<Status> add_vector(runtime::Runtime& rt, const VectorCoder& coder, Tensor memory,
                                 std::uint64_t bytes, Tensor into, std::int64_t first = 0);

}  // namespace trireme::server
