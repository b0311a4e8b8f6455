// OpDef: one value that says all about an op. Defined in op/<family>/<op>.cc, listed in op/table.cc.
//
// An OpDef is immutable data plus pure functions. A missing optional field (grad, cost, layout) means that
// passes which need it decline politely. Host ops (op/comm, op/resource) have no kernel: whoever runs the
// graph injects one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/cost/cost.h"
#include "trireme/tensor/tensor.h"

namespace trireme::op {

// ---- Attributes

using AttrValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, DType>;

// Typed attributes in the order of the OpDef's declaration. Complete after `complete_attrs`: every declared
// name is there.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items) : items_(items) {}
  const AttrValue* find(std::string_view name) const;
  void set(std::string name, AttrValue value);
  std::int64_t get_int(std::string_view name) const;  // invariant: declared with that type
  double get_float(std::string_view name) const;
  bool get_bool(std::string_view name) const;
  const std::string& get_text(std::string_view name) const;
  const std::vector<std::int64_t>& get_ints(std::string_view name) const;
  DType get_dtype(std::string_view name) const;
  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
};

struct AttrSpec {
  std::string_view name;
  AttrValue default_value;  // also fixes the type
  std::string_view doc;
  bool required = false;
};

// ---- Gradients

// An edge of the graph under construction: output `index` of node `node`.
struct Value {
  std::int32_t node = -1;
  std::int32_t index = 0;
  bool is_null() const { return node < 0; }
  friend bool operator==(const Value&, const Value&) = default;
};

struct OpDef;

// ---- Dtypes

// Which dtypes input 0 may have (inputs that go with it have the same one): a set of bits 1 << DType.
using DTypeSet = std::uint16_t;
constexpr DTypeSet only(DType d) { return static_cast<DTypeSet>(1U << static_cast<unsigned>(d)); }
constexpr bool contains(DTypeSet set, DType d) { return (set & only(d)) != 0; }
inline constexpr DTypeSet kFloats =
    only(DType::kF64) | only(DType::kF32) | only(DType::kBF16) | only(DType::kF16);
inline constexpr DTypeSet kIndices = only(DType::kI64) | only(DType::kI32);
inline constexpr DTypeSet kNumeric = kFloats | kIndices | only(DType::kU8);
inline constexpr DTypeSet kAnyDType = kNumeric | only(DType::kBool);

// ---- Forms

// The order of an operand's dimensions in memory. kChannelsLast: [N,H,W,C] for an op that sees [N,C,H,W], and
// [O,KH,KW,C] for a filter; only where there are four dimensions.
enum class Order : std::uint8_t { kPlain, kChannelsLast };

// How an operand of a node differs from what its op is defined on.
struct Form {
  std::optional<DType> dtype = {};  // that the op sees of an input, or that is made of its output; none: the
                                    // operand's own
  Order order = Order::kPlain;
  bool is_plain() const { return !dtype && order == Order::kPlain; }
  friend bool operator==(const Form&, const Form&) = default;
};

// One form per input and output of a node, or none at all where all of them are plain. op/forms.h says what
// they mean for types, costs and the reference kernel.
struct Forms {
  std::vector<Form> inputs, outputs;
  bool is_plain() const;
  bool casts() const;  // some operand has another dtype
  friend bool operator==(const Forms&, const Forms&) = default;
};
const Forms& plain_forms();

// What a gradient function builds with. Implemented by graph (and by the imperative tape).
class GradBuilder {
 public:
  virtual ~GradBuilder() = default;
  virtual int num_inputs() = 0;
  virtual Value input(int i) = 0;
  virtual Value output(int i) = 0;
  // Gradient of the loss with respect to output i; null when nothing depends on it.
  virtual Value grad_output(int i) = 0;
  virtual bool needs_grad(int input) = 0;  // false: leave that Value null
  virtual const TensorType& type(Value v) = 0;
  virtual const Attrs& attrs() = 0;
  // Adds a node; the first output is returned, others are {node, 1...}. A failing inference aborts: gradients
  // are right by test.
  virtual Value add(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {}) = 0;

  // Shorthands over add().
  Value mul(Value a, Value b);
  Value sub(Value a, Value b);
  Value sum(Value a, Value b);
  Value neg(Value a);
  Value scale(Value a, double factor);
  Value zeros_like(Value a);
  Value ones_like(Value a);
  // Sums `g` over broadcast dimensions so that it gets the shape of `like`.
  Value reduce_to_shape_of(Value g, Value like);
};

using Grads = std::vector<Value>;  // one per input; null where there is none

// ---- Kernels

// Threads of one kernel: exactly `width` fixed slices, so results depend on the width and on nothing else.
class Parallel {
 public:
  virtual ~Parallel() = default;
  virtual int width() const = 0;
  virtual void parallel_for(std::int64_t n,
                            const std::function<void(std::int64_t, std::int64_t, int)>& body) = 0;
};
Parallel& serial();  // width 1, runs inline

