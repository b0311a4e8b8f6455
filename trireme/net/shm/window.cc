#include "trireme/net/shm/window.h"

#include <cstring>

#include "trireme/net/shm/layout.h"

namespace trireme::net::shm {
namespace {

// Copied at once at most; a larger transfer gives the loop its turn in between.
constexpr std::uint64_t kCopyBytes = 1U << 20;

class ShmWindow final : public Window {
 public:
  ShmWindow(std::shared_ptr<WindowHost> host, std::vector<std::uint64_t> offsets, std::uint64_t bytes)
      : host_(std::move(host)), offsets_(std::move(offsets)), bytes_(bytes) {}
  ~ShmWindow() override { host_->area.give_back(offsets_[own()], bytes_); }

  std::uint64_t bytes() const override { return bytes_; }
  std::byte* local() override { return at(own()); }
  std::byte* peer(int rank) override { return at(static_cast<std::size_t>(rank)); }

  void put(int peer, std::uint64_t offset, View from, Completion* done, std::uint64_t cookie) override {
    if (!check(peer, offset, from, done, cookie)) return;
    start({at(static_cast<std::size_t>(peer)) + offset, from.data, from.bytes}, done, cookie);
  }
  void get(int peer, std::uint64_t offset, View into, Completion* done, std::uint64_t cookie) override {
    if (!check(peer, offset, into, done, cookie)) return;
    start({into.data, at(static_cast<std::size_t>(peer)) + offset, into.bytes}, done, cookie);
  }
  void wake(int peer) override {
    if (runtime::Doorbell* bell = host_->bells[static_cast<std::size_t>(peer)]) bell->ring();
  }

 private:
  struct Transfer {
    std::byte* to;
    const std::byte* from;
    std::uint64_t left;
    SendToken token = {};
  };

  std::size_t own() const { return static_cast<std::size_t>(host_->endpoint->rank()); }
  std::byte* at(std::size_t rank) const { return host_->areas[rank] + offsets_[rank]; }

  bool check(int peer, std::uint64_t offset, const View& view, Completion* done, std::uint64_t cookie) {
    Endpoint& endpoint = *host_->endpoint;
    const Identity any{.epoch = endpoint.epoch()};
    if (!endpoint.check_call(peer, any, done, cookie)) return false;
    if (offset <= bytes_ && view.bytes <= bytes_ - offset) return true;
    endpoint.complete_later(
        done, cookie,
        error(Code::kInvalid,
              "[net] outside the window: got {} bytes at {}, expected at most {}; fix the caller", view.bytes,
              offset, bytes_));
    return false;
  }

  void start(Transfer t, Completion* done, std::uint64_t cookie) {
    t.token = host_->endpoint->begin_send(done, cookie);
    go_on(host_, t);
  }
  // After poison nothing is touched any more: the caller has its buffer back.
  static void go_on(const std::shared_ptr<WindowHost>& host, Transfer t) {
    Endpoint& endpoint = *host->endpoint;
    if (endpoint.poisoned() || endpoint.closed()) return;
    const std::uint64_t piece = t.from == nullptr || t.to == nullptr ? t.left : std::min(t.left, kCopyBytes);
    if (t.from != nullptr && t.to != nullptr && piece > 0) {
      std::memcpy(t.to, t.from, piece);
      t.to += piece;
      t.from += piece;
    }
    t.left -= piece;
    if (t.left == 0)
      endpoint.end_send_later(t.token, ok_status());
    else
      endpoint.rt().post([host, t] { go_on(host, t); });
  }

  const std::shared_ptr<WindowHost> host_;
  const std::vector<std::uint64_t> offsets_;
  const std::uint64_t bytes_;
};

}  // namespace

Result<std::uint64_t> WindowArea::take(std::uint64_t bytes) {
  const std::uint64_t pages = (std::max<std::uint64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, room] = *it;
    if (room < pages) continue;
    free_.erase(it);
    if (room > pages) free_[offset + pages] = room - pages;
    return offset;
  }
  return error(Code::kExhausted,
               "[net] no room for a window of {} bytes; give the job a larger window area (window_bytes)",
               bytes);
}

void WindowArea::give_back(std::uint64_t offset, std::uint64_t bytes) {
  std::uint64_t pages = (std::max<std::uint64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  const auto next = free_.find(offset + pages);
  if (next != free_.end()) {
    pages += next->second;
    free_.erase(next);
  }
  auto before = free_.lower_bound(offset);
  if (before != free_.begin() && std::prev(before)->first + std::prev(before)->second == offset)
    std::prev(before)->second += pages;
  else
    free_[offset] = pages;
}

std::unique_ptr<Window> make_shm_window(std::shared_ptr<WindowHost> host, std::vector<std::uint64_t> offsets,
                                        std::uint64_t bytes) {
  return std::make_unique<ShmWindow>(std::move(host), std::move(offsets), bytes);
}

}  // namespace trireme::net::shm
