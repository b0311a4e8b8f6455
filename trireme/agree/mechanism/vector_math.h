// Passes over f32 vectors on the compute pool: what rules do to weights and gradients.
//
// Vectors of one pass have one length. Elements are independent, so the cut over threads changes no bit. On a
// phantom Runtime only time passes. The Tasks keep the tensors alive.
#pragma once

#include <vector>

#include "trireme/base/function.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::agree {

// What a pass costs per element: operations, and vectors read and written (4 bytes each).
struct PassCost {
  double flops = 0;
  int reads = 0, writes = 0;
};

// Elements [begin, end) of every vector: v[i] is the start of vectors[i]. Called for disjoint stretches, from
// several threads at once.
using PassBody = Function<void(float* const* v, std::int64_t begin, std::int64_t end)>;

// The general form, for a rule's own formula. `label` has static storage. Elements from `num_elems` on are
// left alone; < 0: the whole vectors.
runtime::Task<void> run_pass(runtime::Runtime& rt, PassCost cost, std::vector<Tensor> vectors, PassBody body,
                             const char* label, std::int64_t num_elems = -1);

runtime::Task<void> fill(runtime::Runtime& rt, Tensor to, float value);
runtime::Task<void> clear(runtime::Runtime& rt, Tensor to);  // before a run: takes no virtual time
runtime::Task<void> copy(runtime::Runtime& rt, Tensor from, Tensor to);
runtime::Task<void> scale(runtime::Runtime& rt, Tensor x, float factor);                  // x *= factor
runtime::Task<void> add_scaled(runtime::Runtime& rt, Tensor to, float factor, Tensor x);  // to += factor * x
runtime::Task<void> subtract(runtime::Runtime& rt, Tensor a, Tensor b, Tensor to);        // to = a - b
runtime::Task<void> mix(runtime::Runtime& rt, Tensor to, float share, Tensor x);  // to += share * (x - to)

// A vector of the rule's own, zeros; phantom on a phantom Runtime.
Result<Tensor> new_vector(runtime::Runtime& rt, std::int64_t num_elems);
// One per vector of `like`.
Result<std::vector<Tensor>> new_vectors_like(runtime::Runtime& rt, const std::vector<Tensor>& like);

}  // namespace trireme::agree
