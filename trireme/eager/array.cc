#include "trireme/eager/array.h"

#include "trireme/eager/context.h"
#include "trireme/eager/engine.h"
#include "trireme/eager/gradients.h"
#include "trireme/eager/ops.h"
#include "trireme/eager/state.h"
#include "trireme/eager/tracer.h"

namespace trireme::eager {

Record::~Record() {
  std::vector<Input> todo = std::move(inputs);
  while (!todo.empty()) {
    const std::shared_ptr<ArrayState> array = std::move(todo.back().array);
    todo.pop_back();
    if (array.use_count() > 1 || !array->record || array->record.use_count() > 1) continue;
    for (Input& in : array->record->inputs) todo.push_back(std::move(in));
    array->record->inputs.clear();
  }
}

Status Array::status() const {
  if (is_empty()) return error(Code::kInvalid, "[eager] an empty Array has no value");
  return state_->status;
}

const TensorType& Array::type() const {
  static const TensorType kNothing;
  return is_empty() ? kNothing : state_->data.type;
}

Context* Array::context() const { return is_empty() ? nullptr : state_->context; }

Result<Tensor> Array::tensor() const {
  TR_RETURN_IF_ERROR(status());
  if (state_->data.tensor.is_null())
    return error(
        Code::kInvalid,
        "[eager] a traced Array has no value: got a read inside trace(), expected only ops; return the "
        "Array and run the graph");
  if (state_->context->engine_) state_->context->engine_->wait_for(*state_->data.storage);
  return state_->data.tensor;
}

Result<double> Array::item() const {
  TR_ASSIGN_OR_RETURN(const Tensor t, tensor());
  if (t.shape().num_elems() != 1)
    return error(Code::kInvalid, "[eager] item() of {}: expected one element; sum it or read values()",
                 t.type().to_string());
  switch (t.dtype()) {
    case DType::kF32:
      return static_cast<double>(*t.data<float>());
    case DType::kF64:
      return *t.data<double>();
    case DType::kI64:
      return static_cast<double>(*t.data<std::int64_t>());
    case DType::kI32:
      return static_cast<double>(*t.data<std::int32_t>());
    case DType::kU8:
      return static_cast<double>(*t.data<std::uint8_t>());
    case DType::kBool:
      return *t.data<bool>() ? 1.0 : 0.0;
    default:
      return error(Code::kInvalid, "[eager] item() of {}: cast it to f32 first", t.type().to_string());
  }
}

Array Array::detached() const {
  if (!ok()) return *this;
  if (state_->is_parameter && !state_->context->tracer_) {  // a copy: the parameter will change
    const NoGrad off(*state_->context);
    return eager::reshape(*this, shape());
  }
  auto state = std::make_shared<ArrayState>();
  state->context = state_->context;
  state->data = state_->data;
  // Traced, a parameter is the value its variable has now.
  if (state_->context->tracer_) state->data = state_->context->tracer_->datum(*this);
  return Array(std::move(state));
}

Array Array::watched() const {
  Array leaf = detached();
  if (leaf.ok() && is_floating(leaf.dtype())) leaf.state_->needs_grad = true;
  return leaf;
}

void Array::backward(bool create_graph) const {
  if (!is_empty() && state_->context) eager::backward(*this, create_graph);
}

Array Array::grad() const {
  if (is_empty()) return {};
  if (state_->context && state_->context->tracer_) return state_->context->tracer_->grad(*state_);
  return state_->grad;
}

void Array::clear_grad() const {
  if (is_empty()) return;
  if (state_->context && state_->context->tracer_)
    state_->context->tracer_->set_grad(state_, {});
  else
    state_->grad = {};
}

Array Array::sum() const { return eager::sum(*this); }
Array Array::mean() const { return eager::mean(*this); }
Array Array::reshape(const Shape& shape) const { return eager::reshape(*this, shape); }

}  // namespace trireme::eager
