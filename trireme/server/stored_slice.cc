#include "trireme/server/stored_slice.h"

#include <algorithm>

#include "trireme/runtime/inline_context.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::server {

Tensor StoredSlice::view(const Tensor& like, const StoredPart& part) const {
  const std::size_t offset = like.offset_bytes() + static_cast<std::size_t>(part.offset) * sizeof(float);
  return Tensor(like.buffer(), {DType::kF32, {part.count}}, offset);
}

StoredSlice describe_slice(const Key& key, const Slice& slice) {
  StoredSlice s;
  s.slice = slice;
  for (const Key::Part& p : parts_of(key)) {
    const std::int64_t begin = std::max(slice.begin, p.offset);
    const std::int64_t end = std::min(slice.end, p.offset + p.count);
    if (begin >= end) continue;
    StoredPart part;
    part.name =
        end - begin == p.count ? p.name : fmt::format("[{},{})/{}", begin - p.offset, end - p.offset, p.name);
    part.slice = slice.id;
    part.offset = begin - slice.begin;
    part.count = end - begin;
    if (p.row > 1 && !s.rows) s.rows = StoredSlice::Rows{s.parts.size(), p.row, part.count / p.row};
    s.parts.push_back(std::move(part));
  }
  return s;
}

Result<StoredSlice> make_stored_slice(Device& device, const Key& key, const Slice& slice) {
  StoredSlice s = describe_slice(key, slice);
  TR_ASSIGN_OR_RETURN(s.values, allocate_zeros(device, {DType::kF32, {s.num_elems()}}));
  return s;
}

Device& device_of(const runtime::Runtime& rt) { return rt.is_phantom() ? phantom_device() : cpu_device(); }

cost::OpCost pass_cost(double elems, double bytes) {
  cost::OpCost cost;
  cost.flops = cost.work = elems;
  cost.bytes = bytes;
  cost.depth = 1;
  return cost;
}

runtime::Task<void> short_pass(runtime::Runtime& rt, cost::OpCost cost, runtime::ComputeFn fn,
                               const char* label) {
  constexpr double kOnLoopBytes = 400 << 10;  // of traffic: the sum of two vectors of 128 KiB
  if (cost.bytes > kOnLoopBytes) {
    co_await rt.compute(cost, std::move(fn), 1, label);
  } else if (!rt.is_phantom()) {
    runtime::InlineContext here;
    fn(here);
  }
}

}  // namespace trireme::server
