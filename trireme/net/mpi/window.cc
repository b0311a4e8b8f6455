// Windows over MPI: memory from MPI itself, reached by put and get alone.
//
// A put is complete when MPI has flushed it to its target. MPI knows no flush that does not wait, so a target
// that stops in the middle of a put over a network (not over shared memory) holds up the loop of the rank
// that put; the others then see that rank fall silent too.
#include <utility>

#include "trireme/net/mpi/mpi_transport.h"

namespace trireme::net::mpi {
namespace {

class MpiWindow final : public Window {
 public:
  MpiWindow(MpiTransport& transport, std::shared_ptr<Endpoint> endpoint, TriremeMpiWindow* window,
            std::byte* local, std::uint64_t bytes)
      : transport_(transport),
        endpoint_(std::move(endpoint)),
        window_(window),
        local_(local),
        bytes_(bytes) {}

  std::uint64_t bytes() const override { return bytes_; }
  std::byte* local() override { return local_; }
  std::byte* peer(int rank) override { return rank == endpoint_->rank() ? local_ : nullptr; }
  void wake(int) override {}  // nobody can wait for a change of memory that is not mapped

  void put(int peer, std::uint64_t offset, View from, Completion* done, std::uint64_t cookie) override {
    if (check(peer, offset, from, done, cookie))
      transport_.start_window_op(window_, true, peer, offset, from, done, cookie);
  }
  void get(int peer, std::uint64_t offset, View into, Completion* done, std::uint64_t cookie) override {
    if (check(peer, offset, into, done, cookie))
      transport_.start_window_op(window_, false, peer, offset, into, done, cookie);
  }

 private:
  bool check(int peer, std::uint64_t offset, View view, Completion* done, std::uint64_t cookie) {
    TR_CHECK(!endpoint_->closed(), "a window is of no use after its transport");
    const Identity any{.epoch = endpoint_->epoch()};
    if (!endpoint_->check_call(peer, any, done, cookie)) return false;
    if (offset > bytes_ || view.bytes > bytes_ - offset) {
      endpoint_->complete_later(
          done, cookie,
          error(Code::kInvalid, "[net] outside the window: got {} bytes at {}, expected at most {}",
                view.bytes, offset, bytes_));
      return false;
    }
    if (view.bytes > 0 && view.data != nullptr) return true;
    endpoint_->complete_later(done, cookie, ok_status());  // empty or phantom
    return false;
  }

  MpiTransport& transport_;
  std::shared_ptr<Endpoint> endpoint_;
  TriremeMpiWindow* window_;
  std::byte* local_;
  const std::uint64_t bytes_;
};

}  // namespace

std::unique_ptr<Window> make_mpi_window(MpiTransport& transport, std::shared_ptr<Endpoint> endpoint,
                                        TriremeMpiWindow* window, std::byte* local, std::uint64_t bytes) {
  return std::make_unique<MpiWindow>(transport, std::move(endpoint), window, local, bytes);
}

// All ranks come to the barrier, at most until the deadline, so that the call after it waits for nobody.
runtime::Task<Result<std::unique_ptr<Window>>> MpiTransport::make_window(std::uint64_t bytes,
                                                                         TimeNs deadline) {
  if (poisoning()) co_return endpoint_->poisoned() ? endpoint_->poison_reason() : poison_;
  if (barrier_ != nullptr)
    co_return error(Code::kInvalid, "[net] one window at a time: wait for the last one to be made");
  if (barrier_missed_)
    co_return error(Code::kInvalid, "[net] no more windows: not every rank came to make the last one");
  const auto met = std::make_shared<runtime::OneShot<Status>>(rt());
  barrier_ = met;
  port_.barrier(ended_id(Ended::kBarrier, 0));
  local_work_ = true;
  const bool all = co_await met->wait_until(deadline);
  barrier_ = nullptr;
  barrier_missed_ = !all;
  if (!all)
    co_return error(Code::kDeadline,
                    "[net] not every rank made the window in time; every rank must make the same calls");
  if (!met->value().ok()) co_return met->value();
  std::byte* local = nullptr;
  TR_CO_ASSIGN_OR_RETURN(TriremeMpiWindow* const window, port_.allocate(bytes, &local));
  has_windows_ = true;
  co_return make_mpi_window(*this, endpoint_, window, local, bytes);
}

void MpiTransport::start_window_op(TriremeMpiWindow* window, bool is_put, int to, std::uint64_t offset,
                                   View view, Completion* done, std::uint64_t cookie) {
  if (!poison_.ok()) return endpoint_->complete_later(done, cookie, poison_);
  if (free_window_ops_.empty()) {
    free_window_ops_.push_back(static_cast<std::uint32_t>(window_ops_.size()));
    window_ops_.emplace_back();
  }
  const std::uint32_t slot = free_window_ops_.back();
  free_window_ops_.pop_back();
  window_ops_[slot] = {window, to, is_put, false, offset, view, done, cookie};
  if (is_put) bytes_sent_ += view.bytes;
  new_window_ops_.push_back(slot);
  local_work_ = true;
}

void MpiTransport::window_op_finished(std::uint32_t slot, bool ok) {
  const WindowOp op = std::exchange(window_ops_[slot], {});
  free_window_ops_.push_back(slot);
  if (closing_ || op.done == nullptr) return;  // null: poison has completed it
  if (ok && op.is_put) ok = port_.flush(op.window, op.peer);
  Status status = poison_;
  if (status.ok() && !ok) {
    on_broken(op.peer);
    status = peer(op.peer).broken;
  }
  endpoint_->complete_later(op.done, op.cookie, status);
}

}  // namespace trireme::net::mpi
