#include "trireme/comm/lone_ops.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/copy.h"
#include "trireme/comm/pieces.h"
#include "trireme/op/detail/dispatch.h"

namespace trireme::comm {
namespace {

using exec::HostCall;

// `own` indices of a dimension, again and again, for all pieces of a whole.
void repeat(const PieceSpans& pieces, const std::byte* piece, std::int64_t own, std::byte* whole) {
  for (int r = 0; r < pieces.world(); ++r)
    for (std::int64_t i = 0; i < pieces.size(r); ++i)
      pieces.along.copy(piece, {own, i % own}, whole, {pieces.total(), pieces.start(r) + i}, 1);
}

}  // namespace

void copy_input(const Tensor& from, const Tensor& to) {
  if (from.is_phantom() || to.is_phantom() || from.raw() == to.raw()) return;
  copy_to_contiguous(from, to);
}

void write_token(const HostCall& host) {
  if (!host.outputs[0].is_phantom())
    *host.outputs[0].data<std::int64_t>() = static_cast<std::int64_t>(host.inputs[0].type().num_bytes());
}

void fill_with(const Tensor& out, float value) {
  std::memset(out.raw(), 0, out.type().num_bytes());
  if (value == 0 || !is_floating(out.dtype())) return;
  op::detail::dispatch_float(out.dtype(), [&out, value]<typename T>() {
    for (T& to : out.values<T>()) to = static_cast<T>(value);
  });
}

void keep_own(int /*rank*/, const HostCall& host) { copy_input(host.inputs[0], host.outputs[0]); }

void receive_ones(int /*rank*/, const HostCall& host) { fill_with(host.outputs[0], 1.0F); }

void repeat_own(int rank, const HostCall& host) {
  const Tensor &piece = host.inputs[0], &whole = host.outputs[0];
  const PieceSpans p = PieceSpans::of(host.node.attrs, whole.type());
  const std::int64_t own = piece.shape()[p.along.dim];
  if (own == 0) return receive_ones(rank, host);
  repeat(p, piece.raw(), own, whole.raw());
}

void take_own_piece(int rank, const HostCall& host) {
  const Tensor &whole = host.inputs[0], &piece = host.outputs[0];
  const PieceSpans p = PieceSpans::of(host.node.attrs, whole.type());
  const std::int64_t own = piece.shape()[p.along.dim];
  p.along.copy(whole.raw(), {p.total(), p.start(rank)}, piece.raw(), {own, 0}, own);
}

void turn_own(int rank, const HostCall& host) {
  const Tensor &in = host.inputs[0], &out = host.outputs[0];
  const op::Attrs& attrs = host.node.attrs;
  const std::int64_t world = attrs.get_int("world");
  const PieceSpans from =
      PieceSpans::of(out.type(), attrs.get_int("from"), world, attrs.get_ints("sizes_from"));
  const PieceSpans to = PieceSpans::of(in.type(), attrs.get_int("to"), world, attrs.get_ints("sizes_to"));
  const std::int64_t own = in.shape()[from.along.dim];
  if (own == 0 || to.size(rank) == 0) return receive_ones(rank, host);
  std::vector<std::byte> part(to.along.bytes(to.along.elems(to.size(rank))));
  to.along.copy(in.raw(), {to.total(), to.start(rank)}, part.data(), {to.size(rank), 0}, to.size(rank));
  repeat(from, part.data(), own, out.raw());
}

void keep_own_window(int rank, const HostCall& host) {
  const Tensor &in = host.inputs[0], &out = host.outputs[0];
  const op::Attrs& attrs = host.node.attrs;
  const std::int64_t extent = in.shape()[Along::of(in.type(), attrs.get_int("dim")).dim];
  const std::vector<std::int64_t>& sizes = attrs.get_ints("sizes");
  std::int64_t first = 0;
  for (int r = 0; r < rank; ++r) first += sizes.empty() ? extent : sizes[static_cast<std::size_t>(r)];
  const std::int64_t begin = attrs.get_ints("begins")[static_cast<std::size_t>(rank)];
  const std::int64_t window = attrs.get_int("extent");
  receive_ones(rank, host);
  const std::int64_t from = std::max(begin, first), to = std::min(begin + window, first + extent);
  if (from < to)
    Along::of(in.type(), attrs.get_int("dim"))
        .copy(in.raw(), {extent, from - first}, out.raw(), {window, from - begin}, to - from);
}

void send_to_nobody(int /*rank*/, const HostCall& host) { write_token(host); }

}  // namespace trireme::comm
