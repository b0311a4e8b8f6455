#include "trireme/eager/engine.h"

#include <algorithm>

namespace trireme::eager {
namespace {

// The slices of `width` threads, one after the other on this one: same cuts, same bits.
class Slices final : public op::Parallel {
 public:
  explicit Slices(int width) : width_(width) {}
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    for (int i = 0; i < width_; ++i) {
      const std::int64_t begin = n * i / width_, end = n * (i + 1) / width_;
      if (begin < end) body(begin, end, i);
    }
  }

 private:
  int width_;
};

// Readers that have ended are forgotten when there are more than this.
constexpr std::size_t kManyReaders = 16;

}  // namespace

DeferredCall::DeferredCall(CallRunner& runner, std::shared_ptr<const PreparedKernel> kernel,
                           std::vector<Tensor> inputs, std::vector<Tensor> outputs, Buffer workspace,
                           int width)
    : runner_(runner),
      kernel_(std::move(kernel)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      workspace_(std::move(workspace)),
      width_(width) {}

namespace {
// What the list of a call that has ended leads to. Never looked into.
const char kClosedMark = 0;
}  // namespace

bool DeferredCall::wait_for(DeferredCall& before) {
  auto* const closed = reinterpret_cast<Edge*>(const_cast<char*>(&kClosedMark));
  Edge* head = before.successors_.load(std::memory_order_acquire);
  if (head == closed) return false;
  pending_.fetch_add(1, std::memory_order_relaxed);
  auto* edge = new Edge{shared_from_this(), head};
  while (!before.successors_.compare_exchange_weak(edge->next, edge, std::memory_order_acq_rel,
                                                   std::memory_order_acquire))
    if (edge->next == closed) {
      delete edge;
      pending_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
  return true;
}

void DeferredCall::submit() { one_less(); }

void DeferredCall::one_less() {
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  runner_.start([self = shared_from_this()] { self->run(); });
}

void DeferredCall::run() {
  Slices parallel(width_);
  op::KernelArgs args{.inputs = inputs_,
                      .outputs = outputs_,
                      .attrs = kernel_->attrs,
                      .workspace = {workspace_.data(), workspace_.size_bytes()},
                      .parallel = parallel,
                      .state = kernel_->state.get()};
  kernel_->run(args);
  inputs_.clear();  // memory that nobody else holds goes now
  outputs_.clear();
  workspace_ = {};
  done_.store(true, std::memory_order_release);
  done_.notify_all();
  auto* const closed = reinterpret_cast<Edge*>(const_cast<char*>(&kClosedMark));
  Edge* edge = successors_.exchange(closed, std::memory_order_acq_rel);
  while (edge != nullptr) {
    std::unique_ptr<Edge> own(edge);
    edge = own->next;
    own->successor->one_less();
  }
}

DeferredCall::~DeferredCall() = default;

void Engine::submit(std::shared_ptr<const PreparedKernel> kernel, std::vector<Tensor> inputs,
                    std::vector<Tensor> outputs, Buffer workspace, std::span<Storage* const> reads,
                    std::span<Storage* const> writes, std::span<Storage* const> makes) {
  auto call = std::make_shared<DeferredCall>(runner_, std::move(kernel), std::move(inputs),
                                             std::move(outputs), std::move(workspace), width_);
  for (Storage* s : reads) {
    if (s->writer) call->wait_for(*s->writer);
    if (s->readers.size() > kManyReaders)
      std::erase_if(s->readers, [](const std::shared_ptr<DeferredCall>& c) { return c->is_done(); });
    s->readers.push_back(call);
  }
  for (Storage* s : writes) {
    if (s->writer) call->wait_for(*s->writer);
    for (const std::shared_ptr<DeferredCall>& reader : s->readers)
      if (reader != call) call->wait_for(*reader);
    s->readers.clear();
    s->writer = call;
  }
  for (Storage* s : makes) s->writer = call;
  call->submit();
  under_way_.push_back(std::move(call));
  while (!under_way_.empty() && under_way_.front()->is_done()) under_way_.pop_front();
  while (static_cast<int>(under_way_.size()) > max_ahead_) {
    runner_.wait(under_way_.front()->done());
    under_way_.pop_front();
  }
}

void Engine::wait_for(const Storage& storage) {
  if (storage.writer && !storage.writer->is_done()) runner_.wait(storage.writer->done());
}

void Engine::wait_all() {
  for (; !under_way_.empty(); under_way_.pop_front())
    if (!under_way_.front()->is_done()) runner_.wait(under_way_.front()->done());
}

}  // namespace trireme::eager
