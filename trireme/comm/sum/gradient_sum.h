// GradientSum: one bucket's gradients of all logical shards, added up over all workers. One way, one file,
// one row (table.cc).
//
// A sum owns the memory that backward writes into, since that differs: gradients in host memory that others
// can read, factors of gradients, memory of a GPU. It ends when result() holds the sum over all shards of all
// workers on every worker; the order of additions is that of the fixed tree over shards, so the bits do not
// depend on the number of workers (a collective other than fixed-tree, and NCCL, excepted).
//
// On the loop of one Runtime; one sum of a bucket at a time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/codec/packer.h"
#include "trireme/comm/group.h"
#include "trireme/comm/sum/price.h"
#include "trireme/exec/executor.h"

namespace trireme::comm {

using NamedState = std::vector<std::pair<std::string, Tensor>>;

// Numbers of the messages of an encoded sum. Every turn of it is a call of its own; the plan has numbers for
// so many turns, of which a way uses as many as it takes.
inline constexpr std::size_t kMostTurns = 4;
struct CodedSlots {
  std::array<std::uint16_t, kMostTurns> encodings{};  // per turn
  std::array<std::uint16_t, kMostTurns> sizes{};      // of their lengths, per turn
};

// Numbers of messages that are a bucket's own during a step.
struct SumSlots {
  std::uint16_t first = 0;  // of the sum
  // What goes beside it: a second sum; on GPUs a second meeting, or lengths of encodings.
  std::uint16_t second = 0;
  std::uint16_t rest = 0;  // of what everybody needs where the sum itself is scattered
  std::uint16_t read = 0;  // everybody has read a micro-batch's gradients, and what everybody needs of them
  CodedSlots coded;        // instead of these, where the sum is encoded
};

// A parameter of a bucket as a matrix: the first dimension by all others. Where the model is cut over tiles
// it is a tile's piece of one.
struct Matrix {
  std::int64_t offset = 0, rows = 0, cols = 0;
  // The largest tile's piece: thin matrices lie as its own, so their vectors are as long on every tile.
  std::int64_t most_rows = rows, most_cols = cols;
  // A piece that is drawn by itself; none: with the others of its bucket.
  std::optional<std::uint64_t> key = std::nullopt;
};

// A parameter whose gradient is the product of two factors.
struct FactorProduct {
  std::shared_ptr<const exec::CompiledGraph> product;  // from "u" and "v" a shard's "grad"
  std::int64_t u = 0, v = 0;                           // offsets in a shard's vector of factors
  std::int64_t offset = 0;                             // of the gradient in the sum
};
class FactorScratch;   // factors.h
class GradientMemory;  // gradient_memory.h

// What encoders have done.
struct SumStats {
  std::int64_t messages = 0;  // encoded here
  double bytes = 0;           // of them
  TimeNs encode_ns = 0, decode_ns = 0;
};

// Everything that a way may need of its bucket; each reads its own.
struct SumSpec {
  SumSlots slots;
  std::string label;           // "bucket 3"
  std::int64_t num_elems = 0;  // of the sum, and of a shard's gradient
  std::int32_t num_shards = 1;
  std::string collective = "fixed-tree";  // of what travels as it is
  // Above 0: of so many first elements the worker needs only its own part (comm::chunk_of), and all of the
  // rest. Others may then read this worker's gradients until a later call among all workers has ended.
  std::int64_t scattered = 0;
  // Not null: the vectors lie there, from element `vectors_at` on; other buckets use that memory in turn.
  std::shared_ptr<GradientMemory> vectors_in;
  std::int64_t vectors_at = 0;
  std::uint64_t key = 0;                    // of random draws
  std::optional<std::uint64_t> common_key;  // of those that several tiles make alike (codec::DrawKeys)
  codec::Coding coding;    // gather, split, sparse, doubling; its first steps and least size elsewhere too
  codec::Packing packing;  // what of the vectors is encoded
  std::vector<Matrix> matrices;  // low-rank: what is worth two thin matrices
  std::int64_t rank = 2;
  bool feedback = true;
  std::vector<FactorProduct> products;  // factors
  std::int64_t factor_elems = 0;        // of a shard's vector
  std::shared_ptr<FactorScratch> scratch;
};

struct SumCall {
  std::uint32_t step = 0;
  std::vector<collective::LeafRun> owners;  // of logical shards, per worker
};

class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // Before the first sum and when this worker's run of shards changes: memory for its shards, and what is
  // kept from sum to sum, of zeros anew. Places that stay keep their memory, so the result stays where it is.
  virtual Status take_shards(collective::LeafRun run) = 0;
  // Where backward of the shard at that place of the run writes; never empty.
  virtual Tensor memory(std::size_t place) const = 0;
  // All shards' vectors are there. Ends when result() is; fails with the group's verdict.
  virtual runtime::Task<Status> sum(SumCall call) = 0;
  virtual Tensor result() const = 0;
  // Elements of the result from `offset` of the bucket on. Where the sum is scattered they are of this
  // worker's part or behind all parts.
  virtual Tensor summed(std::int64_t offset, const TensorType& type) const {
    const Tensor all = result();
    return Tensor(all.buffer(), type, all.offset_bytes() + static_cast<std::size_t>(offset) * sizeof(float));
  }
  // What is kept from sum to sum, live: [shards of this worker, elements] each; goes where the shards go.
  virtual NamedState state() const { return {}; }
  // What is kept on another device is where state() shows it. Between sums.
  virtual Status fetch_state() { return {}; }
  virtual const SumStats* stats() const { return nullptr; }  // null: nothing is encoded
};

class CodedSum;
struct CodedSumOptions;

struct SumRow {
  const char* name;
  const char* doc;
  // What a step's sum costs by the model, and what a worker holds for it.
  SumPrice (*price)(const SumShape& shape, const cost::Rates& rates);
  double (*held_bytes)(const SumShape& shape);
  std::unique_ptr<GradientSum> (*make)(runtime::Runtime& rt, Group& group, SumSpec spec);
  // For ways that add encodings of single values; rules that meet every few steps use them for their changes.
  std::unique_ptr<CodedSum> (*make_coded)(runtime::Runtime& rt, Group& group,
                                          CodedSumOptions options) = nullptr;
  // Sums are short while few values are not zero.
  bool for_few_values = false;
  // Sums are encoded too, with a residual of their own.
  bool encodes_sums = false;
};
std::span<const SumRow> sum_table();
Result<const SumRow*> find_sum(std::string_view name);

}  // namespace trireme::comm
