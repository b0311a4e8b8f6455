// split: the vector is cut into V chunks, one per shard. A rank sends each shard's message of chunk c to the
// owner of shard c, who sums that chunk, encodes the sum with a residual of its own and sends it to everybody
// (both sides are encoded: Seide et al. 2014). A rank gets about two encodings, in twice as many turns.
//
// sparse: as split, but sums travel exactly, as their values that are not zero (codec nonzero): for codecs
// that send few values (the split allgather of Renggli et al., SparCML, SC 2019).
#include <algorithm>

#include "trireme/base/rng.h"
#include "trireme/comm/sum/coded_sum.h"

namespace trireme::comm {
namespace {

using collective::LeafRun;
using runtime::Task;

int owner_of(const std::vector<LeafRun>& owners, std::int32_t shard) {
  for (std::size_t r = 0; r < owners.size(); ++r)
    if (shard >= owners[r].first && shard < owners[r].first + owners[r].count) return static_cast<int>(r);
  return 0;
}

class Split final : public CodedSum {
 public:
  Split(runtime::Runtime& rt, Group& group, CodedSumOptions options, bool exactly)
      : CodedSum(rt, group, std::move(options)), exactly_(exactly) {}

  Status take_shards(LeafRun run) override {
    TR_RETURN_IF_ERROR(CodedSum::take_shards(run));
    if (!o_.coding.feedback || exactly_) return {};
    TR_ASSIGN_OR_RETURN(sums_, zeros(rt_, run.count, longest_chunk()));
    return {};
  }

  NamedState state() const override {
    NamedState all = CodedSum::state();
    if (!sums_.is_null()) all.emplace_back("sums", sums_);
    return all;
  }

 private:
  bool cuts() const override { return true; }
  bool sums_exactly() const override { return exactly_; }
  std::int64_t longest_chunk() const { return (o_.num_elems + o_.num_shards - 1) / o_.num_shards; }
  // Packers of sums on their way back.
  const std::vector<codec::Packer>& back() const { return exactly_ ? exact_ : packers_; }

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
      TR_CO_ASSIGN_OR_RETURN(sizes, co_await share_sizes(call, by_shard, num, sizes, kFirst));
    }
    const auto sum_of = [&](const LeafRun& from, const LeafRun& to) {
      std::size_t sum = 0;
      for (std::int32_t s = from.first; s < from.first + from.count; ++s)
        for (std::int32_t c = to.first; c < to.first + to.count; ++c)
          sum += sizes[static_cast<std::size_t>(s) * num + static_cast<std::size_t>(c)];
      return sum;
    };
    Call turn = call_of(call, false, kFirst);
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

  Task<Status> add(const CodedCall& call, const std::vector<Tensor>& shards) override {
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
      results[c] = {
          &back()[number], sum, {row(sums_, c, part), {}}, keys_of(call, number, ~std::uint64_t{0})};
    }
    TR_CO_RETURN_IF_ERROR(co_await work_.decode(std::move(sums)));
    TR_CO_ASSIGN_OR_RETURN(Mail own, co_await work_.encode(std::move(results), out_));
    std::vector<std::size_t> known;
    for (const codec::Packer& p : back()) known.push_back(size_unseen(p));
    TR_CO_ASSIGN_OR_RETURN(const Mail all,
                           co_await gather(call, std::move(own), back()[0].is_fixed(), known, kSecond, in_));
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

  const bool exactly_;
  Tensor sums_;        // residuals of sums, per own chunk
  Tensor chunk_sums_;  // of own chunks
};

// Floats of both turns, for every shard: a message of every own shard in parts to all, then a sum in parts
// from all.
SumPrice price_with(const SumShape& shape, double back, const cost::Rates& rates) {
  const std::vector<std::int64_t> turns{floats(shape.message_bytes / shape.workers()),
                                        floats(back / shape.num_shards)};
  SumPrice p = gather_seconds(shape, turns, rates);
  const double own = shape.most_shards();
  p.code_seconds = coding_seconds(shape, 2 * own + own / shape.num_shards + 1, rates);
  return p;
}

double dense_bytes(const SumShape& shape) { return 4.0 * static_cast<double>(shape.num_elems); }
// Sums are longer than messages.
double sparse_sum_bytes(const SumShape& shape) {
  return std::min(dense_bytes(shape), shape.message_bytes * shape.num_shards);
}

std::unique_ptr<CodedSum> make_split(runtime::Runtime& rt, Group& group, CodedSumOptions options) {
  return std::make_unique<Split>(rt, group, std::move(options), false);
}
std::unique_ptr<CodedSum> make_sparse(runtime::Runtime& rt, Group& group, CodedSumOptions options) {
  return std::make_unique<Split>(rt, group, std::move(options), true);
}

}  // namespace

extern const SumRow kSplitSum, kSparseSum;
constinit const SumRow kSplitSum{
    .name = "split",
    .doc = "every worker adds its part of the vectors and encodes the sum",
    .price = [](const SumShape& shape,
                const cost::Rates& rates) { return price_with(shape, shape.message_bytes, rates); },
    .held_bytes =
        [](const SumShape& shape) {
          return 2 * shape.message_bytes +
                 shape.most_shards() * (shape.keeps ? 2 : 1) * dense_bytes(shape) / shape.num_shards;
        },
    .make = make_encoded_by<make_split>,
    .make_coded = make_split,
    .encodes_sums = true};
constinit const SumRow kSparseSum{
    .name = "sparse",
    .doc = "every worker adds its part of the vectors and sends what is not zero in the sum",
    .price = [](const SumShape& shape,
                const cost::Rates& rates) { return price_with(shape, sparse_sum_bytes(shape), rates); },
    .held_bytes =
        [](const SumShape& shape) {
          return shape.message_bytes + shape.most_shards() * dense_bytes(shape) / shape.num_shards +
                 sparse_sum_bytes(shape);
        },
    .make = make_encoded_by<make_sparse>,
    .make_coded = make_sparse,
    .for_few_values = true};

}  // namespace trireme::comm
