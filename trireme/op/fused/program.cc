#include "trireme/op/fused/program.h"

#include <algorithm>

#include "trireme/op/detail/attr_json.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/fused/block_reader.h"
#include "trireme/op/ops.h"

namespace trireme::op::detail {
namespace {

Status bad(std::string_view what) { return error(Code::kInvalid, "attribute 'program': {}", what); }

// Registers below `limit` from a JSON array.
Result<std::vector<int>> registers_from(const Json& json, int limit, std::string_view what) {
  if (!json.is_array()) return bad(fmt::format("{}: got {}, expected an array", what, json.type_name()));
  std::vector<int> registers;
  for (const Json& item : json) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 || item.get<std::int64_t>() >= limit)
      return bad(fmt::format("{}: got {}, expected a register below {}", what, item.dump(), limit));
    registers.push_back(item.get<int>());
  }
  return registers;
}

Result<FusedStep> step_from(const Json& json, int registers) {
  if (!json.is_array() || json.size() < 2 || json.size() > 3 || !json[0].is_string())
    return bad("a step: expected [\"op\", [registers]] or [\"op\", [registers], {attributes}]");
  const auto& name = json[0].get_ref<const std::string&>();
  FusedStep step{.def = find_op(name), .operands = {}, .attrs = {}};
  if (step.def == nullptr || !is_fusable(*step.def))
    return bad(fmt::format("step {}: got op '{}', expected an elementwise one", registers, name));
  TR_ASSIGN_OR_RETURN(step.operands, registers_from(json[1], registers, "a step's operands"));
  if (static_cast<int>(step.operands.size()) != step.def->num_inputs)
    return bad(fmt::format("op '{}': got {} operands, expected {}", name, step.operands.size(),
                           step.def->num_inputs));
  TR_ASSIGN_OR_RETURN(step.attrs, attrs_from_json(*step.def, json.size() == 3 ? json[2] : Json::object()));
  return step;
}

// Whether the op does the same on flat blocks whose operands are spread out by NumPy broadcasting: that is
// how steps run.
bool runs_flat(const FusedStep& step, std::span<const TensorType> operands, const TensorType& out) {
  std::vector<TensorType> flat;
  for (const TensorType& t : operands) {
    const auto joint = broadcast_shapes(t.shape, out.shape);
    if (!joint.ok() || *joint != out.shape) return false;
    flat.push_back({t.dtype, {4}});
  }
  const auto types = infer_types(*step.def, flat, step.attrs);
  return types.ok() && (*types)[0] == TensorType{out.dtype, {4}};
}

}  // namespace

bool is_fusable(const OpDef& def) {
  return def.has(kElementwise) && def.num_outputs == 1 && def.num_inputs >= 1 &&
         def.num_inputs <= kMaxStepOperands && def.reference != nullptr &&
         def.reference_workspace == nullptr && !def.has(kHostOp) && !def.has(kStateful) &&
         !def.has(kRandom) && !def.has(kFeed) && !def.has(kMutates);
}

Result<std::string> program_text(const FusedProgram& program) {
  Json steps = Json::array();
  for (const FusedStep& s : program.steps) {
    Json step = Json::array({std::string(s.def->name), s.operands});
    if (!s.attrs.items().empty()) {
      TR_ASSIGN_OR_RETURN(Json attrs, attrs_to_json(s.attrs));
      step.push_back(std::move(attrs));
    }
    steps.push_back(std::move(step));
  }
  const Json whole{{"inputs", program.num_inputs}, {"steps", steps}, {"outputs", program.outputs}};
  return whole.dump();
}

