#include "trireme/model/optimizer.h"

#include <algorithm>
#include <cmath>

#include "trireme/graph/builder.h"
#include "trireme/model/optimizer_options.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

using graph::Value;

bool amsgrad(const op::Attrs& a) { return a.get_bool("amsgrad"); }
bool centered(const op::Attrs& a) { return a.get_bool("centered"); }
bool has_momentum(const op::Attrs& a) { return a.get_float("momentum") != 0; }

constexpr StateRow kVelocity[] = {{"velocity"}};
constexpr StateRow kSum[] = {{"sum"}};
constexpr StateRow kRmspropStates[] = {{"square_avg"}, {"grad_avg", centered}, {"velocity", has_momentum}};
constexpr StateRow kMoments[] = {{"moment1"}, {"moment2"}, {"max_moment2", amsgrad}};

// ---- Options; those that other folders read are in optimizer_options.h
constexpr OptionSpec kDampening{.name = "dampening",
                                .default_value = 0.0,
                                .doc = "momentum: the velocity gets 1 - dampening times the gradient.",
                                .range = {.least = 0, .most = 1, .words = "a value in [0, 1]"}};
constexpr OptionSpec kBeta2{.name = "beta2",
                            .default_value = 0.999,
                            .doc = "adam, adamw: decay rate of the second moment.",
                            .range = kBelowOne};
constexpr OptionSpec kEps{.name = "eps",
                          .default_value = 1e-8,
                          .doc = "adagrad, rmsprop, adam, adamw, lars: constant added to the denominator.",
                          .range = kNotNegative};
constexpr OptionSpec kAlpha{.name = "alpha",
                            .default_value = 0.99,
                            .doc = "rmsprop: decay rate of the averages.",
                            .range = kBelowOne};
constexpr OptionSpec kTrust{
    .name = "trust",
    .default_value = 0.001,
    .doc = "lars: trust coefficient: the learning rate of a tensor whose gradient is as long as itself.",
    .range = kNotNegative};
constexpr OptionSpec kLrDecay{.name = "lr_decay",
                              .default_value = 0.0,
                              .doc = "adagrad: learning rate decay: lr / (1 + (t - 1) lr_decay).",
                              .range = kNotNegative};
constexpr OptionSpec kRateInside{
    .name = "rate_inside",
    .default_value = false,
    .doc = "momentum, rmsprop: multiply by the learning rate inside the velocity: v = mu v + lr g; w -= v."};
constexpr OptionSpec kEpsInside{.name = "eps_inside",
                                .default_value = false,
                                .doc = "adagrad, rmsprop: sqrt(s + eps) instead of sqrt(s) + eps."};
constexpr OptionSpec kEpsHat{
    .name = "eps_hat",
    .default_value = false,
    .doc =
        "adam, adamw: add eps before the bias correction of the root, as at the end of section 2 of the "
        "paper."};
constexpr OptionSpec kAmsgrad{.name = "amsgrad",
                              .default_value = false,
                              .doc = "adam, adamw: AMSGrad: divide by the largest second moment so far."};
constexpr OptionSpec kCentered{
    .name = "centered", .default_value = false, .doc = "rmsprop: divide by the standard deviation."};
constexpr OptionSpec kBiasCorrection{.name = "bias_correction",
                                     .default_value = true,
                                     .doc = "adam, adamw: divide the moments by 1 - beta^t."};
constexpr OptionSpec kDecayByLr{
    .name = "decay_by_lr",
    .default_value = true,
    .doc = "adamw: multiply weight_decay by the learning rate; false: weight_decay alone."};

constexpr OptionSpec kOfSgd[] = {kWeightDecay};
constexpr OptionSpec kOfMomentum[] = {kMomentum, kWeightDecay, kNesterov, kDampening, kRateInside};
constexpr OptionSpec kOfAdagrad[] = {kEps.with_default(1e-10), kLrDecay, kWeightDecay, kEpsInside,
                                     kInitialSum};
constexpr OptionSpec kOfRmsprop[] = {kAlpha,    kEps,       kWeightDecay, kMomentum.with_default(0.0),
                                     kCentered, kEpsInside, kRateInside};
constexpr OptionSpec kOfAdam[] = {kBeta1,  kBeta2,          kEps,       kWeightDecay, kAmsgrad,
                                  kEpsHat, kBiasCorrection, kFixedAfter};
