#include "trireme/comm/coded_sum.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/rng.h"
#include "trireme/comm/coded_work.h"
#include "trireme/comm/doubling_sum.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using codec::Packer;
using collective::LeafRun;
using runtime::Task;

// A stretch of what encodings are made of. Fragments below `least` that a cut leaves behind travel as they
// are.
codec::Packing cut(const codec::Packing& whole, Chunk chunk, std::int64_t least) {
  codec::Packing part;
  const auto add = [&](const codec::Piece& p, bool coded) {
    const std::int64_t begin = std::max(p.offset, chunk.begin), end = std::min(p.offset + p.count, chunk.end);
    if (begin >= end) return;
    (coded && end - begin >= least ? part.coded : part.plain).push_back({begin - chunk.begin, end - begin});
  };
  for (const codec::Piece& p : whole.coded) add(p, true);
  for (const codec::Piece& p : whole.plain) add(p, false);
  return part;
}

int owner_of(const std::vector<LeafRun>& owners, std::int32_t shard) {
  for (std::size_t r = 0; r < owners.size(); ++r)
    if (shard >= owners[r].first && shard < owners[r].first + owners[r].count) return static_cast<int>(r);
  return 0;
}

}  // namespace

class CodedSum::Impl {
 public:
  Impl(runtime::Runtime& rt, Group& group, CodedSumOptions options)
      : rt_(rt),
        group_(group),
        o_(std::move(options)),
        work_(rt, stats_),
        doubling_(rt, group, work_, o_.num_shards, o_.num_elems) {}

  Status take_shards(LeafRun run) {
    run_ = run;
    const auto make = [&](bool wanted, std::int64_t elems, Tensor& to) -> Status {
      if (!wanted) return {};
      TR_ASSIGN_OR_RETURN(to, zeros(rt_, run.count, elems));
      return {};
    };
    TR_RETURN_IF_ERROR(make(o_.coding.feedback, o_.num_elems, residual_));
    TR_RETURN_IF_ERROR(make(o_.coding.momentum > 0, o_.num_elems, velocity_));
    return make(o_.coding.feedback && o_.reducer == Reducer::kSplit, longest_chunk(), sums_);
  }

  std::vector<std::pair<std::string, Tensor>> state() const {
    std::vector<std::pair<std::string, Tensor>> all;
    if (!residual_.is_null()) all.emplace_back("residual", residual_);
    if (!velocity_.is_null()) all.emplace_back("velocity", velocity_);
    if (!sums_.is_null()) all.emplace_back("sums", sums_);
    return all;
  }

  Task<Status> sum(CodedCall call, std::vector<Tensor> shards) {
    TR_CO_RETURN_IF_ERROR(make_packers(call.step));
    Status status;
    if (o_.reducer == Reducer::kGather)
      status = co_await sum_by_gather(call, shards);
    else if (o_.reducer == Reducer::kDoubling)
      status = co_await sum_by_doubling(call, shards);
    else
      status = co_await sum_by_split(call, shards);
    if (status.code() == Code::kCorrupt && group_.verdict().ok()) group_.fail(call.label, status.message());
    co_return status;
  }

  Task<Status> watch(std::int64_t step, std::vector<Tensor> shards) {
    if (velocity_.is_null()) co_return Status();
    TR_CO_RETURN_IF_ERROR(make_packers(step));
    std::vector<Encoding> all;
    for (std::size_t s = 0; s < shards.size(); ++s)
      for (std::size_t c = 0; c < packers_.size(); ++c)
        all.push_back(encoding_of({}, shards, s, static_cast<std::int32_t>(c)));
    co_await work_.watch(std::move(all));
    co_return Status();
  }

  const CodedSumOptions& options() const { return o_; }
  Stats stats_;

 private:
  std::int64_t longest_chunk() const { return (o_.num_elems + o_.num_shards - 1) / o_.num_shards; }
  Chunk chunk(std::int32_t c) const {
    return {o_.num_elems * c / o_.num_shards, o_.num_elems * (c + 1) / o_.num_shards};
  }

  // What is in no encoding has no velocity, so with momentum everything is in one.
  std::int64_t least() const { return o_.coding.momentum > 0 ? 1 : 64; }

  // Whether shards' vectors travel in chunks.
  bool cuts() const { return o_.reducer == Reducer::kSplit || o_.reducer == Reducer::kSparse; }

