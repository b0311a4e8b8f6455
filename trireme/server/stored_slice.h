// StoredSlice: the memory of one slice at its server: the values, and which parts they are of.
#pragma once

#include <optional>

#include "trireme/runtime/runtime.h"
#include "trireme/runtime/task.h"
#include "trireme/server/server.h"

namespace trireme::server {

struct StoredSlice {
  Slice slice;
  Tensor values;                  // f32 [elements of the slice]
  std::vector<StoredPart> parts;  // in order of offset
  // The part whose rows may be pushed and pulled.
  struct Rows {
    std::size_t part = 0;
    std::int64_t row = 1;  // elements
    std::int64_t count = 0;
  };
  std::optional<Rows> rows;

  std::int64_t num_elems() const { return slice.end - slice.begin; }
  std::uint64_t num_bytes() const { return static_cast<std::uint64_t>(num_elems()) * sizeof(float); }
  // The part of memory that is laid out like `values`.
  Tensor view(const Tensor& like, const StoredPart& part) const;
};

// The parts of `slice`, without memory.
StoredSlice describe_slice(const Key& key, const Slice& slice);
// Zeros.
Result<StoredSlice> make_stored_slice(Device& device, const Key& key, const Slice& slice);

// Where a Runtime's tensors live.
Device& device_of(const runtime::Runtime& rt);
// A pass over memory: reads and writes `bytes`, with one operation per element.
cost::OpCost pass_cost(double elems, double bytes);
// Runs `fn` on one thread: on the pool, or here and now where that takes a few microseconds, which is less
// than the way to the pool and back.
runtime::Task<void> short_pass(runtime::Runtime& rt, cost::OpCost cost, runtime::ComputeFn fn,
                               const char* label);

}  // namespace trireme::server
