#include "trireme/comm/sum/doubling_rounds.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/runtime/sync.h"

namespace trireme::comm {

using collective::LeafRun;
using runtime::Task;

struct DoublingSum::Asked {
  Tensor bytes;
  std::size_t size = 0;
};

DoublingSum::DoublingSum(runtime::Runtime& rt, Group& group, CodedWork& work, std::int32_t num_shards,
                         std::int64_t num_elems)
    : rt_(rt), group_(group), work_(work), num_shards_(num_shards), num_elems_(num_elems) {}

DoublingSum::~DoublingSum() {
  if (listens_to_ >= 0) group_.mailbox().stop_handling<NodeHead>(listens_to_);
}

std::int32_t DoublingSum::end_of(Node node) const {
  return std::min(num_shards_, node.first + (std::int32_t{1} << node.level));
}

std::vector<int> DoublingSum::knowing(Node node) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < call_.owners.size(); ++r) {
    const LeafRun run = call_.owners[r];
    if (run.first < end_of(node) && run.first + run.count > node.first) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

bool DoublingSum::know(Node node) const {
  const LeafRun run = call_.owners[static_cast<std::size_t>(group_.rank())];
  return run.first < end_of(node) && run.first + run.count > node.first;
}

std::int64_t DoublingSum::key_of(Node node) const {
  return (static_cast<std::int64_t>(node.level) << 32) | node.first;
}

std::size_t DoublingSum::num_served(Node half, Node other) const {
  const std::vector<int> known = knowing(half), others = knowing(other);
  std::size_t served = 0, j = 0;
  for (const int rank : others) {
    if (std::find(known.begin(), known.end(), rank) != known.end()) continue;
    if (known[j++ % known.size()] == group_.rank()) ++served;
  }
  return served;
}

int DoublingSum::source_of(Node half, Node own) const {
  const std::vector<int> known = knowing(half), others = knowing(own);
  std::size_t j = 0;
  for (const int rank : others) {
    if (std::find(known.begin(), known.end(), rank) != known.end()) continue;
    if (rank == group_.rank()) break;
    ++j;
  }
  return known[j % known.size()];
}

std::span<float> DoublingSum::values_of(const Tensor& t) const {
  return rt_.is_phantom() ? std::span<float>() : t.values<float>();
}

Task<Status> DoublingSum::sum(DoublingCall call, Mail own, Tensor into) {
  call_ = std::move(call);
  own_ = std::move(own);
  if (group_.world() > 1) listen(call_.slot);
  const auto levels = static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(num_shards_ - 1)));
  co_return co_await make(Node{0, num_shards_ > 1 ? levels : 0}, std::move(into));
}

// into = the sum of a node of which this rank owns shards.
Task<Status> DoublingSum::make(Node node, Tensor into) {
  if (node.level == 0) {
    const LeafRun run = call_.owners[static_cast<std::size_t>(group_.rank())];
    std::vector<Decoding> one(1);
    one[0].packer = call_.shards;
    one[0].into = values_of(into);
    if (!rt_.is_phantom()) {
      const auto at = static_cast<std::size_t>(node.first - run.first);
      std::size_t begin = 0;
      for (std::size_t i = 0; i < at; ++i) begin += own_.sizes[i];
      one[0].messages.emplace_back(own_.bytes.raw() + begin, own_.sizes[at]);
    }
    co_return co_await work_.decode(std::move(one));
  }
  const Node left{node.first, node.level - 1},
      right{node.first + (std::int32_t{1} << (node.level - 1)), node.level - 1};
  if (right.first >= num_shards_) co_return co_await make(left, std::move(into));
  if (know(left) && know(right)) {
    TR_CO_RETURN_IF_ERROR(co_await make_half(left, right, into));
    if (scratch_[node.level].is_null()) {
      TR_CO_ASSIGN_OR_RETURN(scratch_[node.level], zeros(rt_, 1, num_elems_));
    }
    const Tensor other = scratch_[node.level];
    TR_CO_RETURN_IF_ERROR(co_await make_half(right, left, other));
    const auto n = static_cast<double>(num_elems_);
    const cost::OpCost work{.flops = n, .bytes = 12 * n};
    runtime::ComputeFn add = [into, other](runtime::ComputeContext&) {
      float* to = into.data<float>();
      const float* from = other.data<float>();
      for (std::int64_t i = 0; i < into.shape().num_elems(); ++i) to[i] += from[i];
    };
    co_await rt_.compute(work, std::move(add), 1, "add sums");
    co_return Status();
  }
  const Node own = know(left) ? left : right, missing = know(left) ? right : left;
  Asked asked;
  std::vector<Task<Status>> both;
  both.push_back(ask(missing, source_of(missing, own), &asked));
  both.push_back(make_half(own, missing, into));
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(both)));
  const bool single = end_of(missing) - missing.first == 1;
  const ByteView message = rt_.is_phantom() ? ByteView() : ByteView(asked.bytes.raw(), asked.size);
  co_return co_await work_.add(single ? *call_.shards : *call_.sums, message, values_of(into));
}

