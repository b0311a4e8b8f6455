// Array: a tensor of an imperative program. Ops on Arrays run at once (or ahead, engine.h) through the same
// OpDefs and kernels as graphs, and leave a tape behind them, from which gradients are made.
//
//   Context ctx;
//   Array w = ctx.parameter("w", initial);
//   Array loss = square(matmul(x, w) - y).sum();
//   loss.backward();
//   apply_sgd(w, w.grad(), 0.1);
//
// An Array is a handle: copies are the same Array. Its value never changes, unless it is a parameter, which
// the mutating ops (apply_sgd, assign...) change in place. The tape is held by the Arrays computed: what
// nothing refers to any more is gone, memory too.
//
// Failures. A call that fails gives a poisoned Array: it carries the Status, every op on it passes it on, and
// reading it reports it. The Context keeps the first failure (Context::status). Nothing is thrown.
//
// Not thread-safe: a Context and its Arrays belong to one thread. The Context outlives its Arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/tensor/tensor.h"

namespace trireme::eager {

class Context;
struct ArrayState;

class Array {
 public:
  Array() = default;  // empty: no value; ops on it fail
  explicit Array(std::shared_ptr<ArrayState> state) : state_(std::move(state)) {}

  bool is_empty() const { return state_ == nullptr; }
  bool ok() const { return status().ok(); }
  Status status() const;
  const TensorType& type() const;  // of a poisoned Array: f32[]
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  // Null for an empty Array and for a poisoned one that came of empty ones.
  Context* context() const;

  // The value, after waiting for it where calls run ahead. A view, row-major: do not write to it. A
  // parameter's changes with the next update; copy it, or read values().
  Result<Tensor> tensor() const;
  // Copies of the elements. kInvalid when T is not the element type.
  template <typename T>
  Result<std::vector<T>> values() const;
  Result<double> item() const;  // of a floating or integer Array with one element

  // The same value as a new leaf: the tape does not lead past it. watched(): gradients are made for it.
  Array detached() const;
  Array watched() const;

  // Makes the gradients of this Array (floating, one element) with respect to every parameter and watched
  // leaf it was computed from, and adds them to their grad(). With `create_graph` the gradients are on the
  // tape too. A failure is told by the Context's status and by poisoned gradients.
  void backward(bool create_graph = false) const;
  // What backward() made so far, or an empty Array.
  Array grad() const;
  void clear_grad() const;

  // Shorthands of ops.h.
  Array sum() const;
  Array mean() const;
  Array reshape(const Shape& shape) const;

  const std::shared_ptr<ArrayState>& state() const { return state_; }  // for eager itself

 private:
  std::shared_ptr<ArrayState> state_;
};

template <typename T>
Result<std::vector<T>> Array::values() const {
  TR_ASSIGN_OR_RETURN(const Tensor t, tensor());
  if (t.dtype() != DTypeOf<T>::value)
    return error(Code::kInvalid, "[eager] elements are {}, read as {}; cast first", dtype_name(t.dtype()),
                 dtype_name(DTypeOf<T>::value));
  const T* first = t.data<T>();
  return std::vector<T>(first, first + t.shape().num_elems());
}

}  // namespace trireme::eager