constexpr OptionSpec kOfAdamw[] = {
    kBeta1,          kBeta2,      kEps,      kWeightDecay.with_default(0.01), kAmsgrad, kEpsHat,
    kBiasCorrection, kFixedAfter, kDecayByLr};
constexpr OptionSpec kOfLars[] = {kMomentum, kWeightDecay, kTrust, kEps.with_default(0.0)};

constexpr OptimizerRow kRows[] = {
    {.name = "sgd", .doc = "Stochastic gradient descent.", .op = &op::kApplySgd, .options = kOfSgd},
    {.name = "momentum",
     .doc = "SGD with momentum 0.9 (Polyak 1964).",
     .op = &op::kApplyMomentum,
     .states = kVelocity,
     .options = kOfMomentum},
    {.name = "nesterov",
     .doc = "SGD with Nesterov's momentum 0.9 (Sutskever et al. 2013).",
     .op = &op::kApplyMomentum,
     .states = kVelocity,
     .options = kOfMomentum,
     .fixed = "nesterov"},
    {.name = "adagrad",
     .doc = "AdaGrad (Duchi et al. 2011).",
     .op = &op::kApplyAdagrad,
     .states = kSum,
     .lr = 0.01,
     .options = kOfAdagrad,
     .counts_steps = true},
    {.name = "rmsprop",
     .doc = "RMSProp (Tieleman and Hinton 2012).",
     .op = &op::kApplyRmsprop,
     .states = kRmspropStates,
     .lr = 0.01,
     .options = kOfRmsprop},
    {.name = "adam",
     .doc = "Adam (Kingma and Ba 2015), decay as an L2 penalty.",
     .op = &op::kApplyAdam,
     .states = kMoments,
     .lr = 0.001,
     .options = kOfAdam,
     .counts_steps = true},
    {.name = "adamw",
     .doc = "Adam with decoupled decay (Loshchilov and Hutter 2019).",
     .op = &op::kApplyAdamw,
     .states = kMoments,
     .lr = 0.001,
     .options = kOfAdamw,
     .counts_steps = true},
    {.name = "lars",
     .doc = "Momentum with a rate per tensor (You et al. 2017).",
     .op = &op::kApplyLars,
     .states = kVelocity,
     .options = kOfLars,
     .whole_tensors = true},
};

struct Resolved {
  const OptimizerRow* row = nullptr;
  op::Attrs decaying, plain;  // of parameters that decay and of those that do not
};

Result<Resolved> resolve(const OptimizerSpec& spec) {
  Resolved r;
  TR_ASSIGN_OR_RETURN(r.row, find_optimizer(spec.kind));
  op::Attrs given = spec.attrs;
  if (r.row->fixed != nullptr) given.set(r.row->fixed, true);
  Result<op::Attrs> complete = op::complete_attrs(*r.row->op, std::move(given));
  if (!complete.ok()) return complete.status().with_prefix(fmt::format("[model] optimizer {}: ", spec.kind));
  r.decaying = r.plain = std::move(complete).value();
  r.plain.set("weight_decay", 0.0);
  if (!std::isfinite(spec.clip_norm) || spec.clip_norm < 0)
    return error(Code::kInvalid, "[model] clip norm: got {}, expected at least 0", spec.clip_norm);
  return r;
}

void add_states(const Resolved& r, const OptimizerSpec& spec, const Parameter& p,
                std::vector<StateVariable>& out) {
  for (const StateRow& s : r.row->states) {
    const bool used = s.used == nullptr || s.used(r.decaying);
    const double initial = used && std::string_view(s.name) == "sum" ? spec.initial_sum : 0;
    out.push_back({p.name + "/" + s.name, p.name, used ? p.type : TensorType{p.type.dtype, {0}}, initial});
  }
}

// An output of a training graph, or an input.
Value gradient(graph::Builder& b, const Parameter& p) {
  const std::string name = "grad:" + p.name;
  const auto output = b.graph().find_output(name);
  return output ? *output : b.input(name, p.type.dtype, p.type.shape);
}

