// CUDA as the rest of the system sees it, and all that it sees: opening a device, its memory, choosing
// kernels, running them, sums of vectors, messages of codecs. No CUDA header is needed here, and the
// functions exist in every build: where the build or the machine has no CUDA they say what is missing.
//
// Libraries (driver, NVRTC, cuBLASLt, cuDNN) are loaded when a device is opened, so that one binary runs with
// and without them. See docs/decisions/008-cuda.md.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/op/forms.h"
#include "trireme/op/op.h"

namespace trireme::kernel::cuda {

// ---- Devices

class CudaDevice;  // device.h
class CudaStream;

// Opens GPU `ordinal` of this machine, counted round: ranks beyond the number of GPUs share them.
// kUnavailable: no driver, no GPU, a library that is missing (by name).
Result<std::shared_ptr<CudaDevice>> open_device(int ordinal);
// `device` as what it is; null where it is another kind.
CudaDevice* as_cuda(Device* device);
Device& as_device(CudaDevice& device);

// For plans and `version`: "driver=13.0 nvrtc=13.0 cublaslt=13.1 cudnn=9.14 device=NVIDIA H200", or why there
// is none.
std::string cuda_kernel_library(const CudaDevice& device);

// What a GPU could do at most, by its own figures: for predictions. Zero where the driver does not say.
struct PeakRates {
  double flops_per_second = 0;  // of products in the precision, added up in f32
  double bytes_per_second = 0;  // of its memory
};
// `precision` as train.precision has it: f32, tf32, bf16, f16.
PeakRates peak_rates(const CudaDevice& device, std::string_view precision);

// What one more kernel costs in a captured graph beyond its own work, in nanoseconds: measured as a share of
// a long chain of empty ones. So gaps between the kernels of a step take at most their number times this.
Result<double> launch_ns(CudaDevice& device);

// ---- Memory

// The memory of the whole GPU, other programs counted.
struct MemoryInfo {
  std::size_t free_bytes = 0, total_bytes = 0;
};
MemoryInfo memory_info(const CudaDevice& device);
std::size_t peak_bytes(const CudaDevice& device);  // the most that was allocated at once

// Page-locked memory of the host: copies from and to it run beside kernels, and nobody waits for them.
Result<Buffer> allocate_pinned(CudaDevice& device, std::size_t bytes);

// Memory of a GPU that several processes of one host see (CUDA IPC): what a process tells others of an
// allocation of its own.
struct MemoryHandle {
  std::array<std::byte, 64> bytes{};
};

// Which GPU of the host it is: the same number in every process, another one for every GPU.
Result<std::uint64_t> gpu_number(const CudaDevice& device);

// Memory that can be told to others: an allocation of its own, in whole pages of the GPU, so that nothing
// else is shown with it.
Result<Buffer> allocate_shareable(CudaDevice& device, std::size_t bytes);
// `whole` is what allocate_shareable gave. kUnavailable where the system does not let memory be shared.
Result<MemoryHandle> share_memory(const CudaDevice& device, const Buffer& whole);
// What another process told: not this one, which has the memory already. It is unmapped with the last Buffer;
// its owner keeps it until then. kUnavailable: other namespaces, GPUs that do not reach each other.
Result<Buffer> map_memory(CudaDevice& device, const MemoryHandle& handle, std::size_t bytes);

// Page-locks memory of the host as long as what it returns lives: copies are several times as fast. Null
// where it cannot be, which is no failure.
std::shared_ptr<void> lock_pages(CudaDevice& device, std::byte* memory, std::size_t bytes);

// ---- Kernels

// What is known when a kernel is chosen.
struct CudaQuery {
  const op::OpDef& def;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  const op::Attrs& attrs;
  CudaDevice& device;
  bool tf32 = false;  // f32 products may round their operands to 10 bits of mantissa
  // Operands of four dimensions lie in memory as [N,H,W,C] (filters as [O,KH,KW,C]); their types stay
  // [N,C,H,W].
  bool channels_last = false;
  // Which one a library takes of those that it has for the op: 0 is the first of its heuristics that can be
  // used, i > 0 the one that they name after i others. A kernel that cannot use it is not made: kNotFound
  // where the list is shorter.
  int algorithm = 0;
  // Floating operands may have other dtypes in memory, which are those of the types, than the op would have:
  // the kernel computes as if they were cast.
  bool casts = false;
  bool mixed_orders = false;  // some operands have the channels last and some have not: no kernel takes that
};

// The query for a node whose operands may have forms, with the types that kernels then see.
class FormedQuery {
 public:
  FormedQuery(const op::KernelQuery& node, CudaDevice& device, bool tf32 = false)
      : node_(node), types_(node), device_(device), tf32_(tf32) {}
  // Valid as long as this and the operands of the node are.
  CudaQuery query() const {
    return {.def = node_.def,
            .inputs = types_.inputs,
            .outputs = types_.outputs,
            .attrs = node_.attrs,
            .device = device_,
            .tf32 = tf32_,
            .channels_last = types_.channels_last,
            .casts = node_.forms.casts(),
            .mixed_orders = types_.mixed};
  }

