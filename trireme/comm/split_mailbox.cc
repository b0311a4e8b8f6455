#include "trireme/comm/split_mailbox.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace trireme::comm {
namespace {

// Per part. A handler that is replaced while it runs lives until it returns.
using Handlers = std::vector<std::shared_ptr<const Mailbox::EnvelopeHandler>>;

// What all parts share.
struct Split {
  Mailbox& below;
  const std::vector<int> part_of;
  std::map<std::uint16_t, std::shared_ptr<Handlers>> kinds = {};

  std::size_t num_parts() const {
    return part_of.empty() ? 0
                           : static_cast<std::size_t>(*std::max_element(part_of.begin(), part_of.end()) + 1);
  }
  void set(std::size_t part, std::uint16_t kind, Mailbox::EnvelopeHandler handler);
  Mailbox::EnvelopeHandler dispatch(const std::shared_ptr<const Handlers>& handlers) const;
};

std::shared_ptr<const Mailbox::EnvelopeHandler> handler_of(const Handlers& handlers,
                                                           const std::vector<int>& part_of, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= part_of.size()) return nullptr;
  return handlers[static_cast<std::size_t>(part_of[static_cast<std::size_t>(rank)])];
}

Mailbox::EnvelopeHandler Split::dispatch(const std::shared_ptr<const Handlers>& handlers) const {
  Mailbox::EnvelopeHandler out;
  out.place = [handlers, of = part_of](int rank, const Envelope& envelope) -> Result<net::View> {
    const auto to = handler_of(*handlers, of, rank);
    if (to != nullptr && to->place) return to->place(rank, envelope);
    return error(Code::kInvalid, "[comm] a letter of kind {} with {} bytes of rank {}, from whom none is due",
                 envelope.kind, envelope.bytes, rank);
  };
  out.arrived = [handlers, of = part_of](int rank, const Envelope& envelope) {
    const auto to = handler_of(*handlers, of, rank);
    if (to != nullptr && to->arrived) to->arrived(rank, envelope);
  };
  return out;
}

void Split::set(std::size_t part, std::uint16_t kind, Mailbox::EnvelopeHandler handler) {
  std::shared_ptr<Handlers>& handlers = kinds[kind];
  if (handlers == nullptr) handlers = std::make_shared<Handlers>(num_parts());
  const auto is_set = [](const auto& of_part) { return of_part != nullptr; };
  const bool handled = std::all_of(handlers->begin(), handlers->end(), is_set);
  const bool stops = !handler.place && !handler.arrived;
  auto& own = (*handlers)[part];
  own = stops ? nullptr : std::make_shared<const Mailbox::EnvelopeHandler>(std::move(handler));
  if (stops && handled) return below.set_handler(kind, {});
  if (!handled && std::all_of(handlers->begin(), handlers->end(), is_set))
    below.set_handler(kind, dispatch(handlers));
}

class PartMailbox final : public Mailbox {
 public:
  PartMailbox(std::shared_ptr<Split> split, std::size_t part) : split_(std::move(split)), part_(part) {}

  bool is_alive(int peer) const override { return split_->below.is_alive(peer); }
  void on_lost(std::function<void(int, const Status&)> listener) override {
    split_->below.on_lost(std::move(listener));
  }
  void set_handler(std::uint16_t kind, EnvelopeHandler handler) override {
    split_->set(part_, kind, std::move(handler));
  }
  runtime::Task<Status> send_envelope(int peer, Envelope envelope, net::View payload) override {
    return split_->below.send_envelope(peer, envelope, payload);
  }
  runtime::Task<Result<Envelope>> ask_envelope(int peer, Envelope envelope, net::View payload,
                                               net::View into) override {
    return split_->below.ask_envelope(peer, envelope, payload, into);
  }
  runtime::Task<Status> reply_envelope(int peer, Envelope answer, net::View payload) override {
    return split_->below.reply_envelope(peer, answer, payload);
  }

 private:
  const std::shared_ptr<Split> split_;
  const std::size_t part_;
};

}  // namespace

std::vector<std::unique_ptr<Mailbox>> split_mailbox(Mailbox& mail, std::vector<int> part_of) {
  const std::shared_ptr<Split> split(new Split{mail, std::move(part_of)});
  std::vector<std::unique_ptr<Mailbox>> out;
  for (std::size_t part = 0; part < split->num_parts(); ++part)
    out.push_back(std::make_unique<PartMailbox>(split, part));
  return out;
}

}  // namespace trireme::comm