// And offered to those who know the other half alone.
Task<Status> DoublingSum::make_half(Node half, Node other, Tensor into) {
  TR_CO_RETURN_IF_ERROR(co_await make(half, into));
  const std::size_t readers = num_served(half, other);
  if (readers == 0) co_return Status();
  co_return co_await offer(half, std::move(into), readers);
}

Task<Status> DoublingSum::ask(Node half, int source, Asked* asked) {
  const std::size_t most = std::max(call_.shards->max_bytes(), call_.sums->max_bytes());
  TR_CO_ASSIGN_OR_RETURN(asked->bytes, in_[half.level].take(rt_, most));
  NodeHead head;
  head.step = call_.step;
  head.node = key_of(half);
  const net::View nothing;
  const net::View into{rt_.is_phantom() ? nullptr : asked->bytes.raw(), most};
  const auto answer = co_await group_.mailbox().ask(source, listens_to_, head, nothing, into);
  if (!answer.ok()) co_return answer.status();
  asked->size = answer->bytes;
  co_return Status();
}

Task<Status> DoublingSum::offer(Node half, Tensor values, std::size_t readers) {
  const LeafRun run = call_.owners[static_cast<std::size_t>(group_.rank())];
  auto stream = std::make_shared<Stream>();
  const std::byte* from = nullptr;
  Mail encoded;
  if (end_of(half) - half.first == 1) {
    const auto at = static_cast<std::size_t>(half.first - run.first);
    from = own_.bytes.raw();
    for (std::size_t i = 0; i < at && from != nullptr; ++i) from += own_.sizes[i];
    stream->size = own_.sizes[at];
  } else {
    std::vector<Encoding> one(1);
    one[0].packer = call_.sums;
    one[0].values = values_of(values);
    one[0].keys = 0;
    TR_CO_ASSIGN_OR_RETURN(encoded, co_await work_.encode(std::move(one), out_));
    from = encoded.bytes.raw();
    stream->size = encoded.sizes[0];
    if (rt_.is_phantom())  // as if no two shards had sent the same value
      stream->size =
          std::min(call_.sums->max_bytes(),
                   size_unseen(*call_.shards) * static_cast<std::size_t>(end_of(half) - half.first));
  }
  TR_CO_ASSIGN_OR_RETURN(
      stream->bytes,
      Tensor::allocate(device_of(rt_), {DType::kU8, {static_cast<std::int64_t>(stream->size)}}));
  if (!rt_.is_phantom()) std::memcpy(stream->bytes.raw(), from, stream->size);
  const Key key{call_.step, key_of(half)};
  shelves_[key] = {stream, readers};
  if (auto waiting = early_.extract(key); !waiting.empty())
    for (const auto& [peer, letter] : waiting.mapped()) on_asked(peer, letter);
  co_return Status();
}

void DoublingSum::listen(int slot) {
  if (listens_to_ == slot) return;
  listens_to_ = slot;
  Mailbox::Handler<NodeHead> handler;
  handler.arrived = [this](int peer, const Letter<NodeHead>& letter) { on_asked(peer, letter); };
  group_.mailbox().handle(slot, std::move(handler));
}

void DoublingSum::on_asked(int peer, const Letter<NodeHead>& letter) {
  const Key key{letter.head.step, letter.head.node};
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) {
    early_[key].emplace_back(peer, letter);
    return;
  }
  answer(peer, letter, shelf->second.stream);
  if (--shelf->second.left == 0) shelves_.erase(shelf);
}

namespace {

// The verdict of the group, if there is one, reaches those who wait.
Task<void> send_answer(Mailbox* mail, int peer, Ticket<EmptyHead> asked, std::shared_ptr<const void> keep,
                       net::View view) {
  const EmptyHead answer;
  (void)co_await mail->reply(peer, asked, answer, view);
  keep.reset();
}

}  // namespace

void DoublingSum::answer(int peer, const Letter<NodeHead>& letter, std::shared_ptr<const Stream> stream) {
  const net::View view{rt_.is_phantom() ? nullptr : stream->bytes.raw(), stream->size};
  rt_.spawn(send_answer(&group_.mailbox(), peer, letter.ticket, std::move(stream), view));
}

}  // namespace trireme::comm