 private:
  op::KernelQuery node_;
  op::MemoryTypes types_;
  CudaDevice& device_;
  bool tf32_;
};

// A kernel as plans name it: its row, and the algorithm where it is not 0 ("cublaslt/3").
inline std::string kernel_name(std::string_view row, int algorithm) {
  return algorithm == 0 ? std::string(row) : std::string(row) + "/" + std::to_string(algorithm);
}
inline std::string_view row_of(std::string_view kernel) { return kernel.substr(0, kernel.find('/')); }
inline int algorithm_of(std::string_view kernel) {
  const std::size_t slash = kernel.find('/');
  return slash == std::string_view::npos ? 0 : std::atoi(std::string(kernel.substr(slash + 1)).c_str());
}

// Operands of one call: row-major device memory. Mutated inputs and outputs as op::KernelArgs has them.
struct CudaArgs {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::byte* workspace;  // device memory, 256-byte aligned, contents undefined
  CudaStream& stream;

  const Tensor& in(int i) const { return inputs[static_cast<std::size_t>(i)]; }
  const Tensor& out(int i) const { return outputs[static_cast<std::size_t>(i)]; }
};

// A kernel made for one node: everything that depends on shapes and attributes is settled when it is made.
// Enqueueing only puts work on the stream: no synchronisation, no allocation, no host copy of values, so that
// it can be captured into a graph and replayed. The same inputs give the same bits: no atomics on floats.
class CudaKernel {
 public:
  virtual ~CudaKernel() = default;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual Status enqueue(const CudaArgs& args) const = 0;
  // Small kernels of one kind in one launch: kernels[i] on args[i], none of which needs another's results.
  // Called on the first, for kernels that all go with it.
  virtual bool goes_with(const CudaKernel&) const { return false; }
  virtual Status enqueue_all(std::span<const CudaKernel* const> kernels,
                             std::span<const CudaArgs> args) const {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (Status status = kernels[i]->enqueue(args[i]); !status.ok()) return status;
    }
    return {};
  }
};

struct CudaRow {
  const char* op;
  const char* name;  // "nvrtc", "cudnn", "cublaslt": stable, written to plans
  Result<std::unique_ptr<CudaKernel>> (*make)(const CudaQuery&);
  bool (*applicable)(const CudaQuery&) = nullptr;  // null: always
  // Which forms of operands it takes: CudaQuery::casts and CudaQuery::channels_last.
  bool adaptable = false;
  bool channels_last = false;
};

// All rows, fastest first for each op. Empty in a build without CUDA.
std::span<const CudaRow> cuda_kernels();
// The row of the kernel named `wanted`, or the first applicable one. There is no reference on the device:
// kNotFound names the op and the dtypes that have no kernel.
Result<const CudaRow*> choose_cuda_kernel(const CudaQuery& query, std::string_view wanted = "");

// Whether a library computes the op and has several algorithms for it (products, convolutions, attention).
bool has_algorithms(const op::OpDef& def);

struct AlgorithmTimes {
  int fastest = 0;  // a CudaQuery::algorithm; the library's own first choice unless another clearly wins
  int tried = 0;
  double seconds = 0, first_seconds = 0;  // of the fastest and of the library's first, per call
};

// Makes the kernel of `row` with the algorithms 0...most and times those that exist, a few calls each, on
// operands with random bits. Algorithms that want much more workspace than the first are left out. The
// query's own algorithm does not matter.
Result<AlgorithmTimes> time_algorithms(const CudaQuery& query, const CudaRow& row, int most);

// What kernels keep between a recurrent layer and its gradient.
struct RecurrentReserve {
  std::int64_t algorithm = 0;  // of both passes
  std::int64_t bytes = 0;
};
// For a node of rnn, lstm or gru; none where it computes nothing. The same wherever GPU and libraries are.
std::optional<RecurrentReserve> recurrent_reserve(const CudaQuery& query);
// Whether cuDNN runs such a node or one of recurrent_kept.
bool recurrence_fits(const CudaQuery& query);

// ---- Running them

// Captured work of a KernelStream.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual std::size_t num_launches() const = 0;  // kernels and copies in it
};

// One stream of a GPU for whoever runs kernels. Used by one thread at a time; its end waits for what is on
// it.
class KernelStream {
 public:
  virtual ~KernelStream() = default;

