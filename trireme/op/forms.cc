#include "trireme/op/forms.h"

#include <algorithm>
#include <array>

#include "trireme/op/detail/infer.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {

constexpr std::string_view kLastText = "nhwc";
constexpr std::array kToSecond = {0, 3, 1, 2}, kToLast = {0, 2, 3, 1};

// A list without forms is one of plain ones.
const Form& form_at(const std::vector<Form>& forms, std::size_t i) {
  static const Form kPlain;
  return i < forms.size() ? forms[i] : kPlain;
}
bool is_last(const Form& form) { return form.order == Order::kChannelsLast; }

// ---- Text

std::string to_text(const Form& form) {
  if (form.is_plain()) return "-";
  std::string text;
  if (form.dtype) text = dtype_name(*form.dtype);
  if (is_last(form)) text += text.empty() ? std::string(kLastText) : fmt::format("/{}", kLastText);
  return text;
}

std::string to_text(const std::vector<Form>& forms) {
  std::string text;
  for (const Form& form : forms) text += fmt::format("{}{}", text.empty() ? "" : ",", to_text(form));
  return text;
}

Result<Form> parse_form(std::string_view text) {
  Form form;
  if (text == "-") return form;
  const std::size_t slash = text.find('/');
  std::string_view dtype = text.substr(0, slash);
  if (text == kLastText || (slash != std::string_view::npos && text.substr(slash + 1) == kLastText)) {
    form.order = Order::kChannelsLast;
    if (slash == std::string_view::npos) dtype = {};
  } else if (slash != std::string_view::npos) {
    return error(Code::kInvalid, "forms: got order '{}', expected {}", text.substr(slash + 1), kLastText);
  }
  if (!dtype.empty() || slash == 0 || !is_last(form)) {
    TR_ASSIGN_OR_RETURN(form.dtype, parse_dtype(dtype));
  }
  return form;
}

Result<std::vector<Form>> parse_list(std::string_view text) {
  std::vector<Form> forms;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    TR_ASSIGN_OR_RETURN(const Form form, parse_form(text.substr(0, comma)));
    forms.push_back(form);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return error(Code::kInvalid, "forms: got an end after ',', expected a form");
  }
  return forms;
}

// ---- Types

Status check_operands(std::string_view what, const std::vector<Form>& forms,
                      std::span<const TensorType> types) {
  if (forms.size() != types.size())
    return error(Code::kInvalid, "forms: got {} for the {}, expected {}", forms.size(), what, types.size());
  for (std::size_t i = 0; i < types.size(); ++i)
    if (is_last(forms[i]) && types[i].shape.rank() != 4)
      return error(Code::kInvalid, "forms: {} {} is {}, expected four dimensions with the channels last",
                   what, i, types[i].to_string());
  return {};
}

std::vector<TensorType> seen(std::span<const TensorType> in, const Forms& forms) {
  std::vector<TensorType> types(in.begin(), in.end());
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Form& form = form_at(forms.inputs, i);
    if (form.dtype) types[i].dtype = *form.dtype;
    if (is_last(form)) types[i].shape = channels_second(types[i].shape);
  }
  return types;
}

// ---- The reference kernel

constexpr std::size_t kAlign = 64;
std::size_t padded(const TensorType& type) { return (type.num_bytes() + kAlign - 1) / kAlign * kAlign; }

void convert(const Tensor& from, const Tensor& to) {
  const Attrs attrs{{"dtype", to.dtype()}};
  KernelArgs args{{&from, 1}, {&to, 1}, attrs, {}, serial()};
  kCast.reference(args);
}

// Inputs that are cast lie in the workspace, then outputs that are cast or whose channels move; the op's own
// workspace is behind them.
class FormedReference final : public KernelState {
 public:
  explicit FormedReference(const KernelQuery& node)
      : def_(node.def), forms_(node.forms), within_(types_within(node)) {
    if (def_.reference_workspace != nullptr) bytes_ = def_.reference_workspace(within_.inputs, node.attrs);
    for (std::size_t i = 0; i < within_.inputs.size(); ++i)
      if (casts(i)) bytes_ += padded(within_.inputs[i]);
    for (std::size_t i = 0; i < within_.outputs.size(); ++i)
      if (is_staged(i)) bytes_ += padded(within_.outputs[i]);
  }

  std::size_t workspace_bytes() const { return bytes_; }

  void run(KernelArgs& args) const {
    std::span<std::byte> left = args.workspace;
    const auto take = [&](const TensorType& type) {
      const Tensor t(Buffer::wrap(cpu_device(), left.data(), padded(type)), type);
      left = left.subspan(padded(type));
      return t;
    };
    std::vector<Tensor> in, out;
    for (std::size_t i = 0; i < within_.inputs.size(); ++i) {
      const Tensor& given = args.inputs[i];
      const Tensor turned = is_last(form_at(forms_.inputs, i)) ? given.transpose(kToSecond) : given;
      in.push_back(casts(i) ? take(within_.inputs[i]) : turned);
      if (casts(i)) convert(turned, in[i]);
    }
    for (std::size_t i = 0; i < within_.outputs.size(); ++i)
      out.push_back(is_staged(i) ? take(within_.outputs[i]) : args.outputs[i]);
    KernelArgs own{in, out, args.attrs, left, args.parallel};
    def_.reference(own);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (is_staged(i))
        convert(is_last(form_at(forms_.outputs, i)) ? out[i].transpose(kToLast) : out[i], args.outputs[i]);
  }

