#include "trireme/net/mpi/port.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trireme::net::mpi {
namespace {

constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 40;
constexpr int kEventsPerPoll = 256;
constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << 40) - 1;
constexpr int kInboxShift = 40;

std::size_t recvs_posted(int world) { return static_cast<std::size_t>(std::clamp(4 * world, 16, 256)); }

bool makes_sense(const MpiHeader& h, int tag, std::uint64_t payload_bytes) {
  if (h.magic != kMagic || h.phantom > 1 || h.bytes > kMaxMessageBytes) return false;
  switch (h.kind) {
    case Kind::kData:
      return tag == kDataTag && payload_bytes == (h.phantom != 0 ? 0 : h.bytes);
    case Kind::kOffer:
      return tag == kDataTag && payload_bytes == 0 && h.phantom == 0 && h.bytes > 0;
    case Kind::kClear:
    case Kind::kDiscard:
      return tag == kDataTag && payload_bytes == 0;
    case Kind::kControl:
      return tag == kControlTag && payload_bytes == h.bytes;
    case Kind::kBye:
      return payload_bytes == 0;
  }
  return false;
}

}  // namespace

Port::Port(std::shared_ptr<MpiEnvironment> environment, int world)
    : environment_(std::move(environment)),
      calls_(environment_->calls()),
      world_(world),
      in_flight_(static_cast<std::size_t>(world), 0),
      events_(kEventsPerPoll) {
  inboxes_[0].tag = kDataTag;
  inboxes_[1].tag = kControlTag;
}

Port::~Port() {
  if (mpi_ != nullptr) calls_.close(mpi_);
}

Status Port::open() {
  const int failure = calls_.open(world_, cookie(Use::kOpen, 0), &mpi_);
  if (failure != 0)
    return error(Code::kUnavailable, "[net] MPI makes no communicator of {} ranks: {}", world_,
                 environment_->describe(failure));
  return {};
}

void Port::opened_on_loop() {
  opened_ = true;
  max_slots_ = static_cast<std::uint32_t>(std::max(0, calls_.max_tag(mpi_) - kFirstPayloadTag));
  for (std::size_t i = 0; i < 2; ++i) {
    inboxes_[i].slots.resize(recvs_posted(world_));
    for (std::size_t s = 0; s < inboxes_[i].slots.size(); ++s) {
      inboxes_[i].slots[s].data = std::make_unique<std::byte[]>(kSmallBytes);
      post(i, s);
    }
  }
}

void Port::post(std::size_t inbox, std::size_t slot) {
  InboxSlot& s = inboxes_[inbox].slots[slot];
  s.arrived = false;
  calls_.recv(mpi_, kTriremeMpiAny, inboxes_[inbox].tag, s.data.get(), kSmallBytes,
              cookie(Use::kInbox, (inbox << kInboxShift) | slot));
}