  virtual Status enqueue(const CudaKernel& kernel, std::span<const Tensor> in, std::span<const Tensor> out,
                         std::byte* workspace) = 0;
  // Kernels that go with the first, in one launch where it can be.
  struct Call {
    const CudaKernel* kernel;
    std::span<const Tensor> in, out;
    std::byte* workspace;
  };
  virtual Status enqueue_all(std::span<const Call> calls) = 0;
  // Between host and device, or on the device; in order with kernels.
  virtual Status copy(const Buffer& from, const Buffer& to) = 0;
  // On the device, also to and from memory that is mapped from other processes: `rows` runs of `bytes` each,
  // which begin `from_step` and `to_step` bytes apart.
  struct Rows {
    std::size_t bytes = 0, rows = 0, from_step = 0, to_step = 0;
  };
  virtual Status copy_rows(const std::byte* from, std::byte* to, const Rows& rows) = 0;
  // Every element of a contiguous tensor of the device gets these bytes of one, the lowest first; at most 4.
  virtual Status fill(const Tensor& to, std::uint32_t element) = 0;
  // What `work` enqueues, to be launched again and again.
  virtual Result<std::unique_ptr<Replay>> capture(const std::function<Status()>& work) = 0;
  virtual Status launch(Replay& replay) = 0;
  virtual Status synchronize() = 0;             // all of it has ended
  virtual std::shared_ptr<Event> record() = 0;  // the end of what is enqueued so far; null: reached
  virtual void wait(const std::shared_ptr<Event>& event) = 0;  // what is enqueued from now on comes behind it
  virtual Status wait_on_host(const Event& point) const = 0;   // the host waits until the point is reached
  // A point that keeps its time (null: out of memory), and what lies between two such.
  virtual std::shared_ptr<Event> record_with_time() = 0;
  virtual Result<double> ns_between(const std::shared_ptr<Event>& first,
                                    const std::shared_ptr<Event>& second) const = 0;
  virtual void enter() const = 0;         // the calling thread works on this GPU from now on
  virtual void* raw_stream() const = 0;   // CUstream, for libraries
  virtual CudaStream& cuda_stream() = 0;  // for kernel/cuda
};
std::unique_ptr<KernelStream> make_kernel_stream(CudaDevice& device);

// ---- Sums of f32 vectors in a given order of addition

// Operands below the number of inputs are inputs; operand `inputs + k` is the result of addition k.
struct Addition {
  int left = 0, right = 0;
};

class VectorSum {
 public:
  // Inputs and outputs together; more do not fit into the arguments of a kernel.
  static constexpr int kMostVectors = 480;

  virtual ~VectorSum() = default;
  // outputs[k][i] = the last addition, for begin <= i < end and every k. An output may be an input. Vectors
  // are aligned to 16 bytes and `begin` is a multiple of 4.
  virtual Status enqueue(KernelStream& stream, std::span<const float* const> inputs,
                         std::span<float* const> outputs, std::int64_t begin, std::int64_t end) const = 0;
};

// Without additions: a copy of the one input. `larger`: the larger one of two, or NaN, in place of their sum.
Result<std::unique_ptr<VectorSum>> make_vector_sum(CudaDevice& device, int num_inputs,
                                                   std::span<const Addition> additions, int num_outputs,
                                                   bool larger = false);

// ---- Messages of encoded vectors, made and read on a GPU
//
// The bytes of docs/format_codec.md and the arithmetic of codec/, to the bit.

enum class Encoding : std::uint8_t { kF16, kBf16, kOneBit, kTopK };

struct MessagePiece {
  std::int64_t offset = 0, count = 0;  // elements of the vector
  std::int64_t place = 0;              // bytes of the message: where it begins; with top-k, at the latest
  std::int64_t kept = 0, rice = 0;     // top-k: how many values are sent, the parameter of their positions;
                                       // 1bit: log2 of the values of a block
};

struct MessageFormat {
  Encoding encoding = Encoding::kBf16;
  std::uint8_t wire_id = 0;
  std::int64_t num_elems = 0;              // of the vector
  std::vector<MessagePiece> coded, plain;  // plain ones travel as f32; coded ones have values
  std::int64_t most_bytes = 0;             // of a message
  // Lengths in front and a header before every encoding. Without: halves alone, for sums by a library.
  bool framed = true;
  float momentum = 0;
};

// A message may be read this far beyond its end; what is there does not matter.
inline constexpr std::size_t kMessageSlack = 16;

// For one vector and a number of messages. Enqueues and does not wait; used with one KernelStream at a time.
// Vectors and messages are aligned to 16 bytes.
class MessageCoder {
 public:
  virtual ~MessageCoder() = default;
  // As codec::Packer::pack: residual and velocity, laid out as the vector, may be null. The lengths in front
  // of the message tell its own.
  virtual Status encode(KernelStream& stream, const float* values, float* residual, float* velocity,
                        std::byte* message) = 0;
  // As codec::Packer::watch_part of all parts.
  virtual Status watch(KernelStream& stream, const float* values, float* velocity) = 0;
  // out = the sum of the messages in the order of the additions; what is in no piece stays.
  virtual Status sum(KernelStream& stream, std::span<const std::byte* const> messages, float* out) = 0;
  // Waits for all of it. kCorrupt: a message that no encoder wrote was summed.
  virtual Status finish(KernelStream& stream) = 0;
};

// `additions` as in VectorSum, over the messages.
Result<std::unique_ptr<MessageCoder>> make_message_coder(CudaDevice& device, const MessageFormat& format,
                                                         int num_messages,
                                                         std::span<const Addition> additions);

}  // namespace trireme::kernel::cuda