 private:
  bool casts(std::size_t input) const { return form_at(forms_.inputs, input).dtype.has_value(); }
  bool is_staged(std::size_t output) const { return !form_at(forms_.outputs, output).is_plain(); }

  const OpDef& def_;
  Forms forms_;
  OpTypes within_;
  std::size_t bytes_ = 0;
};

}  // namespace

bool Forms::is_plain() const {
  const auto plain = [](const Form& form) { return form.is_plain(); };
  return std::all_of(inputs.begin(), inputs.end(), plain) &&
         std::all_of(outputs.begin(), outputs.end(), plain);
}

bool Forms::casts() const {
  const auto casts = [](const Form& form) { return form.dtype.has_value(); };
  return std::any_of(inputs.begin(), inputs.end(), casts) ||
         std::any_of(outputs.begin(), outputs.end(), casts);
}

const Forms& plain_forms() {
  static const Forms kPlain;
  return kPlain;
}

Forms forms_of(std::size_t num_inputs, std::size_t num_outputs) {
  return {std::vector<Form>(num_inputs), std::vector<Form>(num_outputs)};
}

std::string to_text(const Forms& forms) {
  if (forms.is_plain()) return {};
  return fmt::format("{}>{}", to_text(forms.inputs), to_text(forms.outputs));
}

Result<Forms> parse_forms(std::string_view text) {
  Forms forms;
  if (text.empty()) return forms;
  const std::size_t end = text.find('>');
  if (end == std::string_view::npos)
    return error(Code::kInvalid, "forms: got '{}', expected inputs, '>', outputs", text);
  TR_ASSIGN_OR_RETURN(forms.inputs, parse_list(text.substr(0, end)));
  TR_ASSIGN_OR_RETURN(forms.outputs, parse_list(text.substr(end + 1)));
  return forms;
}

std::string formed_name(const OpDef& def, const Forms& forms) {
  if (forms.is_plain()) return std::string(def.name);
  return fmt::format("{}[{}]", def.name, to_text(forms));
}

Shape channels_second(const Shape& s) { return {s[0], s[3], s[1], s[2]}; }

Result<std::vector<TensorType>> infer_types(const OpDef& def, std::span<const TensorType> in,
                                            const Attrs& completed, const Forms& forms) {
  if (forms.is_plain()) return infer_types(def, in, completed);
  const auto named = [&](const Status& status) {
    return status.with_prefix(fmt::format("[op {}] ", def.name));
  };
  if (def.reference == nullptr || (def.traits & (kHostOp | kFeed | kStateful | kMutates | kRandom)) != 0)
    return named(error(Code::kInvalid, "forms: got '{}', expected none: the op is not pure, or has no kernel",
                       to_text(forms)));
  if (Status s = check_operands("inputs", forms.inputs, in); !s.ok()) return named(s);
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_types(def, seen(in, forms), completed));
  if (Status s = check_operands("outputs", forms.outputs, out); !s.ok()) return named(s);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (forms.outputs[i].dtype) out[i].dtype = *forms.outputs[i].dtype;
    const Shape s = out[i].shape;
    if (is_last(forms.outputs[i])) out[i].shape = {s[0], s[2], s[3], s[1]};
  }
  return out;
}

OpTypes types_within(const KernelQuery& node) {
  OpTypes types{seen(node.inputs, node.forms), {}};
  types.outputs = *infer_types(node.def, types.inputs, node.attrs);
  return types;
}

MemoryTypes::MemoryTypes(const KernelQuery& node)
    : inputs(node.inputs.begin(), node.inputs.end()), outputs(node.outputs.begin(), node.outputs.end()) {
  bool some_plain = false;
  const auto turn = [&](std::vector<TensorType>& types, const std::vector<Form>& forms) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (is_last(form_at(forms, i)))
        types[i].shape = channels_second(types[i].shape), channels_last = true;
      else
        some_plain = some_plain || types[i].shape.rank() == 4;
    }
  };
  turn(inputs, node.forms.inputs);
  turn(outputs, node.forms.outputs);
  mixed = channels_last && some_plain;
  channels_last = channels_last && !some_plain;
}

cost::OpCost formed_cost(const KernelQuery& node) {
  const OpTypes own = types_within(node);
  cost::OpCost total;
  if (node.def.cost == nullptr)
    total.bytes = detail::io_bytes(own.inputs, own.outputs);
  else
    total = node.def.cost(own.inputs, own.outputs, node.attrs);
  total.bytes += detail::io_bytes(node.inputs, node.outputs) - detail::io_bytes(own.inputs, own.outputs);
  return total;
}

std::vector<LayoutOption> formed_layout(const KernelQuery& node) {
  const auto turned = [](const std::vector<Form>& forms) {
    return std::any_of(forms.begin(), forms.end(), is_last);
  };
  if (node.def.layout == nullptr || turned(node.forms.inputs) || turned(node.forms.outputs)) return {};
  return node.def.layout(seen(node.inputs, node.forms), node.attrs);
}

ReferenceKernel reference_kernel(const KernelQuery& node) {
  ReferenceKernel kernel{.run = node.def.reference};
  if (node.forms.is_plain()) {
    if (node.def.reference_workspace != nullptr)
      kernel.workspace_bytes = node.def.reference_workspace(node.inputs, node.attrs);
    return kernel;
  }
  auto state = std::make_unique<FormedReference>(node);
  kernel.run = [](KernelArgs& args) { static_cast<const FormedReference&>(*args.state).run(args); };
  kernel.workspace_bytes = state->workspace_bytes();
  kernel.state = std::move(state);
  return kernel;
}

}  // namespace trireme::op
