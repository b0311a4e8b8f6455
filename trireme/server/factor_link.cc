#include "trireme/server/factor_link.h"

#include <cstring>

namespace trireme::server {
namespace {

constexpr std::int64_t kAlignElems = 16;  // products read whole cache lines

std::int64_t align_up(std::int64_t n) { return (n + kAlignElems - 1) / kAlignElems * kAlignElems; }

Status check(const FactorKey& factors, const Key& key) {
  const std::vector<Key::Part> parts = parts_of(key);
  if (factors.parts.size() != parts.size())
    return error(Code::kInvalid, "[server] factors of '{}': got {}, expected one for each of {} parts",
                 key.name, factors.parts.size(), parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const FactorPart& f = factors.parts[p];
    const bool inside = f.depth > 0 && f.rows > 0 && f.cols > 0 && f.u_offset >= 0 && f.v_offset >= 0 &&
                        f.u_offset + f.rows * f.depth <= factors.num_elems &&
                        f.v_offset + f.cols * f.depth <= factors.num_elems;
    if (f.rows * f.cols != parts[p].count || f.cols != parts[p].row || !inside)
      return error(Code::kInvalid,
                   "[server] factors of part '{}': got {} x {} of {} samples in {} elements, expected {} "
                   "elements in rows of {}",
                   parts[p].name, f.rows, f.cols, f.depth, factors.num_elems, parts[p].count, parts[p].row);
  }
  return {};
}

Result<FactorSlice> cut(const FactorKey& factors, const Key& key, const Slice& slice) {
  FactorSlice out;
  const std::vector<Key::Part> parts = parts_of(key);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::int64_t begin = std::max(slice.begin, parts[p].offset) - parts[p].offset,
                       end = std::min(slice.end, parts[p].offset + parts[p].count) - parts[p].offset;
    if (begin >= end) continue;
    if (begin % parts[p].row != 0 || end % parts[p].row != 0)
      return error(Code::kInvalid, "[server] factors of part '{}': slice {} cuts a row of {} elements",
                   parts[p].name, slice.id, parts[p].row);
    FactorSlice::Piece piece;
    piece.part = p;
    piece.whole = factors.parts[p];
    piece.first_row = begin / parts[p].row;
    piece.num_rows = (end - begin) / parts[p].row;
    piece.u_at = out.num_elems;
    piece.v_at = piece.u_at + align_up(piece.u_elems());
    piece.to = parts[p].offset + begin - slice.begin;
    out.num_elems = piece.v_at + align_up(piece.v_elems());
    out.pieces.push_back(piece);
  }
  return out;
}

}  // namespace

void FactorSlice::pack(const float* factors, float* message) const {
  const auto copy = [](float* to, const float* from, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  };
  for (const Piece& p : pieces) {
    const FactorPart& f = p.whole;
    const float* u = factors + f.u_offset;
    if (f.deep_u)
      for (std::int64_t k = 0; k < f.depth; ++k)
        copy(message + p.u_at + k * p.num_rows, u + k * f.rows + p.first_row, p.num_rows);
    else
      copy(message + p.u_at, u + p.first_row * f.depth, p.u_elems());
    copy(message + p.v_at, factors + f.v_offset, p.v_elems());
    // What lies between is sent too.
    std::fill(message + p.u_at + p.u_elems(), message + p.v_at, 0.0F);
    std::fill(message + p.v_at + p.v_elems(), message + p.v_at + align_up(p.v_elems()), 0.0F);
  }
}

Result<std::vector<FactorSlice>> slice_factors(std::span<const FactorKey> factors, const ServerLayout& layout,
                                               std::span<const Key> keys) {
  std::vector<FactorSlice> out;
  if (factors.empty()) return out;
  if (factors.size() != keys.size())
    return error(Code::kInvalid, "[server] factors: got {}, expected one entry for each of {} keys",
                 factors.size(), keys.size());
  for (std::size_t k = 0; k < keys.size(); ++k)
    if (!factors[k].parts.empty()) TR_RETURN_IF_ERROR(check(factors[k], keys[k]));
  for (const Slice& slice : layout.slices) {
    FactorSlice own;
    if (!factors[slice.key].parts.empty()) {
      TR_ASSIGN_OR_RETURN(own, cut(factors[slice.key], keys[slice.key], slice));
    }
    out.push_back(std::move(own));
  }
  return out;
}

}  // namespace trireme::server
