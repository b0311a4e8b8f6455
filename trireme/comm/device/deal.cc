#include "trireme/comm/device/deal.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/comm/node_pieces.h"
#include "trireme/tensor/half.h"

namespace trireme::comm {

using exec::HostCall;
using Stream = Deal::Stream;
using Sources = std::vector<const std::byte*>;

namespace {

// Below this everybody sums all of a vector: one trade and more bytes.
constexpr std::size_t kSumWhole = 256 << 10;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

Status copy_along(Stream& stream, const Along& along, const std::byte* from, Along::Place of_from,
                  std::byte* to, Along::Place of_to, std::int64_t count) {
  return stream.copy_rows(from + along.bytes(of_from.at * along.inner),
                          to + along.bytes(of_to.at * along.inner),
                          {.bytes = along.bytes(count * along.inner),
                           .rows = static_cast<std::size_t>(along.outer),
                           .from_step = along.bytes(of_from.extent * along.inner),
                           .to_step = along.bytes(of_to.extent * along.inner)});
}

Status copy_whole(Stream& stream, const std::byte* from, std::byte* to, std::size_t bytes) {
  return stream.copy_rows(from, to, {.bytes = bytes, .rows = 1, .from_step = bytes, .to_step = bytes});
}

// A portion of its own for every rank, one behind the other.
std::vector<Portion> in_order(int world, const std::function<std::size_t(int)>& bytes) {
  std::vector<Portion> portions;
  std::size_t end = 0;
  for (int r = 0; r < world; ++r) {
    portions.push_back({end, bytes(r)});
    end += portion_room(portions.back().bytes);
  }
  return portions;
}

const kernel::cuda::VectorSum& kernel_of(const HostCall& host, const DealKernels& kernels) {
  const bool larger = host.node.def->name == "allreduce" && host.node.attrs.get_text("reduction") == "max";
  return *(larger ? kernels.larger : kernels.sum);
}

// Vectors of all ranks become one.
Status combine(Stream& stream, const kernel::cuda::VectorSum& kernel, const Sources& from, std::byte* to,
               std::int64_t elems) {
  std::vector<const float*> inputs;
  for (const std::byte* p : from) inputs.push_back(reinterpret_cast<const float*>(p));
  float* const outputs[] = {reinterpret_cast<float*>(to)};
  return kernel.enqueue(stream, inputs, outputs, 0, elems);
}

// Everybody gets all vectors and sums them.
Deal sum_whole(const Group& group, const HostCall& host, const DealKernels& kernels) {
  const Tensor in = host.inputs[0], out = host.outputs[0];
  Deal deal;
  deal.out.assign(at(group.world()), {0, in.type().num_bytes()});
  deal.in = deal.out;
  deal.pack = [in](Stream& stream, std::byte* outbox) {
    return copy_whole(stream, in.raw(), outbox, in.type().num_bytes());
  };
  deal.finish = [out, kernel = &kernel_of(host, kernels)](Stream& stream, const Sources& from) {
    return combine(stream, *kernel, from, out.raw(), out.shape().num_elems());
  };
  return deal;
}

// A rank sums its chunk of all vectors into its outbox, behind its vector; then all get the chunks.
std::vector<Deal> sum_in_two(const Group& group, const HostCall& host, const DealKernels& kernels) {
  const Tensor in = host.inputs[0], out = host.outputs[0];
  const int world = group.world(), rank = group.rank();
  const auto chunk = [elems = in.shape().num_elems(), world](int r) {
    return chunk_of(elems, sizeof(float), r, world);
  };
  const auto bytes = [chunk](int r) { return static_cast<std::size_t>(chunk(r).size()) * sizeof(float); };
  const std::size_t behind = portion_room(in.type().num_bytes());
  Deal first, second;
  for (int r = 0; r < world; ++r) {
    const auto begin = [&](int of) { return static_cast<std::size_t>(chunk(of).begin) * sizeof(float); };
    first.out.push_back({begin(r), bytes(r)});
    first.in.push_back({begin(rank), bytes(rank)});
    second.out.push_back({behind, bytes(rank)});
    second.in.push_back({behind, bytes(r)});
  }
  // Where the sum of the own chunk goes, which the second deal sends.
  const auto sum_at = std::make_shared<std::byte*>(nullptr);
  first.pack = [in, sum_at, behind](Stream& stream, std::byte* outbox) {
    *sum_at = outbox + behind;
    return copy_whole(stream, in.raw(), outbox, in.type().num_bytes());
  };
  first.finish = [sum_at, kernel = &kernel_of(host, kernels), elems = chunk(rank).size()](
                     Stream& stream, const Sources& from) -> Status {
    return elems == 0 ? Status() : combine(stream, *kernel, from, *sum_at, elems);
  };
  second.pack = [](Stream&, std::byte*) { return Status(); };
  second.finish = [out, chunk, bytes](Stream& stream, const Sources& from) -> Status {
    for (int r = 0; r < static_cast<int>(from.size()); ++r)
      TR_RETURN_IF_ERROR(copy_whole(stream, from[at(r)],
                                    out.raw() + chunk(r).begin * std::int64_t{sizeof(float)}, bytes(r)));
    return {};
  };
  std::vector<Deal> deals;
  deals.push_back(std::move(first));
  deals.push_back(std::move(second));
  return deals;
}

Deal broadcast(const Group& group, const HostCall& host) {
  const Tensor in = host.inputs[0], out = host.outputs[0];
  const auto root = static_cast<int>(host.node.attrs.get_int("root"));
  const std::size_t bytes = in.type().num_bytes();
  Deal deal;
  deal.out.assign(at(group.world()), {0, group.rank() == root ? bytes : 0});
  deal.in.assign(at(group.world()), {});
  deal.in[at(root)].bytes = bytes;
  deal.pack = [in, bytes, is_root = group.rank() == root](Stream& stream, std::byte* outbox) {
    return is_root ? copy_whole(stream, in.raw(), outbox, bytes) : Status();
  };
  deal.finish = [out, root, bytes](Stream& stream, const Sources& from) {
    return copy_whole(stream, from[at(root)], out.raw(), bytes);
  };
  return deal;
}

Result<Deal> allgather(const Group& group, const HostCall& host) {
  const Tensor piece = host.inputs[0], whole = host.outputs[0];
  TR_ASSIGN_OR_RETURN(const PieceSpans pieces, pieces_of(group, host, whole, piece));
  Deal deal;
  deal.out.assign(at(group.world()), {0, piece.type().num_bytes()});
  for (int r = 0; r < group.world(); ++r)
    deal.in.push_back({0, pieces.along.bytes(pieces.along.elems(pieces.size(r)))});
  deal.pack = [piece](Stream& stream, std::byte* outbox) {
    return copy_whole(stream, piece.raw(), outbox, piece.type().num_bytes());
  };
  deal.finish = [pieces, whole](Stream& stream, const Sources& from) -> Status {
    for (int r = 0; r < pieces.world(); ++r)
      TR_RETURN_IF_ERROR(copy_along(stream, pieces.along, from[at(r)], {pieces.size(r), 0}, whole.raw(),
                                    {pieces.total(), pieces.start(r)}, pieces.size(r)));
    return {};
  };
  return deal;
}

Result<Deal> reduce_scatter(const Group& group, const HostCall& host, const DealKernels& kernels) {
  const Tensor whole = host.inputs[0], piece = host.outputs[0];
  TR_ASSIGN_OR_RETURN(const PieceSpans pieces, pieces_of(group, host, whole, piece));
  Deal deal;
  deal.out =
      in_order(group.world(), [&](int r) { return pieces.along.bytes(pieces.along.elems(pieces.size(r))); });
  deal.in.assign(at(group.world()), deal.out[at(group.rank())]);
  deal.pack = [pieces, whole, portions = deal.out](Stream& stream, std::byte* outbox) -> Status {
    for (int r = 0; r < pieces.world(); ++r)
      TR_RETURN_IF_ERROR(copy_along(stream, pieces.along, whole.raw(), {pieces.total(), pieces.start(r)},
                                    outbox + portions[at(r)].offset, {pieces.size(r), 0}, pieces.size(r)));
    return {};
  };
  deal.finish = [piece, kernel = &kernel_of(host, kernels)](Stream& stream, const Sources& from) {
    return combine(stream, *kernel, from, piece.raw(), piece.shape().num_elems());
  };
  return deal;
}

Result<Deal> all_to_all(const Group& group, const HostCall& host) {
  const Tensor in = host.inputs[0], out = host.outputs[0];
  TR_ASSIGN_OR_RETURN(const Turned turned, turned_of(group, host));
  const std::size_t elem = dtype_size(in.dtype());
  const int world = group.world(), rank = group.rank();
  const auto outbox_of = [&](int source) {
    return in_order(world, [&](int r) { return static_cast<std::size_t>(turned.elems(source, r)) * elem; });
  };
  Deal deal;
  deal.out = outbox_of(rank);
  for (int r = 0; r < world; ++r) deal.in.push_back(outbox_of(r)[at(rank)]);
  deal.pack = [to = turned.to, in, portions = deal.out](Stream& stream, std::byte* outbox) -> Status {
    for (int r = 0; r < to.world(); ++r)
      TR_RETURN_IF_ERROR(copy_along(stream, to.along, in.raw(), {to.total(), to.start(r)},
                                    outbox + portions[at(r)].offset, {to.size(r), 0}, to.size(r)));
    return {};
  };
  deal.finish = [from = turned.from, out](Stream& stream, const Sources& sources) -> Status {
    for (int r = 0; r < from.world(); ++r)
      TR_RETURN_IF_ERROR(copy_along(stream, from.along, sources[at(r)], {from.size(r), 0}, out.raw(),
                                    {from.total(), from.start(r)}, from.size(r)));
    return {};
  };
  return deal;
}

// The bytes of a number in a dtype, the lowest first.
std::uint32_t bits_of(DType dtype, float value) {
  if (dtype == DType::kBF16) return bf16_bits(value);
  if (dtype == DType::kF16) return f16_bits(value);
  return std::bit_cast<std::uint32_t>(value);
}

Result<Deal> halo_exchange(const Group& group, const HostCall& host) {
  const Tensor in = host.inputs[0], out = host.outputs[0];
  TR_ASSIGN_OR_RETURN(const Halo halo, halo_of(group, host));
  const Along along = halo.pieces.along;
  const int world = group.world(), rank = group.rank();
  const auto bytes = [&](int from, int to) {
    return along.bytes(along.elems(halo.shared(from, to).count()));
  };
  const auto outbox_of = [&](int source) {
    return in_order(world, [&](int r) { return r == source ? 0 : bytes(source, r); });
  };
  Deal deal;
  deal.out = outbox_of(rank);
  for (int r = 0; r < world; ++r) deal.in.push_back(outbox_of(r)[at(rank)]);
  const std::int64_t first = halo.pieces.start(rank), own = halo.pieces.size(rank);
  deal.pack = [=, portions = deal.out](Stream& stream, std::byte* outbox) -> Status {
    for (int r = 0; r < world; ++r) {
      const Halo::Indices sent = halo.shared(rank, r);
      if (r == rank || sent.count() == 0) continue;
      TR_RETURN_IF_ERROR(copy_along(stream, along, in.raw(), {own, sent.begin - first},
                                    outbox + portions[at(r)].offset, {sent.count(), 0}, sent.count()));
    }
    return {};
  };
  const std::uint32_t fill = bits_of(in.dtype(), static_cast<float>(host.node.attrs.get_float("fill")));
  deal.finish = [=](Stream& stream, const Sources& from) -> Status {
    const std::int64_t begin = halo.begins[at(rank)], window = out.shape()[along.dim];
    TR_RETURN_IF_ERROR(stream.fill(out, fill));
    for (int r = 0; r < world; ++r) {
      const Halo::Indices got = halo.shared(r, rank);
      if (got.count() == 0) continue;
      const Along::Place place =
          r == rank ? Along::Place{own, got.begin - first} : Along::Place{got.count(), 0};
      TR_RETURN_IF_ERROR(copy_along(stream, along, r == rank ? in.raw() : from[at(r)], place, out.raw(),
                                    {window, got.begin - begin}, got.count()));
    }
    return {};
  };
  return deal;
}

}  // namespace

std::size_t Deal::outbox_bytes() const {
  std::size_t end = 0;
  for (const Portion& p : out) end = std::max(end, p.offset + p.bytes);
  for (const Portion& p : in) end = std::max(end, p.offset + p.bytes);  // what the first of two deals makes
  return portion_room(end);
}

std::size_t Deal::inbox_bytes(int rank) const {
  std::size_t bytes = 0;
  for (int r = 0; r < static_cast<int>(in.size()); ++r)
    if (r != rank) bytes += portion_room(in[at(r)].bytes);
  return bytes;
}

bool can_deal(const graph::Node& node) {
  const std::string_view op = node.def->name;
  const DType dtype = node.outputs.empty() ? DType::kU8 : node.outputs[0].dtype;
  if (op == "allreduce" || op == "reduce_scatter") return dtype == DType::kF32;
  if (op == "halo_exchange") return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
  return op == "broadcast" || op == "allgather" || op == "all_to_all";
}

Result<std::vector<Deal>> deals_of(const Group& group, const HostCall& host, const DealKernels& kernels,
                                   bool in_two) {
  const std::string_view op = host.node.def->name;
  if (op == "allreduce" && (in_two || host.inputs[0].type().num_bytes() > kSumWhole))
    return sum_in_two(group, host, kernels);
  const auto one = [&]() -> Result<Deal> {
    if (op == "allreduce") return sum_whole(group, host, kernels);
    if (op == "broadcast") return broadcast(group, host);
    if (op == "allgather") return allgather(group, host);
    if (op == "reduce_scatter") return reduce_scatter(group, host, kernels);
    if (op == "all_to_all") return all_to_all(group, host);
    return halo_exchange(group, host);
  };
  TR_ASSIGN_OR_RETURN(Deal deal, one());
  std::vector<Deal> deals;
  deals.push_back(std::move(deal));
  return deals;
}

}  // namespace trireme::comm