// Per tensor, then in name order.
Value add_squares(graph::Builder& b, std::span<const Parameter> parameters) {
  std::vector<const Parameter*> by_name;
  for (const Parameter& p : parameters) by_name.push_back(&p);
  std::sort(by_name.begin(), by_name.end(), [](const auto* x, const auto* y) { return x->name < y->name; });
  Value total;
  for (const Parameter* p : by_name) {
    const Value squares = b.sum(b.add_node(op::kSquare, {gradient(b, *p)}));
    total = total.is_null() ? squares : b.add(total, squares);
  }
  return total;
}

struct Norm {
  Value squares, norm, clip;
};
Norm add_clip(graph::Builder& b, std::span<const Parameter> parameters, double max_norm) {
  const Value total = add_squares(b, parameters);
  const Value norm = b.add_node(op::kSqrt, {total});
  const Value limit = b.fill(max_norm, DType::kF32, {}), eps = b.fill(1e-6, DType::kF32, {});
  const Value ratio = b.add_node(op::kDiv, {limit, b.add(norm, eps)});
  return {total, norm, b.add_node(op::kMinimum, {ratio, b.fill(1, DType::kF32, {})})};
}

struct Scalars {
  Value lr, step, clip, velocity_factor, momentum_kept;
};

// What holds momentum: velocity, or Adam's first moment.
bool is_momentum(const StateVariable& state, const Parameter& p) {
  return state.type == p.type && (state.name == p.name + "/velocity" || state.name == p.name + "/moment1");
}

bool is_coded(const OptimizerSpec& spec, const Parameter& p) {
  return spec.coded_elems > 0 && p.type.shape.num_elems() >= spec.coded_elems;
}

// What apply_lars does with a whole tensor, by a rate that comes from outside.
Value update_piece(graph::Builder& b, const Resolved& r, const OptimizerSpec& spec, const Parameter& p,
                   std::vector<Value> inputs) {
  inputs.back() = b.mul(inputs.back(), b.input("rate:" + p.name, DType::kF32, {}));
  const op::Attrs& whole = decays(spec, p.name) ? r.decaying : r.plain;
  op::Attrs attrs;
  attrs.set("momentum", whole.get_float("momentum"));
  attrs.set("weight_decay", whole.get_float("weight_decay"));
  attrs.set("rate_inside", true);
  return b.add_node(op::kApplyMomentum, inputs, std::move(attrs));
}

Value update_one(graph::Builder& b, const Resolved& r, const OptimizerSpec& spec, const Parameter& p,
                 const Scalars& scalars, std::span<const StateVariable> states) {
  const auto existing = b.graph().find_variable(p.name);
  std::vector<Value> inputs{existing ? *existing : b.variable(p.name, p.type.dtype, p.type.shape)};
  for (const StateVariable& s : states) {
    Value state = b.variable(s.name, s.type.dtype, s.type.shape);
    const bool velocity = s.name == p.name + "/velocity" && s.type == p.type;
    if (velocity && !scalars.velocity_factor.is_null())
      state = b.add_node(op::kAssign, {state, b.mul(state, scalars.velocity_factor)});
    if (!scalars.momentum_kept.is_null() && is_coded(spec, p) && is_momentum(s, p))
      state = b.add_node(op::kAssign, {state, b.mul(state, scalars.momentum_kept)});
    inputs.push_back(state);
  }
  Value grad = gradient(b, p);
  if (!scalars.clip.is_null()) grad = b.mul(grad, scalars.clip);
  inputs.push_back(grad);
  inputs.push_back(scalars.lr);
  if (r.row->whole_tensors && std::find(spec.pieces.begin(), spec.pieces.end(), p.name) != spec.pieces.end())
    return update_piece(b, r, spec, p, std::move(inputs));
  if (!scalars.step.is_null()) inputs.push_back(scalars.step);
  op::Attrs attrs = decays(spec, p.name) ? r.decaying : r.plain;
  if (spec.fixed_after > 0 && is_coded(spec, p)) attrs.set("fixed_after", spec.fixed_after);
  return b.add_node(*r.row->op, inputs, std::move(attrs));
}

}  // namespace

std::span<const OptimizerRow> optimizer_table() { return kRows; }

Result<const OptimizerRow*> find_optimizer(std::string_view kind) {
  std::string known;
  for (const OptimizerRow& row : kRows) {
    if (kind == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[model] no optimizer is called '{}'; expected one of: {}", kind, known);
}

std::vector<std::string> UpdateGraph::updates() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : graph.outputs())
    if (name.starts_with("updated:")) names.push_back(name);
  return names;
}

