#include "trireme/measure/codec.h"

#include <algorithm>

#include "trireme/base/rng.h"
#include "trireme/base/units.h"
#include "trireme/comm/device/message_format.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::measure {

namespace gpu = kernel::cuda;

// Several at a time, so that launches are hidden behind each other; the best of the repeats counts.
Result<CodecFigures> measure_on_gpu(runtime::Runtime& rt, gpu::CudaDevice& device, const codec::CodecRow& row,
                                    const codec::Options& options, std::uint64_t bytes, int repeats) {
  constexpr int kAtOnce = 8;
  constexpr std::size_t kDrawn = 1'000'003;  // then they begin again
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  const codec::Packing packing = codec::packing_of({{0, count}}, {}, 1);
  TR_ASSIGN_OR_RETURN(const gpu::MessageFormat format, comm::device_format(row, options, 0, packing, count));
  TR_ASSIGN_OR_RETURN(const auto coder, gpu::make_message_coder(device, format, 1, {}));
  Device& memory = gpu::as_device(device);
  const TensorType type{DType::kF32, {count}};
  TR_ASSIGN_OR_RETURN(const Tensor host, Tensor::allocate(cpu_device(), type));
  std::fill_n(host.data<float>(), count, 0.0F);
  TR_ASSIGN_OR_RETURN(const Tensor residual, Tensor::allocate(memory, type));
  TR_ASSIGN_OR_RETURN(const Tensor out, Tensor::allocate(memory, type));
  TR_ASSIGN_OR_RETURN(const Tensor values, Tensor::allocate(memory, type));
  TR_RETURN_IF_ERROR(memory.copy(host.buffer(), residual.buffer(), nullptr));
  Philox rng(1);
  const std::span<float> drawn = host.values<float>();
  for (std::size_t i = 0; i < drawn.size(); ++i)
    drawn[i] = i < kDrawn ? 0.01F * rng.next_normal() : drawn[i - kDrawn];
  TR_RETURN_IF_ERROR(memory.copy(host.buffer(), values.buffer(), nullptr));
  const std::size_t room = static_cast<std::size_t>(format.most_bytes) + gpu::kMessageSlack;
  TR_ASSIGN_OR_RETURN(const Buffer message, memory.allocate(room));
  const std::unique_ptr<gpu::KernelStream> own = gpu::make_kernel_stream(device);
  gpu::KernelStream& stream = *own;
  CodecFigures f;
  f.codec = row.name;
  f.bytes = type.num_bytes();
  const auto best = [&](double& seconds, const auto& work) -> Status {
    const TimeNs before = rt.now();
    for (int i = 0; i < kAtOnce; ++i) TR_RETURN_IF_ERROR(work());
    TR_RETURN_IF_ERROR(stream.synchronize());
    seconds = std::min(seconds, to_seconds(rt.now() - before) / kAtOnce);
    return {};
  };
  const std::byte* const messages[] = {message.data()};
  for (int i = 0; i < repeats; ++i) {
    TR_RETURN_IF_ERROR(best(f.memcpy_seconds, [&] { return stream.copy(values.buffer(), out.buffer()); }));
    TR_RETURN_IF_ERROR(best(f.encode_seconds, [&] {
      return coder->encode(stream, reinterpret_cast<const float*>(values.raw()),
                           reinterpret_cast<float*>(residual.raw()), nullptr, message.data());
    }));
    TR_RETURN_IF_ERROR(best(
        f.decode_seconds, [&] { return coder->sum(stream, messages, reinterpret_cast<float*>(out.raw())); }));
  }
  std::vector<std::uint32_t> lengths(packing.coded.size());
  const std::size_t head = lengths.size() * sizeof(std::uint32_t);
  const Buffer to = Buffer::wrap(cpu_device(), reinterpret_cast<std::byte*>(lengths.data()), head);
  TR_RETURN_IF_ERROR(stream.copy(message.slice(0, head), to));
  TR_RETURN_IF_ERROR(coder->finish(stream));
  f.encoded = head;
  for (const std::uint32_t length : lengths) f.encoded += length;
  return f;
}

}  // namespace trireme::measure
