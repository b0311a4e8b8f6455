// Pushes of factors: the gradient of a part that is a matrix comes as the two thin ones whose product it is,
// and the server multiplies (Chilimbi, Suzue, Apacible, Kalyanaraman, Project Adam, OSDI 2014). Both sides
// cut the factors in the same way: a slice with rows [a, b) of the matrix needs those of u, and all of v.
#pragma once

#include <functional>
#include <memory>

#include "trireme/exec/executor.h"
#include "trireme/server/layout.h"
#include "trireme/tensor/tensor.h"

namespace trireme::server {

// One part of a key: a matrix of `rows` x `cols` (the part's Key::Part::row), u of `depth` numbers per row, v
// of `depth` per column.
struct FactorPart {
  std::int64_t rows = 0, cols = 0, depth = 0;
  bool deep_u = true, deep_v = true;        // they lie as [depth, ...]; false: as [..., depth]
  std::int64_t u_offset = 0, v_offset = 0;  // in what a worker pushes
};
// A key whose pushes are factors; no parts: they are values.
struct FactorKey {
  std::vector<FactorPart> parts;  // as the key has them
  std::int64_t num_elems = 0;     // of what a worker pushes
};

// What of the factors goes to one slice: of each piece the rows of u, then v.
struct FactorSlice {
  struct Piece {
    std::size_t part = 0;
    FactorPart whole;
    std::int64_t first_row = 0, num_rows = 0;
    std::int64_t u_at = 0, v_at = 0;  // in the message
    std::int64_t to = 0;              // where the product goes in the slice

    std::int64_t u_elems() const { return num_rows * whole.depth; }
    std::int64_t v_elems() const { return whole.cols * whole.depth; }
    std::int64_t count() const { return num_rows * whole.cols; }
    TensorType u_type() const { return type(num_rows, whole.deep_u); }
    TensorType v_type() const { return type(whole.cols, whole.deep_v); }

   private:
    TensorType type(std::int64_t wide, bool deep) const {
      return {DType::kF32, deep ? Shape{whole.depth, wide} : Shape{wide, whole.depth}};
    }
  };
  std::vector<Piece> pieces;   // none: pushes of the slice are values
  std::int64_t num_elems = 0;  // of the message

  bool is_on() const { return !pieces.empty(); }
  std::uint64_t num_bytes() const { return static_cast<std::uint64_t>(num_elems) * sizeof(float); }
  // Writes the message of `factors`, laid out as the FactorKey says.
  void pack(const float* factors, float* message) const;
};

// The factors of the slices of a layout, by their ids; nothing where no key has factors. kInvalid: factors
// that do not fit the parts, or a slice that cuts a row.
Result<std::vector<FactorSlice>> slice_factors(std::span<const FactorKey> factors, const ServerLayout& layout,
                                               std::span<const Key> keys);

// The product of one piece: inputs "u" (its rows) and "v", output "grad".
using MakeProduct = std::function<Result<std::shared_ptr<const exec::CompiledGraph>>(
    std::uint32_t key, const FactorSlice::Piece& piece)>;

}  // namespace trireme::server