void Port::send_small(int peer, int tag, const MpiHeader& header, ByteView payload) {
  TR_CHECK(payload.size() <= kInlineBytes, "{} bytes", payload.size());
  if (free_sends_.empty()) {
    free_sends_.push_back(sends_.size());
    sends_.push_back({std::make_unique<std::byte[]>(kSmallBytes), 0});
  }
  const std::size_t at = free_sends_.back();
  free_sends_.pop_back();
  SmallSend& send = sends_[at];
  send.peer = peer;
  std::memcpy(send.data.get(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(send.data.get() + sizeof(header), payload.data(), payload.size());
  const int failure = calls_.send(mpi_, peer, tag, send.data.get(), sizeof(header) + payload.size(),
                                  cookie(Use::kSmallSend, at));
  if (failure != 0) {  // the peer cannot be reached; its silence will be noticed
    free_sends_.push_back(at);
    return;
  }
  ++in_flight_[static_cast<std::size_t>(peer)];
  ++all_in_flight_;
}

std::size_t Port::new_op(std::uint64_t id) {
  if (free_ops_.empty()) {
    free_ops_.push_back(ops_.size());
    ops_.emplace_back();
  }
  const std::size_t at = free_ops_.back();
  free_ops_.pop_back();
  ops_[at] = {id, 0, false};
  return at;
}

void Port::note_piece(std::size_t op, int failure) {
  if (failure == 0)
    ++ops_[op].pieces;
  else
    ops_[op].failed = true;
}

void Port::end_if_empty(std::size_t op) {
  if (ops_[op].pieces > 0) return;
  finished_.emplace_back(ops_[op].id, !ops_[op].failed);
  free_ops_.push_back(op);
}

void Port::send_payload(int peer, std::uint32_t slot, const std::byte* data, std::uint64_t bytes,
                        std::uint64_t id) {
  const std::size_t op = new_op(id);
  for (std::uint64_t at = 0; at < bytes && !ops_[op].failed; at += kTriremeMpiPiece)
    note_piece(op, calls_.send(mpi_, peer, kFirstPayloadTag + static_cast<int>(slot), data + at,
                               std::min(bytes - at, kTriremeMpiPiece), cookie(Use::kOp, op)));
  end_if_empty(op);
}

void Port::recv_payload(int peer, std::uint32_t slot, std::byte* data, std::uint64_t bytes,
                        std::uint64_t id) {
  const std::size_t op = new_op(id);
  for (std::uint64_t at = 0; at < bytes && !ops_[op].failed; at += kTriremeMpiPiece)
    note_piece(op, calls_.recv(mpi_, peer, kFirstPayloadTag + static_cast<int>(slot), data + at,
                               std::min(bytes - at, kTriremeMpiPiece), cookie(Use::kOp, op)));
  end_if_empty(op);
}

void Port::cancel_recv(std::uint64_t id) {
  for (std::size_t op = 0; op < ops_.size(); ++op)
    if (ops_[op].pieces > 0 && ops_[op].id == id) calls_.cancel(mpi_, cookie(Use::kOp, op));
}

void Port::barrier(std::uint64_t id) {
  const std::size_t op = new_op(id);
  note_piece(op, calls_.barrier(mpi_, cookie(Use::kOp, op)));
  end_if_empty(op);
}

Result<TriremeMpiWindow*> Port::allocate(std::uint64_t bytes, std::byte** local) {
  TriremeMpiWindow* window = nullptr;
  void* base = nullptr;
  const int failure = calls_.win_allocate(mpi_, bytes, &base, &window);
  if (failure != 0)
    return error(Code::kExhausted, "[net] MPI allocates no window of {} bytes: {}", bytes,
                 environment_->describe(failure));
  *local = static_cast<std::byte*>(base);
  return window;
}

void Port::put(TriremeMpiWindow* window, int peer, std::uint64_t offset, const std::byte* from,
               std::uint64_t bytes, std::uint64_t id) {
  const std::size_t op = new_op(id);
  for (std::uint64_t at = 0; at < bytes && !ops_[op].failed; at += kTriremeMpiPiece)
    note_piece(op, calls_.win_put(window, peer, offset + at, from + at,
                                  std::min(bytes - at, kTriremeMpiPiece), cookie(Use::kOp, op)));
  end_if_empty(op);
}

void Port::get(TriremeMpiWindow* window, int peer, std::uint64_t offset, std::byte* into, std::uint64_t bytes,
               std::uint64_t id) {
  const std::size_t op = new_op(id);
  for (std::uint64_t at = 0; at < bytes && !ops_[op].failed; at += kTriremeMpiPiece)
    note_piece(op, calls_.win_get(window, peer, offset + at, into + at,
                                  std::min(bytes - at, kTriremeMpiPiece), cookie(Use::kOp, op)));
  end_if_empty(op);
}

void Port::handle(const TriremeMpiEvent& event, Listener& listener) {
  const auto use = static_cast<Use>(event.cookie >> 56);
  const auto index = static_cast<std::size_t>(event.cookie & kIndexMask);
  const bool ok = event.outcome == 0;
  switch (use) {
    case Use::kOpen:
      opened_on_loop();
      break;
    case Use::kInbox: {
      InboxSlot& slot = inboxes_[(event.cookie >> kInboxShift) & 0xFFFF].slots[index];
      slot.arrived = true;
      slot.bytes = ok ? event.bytes : 0;
      slot.source = event.source;
      break;
    }
    case Use::kSmallSend: {
      const int peer = sends_[index].peer;
      --in_flight_[static_cast<std::size_t>(peer)];
      --all_in_flight_;
      free_sends_.push_back(index);
      if (!ok) listener.on_broken(peer);
      break;
    }
    case Use::kOp: {
      Op& op = ops_[index];
      op.failed |= !ok;
      if (--op.pieces > 0) break;
      const Op done = op;
      free_ops_.push_back(index);
      listener.on_finished(done.id, !done.failed);
      break;
    }
  }
}

bool Port::deliver(const InboxSlot& slot, int tag, Listener& listener) {
  MpiHeader header;
  if (slot.source < 0 || slot.source >= world_) return false;  // a failed recv
  if (slot.bytes < sizeof(header)) {
    listener.on_nonsense(slot.source);
    return true;
  }
  std::memcpy(&header, slot.data.get(), sizeof(header));
  const ByteView payload(slot.data.get() + sizeof(header), slot.bytes - sizeof(header));
  if (makes_sense(header, tag, payload.size()))
    listener.on_small(slot.source, tag, header, payload);
  else
    listener.on_nonsense(slot.source);
  return true;
}

bool Port::drain(std::size_t inbox, Listener& listener) {
  Inbox& in = inboxes_[inbox];
  bool any = false;
  while (!in.slots.empty() && in.slots[in.head].arrived) {
    any |= deliver(in.slots[in.head], in.tag, listener);
    post(inbox, in.head);
    in.head = (in.head + 1) % in.slots.size();
  }
  return any;
}

bool Port::poll(Listener& listener) {
  if (mpi_ == nullptr) return false;
  bool progress = false;
  for (const auto& [id, ok] : std::exchange(finished_, {})) {
    listener.on_finished(id, ok);
    progress = true;
  }
  const int count = calls_.poll(mpi_, events_.data(), static_cast<int>(events_.size()));
  for (int i = 0; i < count; ++i) handle(events_[static_cast<std::size_t>(i)], listener);
  progress |= count > 0;
  for (std::size_t i = 0; i < 2; ++i) progress |= drain(i, listener);
  return progress;
}

}  // namespace trireme::net::mpi
