// An op between casts. Made by the pass `absorb_casts`, after gradients: it has none of its own.
#include "trireme/op/fused/adapted.h"

#include "trireme/op/detail/attr_json.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace detail {
namespace {

Json dtypes_to_json(const std::vector<std::optional<DType>>& dtypes) {
  Json out = Json::array();
  for (const auto& d : dtypes) out.push_back(d ? Json(dtype_name(*d)) : Json());
  return out;
}

Result<std::vector<std::optional<DType>>> dtypes_from_json(const Json& json, const char* key) {
  std::vector<std::optional<DType>> out;
  TR_ASSIGN_OR_RETURN(const Json list, json_get<Json>(json, key));
  if (!list.is_array())
    return error(Code::kInvalid, "program: got no list '{}', expected dtypes or null", key);
  for (const Json& one : list) {
    if (one.is_null()) {
      out.emplace_back();
      continue;
    }
    if (!one.is_string())
      return error(Code::kInvalid, "program: got another kind in '{}', expected dtypes or null", key);
    TR_ASSIGN_OR_RETURN(const DType dtype, parse_dtype(one.get<std::string>()));
    out.emplace_back(dtype);
  }
  return out;
}

}  // namespace

Result<std::string> adapted_text(const Adapted& a) {
  TR_ASSIGN_OR_RETURN(Json attrs, attrs_to_json(a.attrs));
  return Json{{"op", a.def->name},
              {"attrs", std::move(attrs)},
              {"in", dtypes_to_json(a.in)},
              {"out", dtypes_to_json(a.out)}}
      .dump();
}

Result<Adapted> parse_adapted(std::string_view text) {
  TR_ASSIGN_OR_RETURN(const Json json, parse_json(text, "program"));
  TR_ASSIGN_OR_RETURN(const std::string name, json_get<std::string>(json, "op"));
  Adapted a;
  a.def = find_op(name);
  if (a.def == nullptr || a.def == &kAdapted || a.def->reference == nullptr ||
      (a.def->traits & (kHostOp | kFeed | kStateful | kMutates | kRandom)) != 0)
    return error(Code::kInvalid, "program: got op '{}', expected a pure op with a kernel", name);
  TR_ASSIGN_OR_RETURN(const Json attrs, json_get<Json>(json, "attrs"));
  TR_ASSIGN_OR_RETURN(a.attrs, attrs_from_json(*a.def, attrs));
  TR_ASSIGN_OR_RETURN(a.in, dtypes_from_json(json, "in"));
  TR_ASSIGN_OR_RETURN(a.out, dtypes_from_json(json, "out"));
  return a;
}

Result<std::vector<TensorType>> types_within(const Adapted& a, std::span<const TensorType> in) {
  if (a.in.size() != in.size())
    return error(Code::kInvalid, "program: got {} inputs, expected {}", in.size(), a.in.size());
  std::vector<TensorType> types(in.begin(), in.end());
  for (std::size_t i = 0; i < types.size(); ++i)
    if (a.in[i]) types[i].dtype = *a.in[i];
  return types;
}

}  // namespace detail

namespace {
using namespace detail;

constexpr std::size_t kAlign = 64;
std::size_t padded(const TensorType& type) { return (type.num_bytes() + kAlign - 1) / kAlign * kAlign; }

Result<std::vector<TensorType>> infer(std::span<const TensorType> in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Adapted a, parse_adapted(attrs.get_text("program")));
  TR_ASSIGN_OR_RETURN(const std::vector<TensorType> within, types_within(a, in));
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_types(*a.def, within, a.attrs));
  if (a.out.size() != out.size())
    return error(Code::kInvalid, "program: got {} outputs, expected {}", a.out.size(), out.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (a.out[i]) out[i].dtype = *a.out[i];
  return out;
}

// What is cast lies in the workspace, inputs first, then outputs; the op's own workspace is behind it.
std::size_t workspace(std::span<const TensorType> in, const Attrs& attrs) {
  const Adapted a = *parse_adapted(attrs.get_text("program"));
  const std::vector<TensorType> within = *types_within(a, in), out = *infer_types(*a.def, within, a.attrs);
  std::size_t bytes = a.def->reference_workspace ? a.def->reference_workspace(within, a.attrs) : 0;
  for (std::size_t i = 0; i < within.size(); ++i) bytes += a.in[i] ? padded(within[i]) : 0;
  for (std::size_t i = 0; i < out.size(); ++i) bytes += a.out[i] ? padded(out[i]) : 0;
  return bytes;
}

void convert(const Tensor& from, const Tensor& to) {
  const Attrs attrs{{"dtype", to.dtype()}};
  KernelArgs args{{&from, 1}, {&to, 1}, attrs, {}, serial()};
  kCast.reference(args);
}

void run(KernelArgs& args) {
  const Adapted a = *parse_adapted(args.attrs.get_text("program"));
  std::vector<TensorType> given;
  for (const Tensor& t : args.inputs) given.push_back(t.type());
  const std::vector<TensorType> within = *types_within(a, given),
                                made = *infer_types(*a.def, within, a.attrs);
  std::span<std::byte> left = args.workspace;
  const auto take = [&](const TensorType& type) {
    const Tensor t(Buffer::wrap(cpu_device(), left.data(), padded(type)), type);
    left = left.subspan(padded(type));
    return t;
  };
  std::vector<Tensor> in, out;
  for (std::size_t i = 0; i < within.size(); ++i) {
    in.push_back(a.in[i] ? take(within[i]) : args.inputs[i]);
    if (a.in[i]) convert(args.inputs[i], in[i]);
  }
  for (std::size_t i = 0; i < made.size(); ++i) out.push_back(a.out[i] ? take(made[i]) : args.outputs[i]);
  KernelArgs inner{in, out, a.attrs, left, args.parallel};
  a.def->reference(inner);
  for (std::size_t i = 0; i < made.size(); ++i)
    if (a.out[i]) convert(out[i], args.outputs[i]);
}

// The arithmetic of the op, the traffic of the operands as they are.
cost::OpCost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  const Adapted a = *parse_adapted(attrs.get_text("program"));
  const std::vector<TensorType> within = *types_within(a, in), made = *infer_types(*a.def, within, a.attrs);
  cost::OpCost total;
  if (a.def->cost) total = a.def->cost(within, made, a.attrs);
  total.bytes += io_bytes(in, out) - io_bytes(within, made);
  return total;
}

std::vector<LayoutOption> layout(std::span<const TensorType> in, const Attrs& attrs) {
  const auto a = parse_adapted(attrs.get_text("program"));
  if (!a.ok() || a->def->layout == nullptr) return {};
  const auto within = types_within(*a, in);
  return within.ok() ? a->def->layout(*within, a->attrs) : std::vector<LayoutOption>();
}
}  // namespace

const OpDef kAdapted{
    .name = "adapted",
    .doc = "Another op whose inputs are cast before it and whose outputs are cast after it.",
    .family = "elementwise",
    .num_inputs = -1,
    .num_outputs = -1,
    .attrs = {{"program", std::string(), "the op, its attributes and the dtypes, as JSON", true}},
    .dtypes = kAnyDType,
    .infer = infer,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
