#include "trireme/tensor/tensor.h"

#include "trireme/tensor/walk.h"

namespace trireme {
namespace {
template <typename Word>
void copy_words(const Tensor& from, const Tensor& to) {
  const auto* source = reinterpret_cast<const Word*>(from.raw());
  auto* target = reinterpret_cast<Word*>(to.raw());
  walk_rows<2>(from.shape(), {from.strides(), to.strides()},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 const Word* s = source + offset[0];
                 Word* t = target + offset[1];
                 for (std::int64_t i = 0; i < n; ++i) t[i * stride[1]] = s[i * stride[0]];
               });
}
}  // namespace

Tensor::Tensor(Buffer buffer, TensorType type, std::size_t offset)
    : buffer_(std::move(buffer)), type_(type), offset_(offset), strides_(row_major_strides(type.shape)) {
  TR_CHECK(offset <= buffer_.size_bytes() && type_.num_bytes() <= buffer_.size_bytes() - offset,
           "{} at byte {} of a buffer of {} bytes", type_.to_string(), offset, buffer_.size_bytes());
}

Result<Tensor> Tensor::allocate(Device& device, const TensorType& type) {
  TR_ASSIGN_OR_RETURN(Buffer buffer, device.allocate(type.num_bytes()));
  return Tensor(std::move(buffer), type);
}

bool Tensor::is_contiguous() const {
  if (type_.shape.num_elems() == 0) return true;
  std::int64_t step = 1;
  for (int i = shape().rank() - 1; i >= 0; --i) {
    if (shape()[i] != 1 && strides_[static_cast<std::size_t>(i)] != step) return false;
    step *= shape()[i];
  }
  return true;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  TR_CHECK(dim >= 0 && dim < shape().rank() && begin >= 0 && begin <= end && end <= shape()[dim],
           "slice [{}, {}) of dimension {} of {}", begin, end, dim, type_.to_string());
  Tensor t = *this;
  // An empty view keeps the offset: past-the-end arithmetic could leave the buffer.
  if (begin < end) {
    t.offset_ +=
        static_cast<std::size_t>(begin * strides_[static_cast<std::size_t>(dim)]) * dtype_size(dtype());
  }
  t.type_.shape.set(dim, end - begin);
  return t;
}

Tensor Tensor::transpose(std::span<const int> order) const {
  TR_CHECK(static_cast<int>(order.size()) == shape().rank(), "order of {} for {}", order.size(),
           type_.to_string());
  Tensor t = *this;
  unsigned seen = 0;
  for (int i = 0; i < shape().rank(); ++i) {
    const int from = order[static_cast<std::size_t>(i)];
    TR_CHECK(from >= 0 && from < shape().rank() && (seen & (1U << from)) == 0, "dimension {} in the order",
             from);
    seen |= 1U << from;
    t.type_.shape.set(i, shape()[from]);
    t.strides_[static_cast<std::size_t>(i)] = strides_[static_cast<std::size_t>(from)];
  }
  return t;
}

Result<Tensor> Tensor::reshape(const Shape& shape) const {
  if (shape.num_elems() != type_.shape.num_elems()) {
    return error(Code::kInvalid,
                 "[tensor] reshape changes the number of elements: got {} from {}, expected {} elements",
                 shape.to_string(), type_.shape.to_string(), type_.shape.num_elems());
  }
  if (!is_contiguous()) {
    return error(Code::kInvalid,
                 "[tensor] reshape of a strided view: got {}, expected a contiguous tensor; copy it first",
                 type_.to_string());
  }
  return Tensor(buffer_, {dtype(), shape}, offset_);
}

void copy_to_contiguous(const Tensor& from, const Tensor& to) {
  TR_CHECK(from.type() == to.type() && to.is_contiguous(), "copy of {} into {}", from.type().to_string(),
           to.type().to_string());
  if (from.is_phantom() || to.is_phantom() || from.shape().num_elems() == 0) return;
  switch (dtype_size(from.dtype())) {
    case 1:
      return copy_words<std::uint8_t>(from, to);
    case 2:
      return copy_words<std::uint16_t>(from, to);
    case 4:
      return copy_words<std::uint32_t>(from, to);
    default:
      return copy_words<std::uint64_t>(from, to);
  }
}

}  // namespace trireme
