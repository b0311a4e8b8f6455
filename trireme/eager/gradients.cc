#include "trireme/eager/gradients.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"
#include "trireme/eager/state.h"
#include "trireme/eager/tape.h"
#include "trireme/eager/tracer.h"
#include "trireme/op/ops.h"

namespace trireme::eager {
namespace {

// A value on the tape: a leaf, or an output of a record. Handles of one value have one key.
using Key = std::pair<const void*, int>;
Key key_of(const ArrayState& state) {
  return state.record ? Key{state.record.get(), state.index} : Key{&state, -1};
}

// Lets a gradient function of an op compute with Arrays. Value{k, i} is output i of the k-th thing it asked
// for.
class ArrayGradBuilder final : public op::GradBuilder {
 public:
  ArrayGradBuilder(Context& context, const std::shared_ptr<Record>& record, std::vector<Array> grad_outputs,
                   std::vector<bool> needs)
      : context_(context),
        record_(record),
        grad_outputs_(std::move(grad_outputs)),
        needs_(std::move(needs)) {}

  int num_inputs() override { return static_cast<int>(record_->inputs.size()); }
  op::Value input(int i) override {
    const Record::Input& in = record_->inputs[static_cast<std::size_t>(i)];
    const std::uint64_t now = Tape::version(context_, *in.array);
    if (now != in.version && status_.ok())
      status_ =
          error(Code::kInvalid,
                "[eager] the gradient of {} needs its input {}{}{}, which {} changed in place since; call "
                "backward() before the update",
                record_->def->name, i, in.array->name.empty() ? "" : " ", in.array->name,
                in.array->data.storage ? in.array->data.storage->writer_op : "an update");
    return keep({Array(in.array)});
  }
  op::Value output(int i) override {
    auto state = std::make_shared<ArrayState>();
    state->context = &context_;
    state->data = record_->outputs[static_cast<std::size_t>(i)];
    state->needs_grad = true;
    state->record = record_;
    state->index = i;
    return keep({Array(std::move(state))});
  }
  op::Value grad_output(int i) override {
    const Array& g = grad_outputs_[static_cast<std::size_t>(i)];
    return g.is_empty() ? op::Value{} : keep({g});
  }
  bool needs_grad(int input) override { return needs_[static_cast<std::size_t>(input)]; }
  const TensorType& type(op::Value v) override { return at(v).type(); }
  const op::Attrs& attrs() override { return record_->attrs; }
  op::Value add(const op::OpDef& def, std::vector<op::Value> inputs, op::Attrs attrs) override {
    std::vector<Array> arrays;
    for (const op::Value v : inputs) arrays.push_back(at(v));
    std::vector<Array> outputs = context_.apply(def, arrays, std::move(attrs));
    TR_CHECK(outputs[0].ok() || !status_.ok() || outputs[0].status().code() == Code::kExhausted,
             "gradient of {}: {}", record_->def->name, outputs[0].status().to_string());
    return keep(std::move(outputs));
  }

  const Array& at(op::Value v) const {
    return kept_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }
  const Status& status() const { return status_; }

 private:
  op::Value keep(std::vector<Array> arrays) {
    kept_.push_back(std::move(arrays));
    return {static_cast<std::int32_t>(kept_.size()) - 1, 0};
  }

  Context& context_;
  std::shared_ptr<Record> record_;
  std::vector<Array> grad_outputs_;
  std::vector<bool> needs_;
  std::vector<std::vector<Array>> kept_;
  Status status_;
};

// The records that lead to `loss`, first call first.
std::vector<std::shared_ptr<Record>> records_of(const Array& loss) {
  std::vector<std::shared_ptr<Record>> found, todo{loss.state()->record};
  std::set<const Record*> seen;
  while (!todo.empty()) {
    std::shared_ptr<Record> record = std::move(todo.back());
    todo.pop_back();
    if (!record || !seen.insert(record.get()).second) continue;
    for (const Record::Input& in : record->inputs)
      if (in.array->needs_grad) todo.push_back(in.array->record);
    found.push_back(std::move(record));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  return found;
}

class Accumulator {
 public:
  Accumulator(Context& context, const Array& loss)
      : context_(context), loss_(loss), records_(records_of(loss)) {}

  // Every watched leaf that the loss was computed from.
  std::vector<std::shared_ptr<ArrayState>> leaves() const {
    std::vector<std::shared_ptr<ArrayState>> found;
    std::set<const ArrayState*> seen;
    for (const auto& record : records_)
      for (const Record::Input& in : record->inputs)
        if (in.array->needs_grad && !in.array->record && seen.insert(in.array.get()).second)
          found.push_back(in.array);
    return found;
  }

  Status run(const std::set<Key>& wrt) {
    depends_ = wrt;
    for (const auto& record : records_) {
      const bool any = std::any_of(record->inputs.begin(), record->inputs.end(),
                                   [&](const Record::Input& in) { return depends(*in.array); });
      for (std::size_t k = 0; any && k < record->outputs.size(); ++k)
        if (is_floating(record->outputs[k].type.dtype)) depends_.insert({record.get(), static_cast<int>(k)});
    }
    if (!depends(*loss_.state())) return {};
    parts_[key_of(*loss_.state())].push_back(
        {std::numeric_limits<std::uint64_t>::max(), 0, context_.full(1, loss_.type())});
    for (auto at = records_.rbegin(); at != records_.rend(); ++at) TR_RETURN_IF_ERROR(visit(*at));
    return {};
  }

  // The finished gradient, or an empty Array.
  Array gradient(const ArrayState& state) { return finish(key_of(state)); }

 private:
  struct Part {
    std::uint64_t user;  // sequence and
    std::size_t input;
    Array grad;
  };
  bool depends(const ArrayState& state) const { return depends_.contains(key_of(state)); }

  // The sum over the uses of a value, in the order of the uses.
  Array finish(const Key& key) {
    const auto at = parts_.find(key);
    if (at == parts_.end()) return {};
    std::vector<Part>& parts = at->second;
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return a.user != b.user ? a.user < b.user : a.input < b.input;
    });
    Array sum = parts[0].grad;
    for (std::size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i].grad;
    parts = {{0, 0, sum}};
    return sum;
  }

