#include "tests/kernel_cuda/gpu.h"

#include <algorithm>

namespace trireme::kernel::cuda::test {
namespace {

constexpr std::size_t kGuard = 512;  // bytes of 0xA5 behind whatever a kernel writes

Gpu find_gpu() {
  Gpu out;
  Result<std::shared_ptr<CudaDevice>> opened = CudaDevice::open(0);
  if (opened.ok()) {
    out.device = *opened;
    return out;
  }
  out.why = opened.status().message();
  if (auto compiler = CudaDevice::open_for_compiling(); compiler.ok()) out.device = *compiler;
  return out;
}

// Device memory of a tensor with a guard behind it, filled with one byte.
Result<Tensor> guarded(const TensorType& type, int fill) {
  CudaDevice& device = *gpu().device;
  const std::size_t bytes = type.num_bytes();
  TR_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(bytes + kGuard));
  std::vector<std::byte> host(bytes + kGuard, std::byte{0xA5});
  std::fill_n(host.begin(), bytes, static_cast<std::byte>(fill));
  TR_RETURN_IF_ERROR(device.copy(Buffer::wrap(cpu_device(), host.data(), host.size()), memory, nullptr));
  return Tensor(memory, type);
}

bool guard_is_whole(const Buffer& memory) {
  std::vector<std::byte> host(memory.size_bytes());
  if (!gpu().device->copy(memory, Buffer::wrap(cpu_device(), host.data(), host.size()), nullptr).ok())
    return false;
  return std::all_of(host.end() - kGuard, host.end(), [](std::byte b) { return b == std::byte{0xA5}; });
}

Result<Tensor> guarded_copy(const Tensor& host) {
  TR_ASSIGN_OR_RETURN(Tensor out, guarded(host.type(), 0));
  TR_RETURN_IF_ERROR(gpu().device->copy(host.buffer().slice(host.offset_bytes(), host.type().num_bytes()),
                                        out.buffer(), nullptr));
  return out;
}

}  // namespace

const Gpu& gpu() {
  static const Gpu found = find_gpu();
  return found;
}

bool is_left_out(const op::OpDef& def) {
  static constexpr std::string_view kLeftOut[] = {"attention_grad_grad", "gru_grad_grad",  "lstm_grad_grad",
                                                  "lstm_kept",           "lstm_kept_grad", "rnn_grad_grad"};
  return std::find(std::begin(kLeftOut), std::end(kLeftOut), def.name) != std::end(kLeftOut);
}

Tensor to_device(const Tensor& host) {
  Tensor out = *Tensor::allocate(*gpu().device, host.type());
  const Status copied = gpu().device->copy(host.buffer().slice(host.offset_bytes(), host.type().num_bytes()),
                                           out.buffer(), nullptr);
  TR_CHECK(copied.ok(), "{}", copied.to_string());
  return out;
}

Tensor to_host(const Tensor& device) {
  Tensor out = *Tensor::allocate(cpu_device(), device.type());
  const std::size_t bytes = device.type().num_bytes();
  const Status copied = gpu().device->copy(device.buffer().slice(device.offset_bytes(), bytes),
                                           out.buffer().slice(0, bytes), nullptr);
  TR_CHECK(copied.ok(), "{}", copied.to_string());
  return out;
}

OnDevice::OnDevice(const op::OpDef& def, const std::vector<TensorType>& inputs, const op::Attrs& attrs,
                   bool tf32, const op::Forms& forms)
    : def_(def), attrs_(*op::complete_attrs(def, attrs)), forms_(forms), inputs_(inputs) {
  outputs_ = *op::infer_types(def, inputs_, attrs_, forms_);
  const FormedQuery formed({def_, inputs_, outputs_, attrs_, /*width=*/1, forms_}, *gpu().device, tf32);
  const CudaQuery query = formed.query();
  const auto row = choose_cuda_kernel(query);
  status_ = row.status();
  if (!row.ok()) return;
  row_ = *row;
  if (gpu().device->only_compiles() && std::string_view(row_->name) != "nvrtc") return;
  auto made = row_->make(query);
  status_ = made.status();
  if (made.ok()) kernel_ = std::move(*made);
}

Result<std::vector<Tensor>> OnDevice::run(const std::vector<Tensor>& inputs, bool in_place) const {
  std::vector<Tensor> in, out, results;
  for (const Tensor& t : inputs) {
    TR_ASSIGN_OR_RETURN(Tensor copy, guarded_copy(t));
    in.push_back(std::move(copy));
  }
  for (const TensorType& type : outputs_) {
    if (!def_.mutated_inputs.empty() || (in_place && out.empty())) {
      out.push_back(Tensor(in[0].buffer(), type));
      continue;
    }
    TR_ASSIGN_OR_RETURN(Tensor fresh, guarded(type, 0xFF));
    out.push_back(std::move(fresh));
  }
  const auto bytes = static_cast<std::int64_t>(kernel_->workspace_bytes());
  TR_ASSIGN_OR_RETURN(const Tensor workspace, guarded({DType::kU8, {bytes}}, 0xFF));
  CudaStream stream(*gpu().device);
  TR_RETURN_IF_ERROR(kernel_->enqueue({in, out, workspace.raw(), stream}));
  TR_RETURN_IF_ERROR(stream.synchronize());
  EXPECT_TRUE(guard_is_whole(workspace.buffer())) << def_.name << " writes behind its workspace";
  for (const auto* list : {&in, &out})
    for (const Tensor& t : *list)
      EXPECT_TRUE(guard_is_whole(t.buffer())) << def_.name << " writes behind a tensor";
  for (const Tensor& t : out) results.push_back(to_host(t));
  for (const int i : def_.mutated_inputs) results.push_back(to_host(in[static_cast<std::size_t>(i)]));
  return results;
}

}  // namespace trireme::kernel::cuda::test
