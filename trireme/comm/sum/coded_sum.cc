#include "trireme/comm/sum/coded_sum.h"

#include <algorithm>

#include "trireme/base/rng.h"

namespace trireme::comm {
namespace {

using codec::Packer;
using collective::LeafRun;
using runtime::Task;

// A stretch of what encodings are made of. Fragments below `least` that a cut leaves behind travel as they
// are.
codec::Packing cut(const codec::Packing& whole, Chunk chunk, std::int64_t least) {
  codec::Packing part;
  const auto add = [&](const codec::ElementRange& p, bool coded) {
    const std::int64_t begin = std::max(p.offset, chunk.begin), end = std::min(p.offset + p.count, chunk.end);
    if (begin >= end) return;
    (coded && end - begin >= least ? part.coded : part.plain)
        .push_back({begin - chunk.begin, end - begin, p.is_common});
  };
  for (const codec::ElementRange& p : whole.coded) add(p, true);
  for (const codec::ElementRange& p : whole.plain) add(p, false);
  return part;
}

}  // namespace

Status CodedSum::take_shards(LeafRun run) {
  run_ = run;
  const auto make = [&](bool wanted, Tensor& to) -> Status {
    if (!wanted) return {};
    TR_ASSIGN_OR_RETURN(to, zeros(rt_, run.count, o_.num_elems));
    return {};
  };
  TR_RETURN_IF_ERROR(make(o_.coding.feedback, residual_));
  return make(o_.coding.momentum > 0, velocity_);
}

NamedState CodedSum::state() const {
  NamedState all;
  if (!residual_.is_null()) all.emplace_back("residual", residual_);
  if (!velocity_.is_null()) all.emplace_back("velocity", velocity_);
  return all;
}

Task<Status> CodedSum::sum(CodedCall call, std::vector<Tensor> shards) {
  TR_CO_RETURN_IF_ERROR(make_packers(call.step));
  Status status = co_await add(call, shards);
  if (status.code() == Code::kCorrupt && group_.verdict().ok()) group_.fail(call.label, status.message());
  co_return status;
}

Task<Status> CodedSum::watch(std::int64_t step, std::vector<Tensor> shards) {
  if (velocity_.is_null()) co_return Status();
  TR_CO_RETURN_IF_ERROR(make_packers(step));
  std::vector<Encoding> all;
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (std::size_t c = 0; c < packers_.size(); ++c)
      all.push_back(encoding_of({}, shards, s, static_cast<std::int32_t>(c)));
  co_await work_.watch(std::move(all));
  co_return Status();
}

Status CodedSum::make_packers(std::int64_t step) {
  const double fraction = o_.coding.fraction_at(step);
  if (!packers_.empty() && fraction == fraction_) return {};
  fraction_ = fraction;
  const codec::Options now = o_.coding.options_at(step);
  packers_.clear();
  exact_.clear();
  // What is in no encoding has no velocity, so with momentum everything is in one.
  const std::int64_t least = o_.coding.momentum > 0 ? 1 : 64;
  for (std::int32_t c = 0; c < (cuts() ? o_.num_shards : 1); ++c) {
    const Chunk part = cuts() ? chunk(c) : Chunk{0, o_.num_elems};
    TR_ASSIGN_OR_RETURN(Packer p,
                        Packer::make(*o_.coding.row, now, o_.coding.momentum, cut(o_.packing, part, least)));
    packers_.push_back(std::move(p));
    if (!sums_exactly()) continue;
    TR_ASSIGN_OR_RETURN(const codec::CodecRow* nonzero, codec::find_codec("nonzero"));
    TR_ASSIGN_OR_RETURN(Packer b, Packer::make(*nonzero, {}, 0, cut(o_.packing, part, least)));
    exact_.push_back(std::move(b));
  }
  return {};
}

std::span<float> CodedSum::row(const Tensor& of, std::size_t shard, Chunk part) const {
  if (of.is_null() || rt_.is_phantom()) return {};
  const auto elems = static_cast<std::size_t>(of.shape().num_elems() / run_.count);
  return of.values<float>().subspan(shard * elems + static_cast<std::size_t>(part.begin),
                                    static_cast<std::size_t>(part.size()));
}

codec::DrawKeys CodedSum::keys_of(const CodedCall& call, std::uint64_t shard, std::uint64_t what) const {
  const auto mixed = [&](std::uint64_t key) { return mix_key(mix_key(key, call.step, shard), what); };
  return {mixed(o_.keys.own), mixed(o_.keys.common)};
}

Call CodedSum::call_of(const CodedCall& call, bool sizes, Turn turn) const {
  Call c;
  c.step = call.step;
  c.slot = (sizes ? call.slots.sizes : call.slots.encodings)[turn];
  c.label = call.label + (sizes ? ", sizes" : "");
  return c;
}

Task<Result<std::vector<std::size_t>>> CodedSum::share_sizes(const CodedCall& call,
                                                             const std::vector<std::size_t>& own,
                                                             std::size_t per_shard,
                                                             std::vector<std::size_t> sizes, Turn turn) {
  const std::size_t all = per_shard * static_cast<std::size_t>(o_.num_shards);
  const auto made = [&](std::size_t n) {
    return Tensor::allocate(device_of(rt_),
                            {DType::kI64, {static_cast<std::int64_t>(std::max<std::size_t>(n, 1))}});
  };
  TR_CO_ASSIGN_OR_RETURN(const Tensor mine, made(own.size()));
  TR_CO_ASSIGN_OR_RETURN(const Tensor everybodys, made(all));
  if (!rt_.is_phantom()) std::copy(own.begin(), own.end(), mine.data<std::int64_t>());
  Call c = call_of(call, true, turn);
  for (const LeafRun& run : call.owners) c.counts.push_back(run.count * static_cast<std::int64_t>(per_shard));
  TR_CO_RETURN_IF_ERROR(co_await group_.allgather(std::move(c), mine, everybodys));
  if (!rt_.is_phantom())
    for (std::size_t i = 0; i < all; ++i) {
      const std::int64_t n = everybodys.data<std::int64_t>()[i];
      if (n < 0 || n > (std::int64_t{1} << 40))
        co_return error(Code::kCorrupt, "[comm] the length of an encoding: got {}", n);
      sizes[i] = static_cast<std::size_t>(n);
    }
  co_return sizes;
}

Task<Result<Mail>> CodedSum::gather(const CodedCall& call, Mail own, bool fixed,
                                    const std::vector<std::size_t>& known, Turn turn, Room& room) {
  if (group_.world() == 1) co_return own;
  Mail all;
  if (fixed) {
    all.sizes = known;
  } else {
    TR_CO_ASSIGN_OR_RETURN(all.sizes, co_await share_sizes(call, own.sizes, 1, known, turn));
  }
  TR_CO_ASSIGN_OR_RETURN(all.bytes, room.take(rt_, all.total()));
  Call c = call_of(call, false, turn);
  for (const LeafRun& run : call.owners) {
    const auto first = all.sizes.begin() + run.first;
    c.counts.push_back(static_cast<std::int64_t>(std::accumulate(first, first + run.count, std::size_t{0})));
  }
  const Tensor block = first_bytes(own.bytes, own.total());
  TR_CO_RETURN_IF_ERROR(co_await group_.allgather(std::move(c), block, all.bytes));
  co_return all;
}

std::vector<ByteView> CodedSum::messages_of(const Mail& mail) const {
  std::vector<ByteView> messages;
  if (rt_.is_phantom()) return std::vector<ByteView>(mail.sizes.size());  // their number has a cost
  std::size_t at = 0;
  for (const std::size_t size : mail.sizes) {
    messages.emplace_back(mail.bytes.raw() + at, size);
    at += size;
  }
  return messages;
}

Encoding CodedSum::encoding_of(const CodedCall& call, const std::vector<Tensor>& shards, std::size_t s,
                               std::int32_t c) const {
  const Chunk part = cuts() ? chunk(c) : Chunk{0, o_.num_elems};
  const auto number = static_cast<std::uint64_t>(run_.first) + s;
  Encoding e;
  e.packer = &packers_[static_cast<std::size_t>(c)];
  if (!rt_.is_phantom())
    e.values = values_of(shards[s]).subspan(static_cast<std::size_t>(part.begin),
                                            static_cast<std::size_t>(part.size()));
  e.carry = {row(residual_, s, part), row(velocity_, s, part)};
  e.keys = keys_of(call, number, static_cast<std::uint64_t>(c));
  return e;
}

std::vector<Encoding> CodedSum::whole_encodings(const CodedCall& call,
                                                const std::vector<Tensor>& shards) const {
  std::vector<Encoding> all;
  for (std::size_t s = 0; s < shards.size(); ++s) all.push_back(encoding_of(call, shards, s, 0));
  return all;
}

}  // namespace trireme::comm
