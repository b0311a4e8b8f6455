#include "trireme/server/vector_coder.h"

#include <algorithm>
#include <cstring>

#include "trireme/server/stored_slice.h"

namespace trireme::server {
namespace {

using runtime::Task;
using SharedPacker = std::shared_ptr<const codec::Packer>;

using Number = std::int64_t;  // of the exchange, before the packed vector

template <class T>
std::span<T> from_first(const Tensor& t, std::int64_t first) {
  if (t.is_null()) return {};
  return std::span<T>(t.values<float>()).subspan(static_cast<std::size_t>(first));
}

MutByteView bytes_of(const Tensor& memory, std::uint64_t bytes) {
  return {memory.raw(), static_cast<std::size_t>(bytes)};
}

std::vector<codec::ElementRange> cut(const std::vector<codec::ElementRange>& pieces, std::int64_t begin,
                                     std::int64_t end) {
  std::vector<codec::ElementRange> out;
  for (const codec::ElementRange& p : pieces) {
    const std::int64_t from = std::max(p.offset, begin), to = std::min(p.offset + p.count, end);
    if (from < to) out.push_back({from - begin, to - from});
  }
  return out;
}

// Runs work(part) for all parts of a message: on this thread where that is little.
Task<void> for_parts(runtime::Runtime& rt, SharedPacker packer, std::function<void(std::size_t)> work,
                     const char* label) {
  const auto parts = static_cast<std::int64_t>(packer->num_parts());
  runtime::ComputeFn fn = [parts, work = std::move(work)](runtime::ComputeContext& context) {
    context.parallel_for(parts, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t p = begin; p < end; ++p) work(static_cast<std::size_t>(p));
    });
  };
  const cost::OpCost cost =
      pass_cost(4 * static_cast<double>(packer->num_coded_elems()), packer->work_bytes());
  const int width = static_cast<int>(std::min<std::int64_t>(parts, rt.compute_threads()));
  if (width < 2)
    co_await short_pass(rt, cost, std::move(fn), label);
  else
    co_await rt.compute(cost, std::move(fn), width, label);
}

}  // namespace

Result<VectorCoder> VectorCoder::make(const codec::Coding& coding, codec::Packing packing) {
  TR_CHECK(coding.row != nullptr, "a coder needs a codec");
  VectorCoder coder;
  coder.coding_ = coding;
  coder.packing_ = std::move(packing);
  // The fraction only falls.
  TR_ASSIGN_OR_RETURN(const SharedPacker first, coder.packer_at(coding.dense_steps));
  coder.max_bytes_ = sizeof(Number) + first->max_bytes();
  return coder;
}

Result<SharedPacker> VectorCoder::packer_at(std::int64_t exchange) const {
  if (exchange < 0 || !encodes_at(exchange))
    return error(Code::kInvalid, "[server] exchange {} is not encoded: expected {} or more", exchange,
                 coding_.dense_steps);
  const double fraction = coding_.fraction_at(exchange);
  if (packer_ == nullptr || fraction_ != fraction) {
    TR_ASSIGN_OR_RETURN(codec::Packer made, codec::Packer::make(*coding_.row, coding_.options_at(exchange),
                                                                coding_.momentum, packing_));
    packer_ = std::make_shared<const codec::Packer>(std::move(made));
    fraction_ = fraction;
  }
  return packer_;
}

codec::Packing cut_packing(const codec::Packing& packing, std::int64_t begin, std::int64_t end) {
  return {cut(packing.coded, begin, end), cut(packing.plain, begin, end)};
}

namespace {

Status check_link(const LinkCoding& link, std::size_t num_keys) {
  for (const std::size_t given : {link.packings.size(), link.codings.size()})
    if (given != 0 && given != num_keys)
      return error(Code::kInvalid,
                   "[server] a coded link: got {} codings or packings, expected one for each of {} keys",
                   given, num_keys);
  // Error of an unbiased codec may be longer than the difference: what a worker has would drift away.
  for (std::uint32_t key = 0; link.pulls && key < num_keys; ++key)
    if (const codec::CodecRow* row = link.coding_of(key).row;
        row != nullptr && row->bound == codec::Bound::kUnbiased)
      return error(Code::kInvalid,
                   "[server] coded pulls: got codec '{}', expected one whose error is shorter than what it "
                   "encodes (fp16, bf16, 1bit, topk, randomk, threshold)",
                   row->name);
  return {};
}

}  // namespace

