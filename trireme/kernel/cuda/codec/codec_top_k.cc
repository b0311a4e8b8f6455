#include "trireme/kernel/cuda/codec/codec_coders.h"

namespace trireme::kernel::cuda {
namespace {

constexpr unsigned kWriterThreads = 512, kReaderThreads = 1024;

class TopKCoder final : public CoderBase {
 public:
  TopKCoder(CudaDevice& device, const MessageFormat& format, int num_messages,
            std::span<const Addition> additions)
      : CoderBase(device, format, num_messages, additions) {
    for (int i = 0; i < num_coded_; ++i) {
      PieceRow& row = rows_[static_cast<std::size_t>(i)];
      row.chunk = chunks_;
      row.first = kept_;
      row.bits = bit_words_;
      // Codes of so many positions (codec/bits.h), and words that nothing is written to.
      row.words = (row.kept * (1 + row.rice) + (row.count >> row.rice)) / 32 + 3;
      chunks_ += (row.count + kChunkElems - 1) / kChunkElems;
      kept_ += row.kept;
      bit_words_ += row.words;
    }
    front_ = num_coded_ > 0 ? rows_.front().place : 0;
  }

  Status make() override {
    TR_RETURN_IF_ERROR(CoderBase::make());
    const std::pair<const char*, const Function**> all[] = {
        {"count_digits", &count_digits_}, {"pick_digit", &pick_digit_},
        {"count_chosen", &count_chosen_}, {"place_chunks", &place_chunks_},
        {"write_chosen", &write_chosen_}, {"write_positions", &write_positions_},
        {"pack_chosen", &pack_chosen_},   {"add_message", &add_message_},
        {"clear_coded", &clear_},         {"add_coded", &add_}};
    for (const auto& [name, to] : all) {
      TR_ASSIGN_OR_RETURN(*to, function(name));
    }
    if (device_.only_compiles()) return {};
    constexpr std::int64_t kDigits = 2048;
    TR_ASSIGN_OR_RETURN(digits_, words(kDigits * num_coded_));
    TR_ASSIGN_OR_RETURN(picks_, words(2 * std::int64_t{num_coded_}));
    TR_ASSIGN_OR_RETURN(counts_, words(2 * chunks_));
    TR_ASSIGN_OR_RETURN(positions_, words(kept_));
    TR_ASSIGN_OR_RETURN(chosen_, words(kept_));
    TR_ASSIGN_OR_RETURN(bits_, words(bit_words_));
    TR_ASSIGN_OR_RETURN(lengths_, words(num_coded_));
    return make_sums();
  }

  Status encode(KernelStream& stream, const float* values, float* residual, float* velocity,
                std::byte* message) override {
    const float* coded = nullptr;
    TR_RETURN_IF_ERROR(begin_encode(stream, values, velocity, coded));
    if (num_coded_ > 0) {
      TR_RETURN_IF_ERROR(choose(stream, coded, residual));
      TR_RETURN_IF_ERROR(write(stream, message));
    }
    if (tiles_ > coded_tiles_)
      TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *encode_, {blocks(tiles_)}, {kCoderThreads}, 0, table_,
                                num_rows_, tiles_, framed_, wire_id_, values, coded, residual, message));
    return end_encode(stream, residual, velocity);
  }