  Status make_packers(std::int64_t step) {
    const double fraction = o_.coding.fraction_at(step);
    if (!packers_.empty() && fraction == fraction_) return {};
    fraction_ = fraction;
    const codec::Options now = o_.coding.options_at(step);
    packers_.clear();
    const bool split = cuts();
    back_.clear();
    for (std::int32_t c = 0; c < (split ? o_.num_shards : 1); ++c) {
      const Chunk part = split ? chunk(c) : Chunk{0, o_.num_elems};
      TR_ASSIGN_OR_RETURN(
          Packer p, Packer::make(*o_.coding.row, now, o_.coding.momentum, cut(o_.packing, part, least())));
      packers_.push_back(std::move(p));
      if (o_.reducer != Reducer::kSparse && o_.reducer != Reducer::kDoubling) continue;
      TR_ASSIGN_OR_RETURN(const codec::CodecRow* exact, codec::find_codec("nonzero"));
      TR_ASSIGN_OR_RETURN(Packer b, Packer::make(*exact, {}, 0, cut(o_.packing, part, least())));
      back_.push_back(std::move(b));
    }
    return {};
  }

  // Of sums on their way back.
  const std::vector<Packer>& back() const { return back_.empty() ? packers_ : back_; }

  std::span<float> row(const Tensor& of, std::size_t shard, Chunk part) const {
    if (of.is_null() || rt_.is_phantom()) return {};
    const auto elems = static_cast<std::size_t>(of.shape().num_elems() / run_.count);
    return of.values<float>().subspan(shard * elems + static_cast<std::size_t>(part.begin),
                                      static_cast<std::size_t>(part.size()));
  }

  Call call_of(const CodedCall& call, bool sizes, std::uint16_t turn) const {
    Call c;
    // Turns of one sum are calls of their own: the slot's high bits are free (slots are below 2^13).
    c.step = call.step;
    c.slot = static_cast<std::uint16_t>((sizes ? call.size_slot : call.slot) | turn << 13);
    c.label = call.label + (sizes ? ", sizes" : "");
    return c;
  }

  // Lengths of all ranks' messages, in rank order: `per_shard` for each shard of a rank. `sizes`: what they
  // are where nothing is computed.
  Task<Result<std::vector<std::size_t>>> share_sizes(const CodedCall& call,
                                                     const std::vector<std::size_t>& own,
                                                     std::size_t per_shard, std::vector<std::size_t> sizes,
                                                     std::uint16_t turn) {
    const std::size_t all = per_shard * static_cast<std::size_t>(o_.num_shards);
    const auto made = [&](std::size_t n) {
      return Tensor::allocate(device_of(rt_),
                              {DType::kI64, {static_cast<std::int64_t>(std::max<std::size_t>(n, 1))}});
    };
    TR_CO_ASSIGN_OR_RETURN(const Tensor mine, made(own.size()));
    TR_CO_ASSIGN_OR_RETURN(const Tensor everybodys, made(all));
    if (!rt_.is_phantom()) std::copy(own.begin(), own.end(), mine.data<std::int64_t>());
    Call c = call_of(call, true, turn);
    for (const LeafRun& run : call.owners)
      c.counts.push_back(run.count * static_cast<std::int64_t>(per_shard));
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

  // Every shard's message to everybody: lengths and bytes, in shard order. `known`: lengths where they are
  // fixed, or nothing is computed.
  Task<Result<Mail>> gather(const CodedCall& call, Mail own, bool fixed,
                            const std::vector<std::size_t>& known, std::uint16_t turn, Room& room) {
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
      c.counts.push_back(
          static_cast<std::int64_t>(std::accumulate(first, first + run.count, std::size_t{0})));
    }
    const Tensor block = first_bytes(own.bytes, own.total());
    TR_CO_RETURN_IF_ERROR(co_await group_.allgather(std::move(c), block, all.bytes));
    co_return all;
  }

  std::vector<ByteView> messages_of(const Mail& mail) const {
    std::vector<ByteView> messages;
    if (rt_.is_phantom()) return std::vector<ByteView>(mail.sizes.size());  // their number has a cost
    std::size_t at = 0;
    for (const std::size_t size : mail.sizes) {
      messages.emplace_back(mail.bytes.raw() + at, size);
      at += size;
    }
    return messages;
  }

  std::span<float> values_of(const Tensor& t) const {
    return rt_.is_phantom() ? std::span<float>() : t.values<float>();
  }

  Encoding encoding_of(const CodedCall& call, const std::vector<Tensor>& shards, std::size_t s,
                       std::int32_t c) const {
    const Chunk part = cuts() ? chunk(c) : Chunk{0, o_.num_elems};
    const auto number = static_cast<std::uint64_t>(run_.first) + s;
    Encoding e;
    e.packer = &packers_[static_cast<std::size_t>(c)];
    if (!rt_.is_phantom())
      e.values = values_of(shards[s]).subspan(static_cast<std::size_t>(part.begin),
                                              static_cast<std::size_t>(part.size()));
    e.carry = {row(residual_, s, part), row(velocity_, s, part)};
    e.key = mix_key(mix_key(o_.key, call.step, number), static_cast<std::uint64_t>(c));
    return e;
  }

