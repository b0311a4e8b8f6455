#include <vector>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {
namespace {

struct GraphReplay final : public Replay {
  explicit GraphReplay(std::unique_ptr<CudaGraph> g) : graph(std::move(g)) {}
  std::size_t num_launches() const override { return graph->num_nodes(); }
  std::unique_ptr<CudaGraph> graph;
};

class CudaKernelStream final : public KernelStream {
 public:
  explicit CudaKernelStream(CudaDevice& device) : stream_(device) {}

  Status enqueue(const CudaKernel& kernel, std::span<const Tensor> in, std::span<const Tensor> out,
                 std::byte* workspace) override {
    return kernel.enqueue({in, out, workspace, stream_});
  }

  Status enqueue_all(std::span<const Call> calls) override {
    std::vector<const CudaKernel*> kernels;
    std::vector<CudaArgs> args;
    for (const Call& c : calls) {
      kernels.push_back(c.kernel);
      args.push_back({c.in, c.out, c.workspace, stream_});
    }
    return kernels.front()->enqueue_all(kernels, args);
  }

  Status copy(const Buffer& from, const Buffer& to) override {
    return stream_.device().copy(from, to, &stream_);
  }

  Status copy_rows(const std::byte* from, std::byte* to, const Rows& rows) override {
    if (rows.bytes == 0 || rows.rows == 0) return {};
    CUDA_MEMCPY2D what{};
    what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    what.srcDevice = reinterpret_cast<CUdeviceptr>(from);
    what.dstDevice = reinterpret_cast<CUdeviceptr>(to);
    what.srcPitch = rows.rows > 1 ? rows.from_step : rows.bytes;
    what.dstPitch = rows.rows > 1 ? rows.to_step : rows.bytes;
    what.WidthInBytes = rows.bytes;
    what.Height = rows.rows;
    stream_.device().enter();
    const Libraries& lib = stream_.device().lib();
    return lib.check(lib.cuMemcpy2DAsync(&what, stream_.raw()), "copying rows");
  }

  Status fill(const Tensor& to, std::uint32_t element) override {
    const auto n = static_cast<std::size_t>(to.type().shape.num_elems());
    if (n == 0) return {};
    stream_.device().enter();
    const Libraries& lib = stream_.device().lib();
    const auto at = reinterpret_cast<CUdeviceptr>(to.raw());
    switch (dtype_size(to.dtype())) {
      case 1:
        return lib.check(lib.cuMemsetD8Async(at, static_cast<unsigned char>(element), n, stream_.raw()),
                         "filling memory");
      case 2:
        return lib.check(lib.cuMemsetD16Async(at, static_cast<unsigned short>(element), n, stream_.raw()),
                         "filling memory");
      case 4:
        return lib.check(lib.cuMemsetD32Async(at, element, n, stream_.raw()), "filling memory");
      default:
        return error(Code::kInvalid, "[cuda] fill: got elements of {} bytes, expected 1, 2 or 4",
                     dtype_size(to.dtype()));
    }
  }

  Result<std::unique_ptr<Replay>> capture(const std::function<Status()>& work) override {
    TR_RETURN_IF_ERROR(stream_.begin_capture());
    const Status done = work();
    Result<std::unique_ptr<CudaGraph>> graph = stream_.end_capture();  // also ends a capture that failed
    TR_RETURN_IF_ERROR(done);
    if (!graph.ok()) return graph.status();
    return std::unique_ptr<Replay>(std::make_unique<GraphReplay>(std::move(*graph)));
  }

  Status launch(Replay& replay) override { return static_cast<GraphReplay&>(replay).graph->launch(stream_); }
  Status synchronize() override { return stream_.synchronize(); }
  std::shared_ptr<Event> record() override { return stream_.record(); }
  void wait(const std::shared_ptr<Event>& event) override { stream_.wait(event); }
  Status wait_on_host(const Event& point) const override { return kernel::cuda::wait_on_host(point); }
  std::shared_ptr<Event> record_with_time() override { return stream_.record_with_time(); }
  Result<double> ns_between(const std::shared_ptr<Event>& first,
                            const std::shared_ptr<Event>& second) const override {
    return kernel::cuda::ns_between(first, second);
  }
  void enter() const override { stream_.device().enter(); }
  void* raw_stream() const override { return stream_.raw(); }
  CudaStream& cuda_stream() override { return stream_; }

 private:
  CudaStream stream_;
};

}  // namespace

std::unique_ptr<KernelStream> make_kernel_stream(CudaDevice& device) {
  return std::make_unique<CudaKernelStream>(device);
}

}  // namespace trireme::kernel::cuda