bool decays(const OptimizerSpec& spec, std::string_view parameter) {
  const std::size_t slash = parameter.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? parameter : parameter.substr(slash + 1);
  return std::find(spec.no_decay.begin(), spec.no_decay.end(), last) == spec.no_decay.end();
}

Result<std::vector<StateVariable>> optimizer_states(const OptimizerSpec& spec,
                                                    std::span<const Parameter> parameters) {
  TR_ASSIGN_OR_RETURN(const Resolved r, resolve(spec));
  std::vector<StateVariable> states;
  for (const Parameter& p : parameters) add_states(r, spec, p, states);
  return states;
}

namespace {

Result<UpdateGraph> add_updates(graph::Graph start, const OptimizerSpec& spec,
                                std::span<const Parameter> parameters, bool clip_inside) {
  TR_ASSIGN_OR_RETURN(const Resolved r, resolve(spec));
  UpdateGraph out;
  out.graph = std::move(start);
  graph::Builder b(out.graph);
  Scalars scalars;
  scalars.lr = b.input("lr", DType::kF32, {});
  if (r.row->counts_steps) {
    const auto step = b.graph().find_input("step");
    scalars.step = step ? *step : b.input("step", DType::kI64, {});
  }
  if (spec.clip_norm > 0)
    scalars.clip =
        clip_inside ? add_clip(b, parameters, spec.clip_norm).clip : b.input("clip", DType::kF32, {});
  if (spec.correct_momentum) scalars.velocity_factor = b.input("velocity_factor", DType::kF32, {});
  if (spec.others_momentum) scalars.momentum_kept = b.input("momentum_kept", DType::kF32, {});
  out.reads_step = r.row->counts_steps;
  for (const Parameter& p : parameters) {
    const std::size_t first = out.states.size();
    add_states(r, spec, p, out.states);
    const auto own = std::span(out.states).subspan(first);
    b.output("updated:" + p.name, update_one(b, r, spec, p, scalars, own));
  }
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(out.graph));
  return out;
}

}  // namespace

Result<UpdateGraph> build_update(const OptimizerSpec& spec, std::span<const Parameter> parameters) {
  return add_updates({}, spec, parameters, false);
}

Result<UpdateGraph> append_update(graph::Graph train, const OptimizerSpec& spec,
                                  std::span<const Parameter> parameters) {
  for (const Parameter& p : parameters)
    if (!train.find_output("grad:" + p.name))
      return error(Code::kNotFound, "[model] append_update: the graph has no output 'grad:{}'", p.name);
  return add_updates(std::move(train), spec, parameters, true);
}

double TensorRate::at(double weights, double gradient) const {
  if (weights == 0 || gradient == 0) return 1;
  return trust * weights / (gradient + weight_decay * weights + eps);
}

Result<TensorRate> tensor_rate(const OptimizerSpec& spec, std::string_view parameter) {
  TR_ASSIGN_OR_RETURN(const Resolved r, resolve(spec));
  if (!r.row->whole_tensors)
    return error(Code::kInvalid, "[model] optimizer {} has no rate per tensor", spec.kind);
  const op::Attrs& attrs = decays(spec, parameter) ? r.decaying : r.plain;
  return TensorRate{attrs.get_float("trust"), attrs.get_float("weight_decay"), attrs.get_float("eps")};
}

float clip_factor(float norm, double max_norm) {
  return std::min(static_cast<float>(max_norm) / (norm + static_cast<float>(1e-6)), 1.0F);
}

Result<graph::Graph> build_clip(std::span<const Parameter> parameters, double max_norm) {
  if (parameters.empty() || !std::isfinite(max_norm) || max_norm <= 0)
    return error(Code::kInvalid,
                 "[model] clipping: got {} parameters and norm {}, expected some and a norm above 0",
                 parameters.size(), max_norm);
  graph::Graph g;
  graph::Builder b(g);
  const Norm norm = add_clip(b, parameters, max_norm);
  b.output("squares", norm.squares);
  b.output("grad_norm", norm.norm);
  b.output("clip", norm.clip);
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

Result<graph::Graph> build_squares(const std::map<std::string, std::vector<Parameter>>& lists) {
  graph::Graph g;
  graph::Builder b(g);
  for (const auto& [name, parameters] : lists) b.output(name, add_squares(b, parameters));
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(g));
  return g;
}

}  // namespace trireme::model
