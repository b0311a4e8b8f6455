// An op between casts, or in another order of dimensions. Made by the passes `absorb_casts` and
// `channels_last`, after gradients: it has none of its own.
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
  Json json{{"op", a.def->name},
            {"attrs", std::move(attrs)},
            {"in", dtypes_to_json(a.in)},
            {"out", dtypes_to_json(a.out)}};
  if (a.channels_last) json["channels_last"] = true;
  return json.dump();
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
  if (json.contains("channels_last")) {
    TR_ASSIGN_OR_RETURN(a.channels_last, json_get<bool>(json, "channels_last"));
  }
  return a;
}

const OpDef& op_within(const OpDef& def, const Attrs& attrs) {
  if (&def != &kAdapted) return def;
  const auto a = parse_adapted(attrs.get_text("program"));
  return a.ok() ? *a->def : def;
}

std::string shown_name(const OpDef& def, const Attrs& attrs) {
  const OpDef& within = op_within(def, attrs);
  return &within != &def ? fmt::format("{} {}", def.name, within.name) : std::string(def.name);
}

Shape channels_second(const Shape& s) { return s.rank() == 4 ? Shape{s[0], s[3], s[1], s[2]} : s; }

Result<std::vector<TensorType>> types_within(const Adapted& a, std::span<const TensorType> in) {
  if (a.in.size() != in.size())
    return error(Code::kInvalid, "program: got {} inputs, expected {}", in.size(), a.in.size());
  std::vector<TensorType> types(in.begin(), in.end());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (a.in[i]) types[i].dtype = *a.in[i];
    if (a.channels_last) types[i].shape = channels_second(types[i].shape);
  }
  return types;
}

}  // namespace detail

namespace {
using namespace detail;

constexpr std::size_t kAlign = 64;
constexpr int kToSecond[] = {0, 3, 1, 2}, kToLast[] = {0, 2, 3, 1};
std::size_t padded(const TensorType& type) { return (type.num_bytes() + kAlign - 1) / kAlign * kAlign; }

bool is_moved(const Adapted& a, const Shape& shape) { return a.channels_last && shape.rank() == 4; }

Result<std::vector<TensorType>> infer(std::span<const TensorType> in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Adapted a, parse_adapted(attrs.get_text("program")));
  TR_ASSIGN_OR_RETURN(const std::vector<TensorType> within, types_within(a, in));
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_types(*a.def, within, a.attrs));
  if (a.out.size() != out.size())
    return error(Code::kInvalid, "program: got {} outputs, expected {}", a.out.size(), out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (a.out[i]) out[i].dtype = *a.out[i];
    const Shape s = out[i].shape;
    if (is_moved(a, s)) out[i].shape = {s[0], s[2], s[3], s[1]};
  }
  return out;
}

// What is cast lies in the workspace, inputs first, then outputs, with those whose channels move; the op's
// own workspace is behind it.
bool is_staged(const Adapted& a, std::size_t output, const Shape& shape) {
  return a.out[output].has_value() || is_moved(a, shape);
}
std::size_t workspace(std::span<const TensorType> in, const Attrs& attrs) {
  const Adapted a = *parse_adapted(attrs.get_text("program"));
  const std::vector<TensorType> within = *types_within(a, in), out = *infer_types(*a.def, within, a.attrs);
  std::size_t bytes = a.def->reference_workspace ? a.def->reference_workspace(within, a.attrs) : 0;
  for (std::size_t i = 0; i < within.size(); ++i) bytes += a.in[i] ? padded(within[i]) : 0;
  for (std::size_t i = 0; i < out.size(); ++i) bytes += is_staged(a, i, out[i].shape) ? padded(out[i]) : 0;
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
    const Tensor& given_as = args.inputs[i];
    const Tensor seen = is_moved(a, given_as.shape()) ? given_as.transpose(kToSecond) : given_as;
    in.push_back(a.in[i] ? take(within[i]) : seen);
    if (a.in[i]) convert(seen, in[i]);
  }
  for (std::size_t i = 0; i < made.size(); ++i)
    out.push_back(is_staged(a, i, made[i].shape) ? take(made[i]) : args.outputs[i]);
  KernelArgs inner{in, out, a.attrs, left, args.parallel};
  a.def->reference(inner);
  for (std::size_t i = 0; i < made.size(); ++i)
    if (is_staged(a, i, made[i].shape))
      convert(is_moved(a, made[i].shape) ? out[i].transpose(kToLast) : out[i], args.outputs[i]);
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
  if (!a.ok() || a->def->layout == nullptr || a->channels_last) return {};
  const auto within = types_within(*a, in);
  return within.ok() ? a->def->layout(*within, a->attrs) : std::vector<LayoutOption>();
}
}  // namespace

const OpDef kAdapted{
    .name = "adapted",
    .doc =
        "Another op whose inputs are cast before it and whose outputs are cast after it; operands of four "
        "dimensions may have the channels last.",
    .family = "elementwise",
    .num_inputs = -1,
    .num_outputs = -1,
    .attrs = {{"program", std::string(), "the op, its attributes, dtypes and order, as JSON", true}},
    .dtypes = kAnyDType,
    .infer = infer,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = layout};

}  // namespace trireme::op