  // A sum of messages begins with zeros, to which their values are added one message after the other.
  Status sum(KernelStream& stream, std::span<const std::byte* const> messages, float* out) override {
    TR_RETURN_IF_ERROR(sum_tiles(stream, messages, coded_tiles_, out));
    if (num_coded_ == 0) return {};
    sums_[0] = out;
    if (additions_.empty()) {
      TR_RETURN_IF_ERROR(clear(stream, out));
      return add(stream, messages[0], out);
    }
    for (std::size_t k = 0; k < additions_.size(); ++k) {
      const auto [left, right] = additions_[k];
      float* to = sums_[places_[k]];
      if (left < num_messages_ && right < num_messages_) TR_RETURN_IF_ERROR(clear(stream, to));
      for (const int operand : {left, right})
        if (operand < num_messages_)
          TR_RETURN_IF_ERROR(add(stream, messages[static_cast<std::size_t>(operand)], to));
      if (left >= num_messages_ && right >= num_messages_) {
        const float* other = sums_[places_[static_cast<std::size_t>(right - num_messages_)]];
        TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *add_, {blocks(coded_tiles_)}, {kCoderThreads}, 0,
                                  table_, num_rows_, coded_tiles_, to, other));
      }
    }
    return {};
  }

 private:
  // Where the result of every addition lies: with a sum that it adds to, or in memory that is free. The last
  // one is `out`, as is the first.
  Status make_sums() {
    std::vector<bool> taken = {};
    for (const Addition& a : additions_) {
      const int inner = a.left >= num_messages_ ? a.left : a.right;
      if (inner >= num_messages_) {
        places_.push_back(places_[static_cast<std::size_t>(inner - num_messages_)]);
        if (a.left >= num_messages_ && a.right >= num_messages_)
          taken[places_[static_cast<std::size_t>(a.right - num_messages_)]] = false;
        continue;
      }
      const auto free =
          static_cast<std::size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
      if (free == taken.size()) taken.push_back(true);
      taken[free] = true;
      places_.push_back(free);
    }
    TR_CHECK(places_.empty() || places_.back() == 0, "a sum that ends elsewhere: {}", places_.back());
    sums_.resize(std::max<std::size_t>(1, taken.size()));
    for (std::size_t i = 1; i < sums_.size(); ++i) {
      TR_ASSIGN_OR_RETURN(void* const memory, words(format_.num_elems));
      sums_[i] = static_cast<float*>(memory);
    }
    return {};
  }

  // The largest of each piece: positions_ and chosen_.
  Status choose(KernelStream& stream, const float* values, float* residual) {
    const auto pieces = static_cast<unsigned>(num_coded_);
    for (int level = 0; level < 3; ++level) {
      TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *count_digits_, {blocks(chunks_)}, {kCoderThreads}, 0,
                                table_, num_coded_, chunks_, level, values, residual, picks_, digits_));
      TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *pick_digit_, {pieces}, {kCoderThreads}, 0, table_,
                                level, picks_, digits_));
    }
    const float* from = residual != nullptr ? residual : values;
    TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *count_chosen_, {blocks(chunks_)}, {kCoderThreads}, 0,
                              table_, num_coded_, chunks_, from, picks_, counts_));
    TR_RETURN_IF_ERROR(
        launch(stream.cuda_stream(), *place_chunks_, {pieces}, {kCoderThreads}, 0, table_, counts_));
    return launch(stream.cuda_stream(), *write_chosen_, {blocks(chunks_)}, {kCoderThreads}, 0, table_,
                  num_coded_, chunks_, from, residual, picks_, counts_, positions_, chosen_);
  }

  Status write(KernelStream& stream, std::byte* message) {
    const auto pieces = static_cast<unsigned>(num_coded_);
    TR_RETURN_IF_ERROR(launch(stream.cuda_stream(), *write_positions_, {pieces}, {kWriterThreads}, 0, table_,
                              positions_, bits_, lengths_));
    return launch(stream.cuda_stream(), *pack_chosen_, {pieces}, {kWriterThreads}, 0, table_, wire_id_,
                  front_, chosen_, bits_, lengths_, message);
  }

  Status clear(KernelStream& stream, float* out) {
    return launch(stream.cuda_stream(), *clear_, {blocks(coded_tiles_)}, {kCoderThreads}, 0, table_,
                  num_rows_, coded_tiles_, out);
  }
  Status add(KernelStream& stream, const std::byte* message, float* out) {
    return launch(stream.cuda_stream(), *add_message_, {static_cast<unsigned>(num_coded_)}, {kReaderThreads},
                  0, table_, wire_id_, front_, format_.most_bytes, message, positions_, out, wrong_);
  }

  std::int64_t chunks_ = 0, kept_ = 0, bit_words_ = 0, front_ = 0;
  void *digits_ = nullptr, *picks_ = nullptr, *counts_ = nullptr, *positions_ = nullptr, *chosen_ = nullptr,
       *bits_ = nullptr, *lengths_ = nullptr;
  std::vector<std::size_t> places_;  // of additions, into sums_
  std::vector<float*> sums_;         // the first is the result
  const Function *count_digits_ = nullptr, *pick_digit_ = nullptr, *count_chosen_ = nullptr,
                 *place_chunks_ = nullptr, *write_chosen_ = nullptr, *write_positions_ = nullptr,
                 *pack_chosen_ = nullptr, *add_message_ = nullptr, *clear_ = nullptr, *add_ = nullptr;
};

}  // namespace

std::unique_ptr<CoderBase> make_top_k_coder(CudaDevice& device, const MessageFormat& format, int num_messages,
                                            std::span<const Addition> additions) {
  return std::make_unique<TopKCoder>(device, format, num_messages, additions);
}

}  // namespace trireme::kernel::cuda