Result<std::vector<SharedCoder>> slice_coders(const LinkCoding& link, const ServerLayout& layout,
                                              std::span<const Key> keys) {
  std::vector<SharedCoder> coders;
  if (!link.is_on()) return coders;
  TR_RETURN_IF_ERROR(check_link(link, keys.size()));
  for (const Slice& slice : layout.slices) {
    const codec::Coding& coding = link.coding_of(slice.key);
    if (coding.row == nullptr) {
      coders.emplace_back();
      continue;
    }
    codec::Packing of_key;
    if (link.packings.empty()) {
      std::vector<codec::ElementRange> parts;
      for (const Key::Part& p : parts_of(keys[slice.key])) parts.push_back({p.offset, p.count});
      of_key = codec::packing_of(parts, {}, coding.least_elems);
    } else {
      of_key = link.packings[slice.key];
    }
    codec::Packing packing = cut_packing(of_key, slice.begin, slice.end);
    TR_ASSIGN_OR_RETURN(VectorCoder coder, VectorCoder::make(coding, std::move(packing)));
    coders.push_back(std::make_shared<const VectorCoder>(std::move(coder)));
  }
  return coders;
}

Task<Result<std::uint64_t>> encode_vector(runtime::Runtime& rt, const VectorCoder& coder, ToEncode from,
                                          Tensor memory) {
  TR_CO_ASSIGN_OR_RETURN(const SharedPacker packer, coder.packer_at(from.exchange));
  const std::int64_t exchange = from.exchange;
  std::function<void(std::size_t)> work = [packer, from, memory](std::size_t part) {
    const codec::Carry carry{from_first<float>(from.residual, from.first),
                             from_first<float>(from.velocity, from.first)};
    packer->pack_part(part, from_first<const float>(from.values, from.first), carry, from.key,
                      bytes_of(memory, sizeof(Number) + packer->max_bytes()).subspan(sizeof(Number)));
  };
  co_await for_parts(rt, packer, std::move(work), "encode");
  if (rt.is_phantom()) co_return sizeof(Number) + static_cast<std::uint64_t>(packer->usual_bytes());
  std::memcpy(memory.raw(), &exchange, sizeof(exchange));
  const MutByteView message = bytes_of(memory, sizeof(Number) + packer->max_bytes()).subspan(sizeof(Number));
  co_return sizeof(Number) + static_cast<std::uint64_t>(packer->finish(message));
}

Task<Status> add_vector(runtime::Runtime& rt, const VectorCoder& coder, Tensor memory, std::uint64_t bytes,
                        Tensor into, std::int64_t first) {
  if (rt.is_phantom()) {
    std::function<void(std::size_t)> nothing = [](std::size_t) {};
    co_await for_parts(rt, coder.any_packer(), std::move(nothing), "decode");
    co_return Status();
  }
  const ByteView all(memory.raw(), static_cast<std::size_t>(bytes));
  Number exchange = -1;
  if (all.size() >= sizeof(exchange)) std::memcpy(&exchange, all.data(), sizeof(exchange));
  const auto packer = coder.packer_at(exchange);
  if (!packer.ok())
    co_return error(Code::kCorrupt, "[server] a coded vector of {} bytes names no coded exchange: got {}",
                    bytes, exchange);
  TR_CO_ASSIGN_OR_RETURN(const std::vector<ByteView> parts, (*packer)->parts_of(all.subspan(sizeof(Number))));
  // Kept by the work, which may outlive this Task.
  const auto wrong = std::make_shared<std::vector<Status>>(parts.size());
  std::function<void(std::size_t)> work = [packer = *packer, parts, wrong, memory, into,
                                           first](std::size_t part) {
    (*wrong)[part] = packer->add_part(part, parts[part], from_first<float>(into, first));
  };
  co_await for_parts(rt, *packer, std::move(work), "decode");
  for (const Status& status : *wrong) TR_CO_RETURN_IF_ERROR(status);
  co_return Status();
}

}  // namespace trireme::server
