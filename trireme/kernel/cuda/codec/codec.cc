#include "trireme/kernel/cuda/cuda.h"

#include "trireme/kernel/cuda/codec/codec_coders.h"

namespace trireme::kernel::cuda {

CoderBase::CoderBase(CudaDevice& device, const MessageFormat& format, int num_messages,
                     std::span<const Addition> additions)
    : device_(device),
      format_(format),
      num_messages_(num_messages),
      additions_(additions.begin(), additions.end()),
      text_(message_text(format.encoding, num_messages, additions)),
      num_rows_(static_cast<int>(format.coded.size() + format.plain.size())),
      num_coded_(static_cast<int>(format.coded.size())),
      framed_(format.framed ? 1 : 0),
      wire_id_(format.wire_id) {
  for (const auto* list : {&format_.coded, &format_.plain})
    for (const MessagePiece& p : *list) {
      PieceRow row{};
      row.offset = p.offset;
      row.count = p.count;
      row.place = p.place;
      row.plain = list == &format_.plain ? 1 : 0;
      row.tile = tiles_;
      row.kept = p.kept;
      row.rice = p.rice;
      tiles_ += (p.count + kTileElems - 1) / kTileElems;
      if (row.plain == 0) coded_tiles_ = tiles_;
      rows_.push_back(row);
    }
}

Result<void*> CoderBase::words(std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * 4;
  TR_ASSIGN_OR_RETURN(Buffer memory, device_.allocate(bytes));
  const std::vector<std::byte> zeros(bytes);
  Buffer from = Buffer::wrap(cpu_device(), const_cast<std::byte*>(zeros.data()), bytes);
  TR_RETURN_IF_ERROR(device_.copy(from, memory, nullptr));
  memory_.push_back(memory);
  return static_cast<void*>(memory.data());
}

Status CoderBase::make() {
  TR_ASSIGN_OR_RETURN(encode_, function("encode_message"));
  TR_ASSIGN_OR_RETURN(sum_, function("sum_messages"));
  TR_ASSIGN_OR_RETURN(velocity_, function("update_velocity"));
  TR_ASSIGN_OR_RETURN(mask_, function("mask_velocity"));
  if (device_.only_compiles()) return {};
  const std::size_t bytes = rows_.size() * sizeof(PieceRow);
  TR_ASSIGN_OR_RETURN(table_, words(static_cast<std::int64_t>(bytes / 4)));
  TR_ASSIGN_OR_RETURN(wrong_, words(1));
  if (rows_.empty()) return {};
  const Buffer from = Buffer::wrap(cpu_device(), reinterpret_cast<std::byte*>(rows_.data()), bytes);
  return device_.copy(from, Buffer::wrap(device_, static_cast<std::byte*>(table_), bytes), nullptr);
}

Status CoderBase::begin_encode(KernelStream& stream, const float* values, float* velocity,
                               const float*& coded) {
  coded = velocity != nullptr ? velocity : values;
  if (velocity == nullptr || coded_tiles_ == 0) return {};
  return launch(stream.cuda_stream(), *velocity_, {blocks(coded_tiles_)}, {kCoderThreads}, 0, table_,
                num_rows_, coded_tiles_, format_.momentum, values, velocity);
}

Status CoderBase::watch(KernelStream& stream, const float* values, float* velocity) {
  const float* coded = nullptr;
  return begin_encode(stream, values, velocity, coded);
}

Status CoderBase::end_encode(KernelStream& stream, float* residual, float* velocity) {
  if (velocity == nullptr || residual == nullptr || coded_tiles_ == 0) return {};
  return launch(stream.cuda_stream(), *mask_, {blocks(coded_tiles_)}, {kCoderThreads}, 0, table_, num_rows_,
                coded_tiles_, static_cast<const float*>(residual), velocity);
}

Status CoderBase::sum_tiles(KernelStream& stream, std::span<const std::byte* const> messages,
                            std::int64_t first_tile, float* out) {
  TR_CHECK(messages.size() == static_cast<std::size_t>(num_messages_), "a sum of {} messages got {}",
           num_messages_, messages.size());
  if (first_tile >= tiles_) return {};
  std::vector<const void*> all(messages.begin(), messages.end());
  void* args[] = {&table_,   &num_rows_, &first_tile, &tiles_, &framed_,
                  &wire_id_, all.data(), &out,        &wrong_, nullptr};
  return launch_raw(stream.cuda_stream(), *sum_, {blocks(tiles_ - first_tile)}, {kCoderThreads}, 0, args);
}

Status CoderBase::finish(KernelStream& stream) {
  std::uint32_t word = 0;
  const Buffer here = Buffer::wrap(cpu_device(), reinterpret_cast<std::byte*>(&word), sizeof word);
  const Buffer there = Buffer::wrap(device_, static_cast<std::byte*>(wrong_), sizeof word);
  TR_RETURN_IF_ERROR(stream.copy(there, here));
  TR_RETURN_IF_ERROR(stream.synchronize());
  if (word == 0) return {};
  word = 0;
  TR_RETURN_IF_ERROR(stream.copy(here, there));
  TR_RETURN_IF_ERROR(stream.synchronize());
  return error(Code::kCorrupt, "[cuda] a message on the GPU is none that an encoder wrote: it is damaged");
}

namespace {

// Encodings whose length follows from the number of values: they are written where they stay.
class FixedCoder final : public CoderBase {
 public:
  using CoderBase::CoderBase;

  Status encode(KernelStream& stream, const float* values, float* residual, float* velocity,
                std::byte* message) override {
    const float* coded = nullptr;
    TR_RETURN_IF_ERROR(begin_encode(stream, values, velocity, coded));
    if (tiles_ == 0) return {};
    // With 1-bit a warp has a tile.
    const std::int64_t per_block = format_.encoding == Encoding::kOneBit ? kCoderThreads / 32 : 1;
    TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *encode_, {blocks((tiles_ + per_block - 1) / per_block)},
                              {kCoderThreads}, 0, table_, num_rows_, tiles_, framed_, wire_id_, values, coded,
                              residual, message));
    return end_encode(stream, residual, velocity);
  }

  Status sum(KernelStream& stream, std::span<const std::byte* const> messages, float* out) override {
    return sum_tiles(stream, messages, 0, out);
  }
};

}  // namespace

Result<std::unique_ptr<MessageCoder>> make_message_coder(CudaDevice& device, const MessageFormat& format,
                                                         int num_messages,
                                                         std::span<const Addition> additions) {
  if (num_messages < 1 || num_messages > VectorSum::kMostVectors)
    return error(Code::kInvalid, "[cuda] a sum of {} messages: expected 1 to {}", num_messages,
                 VectorSum::kMostVectors);
  std::unique_ptr<CoderBase> coder;
  if (format.encoding == Encoding::kTopK)
    coder = make_top_k_coder(device, format, num_messages, additions);
  else
    coder = std::make_unique<FixedCoder>(device, format, num_messages, additions);
  TR_RETURN_IF_ERROR(coder->make());
  return std::unique_ptr<MessageCoder>(std::move(coder));
}

}  // namespace trireme::kernel::cuda