Result<FusedProgram> parse_program(std::string_view text) {
  auto json = parse_json(text, "attribute 'program'");
  if (!json.ok()) return json.status();
  if (!json->is_object()) return bad(fmt::format("got {}, expected an object", json->type_name()));
  TR_ASSIGN_OR_RETURN(const auto num_inputs, json_get<std::int64_t>(*json, "inputs"));
  if (num_inputs < 1 || num_inputs > kMaxFusedInputs)
    return bad(fmt::format("got {} inputs, expected 1 to {}", num_inputs, kMaxFusedInputs));
  FusedProgram program{.num_inputs = static_cast<int>(num_inputs), .steps = {}, .outputs = {}};
  const auto steps = json->find("steps"), outputs = json->find("outputs");
  if (steps == json->end() || !steps->is_array() || steps->empty() || steps->size() > kMaxFusedSteps)
    return bad(fmt::format("expected 1 to {} steps", kMaxFusedSteps));
  for (const Json& item : *steps) {
    TR_ASSIGN_OR_RETURN(FusedStep step, step_from(item, program.num_registers()));
    program.steps.push_back(std::move(step));
  }
  if (outputs == json->end()) return bad("it has no outputs");
  TR_ASSIGN_OR_RETURN(program.outputs, registers_from(*outputs, program.num_registers(), "outputs"));
  std::vector<int> sorted = program.outputs;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted[0] < program.num_inputs ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return bad("outputs: expected results of steps, each once");
  return program;
}

Result<std::vector<TensorType>> register_types(const FusedProgram& program, std::span<const TensorType> in) {
  if (in.size() != static_cast<std::size_t>(program.num_inputs))
    return error(Code::kInvalid, "wrong number of inputs: got {}, expected {}", in.size(),
                 program.num_inputs);
  std::vector<TensorType> types(in.begin(), in.end());
  for (const FusedStep& step : program.steps) {
    std::vector<TensorType> operands;
    for (const int r : step.operands) operands.push_back(types[idx(r)]);
    auto out = infer_types(*step.def, operands, step.attrs);
    if (!out.ok()) return out.status().with_prefix(fmt::format("step %{}: ", types.size()));
    const Shape loop = types.size() == in.size() ? (*out)[0].shape : types[in.size()].shape;
    if ((*out)[0].shape != loop)
      return error(Code::kInvalid, "step %{}: got shape {}, expected that of the first step, {}",
                   types.size(), (*out)[0].shape.to_string(), loop.to_string());
    types.push_back((*out)[0]);
    if (!runs_flat(step, operands, types.back()))
      return error(Code::kInvalid, "step %{}: op '{}' does not work on rows of elements", types.size() - 1,
                   step.def->name);
  }
  return types;
}

void run_program(const FusedProgram& program, std::span<const Tensor> in, std::span<const Tensor> out,
                 FusedTraffic* traffic) {
  constexpr std::int64_t kBlock = 256;
  constexpr std::size_t kSlot = kBlock * 8;  // the widest element
  std::vector<TensorType> in_types;
  for (const Tensor& t : in) in_types.push_back(t.type());
  const std::vector<TensorType> types = *register_types(program, in_types);
  const Shape loop = types.back().shape;
  std::vector<BlockReader> readers;
  for (const Tensor& t : in) readers.emplace_back(t, loop);
  std::vector<std::uint64_t> memory(types.size() * kSlot / sizeof(std::uint64_t));
  const auto slot = [&](int r) { return reinterpret_cast<std::byte*>(memory.data()) + idx(r) * kSlot; };
  std::vector<Tensor> operands;
  for (std::int64_t begin = 0, total = loop.num_elems(); begin < total; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, total - begin);
    const auto block = [&](int r) {
      return Tensor(Buffer::wrap(cpu_device(), slot(r), kSlot), {types[idx(r)].dtype, {n}});
    };
    for (int r = 0; r < program.num_inputs; ++r) readers[idx(r)].read(in[idx(r)].raw(), begin, n, slot(r));
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      operands.clear();
      for (const int r : program.steps[s].operands) operands.push_back(block(r));
      const Tensor result = block(program.num_inputs + static_cast<int>(s));
      KernelArgs args{operands, std::span(&result, 1), program.steps[s].attrs, {}, serial()};
      program.steps[s].def->reference(args);
    }
    for (std::size_t k = 0; k < out.size(); ++k) {
      const std::size_t bytes = dtype_size(out[k].dtype());
      std::memcpy(out[k].raw() + idx(begin) * bytes, slot(program.outputs[k]), idx(n) * bytes);
    }
    if (traffic != nullptr) {
      traffic->loads += n * program.num_inputs;
      traffic->stores += n * static_cast<std::int64_t>(out.size());
    }
  }
}

}  // namespace trireme::op::detail