// State that a fast kernel prepared once for its shapes (a oneDNN primitive). Owned by the compiled graph:
// const use.
class KernelState {
 public:
  virtual ~KernelState() = default;
};

struct KernelArgs {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  const Attrs& attrs;
  std::span<std::byte> workspace;  // as large as the kernel asked for, 64-byte aligned, contents undefined
  Parallel& parallel;
  const KernelState* state = nullptr;

  const Tensor& in(int i) const { return inputs[static_cast<std::size_t>(i)]; }
  const Tensor& out(int i) const { return outputs[static_cast<std::size_t>(i)]; }
};

// Never called with phantom tensors, nor with outputs that overlap inputs unless the traits allow it.
using KernelFn = void (*)(KernelArgs&);

// What is known when a kernel is chosen.
struct KernelQuery {
  const OpDef& def;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;
  const Attrs& attrs;
  int width = 1;                       // of the Parallel it will get
  const Forms& forms = plain_forms();  // types are the operands' own, in memory
};

// The op of a row that any op may use.
inline constexpr const char* kAnyOp = "*";

// A row of kernel/<device>/table.cc. The first applicable row of an op wins, unless the plan names one.
struct KernelRow {
  const char* op;
  const char* name;  // "blas", "onednn": stable, written to plans
  KernelFn run;
  bool (*applicable)(const KernelQuery&) = nullptr;              // null: always
  std::size_t (*workspace_bytes)(const KernelQuery&) = nullptr;  // null: none
  std::unique_ptr<KernelState> (*prepare)(const KernelQuery&) = nullptr;
  bool (*takes)(const Forms&) = nullptr;  // null: plain operands only
};

// ---- Layout rules

// What one axis of the mesh does to an operand: the dimension that is cut over the axis' positions, or one of
// these.
inline constexpr int kReplicate = -1;   // every position has the same values
inline constexpr int kPartial = -2;     // the values of all positions must be added
inline constexpr int kPartialMax = -3;  // the greatest value of all positions counts
struct AxisCut {
  int dim = kReplicate;
  // The dimension is so many equal blocks one after the other, and each of them is cut: a position has a part
  // of every block, as of the columns of one matrix for queries, keys and values.
  int blocks = 1;
  // Blocks are cut between groups of so many indices: channels times pixels between channels. Blocks times
  // unit divide the dimension.
  std::int64_t unit = 1;
  constexpr AxisCut(int d, int b = 1, std::int64_t u = 1)  // NOLINT(google-explicit-constructor)
      : dim(d), blocks(b), unit(u) {}
  constexpr bool cuts() const { return dim >= 0; }
  std::string to_text() const;  // "whole", "partial sum", "dim 1", "dim 1 in 3 blocks of 16-index units"
  friend constexpr bool operator==(const AxisCut&, const AxisCut&) = default;
};

// One way to cut an op over the positions of an axis. Parts of a dimension differ by at most one unit, longer
// ones first. All cut operands have equally many units in a block, except where rules rewrite by indices.
struct LayoutOption {
  std::vector<AxisCut> inputs, outputs;
  // The op at the shapes of the parts would be wrong: OpDef::cut says what a position computes. Every
  // position then has at least one unit of each block.
  bool rewritten = false;
  // Where rewritten: it does not matter which indices a position has. An option that is not rewritten is of
  // that kind, since a position does not know where its part begins.
  bool any_indices = false;
};

// The same way to cut an op in other parts: every block of every cut operand is `blocks` blocks, each cut in
// units that are `unit` times as large. Nothing where the option depends on which indices a position has.
// The caller sees to it that the dimensions are multiples of the blocks and units that result.
std::optional<LayoutOption> refined(const LayoutOption& option, int blocks, std::int64_t unit);

// Inputs in which an op is linear. Where they are partial sums and its other inputs are replicated, its
// outputs are partial sums: positions may be added after the op instead of before.
struct LinearIn {
  std::uint32_t inputs = 0;  // bits 1 << input; kAllInputs: every one
  bool together = false;     // all of them at once (a + b), else one at a time (a * b)
};
inline constexpr std::uint32_t kAllInputs = 0xFFFFFFFF;

// What OpDef::cut builds with: the nodes that one position computes instead of the op. Implemented by
// parallel, and by the test that proves rules by cutting.
class CutBuilder {
 public:
  virtual ~CutBuilder() = default;
  virtual const LayoutOption& option() = 0;
  virtual const Attrs& attrs() = 0;  // of the op on whole operands
  virtual const TensorType& whole_input(int i) = 0;
  virtual const TensorType& whole_output(int k) = 0;
  virtual int num_parts() = 0;
  // For sizes only: positions whose parts have equal sizes share a graph. begin_of() is for the rest.
  virtual int position() = 0;

