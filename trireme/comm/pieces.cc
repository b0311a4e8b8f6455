#include "trireme/comm/pieces.h"

#include <cstring>

namespace trireme::comm {

Along Along::of(const TensorType& type, std::int64_t dim) {
  Along a;
  const Shape& shape = type.shape;
  a.dim = static_cast<int>(dim < 0 ? dim + shape.rank() : dim);
  for (int d = 0; d < shape.rank(); ++d)
    if (d != a.dim) (d < a.dim ? a.outer : a.inner) *= shape[d];
  a.elem_bytes = dtype_size(type.dtype);
  return a;
}

void Along::copy(const std::byte* from, Place of_from, std::byte* to, Place of_to, std::int64_t count) const {
  if (count == 0 || inner == 0) return;  // nothing may have no address
  for (std::int64_t row = 0; row < outer; ++row)
    std::memcpy(to + bytes((row * of_to.extent + of_to.at) * inner),
                from + bytes((row * of_from.extent + of_from.at) * inner), bytes(count * inner));
}

PieceSpans PieceSpans::of(const TensorType& whole, std::int64_t dim, std::int64_t world,
                          const std::vector<std::int64_t>& sizes) {
  PieceSpans p;
  p.along = Along::of(whole, dim);
  for (std::int64_t r = 0; r < world; ++r)
    p.starts.push_back(p.starts.back() + (sizes.empty() ? whole.shape[p.along.dim] / world
                                                        : sizes[static_cast<std::size_t>(r)]));
  return p;
}

PieceSpans PieceSpans::of(const op::Attrs& attrs, const TensorType& whole) {
  return of(whole, attrs.get_int("dim"), attrs.get_int("world"), attrs.get_ints("sizes"));
}

std::vector<std::int64_t> PieceSpans::counts() const {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < world(); ++r) counts.push_back(along.elems(size(r)));
  return counts;
}

void PieceSpans::pack(const std::byte* whole, std::byte* packed) const {
  for (int r = 0; r < world(); ++r)
    along.copy(whole, {total(), start(r)}, packed + in_packed(r), {size(r), 0}, size(r));
}

void PieceSpans::unpack(const std::byte* packed, std::byte* whole) const {
  for (int r = 0; r < world(); ++r)
    along.copy(packed + in_packed(r), {size(r), 0}, whole, {total(), start(r)}, size(r));
}

}  // namespace trireme::comm
