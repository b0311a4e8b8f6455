#include "trireme/comm/sum/price.h"

#include <algorithm>

#include "trireme/comm/group.h"

namespace trireme::comm {
namespace {

collective::ScheduleSpec sum_spec(const SumShape& shape, std::int64_t num_elems,
                                  const std::string& collective) {
  collective::ScheduleSpec spec{.world = shape.workers(), .count = num_elems};
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, collective);
  if (!algorithm.ok() || !(*algorithm)->fixed_order) return spec;
  spec.leaf_runs = shape.owners;
  spec.num_leaves = shape.num_shards;
  return spec;
}

double price_seconds(const SumShape& shape, std::int64_t num_elems, const std::string& collective,
                     bool direct, const cost::CommModel& comm) {
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, collective);
  collective::ScheduleSpec spec = sum_spec(shape, num_elems, collective);
  spec.peer_memory = direct;
  if (!algorithm.ok() || !(*algorithm)->applicable(spec).ok()) return 0;
  return to_seconds(collective::price_time((*algorithm)->price(spec), comm));
}

}  // namespace

std::int32_t SumShape::most_shards() const {
  std::int32_t most = 1;
  for (const collective::LeafRun& run : owners) most = std::max(most, run.count);
  return most;
}

namespace {

std::vector<std::int64_t> part_sizes(std::int64_t num_elems, int workers) {
  std::vector<std::int64_t> sizes;
  for (int w = 0; w < workers; ++w) sizes.push_back(chunk_of(num_elems, sizeof(float), w, workers).size());
  return sizes;
}

// Half of the way of an allreduce through mapped memory: nothing is spread.
SumPrice scattered_price(const SumShape& shape, const cost::Rates& rates) {
  SumShape whole = shape;
  whole.scattered = 0;
  SumPrice p = dense_price(whole, shape.scattered, rates);
  if (rates.direct) {
    p.wire_seconds /= 2;
    p.bytes_sent /= 2;
    return p;
  }
  collective::ScheduleSpec spec = sum_spec(shape, shape.scattered, shape.collective);
  spec.kind = collective::Kind::kReduceScatter;
  spec.counts = part_sizes(shape.scattered, shape.workers());
  const auto algorithm = collective::find_algorithm(spec.kind, shape.collective);
  if (!algorithm.ok() || !(*algorithm)->applicable(spec).ok()) return p;
  const collective::Price price = (*algorithm)->price(spec);
  p.wire_seconds = to_seconds(collective::price_time(price, rates.comm));
  p.add_seconds = to_seconds(collective::price_parts(price, rates.comm).additions);
  p.bytes_sent = price.bytes_per_rank;
  return p;
}

}  // namespace

SumPrice parts_price(const SumShape& shape, std::int64_t num_elems, const cost::Rates& rates) {
  SumPrice p;
  if (shape.workers() <= 1) return p;
  collective::ScheduleSpec spec{.kind = collective::Kind::kAllgather, .world = shape.workers()};
  spec.counts = part_sizes(num_elems, shape.workers());
  spec.count = num_elems;
  const auto algorithm = collective::select_algorithm(spec, rates.comm);
  if (!algorithm.ok()) return p;
  const collective::Price price = (*algorithm)->price(spec);
  p.wire_seconds = to_seconds(collective::price_time(price, rates.comm));
  p.bytes_sent = price.bytes_per_rank;
  return p;
}

SumPrice dense_price(const SumShape& shape, std::int64_t num_elems, const cost::Rates& rates) {
  SumPrice p;
  if (shape.workers() <= 1) return p;
  if (shape.scattered > 0) {
    p = scattered_price(shape, rates);
    if (num_elems == shape.scattered) return p;
    SumShape rest = shape;
    rest.scattered = 0;
    const SumPrice more = dense_price(rest, num_elems - shape.scattered, rates);
    p.wire_seconds += more.wire_seconds;
    p.add_seconds += more.add_seconds;
    p.bytes_sent += more.bytes_sent;
    return p;
  }
  // Sums through mapped memory are made in one or two rounds of reads, whichever is cheaper (comm/direct.h).
  p.wire_seconds = !rates.direct ? price_seconds(shape, num_elems, shape.collective, false, rates.comm)
                                 : std::min(price_seconds(shape, num_elems, "one-shot", true, rates.comm),
                                            price_seconds(shape, num_elems, "two-shot", true, rates.comm));
  const auto algorithm = collective::find_algorithm(collective::Kind::kAllreduce, shape.collective);
  const collective::ScheduleSpec spec = sum_spec(shape, num_elems, shape.collective);
  if (!algorithm.ok() || !(*algorithm)->applicable(spec).ok()) return p;
  const collective::Price price = (*algorithm)->price(spec);
  p.bytes_sent = price.bytes_per_rank;
  if (!rates.direct) p.add_seconds = to_seconds(collective::price_parts(price, rates.comm).additions);
  return p;
}

collective::Price gather_price(const SumShape& shape, std::int64_t elems, const cost::Rates& rates) {
  if (shape.workers() <= 1) return {};
  collective::ScheduleSpec spec{.kind = collective::Kind::kAllgather, .world = shape.workers()};
  for (const auto& run : shape.owners) spec.counts.push_back(run.count * elems);
  spec.count = shape.num_shards * elems;
  spec.peer_memory = rates.direct;
  const auto algorithm = collective::select_algorithm(spec, rates.comm);
  return algorithm.ok() ? (*algorithm)->price(spec) : collective::Price{};
}

SumPrice gather_seconds(const SumShape& shape, const std::vector<std::int64_t>& turns,
                        const cost::Rates& rates) {
  SumPrice p;
  if (shape.workers() <= 1) return p;
  for (const std::int64_t elems : turns) {
    const collective::Price price = gather_price(shape, elems, rates);
    p.wire_seconds += to_seconds(collective::price_time(price, rates.comm));
    p.bytes_sent += price.bytes_per_rank;
  }
  return p;
}

std::int64_t floats(double bytes) { return static_cast<std::int64_t>(bytes / sizeof(float)) + 1; }

double coding_seconds(const SumShape& shape, double messages, const cost::Rates& rates) {
  const double bytes = messages * shape.code_bytes;
  const cost::OpCost cost{.flops = bytes / 4, .bytes = bytes};
  return to_seconds(cost::compute_time(cost, rates.machine, shape.threads));
}

}  // namespace trireme::comm
