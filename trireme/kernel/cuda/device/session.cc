#include "trireme/kernel/cuda/device/session.h"

#include <vector>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {
namespace {

struct GraphReplay final : public Replay {
  explicit GraphReplay(std::unique_ptr<CudaGraph> g) : graph(std::move(g)) {}
  std::size_t num_launches() const override { return graph->num_nodes(); }
  std::unique_ptr<CudaGraph> graph;
};

}  // namespace

Session::Session(CudaDevice& device) : stream_(device.make_cuda_stream()) {}
Session::~Session() = default;

Status Session::enqueue(const CudaKernel& kernel, std::span<const Tensor> in, std::span<const Tensor> out,
                        std::byte* workspace) {
  return kernel.enqueue({in, out, workspace, *stream_});
}

Status Session::enqueue_all(std::span<const Call> calls) {
  std::vector<const CudaKernel*> kernels;
  std::vector<CudaArgs> args;
  for (const Call& c : calls) {
    kernels.push_back(c.kernel);
    args.push_back({c.in, c.out, c.workspace, *stream_});
  }
  return kernels.front()->enqueue_all(kernels, args);
}

Status Session::copy(const Buffer& from, const Buffer& to) {
  return stream_->device().copy(from, to, stream_.get());
}

Result<std::unique_ptr<Replay>> Session::capture(const std::function<Status()>& work) {
  TR_RETURN_IF_ERROR(stream_->begin_capture());
  const Status done = work();
  Result<std::unique_ptr<CudaGraph>> graph = stream_->end_capture();  // also ends a capture that failed
  TR_RETURN_IF_ERROR(done);
  if (!graph.ok()) return graph.status();
  return std::unique_ptr<Replay>(std::make_unique<GraphReplay>(std::move(*graph)));
}

Status Session::launch(Replay& replay) { return static_cast<GraphReplay&>(replay).graph->launch(*stream_); }
Status Session::synchronize() { return stream_->synchronize(); }
std::shared_ptr<Event> Session::record() { return stream_->record(); }
void Session::wait(const std::shared_ptr<Event>& event) { stream_->wait(event); }
void Session::enter() const { stream_->device().enter(); }
void* Session::raw_stream() const { return stream_->raw(); }

}  // namespace trireme::kernel::cuda
