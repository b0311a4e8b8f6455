// RowLetter: the rows of one push or pull that lie in one slice, side by side as they travel.
#pragma once

#include "trireme/net/transport.h"
#include "trireme/server/stored_slice.h"

namespace trireme::server {

struct RowLetter {
  Slice slice;
  std::int64_t row = 1;               // elements
  std::int64_t num_rows = 0;          // phantoms have no numbers
  std::vector<std::int64_t> numbers;  // in the slice
  std::vector<std::int64_t> from;     // their positions in the tensors
  std::vector<std::byte> memory;      // of the letter, until it has left or come

  // The numbers and then these rows of `values`.
  net::View pack(const Tensor& values);
  net::View pack_numbers();
  // For the answer.
  net::View room();
  // The answer's rows to their places.
  void unpack(const Tensor& into) const;
};

// One per slice. `key` has one part with rows; `rows` i64 [n], all inside it.
std::vector<RowLetter> split_rows(const Key& key, std::span<const Slice> slices, const Tensor& rows);

}  // namespace trireme::server