  Task<Status> sum_by_gather(const CodedCall& call, const std::vector<Tensor>& shards) {
    std::vector<Encoding> mine;
    for (std::size_t s = 0; s < shards.size(); ++s) mine.push_back(encoding_of(call, shards, s, 0));
    TR_CO_ASSIGN_OR_RETURN(Mail own, co_await work_.encode(std::move(mine), out_));
    const Packer& packer = packers_[0];
    const std::vector<std::size_t> known(static_cast<std::size_t>(o_.num_shards), size_unseen(packer));
    TR_CO_ASSIGN_OR_RETURN(const Mail all,
                           co_await gather(call, std::move(own), packer.is_fixed(), known, 0, in_));
    std::vector<Decoding> sums(1);
    sums[0] = {&packer, messages_of(all), values_of(shards[0])};
    co_return co_await work_.decode(std::move(sums));
  }

  Task<Status> sum_by_doubling(const CodedCall& call, const std::vector<Tensor>& shards) {
    std::vector<Encoding> mine;
    for (std::size_t s = 0; s < shards.size(); ++s) mine.push_back(encoding_of(call, shards, s, 0));
    TR_CO_ASSIGN_OR_RETURN(Mail own, co_await work_.encode(std::move(mine), out_));
    DoublingCall doubling{call.step, call.slot, call.owners, &packers_[0], &back_[0]};
    co_return co_await doubling_.sum(std::move(doubling), std::move(own), shards[0]);
  }

