#include "trireme/net/early_words.h"

#include "trireme/runtime/sync.h"

namespace trireme::net {
namespace {

using runtime::Task;

constexpr TimeNs kPatience = 10 * kSecond;
constexpr Fingerprint kFingerprint{.kind = 255, .dtype = 0, .format = 0, .count = 0};

// Group 65535 is nobody's.
Identity identity_of(EarlyWord word) {
  return {.epoch = 1, .group = 0xFFFF, .slot = 0, .step = 0, .part = static_cast<std::uint32_t>(word)};
}

class All final : public Completion {
 public:
  All(runtime::Runtime& rt, int count) : done(rt), left_(count) {}
  void on_complete(std::uint64_t, const Status& status) override {
    if (!status.ok()) first_ = first_.ok() ? status : first_;
    if (--left_ == 0) done.set(first_);
  }
  runtime::OneShot<Status> done;

 private:
  int left_;
  Status first_;
};

// When all transfers are done. After the patience their buffers are taken back.
Task<Status> ended(runtime::Runtime& rt, Transport& transport, All& all) {
  const bool in_time = co_await all.done.wait_until(rt.now() + kPatience);
  if (in_time) co_return all.done.value();
  const bool root = transport.rank() == 0;
  const Status late =
      error(Code::kDeadline,
            "[launch] rank {}: no word {} within {} about how to start; see the logs of the other ranks",
            transport.rank(), root ? "taken" : "from rank 0", format_duration(kPatience));
  transport.poison(late, nullptr);  // gives the buffer back
  co_await all.done.wait_until(rt.now() + kSecond);
  co_return late;
}

}  // namespace

Task<Status> spread_from_first(runtime::Runtime& rt, Transport& transport, EarlyWord word, Bytes& bytes) {
  if (transport.world() == 1) co_return Status();
  const bool root = transport.rank() == 0;
  All all(rt, root ? transport.world() - 1 : 1);
  const View view{bytes.data(), bytes.size()};
  if (!root) transport.recv(0, identity_of(word), kFingerprint, view, &all, 0);
  for (int peer = 1; root && peer < transport.world(); ++peer)
    transport.send(peer, identity_of(word), kFingerprint, view, &all, 0);
  co_return co_await ended(rt, transport, all);
}

Task<Result<std::vector<Bytes>>> gather_at_first(runtime::Runtime& rt, Transport& transport, EarlyWord word,
                                                 Bytes own) {
  std::vector<Bytes> words;
  const int world = transport.world();
  const bool root = transport.rank() == 0;
  const std::size_t size = own.size();
  words.push_back(std::move(own));
  if (world == 1) co_return words;
  All all(rt, root ? world - 1 : 1);
  words.resize(root ? static_cast<std::size_t>(world) : 1, Bytes(size));
  if (!root) transport.send(0, identity_of(word), kFingerprint, {words[0].data(), size}, &all, 0);
  for (int peer = 1; root && peer < world; ++peer)
    transport.recv(peer, identity_of(word), kFingerprint,
                   {words[static_cast<std::size_t>(peer)].data(), size}, &all, 0);
  TR_CO_RETURN_IF_ERROR(co_await ended(rt, transport, all));
  if (!root) words.clear();
  co_return words;
}

}  // namespace trireme::net
