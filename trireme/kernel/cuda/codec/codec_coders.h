// MessageCoders by encoding, and what they have in common. Internal to codec*.cc.
#pragma once

#include "trireme/kernel/cuda/codec/codec_text.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

inline constexpr int kCoderThreads = 256;
inline constexpr unsigned kMostCoderBlocks = 132 * 16;

// Everything that is known of the pieces before the first message, on the GPU.
class CoderBase : public MessageCoder {
 public:
  CoderBase(CudaDevice& device, const MessageFormat& format, int num_messages,
            std::span<const Addition> additions);
  virtual Status make();
  Status watch(KernelStream& stream, const float* values, float* velocity) override;
  Status finish(KernelStream& stream) override;

 protected:
  Result<const Function*> function(const char* name) { return device_.function(text_, name); }
  // Memory of `count` elements of 4 bytes, kept as long as this.
  Result<void*> words(std::int64_t count);
  unsigned blocks(std::int64_t tiles) const { return blocks_for(tiles, 1, 1, kMostCoderBlocks); }
  // Values that coded pieces are made of.
  Status begin_encode(KernelStream& stream, const float* values, float* velocity, const float*& coded);
  Status end_encode(KernelStream& stream, float* residual, float* velocity);
  // All pieces, or plain ones alone.
  Status sum_tiles(KernelStream& stream, std::span<const std::byte* const> messages, std::int64_t first_tile,
                   float* out);

  CudaDevice& device_;
  const MessageFormat format_;
  const int num_messages_;
  const std::vector<Addition> additions_;
  const std::string text_;
  std::vector<PieceRow> rows_;
  std::int64_t tiles_ = 0, coded_tiles_ = 0;
  int num_rows_ = 0, num_coded_ = 0, framed_ = 1;
  std::uint32_t wire_id_ = 0;
  void* table_ = nullptr;  // of PieceRow
  void* wrong_ = nullptr;  // u32: not 0 where a message was not one
  const Function *encode_ = nullptr, *sum_ = nullptr, *velocity_ = nullptr, *mask_ = nullptr;

 private:
  std::vector<Buffer> memory_;
};

std::unique_ptr<CoderBase> make_top_k_coder(CudaDevice& device, const MessageFormat& format, int num_messages,
                                            std::span<const Addition> additions);

}  // namespace trireme::kernel::cuda