  // Own shards' messages to the owners of their chunks; gives per own chunk the messages of all shards.
  Task<Result<std::vector<std::vector<ByteView>>>> scatter(const CodedCall& call,
                                                           const std::vector<Tensor>& shards) {
    const auto num = static_cast<std::size_t>(o_.num_shards);
    std::vector<Encoding> mine;
    for (const LeafRun& to : call.owners)
      for (std::size_t s = 0; s < shards.size(); ++s)
        for (std::int32_t c = to.first; c < to.first + to.count; ++c)
          mine.push_back(encoding_of(call, shards, s, c));
    TR_CO_ASSIGN_OR_RETURN(const Mail own, co_await work_.encode(std::move(mine), out_));
    // Lengths by (shard, chunk): a rank's own come in the order in which it sends.
    std::vector<std::size_t> by_shard;
    for (std::size_t s = 0; s < shards.size(); ++s)
      for (std::int32_t c = 0; c < o_.num_shards; ++c) by_shard.push_back(own.sizes[place(call, s, c)]);
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < num * num; ++i) sizes.push_back(size_unseen(packers_[i % num]));
    if (!packers_[0].is_fixed()) {
      TR_CO_ASSIGN_OR_RETURN(sizes, co_await share_sizes(call, by_shard, num, sizes, 0));
    }
    const auto sum_of = [&](const LeafRun& from, const LeafRun& to) {
      std::size_t sum = 0;
      for (std::int32_t s = from.first; s < from.first + from.count; ++s)
        for (std::int32_t c = to.first; c < to.first + to.count; ++c)
          sum += sizes[static_cast<std::size_t>(s) * num + static_cast<std::size_t>(c)];
      return sum;
    };
    Call turn = call_of(call, false, 0);
    std::size_t incoming = 0;
    for (const LeafRun& from : call.owners) {
      incoming += sum_of(from, run_);
      for (const LeafRun& to : call.owners)
        turn.counts.push_back(static_cast<std::int64_t>(sum_of(from, to)));
    }
    TR_CO_ASSIGN_OR_RETURN(const Tensor got, in_.take(rt_, incoming));
    const Tensor block = first_bytes(own.bytes, own.total());
    if (group_.world() > 1) TR_CO_RETURN_IF_ERROR(co_await group_.all_to_all(std::move(turn), block, got));
    std::vector<std::vector<ByteView>> chunks(static_cast<std::size_t>(run_.count));
    if (rt_.is_phantom()) {
      for (auto& messages : chunks) messages.resize(static_cast<std::size_t>(o_.num_shards));
      co_return chunks;
    }
    const std::byte* at = group_.world() > 1 ? got.raw() : own.bytes.raw();
    for (std::int32_t s = 0; s < o_.num_shards; ++s)
      for (std::int32_t c = 0; c < run_.count; ++c) {
        const std::size_t size =
            sizes[static_cast<std::size_t>(s) * num + static_cast<std::size_t>(run_.first + c)];
        chunks[static_cast<std::size_t>(c)].emplace_back(at, size);
        at += size;
      }
    co_return chunks;
  }

  // Where the message of own shard s and chunk c is among those that this rank sends.
  std::size_t place(const CodedCall& call, std::size_t s, std::int32_t c) const {
    const LeafRun to = call.owners[static_cast<std::size_t>(owner_of(call.owners, c))];
    return static_cast<std::size_t>(to.first) * static_cast<std::size_t>(run_.count) +
           s * static_cast<std::size_t>(to.count) + static_cast<std::size_t>(c - to.first);
  }

  Task<Status> sum_by_split(const CodedCall& call, const std::vector<Tensor>& shards) {
    TR_CO_ASSIGN_OR_RETURN(auto chunks, co_await scatter(call, shards));
    const auto count = static_cast<std::size_t>(run_.count);
    if (chunk_sums_.is_null() || chunk_sums_.shape().num_elems() < run_.count * longest_chunk()) {
      TR_CO_ASSIGN_OR_RETURN(chunk_sums_, zeros(rt_, run_.count, longest_chunk()));
    }
    std::vector<Decoding> sums(count);
    std::vector<Encoding> results(count);
    for (std::size_t c = 0; c < count; ++c) {
      const auto number = static_cast<std::size_t>(run_.first) + c;
      const Chunk part{0, chunk(static_cast<std::int32_t>(number)).size()};
      const std::span<float> sum = row(chunk_sums_, c, part);
      sums[c] = {&packers_[number], std::move(chunks[c]), sum};
      results[c] = {&back()[number],
                    sum,
                    {row(sums_, c, part), {}},
                    mix_key(mix_key(o_.key, call.step, number), ~std::uint64_t{0})};
    }
    TR_CO_RETURN_IF_ERROR(co_await work_.decode(std::move(sums)));
    TR_CO_ASSIGN_OR_RETURN(Mail own, co_await work_.encode(std::move(results), out_));
    std::vector<std::size_t> known;
    for (const Packer& p : back()) known.push_back(size_unseen(p));
    TR_CO_ASSIGN_OR_RETURN(const Mail all,
                           co_await gather(call, std::move(own), back()[0].is_fixed(), known, 1, in_));
    const std::vector<ByteView> messages = messages_of(all);
    std::vector<Decoding> whole;
    for (std::int32_t c = 0; c < o_.num_shards; ++c) {
      Decoding d{&back()[static_cast<std::size_t>(c)], {}, {}};
      if (!rt_.is_phantom()) {
        d.messages.push_back(messages[static_cast<std::size_t>(c)]);
        d.into = values_of(shards[0]).subspan(static_cast<std::size_t>(chunk(c).begin),
                                              static_cast<std::size_t>(chunk(c).size()));
      }
      whole.push_back(std::move(d));
    }
    co_return co_await work_.decode(std::move(whole));
  }

  runtime::Runtime& rt_;
  Group& group_;
  const CodedSumOptions o_;
  LeafRun run_;
  Tensor residual_, velocity_, sums_, chunk_sums_;
  std::vector<Packer> packers_;  // one, or one per chunk
  std::vector<Packer> back_;     // sparse: of sums, one per chunk
  double fraction_ = -1;
  Room out_, in_;
  CodedWork work_;
  DoublingSum doubling_;
};

Reducer reducer_of(std::string_view name) {
  return name == "split"      ? Reducer::kSplit
         : name == "sparse"   ? Reducer::kSparse
         : name == "doubling" ? Reducer::kDoubling
                              : Reducer::kGather;
}

CodedSum::CodedSum(runtime::Runtime& rt, Group& group, CodedSumOptions options)
    : impl_(std::make_unique<Impl>(rt, group, std::move(options))) {}
CodedSum::~CodedSum() = default;
Status CodedSum::take_shards(LeafRun run) { return impl_->take_shards(run); }
std::vector<std::pair<std::string, Tensor>> CodedSum::state() const { return impl_->state(); }
bool CodedSum::encodes_at(std::int64_t step) const { return impl_->options().coding.encodes_at(step); }
Task<Status> CodedSum::sum(CodedCall call, std::vector<Tensor> shards) {
  return impl_->sum(std::move(call), std::move(shards));
}
Task<Status> CodedSum::watch(std::int64_t step, std::vector<Tensor> shards) {
  return impl_->watch(step, std::move(shards));
}
const CodedSum::Stats& CodedSum::stats() const { return impl_->stats_; }

}  // namespace trireme::comm
