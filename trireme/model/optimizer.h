// Optimisers as graphs: the update of some parameters from their gradients, by the ops of op/update.
//
// An update graph reads "grad:<parameter>", "lr" (f32), where the rule counts "step" (i64, from 1), where
// gradients are clipped "clip" (f32, build_clip), where momentum is corrected "velocity_factor" (f32) and
// where others make it "momentum_kept" (f32). It
// changes the variables "<parameter>" and "<parameter>/<state>" and gives "updated:<parameter>". Every
// parameter's update is on its own, so buckets of parameters may have graphs of their own, on a worker or on
// a parameter server.
//
// Defaults and formulas are PyTorch's. The papers' forms are attributes of the ops: rate_inside (the rate
// inside the velocity), eps_inside and eps_hat (epsilon inside the root or before its correction),
// decay_by_lr = false (AdamW's own decay), bias_correction.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/option_spec.h"
#include "trireme/graph/graph.h"
#include "trireme/model/parameter.h"

namespace trireme::model {

struct StateRow {
  const char* name;                          // "velocity": the variable is "<parameter>/velocity"
  bool (*used)(const op::Attrs&) = nullptr;  // null: always; an unused state has the shape [0]
};

struct OptimizerRow {
  const char* name = "";
  const char* doc = "";
  const op::OpDef* op = nullptr;
  std::span<const StateRow> states = {};  // in the order of the op's inputs
  double lr = 0.1;                        // the peak learning rate of a job that names none
  // Every attribute of the op, in its order and with its default, and what the states start with.
  std::span<const OptionSpec> options = {};
  bool counts_steps = false;
  const char* fixed = nullptr;  // a boolean attribute that makes this kind of the op: "nesterov"
  bool whole_tensors = false;   // an element's update depends on others of its tensor
};
std::span<const OptimizerRow> optimizer_table();
// kNotFound lists the names that exist.
Result<const OptimizerRow*> find_optimizer(std::string_view kind);

struct OptimizerSpec {
  std::string kind = "momentum";
  op::Attrs attrs = {};  // of the kind's op: momentum, weight_decay, beta1...; the rest has its defaults
  // Parameters whose last path component is one of these do not decay: biases, and what norms scale by.
  // Empty: all decay, as in PyTorch without parameter groups.
  std::vector<std::string> no_decay = {"bias", "scale", "bias_ih", "bias_hh"};
  double initial_sum = 0;         // adagrad: where sums of squares start
  double clip_norm = 0;           // above 0: gradients are multiplied by the input "clip"
  bool correct_momentum = false;  // velocities are multiplied by "velocity_factor" first (Goyal et al. 2017)
  // Gradients of parameters of at least so many values (0: none) travel encoded. `others_momentum`: who
  // encodes makes their momentum, so their velocity or first moment is multiplied by "momentum_kept" first.
  // `fixed_after`: their second moments stay after so many updates (0: never).
  std::int64_t coded_elems = 0;
  bool others_momentum = false;
  std::int64_t fixed_after = 0;
  // Parameters of which there is a piece here, where an optimizer looks at whole tensors: the graph reads
  // "rate:<parameter>" (f32), which follows from the lengths of the whole tensor (TensorRate).
  std::vector<std::string> pieces = {};
};

struct StateVariable {
  std::string name;
  std::string parameter;
  TensorType type;
  double initial = 0;
};

struct UpdateGraph {
  graph::Graph graph;
  std::vector<StateVariable> states;  // every variable besides the parameters, in the order of use
  bool reads_step = false;
  std::vector<std::string> updates() const;  // its outputs "updated:<parameter>"
};

bool decays(const OptimizerSpec& spec, std::string_view parameter);
// The states alone, for whoever allocates them.
Result<std::vector<StateVariable>> optimizer_states(const OptimizerSpec& spec,
                                                    std::span<const Parameter> parameters);
Result<UpdateGraph> build_update(const OptimizerSpec& spec, std::span<const Parameter> parameters);

// Clipping by the global norm (Pascanu et al. 2013), PyTorch's clip_grad_norm_: reads every
// "grad:<parameter>", gives "squares", their square root "grad_norm" and "clip" = min(1, max_norm /
// (grad_norm + 1e-6)). Squares are summed per tensor, then over tensors in name order: the bits do not depend
// on buckets.
Result<graph::Graph> build_clip(std::span<const Parameter> parameters, double max_norm);
// The squares alone, of several lists of parameters: an output of that name for each.
Result<graph::Graph> build_squares(const std::map<std::string, std::vector<Parameter>>& lists);
// "clip" of a norm that was put together from the squares of several ranks, to the same bits.
float clip_factor(float norm, double max_norm);

// lars: what multiplies the learning rate of a tensor, by the lengths of its weights and its gradient. The
// update of a whole tensor comes to it by itself.
struct TensorRate {
  double trust = 0, weight_decay = 0, eps = 0;
  double at(double weights, double gradient) const;
};
// kInvalid: the optimizer does not look at whole tensors.
Result<TensorRate> tensor_rate(const OptimizerSpec& spec, std::string_view parameter);

// The update in the training graph itself, which has outputs "grad:<parameter>": for programs of one process.
// Clips without the input "clip"; "step", which counts from 1, is the training graph's own where it has one.
Result<UpdateGraph> append_update(graph::Graph train, const OptimizerSpec& spec,
                                  std::span<const Parameter> parameters);

}  // namespace trireme::model