  Status visit(const std::shared_ptr<Record>& record) {
    std::vector<Array> grad_outputs;
    bool any = false;
    for (std::size_t k = 0; k < record->outputs.size(); ++k) {
      grad_outputs.push_back(finish({record.get(), static_cast<int>(k)}));
      any = any || !grad_outputs.back().is_empty();
    }
    std::vector<bool> needs;
    for (const Record::Input& in : record->inputs) needs.push_back(depends(*in.array));
    if (!any || std::find(needs.begin(), needs.end(), true) == needs.end()) return {};
    if (record->def->grad == nullptr)
      return error(Code::kInvalid,
                   "[eager] op '{}' has no gradient, but is on the way to the loss; detach its input or use "
                   "another op",
                   record->def->name);
    ArrayGradBuilder builder(context_, record, std::move(grad_outputs), needs);
    Result<op::Grads> grads = record->def->grad(builder);
    TR_RETURN_IF_ERROR(builder.status());
    if (!grads.ok())
      return grads.status().with_prefix(fmt::format("[eager] gradient of {}: ", record->def->name));
    for (std::size_t i = 0; i < needs.size(); ++i)
      if (needs[i] && !(*grads)[i].is_null())
        parts_[key_of(*record->inputs[i].array)].push_back({record->sequence, i, builder.at((*grads)[i])});
    return {};
  }

  Context& context_;
  Array loss_;
  std::vector<std::shared_ptr<Record>> records_;
  std::set<Key> depends_;
  std::map<Key, std::vector<Part>> parts_;
};

Status check_loss(const Array& loss) {
  TR_RETURN_IF_ERROR(loss.status());
  if (loss.shape().num_elems() != 1 || !is_floating(loss.dtype()))
    return error(Code::kInvalid, "[eager] gradients of {}: expected a floating scalar; sum it first",
                 loss.type().to_string());
  if (!loss.state()->needs_grad)
    return error(Code::kInvalid,
                 "[eager] the loss was computed from no parameter and no watched array, or under no_grad()");
  return {};
}

}  // namespace

std::vector<Array> gradients(const Array& loss, std::span<const Array> wrt, GradientOptions options) {
  if (loss.context() == nullptr) return std::vector<Array>(wrt.size(), loss);
  Context& context = *loss.context();
  const auto fail = [&](Status s) {
    return std::vector<Array>(wrt.size(), Tape::poisoned(context, std::move(s)));
  };
  if (Status s = check_loss(loss); !s.ok()) return fail(std::move(s));
  std::set<Key> keys;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (!wrt[i].ok()) return fail(wrt[i].status());
    if (!wrt[i].state()->needs_grad)
      return fail(error(Code::kInvalid, "[eager] gradients: array {} ({}) is not watched; use watched()", i,
                        wrt[i].type().to_string()));
    keys.insert(key_of(*wrt[i].state()));
  }
  const Tape::Recording recording(context, options.create_graph);
  Accumulator accumulator(context, loss);
  if (Status s = accumulator.run(keys); !s.ok()) return fail(std::move(s));
  std::vector<Array> out;
  for (const Array& a : wrt) {
    const Array g = accumulator.gradient(*a.state());
    out.push_back(g.is_empty() ? context.full(0, a.type()) : g);
  }
  return out;
}

void backward(const Array& loss, bool create_graph) {
  Context& context = *loss.context();
  if (Status s = check_loss(loss); !s.ok()) {
    Tape::poisoned(context, std::move(s));
    return;
  }
  const Tape::Recording recording(context, create_graph);
  Accumulator accumulator(context, loss);
  const std::vector<std::shared_ptr<ArrayState>> leaves = accumulator.leaves();
  std::set<Key> keys;
  for (const auto& leaf : leaves) keys.insert(key_of(*leaf));
  if (loss.state()->record == nullptr) keys.insert(key_of(*loss.state()));
  const Status status = accumulator.run(keys);
  for (const auto& leaf : leaves) {
    const Array own(leaf), old = own.grad();
    Array g = status.ok() ? accumulator.gradient(*leaf) : Tape::poisoned(context, status);
    if (g.is_empty()) continue;
    Tape::set_grad(context, leaf, old.is_empty() ? g : old + g);
  }
}

}  // namespace trireme::eager
