// Messages made and read on a GPU beside those of codec::Packer: the same bytes, residuals and sums.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/base/rng.h"
#include "trireme/comm/device/device_parts.h"
#include "trireme/comm/device/message_format.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {
namespace {

namespace gpu = kernel::cuda;

constexpr std::int64_t kElems = 41'000;

// Pieces of odd lengths at odd places, gaps between them, short ones as they are.
codec::Packing odd_packing() {
  return codec::Packing{{{0, 17'001}, {17'008, 2'048}, {19'059, 1}, {19'061, 15}, {19'080, 20'013}},
                        {{39'100, 7}, {39'111, 1'200}}};
}

struct OnGpu {
  OnGpu() {
    auto opened = gpu::open_device(0);
    if (opened.ok())
      device = std::move(*opened);
    else
      why = opened.status().message();
  }
  Device& as_device() const { return gpu::as_device(*device); }
  Tensor make(std::size_t bytes) const {
    return *Tensor::allocate(as_device(), {DType::kU8, {static_cast<std::int64_t>(bytes)}});
  }
  void write(const void* from, std::size_t bytes, const Tensor& to) const {
    const Buffer source = Buffer::wrap(cpu_device(), static_cast<std::byte*>(const_cast<void*>(from)), bytes);
    EXPECT_TRUE(as_device().copy(source, to.buffer().slice(0, bytes), nullptr).ok());
  }
  template <class T>
  std::vector<T> read(const Tensor& from, std::size_t count) const {
    std::vector<T> out(count);
    const std::size_t bytes = count * sizeof(T);
    const Buffer to = Buffer::wrap(cpu_device(), reinterpret_cast<std::byte*>(out.data()), bytes);
    EXPECT_TRUE(as_device().copy(from.buffer().slice(0, bytes), to, nullptr).ok());
    return out;
  }
  std::shared_ptr<gpu::CudaDevice> device;
  std::string why;
};
const OnGpu& on_gpu() {
  static const OnGpu kGpu;
  return kGpu;
}

float* floats(const Tensor& t) { return reinterpret_cast<float*>(t.raw()); }

// Values have many sizes; equal ones and both zeros are among them.
std::vector<float> gradient(std::uint64_t seed, double scale) {
  Philox random(seed, 3);
  std::vector<float> v(kElems);
  for (float& x : v) {
    const auto kind = random.next_below(16);
    x = kind == 0   ? 0.0F
        : kind == 1 ? -0.0F
        : kind < 4  ? 0.25F * (kind == 2 ? 1.0F : -1.0F)
                    : static_cast<float>(scale) * random.next_normal() *
                         std::ldexp(1.0F, static_cast<int>(random.next_below(40)) - 20);
  }
  return v;
}

struct Case {
  std::string codec;
  double fraction = 0.01, momentum = 0, scale = 1;
  bool feedback = true;
  int shards = 1;
};

class Both {
 public:
  explicit Both(const Case& c) : c_(c), own_(gpu::make_kernel_stream(*on_gpu().device)), stream_(*own_) {
    codec::Options options;
    options.set("fraction", c.fraction);
    const codec::CodecRow& row = **codec::find_codec(c.codec);
    packer_ = std::make_unique<codec::Packer>(*codec::Packer::make(row, options, c.momentum, odd_packing()));
    format_ = *device_format(row, options, c.momentum, odd_packing(), kElems);
    EXPECT_EQ(static_cast<std::size_t>(format_.most_bytes), packer_->max_bytes());
    const auto order = tree_additions({0, c.shards}, c.shards);
    auto coder = gpu::make_message_coder(*on_gpu().device, format_, c.shards, order);
    EXPECT_TRUE(coder.ok()) << coder.status().to_string();
    if (coder.ok()) coder_ = std::move(*coder);
    for (int s = 0; s < c.shards; ++s) {
      residuals_.emplace_back(kElems, 0.0F);
      velocities_.emplace_back(kElems, 0.0F);
      for (auto* list : {&gpu_residuals_, &gpu_velocities_, &gpu_messages_})
        list->push_back(on_gpu().make(list == &gpu_messages_ ? packer_->max_bytes() + gpu::kMessageSlack
                                                             : kElems * sizeof(float)));
      on_gpu().write(residuals_.back().data(), kElems * sizeof(float), gpu_residuals_.back());
      on_gpu().write(residuals_.back().data(), kElems * sizeof(float), gpu_velocities_.back());
    }
    out_ = on_gpu().make(kElems * sizeof(float));
  }

  // One step: the bytes of every shard's message, what is kept, and the sum.
  void compare(std::uint64_t step) {
    if (coder_ == nullptr) return;
    std::vector<Bytes> messages;
    for (int s = 0; s < c_.shards; ++s) messages.push_back(encode(step, static_cast<std::size_t>(s)));
    std::vector<std::vector<ByteView>> parts;
    std::vector<const std::byte*> there;
    for (std::size_t s = 0; s < messages.size(); ++s) {
      parts.push_back(*packer_->parts_of(messages[s]));
      there.push_back(gpu_messages_[s].raw());
    }
    std::vector<float> want = gradient(99, 1);
    on_gpu().write(want.data(), kElems * sizeof(float), out_);
    for (std::size_t p = 0; p < packer_->num_parts(); ++p)
      EXPECT_TRUE(packer_->sum_part(p, parts, want).ok());
    EXPECT_TRUE(coder_->sum(stream_, there, floats(out_)).ok());
    const Status finished = coder_->finish(stream_);
    EXPECT_TRUE(finished.ok()) << finished.to_string();
    expect_same(on_gpu().read<float>(out_, kElems), want, "sum");
  }

  // The sum of one damaged message; whatever it says, it says so or stays within its pieces.
  bool accepts(const Bytes& message) {
    on_gpu().write(message.data(), message.size(), gpu_messages_[0]);
    const std::vector<const std::byte*> there = {gpu_messages_[0].raw()};
    EXPECT_TRUE(coder_->sum(stream_, there, floats(out_)).ok());
    return coder_->finish(stream_).ok();
  }
  bool host_accepts(const Bytes& message) {
    std::vector<float> out(kElems);
    return packer_->add(message, out).ok();
  }

  Bytes encode(std::uint64_t step, std::size_t s) {
    const std::vector<float> values = gradient(10 * step + s, c_.scale);
    codec::Carry carry;
    if (c_.feedback) carry.residual = residuals_[s];
    if (c_.momentum > 0) carry.velocity = velocities_[s];
    Bytes want(packer_->max_bytes());
    want.resize(packer_->pack(values, carry, 0, want));
    const Tensor there = on_gpu().make(kElems * sizeof(float));
    on_gpu().write(values.data(), kElems * sizeof(float), there);
    EXPECT_TRUE(coder_
                    ->encode(stream_, floats(there), c_.feedback ? floats(gpu_residuals_[s]) : nullptr,
                             c_.momentum > 0 ? floats(gpu_velocities_[s]) : nullptr, gpu_messages_[s].raw())
                    .ok());
    EXPECT_TRUE(stream_.synchronize().ok());
    const Bytes got = on_gpu().read<std::byte>(gpu_messages_[s], want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      if (got[i] != want[i]) {
        ADD_FAILURE() << c_.codec << ", step " << step << ": byte " << i << " of " << want.size();
        break;
      }
    if (c_.feedback) expect_same(on_gpu().read<float>(gpu_residuals_[s], kElems), residuals_[s], "residual");
    if (c_.momentum > 0)
      expect_same(on_gpu().read<float>(gpu_velocities_[s], kElems), velocities_[s], "velocity");
    return want;
  }

 private:
  void expect_same(const std::vector<float>& got, const std::vector<float>& want, const char* what) const {
    for (std::size_t i = 0; i < want.size(); ++i)
      if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i])) {
        ADD_FAILURE() << c_.codec << ", " << what << " at " << i << ": got " << got[i] << ", expected "
                      << want[i];
        return;
      }
  }

  const Case c_;
  const std::unique_ptr<gpu::KernelStream> own_;
  gpu::KernelStream& stream_;
  std::unique_ptr<codec::Packer> packer_;
  gpu::MessageFormat format_;
  std::unique_ptr<gpu::MessageCoder> coder_;
  std::vector<std::vector<float>> residuals_, velocities_;
  std::vector<Tensor> gpu_residuals_, gpu_velocities_, gpu_messages_;
  Tensor out_;
};

void expect_same_as_on_the_host(const Case& c) {
  SCOPED_TRACE(c.codec);
  Both both(c);
  for (std::uint64_t step = 0; step < 3; ++step) both.compare(step);
}

constexpr const char* kCodecs[] = {"fp16", "bf16", "1bit", "topk"};

TEST(DeviceCodec, MakesTheBytesAndKeepsTheResidualsOfTheHost) {
  TR_NEEDS_GPU(on_gpu().why);
  for (const char* codec : kCodecs) {
    expect_same_as_on_the_host({.codec = codec});
    expect_same_as_on_the_host({.codec = codec, .feedback = false});
    expect_same_as_on_the_host({.codec = codec, .momentum = 0.9});
  }
}

TEST(DeviceCodec, SumsInTheOrderOfTheTree) {
  TR_NEEDS_GPU(on_gpu().why);
  for (const char* codec : kCodecs)
    for (const int shards : {2, 5}) expect_same_as_on_the_host({.codec = codec, .shards = shards});
}

TEST(DeviceCodec, ValuesBeyondTheRangeAreCutAndTheRestIsKept) {
  TR_NEEDS_GPU(on_gpu().why);
  expect_same_as_on_the_host({.codec = "fp16", .scale = 1e6});
  expect_same_as_on_the_host({.codec = "bf16", .scale = 1e33, .feedback = false});
  expect_same_as_on_the_host({.codec = "bf16", .scale = 1e29});
  expect_same_as_on_the_host({.codec = "fp16", .scale = 1e-9});
}

TEST(DeviceCodec, AnyShareOfTheValuesIsExactlyTheLargest) {
  TR_NEEDS_GPU(on_gpu().why);
  for (const double fraction : {1e-4, 0.001, 0.1, 0.5, 1.0})
    expect_same_as_on_the_host({.codec = "topk", .fraction = fraction, .shards = 2});
}

// What the host refuses the GPU refuses; nothing is written outside of the vector (the emulator checks it).
TEST(DeviceCodec, DamagedMessagesAreRefused) {
  TR_NEEDS_GPU(on_gpu().why);
  for (const char* codec : {"topk", "1bit", "bf16"}) {
    Both both({.codec = codec, .fraction = 0.02});
    const Bytes whole = both.encode(0, 0);
    EXPECT_TRUE(both.accepts(whole)) << codec;
    Philox random(5, 6);
    int refused = 0;
    for (int i = 0; i < 40; ++i) {
      Bytes damaged = whole;
      const std::size_t at =
          i < 12 ? static_cast<std::size_t>(i) : random.next_below(static_cast<std::uint32_t>(whole.size()));
      damaged[at] ^= static_cast<std::byte>(1 + random.next_below(255));
      const bool host = both.host_accepts(damaged);
      EXPECT_EQ(both.accepts(damaged), host) << codec << ", byte " << at;
      refused += host ? 0 : 1;
    }
    EXPECT_GT(refused, 5) << codec;
  }
}

}  // namespace
}  // namespace trireme::comm