  virtual Value input(int i) = 0;  // of this position, as the option lays it out
  virtual const TensorType& type(Value v) = 0;
  // Adds a node; the first output is returned, others are {node, 1...}. A node that an earlier rule added
  // with equal inputs and attributes is used again, collectives too. A failing inference aborts.
  virtual Value add(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {}) = 0;
  // i64[]: the first index of this position's part of a dimension of `size`.
  virtual Value begin_of(std::int64_t size) = 0;

  // Collectives over all positions of the axis. kPartial or kPartialMax becomes replicated.
  virtual Value reduce(Value partial, int kind) = 0;
  // A tensor whose dimension `dim` of `size` is cut becomes the indices [begins[p], ends[p]) of the whole at
  // position p, whoever has them. Indices below 0 and from `size` on are `fill`.
  virtual Value window(Value part, int dim, std::int64_t size, std::vector<std::int64_t> begins,
                       std::vector<std::int64_t> ends, double fill) = 0;
};

// Sizes of the parts of a dimension, and where they begin.
std::vector<std::int64_t> part_sizes(std::int64_t size, int num_parts);
std::vector<std::int64_t> part_begins(std::int64_t size, int num_parts);
// The same for a dimension that is cut as `cut` says: what every position has of all blocks together.
std::vector<std::int64_t> part_sizes(const AxisCut& cut, std::int64_t size, int num_parts);

// ---- Traits

enum Trait : std::uint32_t {
  kNoTraits = 0,
  kElementwise = 1U << 0,  // output element i depends on input elements i only (after broadcasting)
  kInPlaceOk = 1U << 1,    // output 0 may share memory with input 0 of the same type
  kHostOp = 1U << 2,       // no kernel: exec/host_op.h
  kStateful = 1U << 3,     // reads or writes variables: never merged, folded or dropped when fetched
  kRandom = 1U << 4,       // has a `stream` attribute and takes (key, step) and, over a batch, sample ids
  kFeed = 1U << 5,         // the value comes from outside (input, variable, constant)
  kMutates = 1U << 6,      // writes its inputs listed in OpDef::mutated_inputs
  kTypesOnly = 1U << 7,    // looks at the types of its inputs, never at their elements
};

// ---- OpDef

struct OpDef {
  std::string_view name;
  std::string_view doc;
  std::string_view family;
  int num_inputs = 0;   // -1: any number, infer says
  int num_outputs = 1;  // -1: as many as infer says
  std::vector<AttrSpec> attrs = {};
  DTypeSet dtypes = kFloats;  // of input 0; 0 where there is none

  // Types of the outputs, or a failure that names the input or attribute ("x: got ..., expected ..."). Called
  // through infer_types, which counts the inputs and puts "[op <name>]" before the message.
  Result<std::vector<TensorType>> (*infer)(std::span<const TensorType> in, const Attrs& attrs) = nullptr;
  Result<Grads> (*grad)(GradBuilder& g) = nullptr;
  KernelFn reference = nullptr;  // plain, serial, row-major, any strides on inputs; outputs contiguous
  std::size_t (*reference_workspace)(std::span<const TensorType> in, const Attrs& attrs) = nullptr;
  cost::OpCost (*cost)(std::span<const TensorType> in, std::span<const TensorType> out,
                       const Attrs& attrs) = nullptr;
  std::vector<LayoutOption> (*layout)(std::span<const TensorType> in, const Attrs& attrs) = nullptr;
  LinearIn linear = {};
  // One Value per output, laid out as a `rewritten` option of the layout rule says.
  Result<std::vector<Value>> (*cut)(CutBuilder& b) = nullptr;
  std::uint32_t traits = kNoTraits;
  // Inputs that the kernel writes in place (strides honoured). Such an op has one output, which *is* input 0
  // after the write: it has its type and whoever runs the graph gives it the same memory; the kernel never
  // touches out(0).
  std::vector<int> mutated_inputs = {};
  // An ints attribute that states the shape of output 0: a pass that cuts the output puts the local shape
  // there.
  std::string_view shape_attr = {};

  bool has(Trait t) const { return (traits & t) != 0; }
};

// The family of all ops, in name order.
std::span<const OpDef* const> op_table();
const OpDef* find_op(std::string_view name);  // null when unknown

// Fills in defaults; rejects unknown names and wrong types, with the names that exist.
Result<Attrs> complete_attrs(const OpDef& def, Attrs attrs);
// Every way to cut an op: its layout rule, and what `linear` adds for partial sums.
std::vector<LayoutOption> layout_options(const OpDef& def, std::span<const TensorType> in,
                                         std::span<const TensorType> out, const Attrs& completed);
// Checks the number of inputs, completes attributes, infers.
Result<std::vector<TensorType>> infer_types(const OpDef& def, std::span<const TensorType> in,
                                            const Attrs& completed);

}  // namespace trireme::op
