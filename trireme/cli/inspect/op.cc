// `trireme inspect op NAME [--in TYPE]... [--attr KEY=VALUE]...`: one op, and what a call of it costs.
#include <algorithm>
#include <cstdio>

#include "trireme/base/json.h"
#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/number_checks.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/detail/attr_json.h"
#include "trireme/op/nn/conv_work.h"
#include "trireme/op/ops.h"

namespace trireme::cli {
namespace {

struct OpArgs {
  std::string name;
  std::vector<std::string> types, attrs;
  int threads = 1;
  bool json = false;
};

Result<const op::OpDef*> find(const std::string& name) {
  if (const op::OpDef* def = op::find_op(name)) return def;
  std::vector<std::string_view> names;
  for (const op::OpDef* def : op::op_table()) names.push_back(def->name);
  const std::string near = did_you_mean(name, names);
  return error(Code::kInvalid, "[inspect] no op is called '{}'{} `trireme inspect ops` lists them all", name,
               near.empty() ? ";" : near);
}

// Values are read as JSON where they are JSON (true, 3, [1, 2]) and as text otherwise.
Result<op::Attrs> parse_attrs(const op::OpDef& def, const std::vector<std::string>& given) {
  Json object = Json::object();
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      return error(Code::kInvalid, "[inspect] --attr: got '{}', expected KEY=VALUE", text);
    const std::string value = text.substr(equals + 1);
    Json parsed = Json::parse(value, nullptr, false);
    object[text.substr(0, equals)] = parsed.is_discarded() ? Json(value) : parsed;
  }
  const auto attrs = op::detail::attrs_from_json(def, object);
  if (attrs.ok()) return attrs;
  return error(Code::kInvalid, "{}; `trireme inspect op {}` lists its attributes", attrs.status().message(),
               def.name);
}

Json dtype_names(op::DTypeSet set) {
  Json names = Json::array();
  for (const DType d : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                        DType::kU8, DType::kBool}) {
    if (op::contains(set, d)) names.push_back(dtype_name(d));
  }
  return names;
}

Json describe(const op::OpDef& def) {
  Json attrs = Json::array();
  for (const op::AttrSpec& a : def.attrs) {
    const auto value = op::detail::attrs_to_json({{std::string(a.name), a.default_value}});
    attrs.push_back({{"name", a.name},
                     {"default", a.required || !value.ok() ? Json() : (*value)[std::string(a.name)]},
                     {"required", a.required},
                     {"doc", a.doc}});
  }
  Json kernels = Json::array();
  if (def.reference != nullptr) kernels.push_back("reference");
  for (const op::KernelRow& row : kernel::cpu_kernels())
    if (def.name == row.op && std::find(kernels.begin(), kernels.end(), row.name) == kernels.end())
      kernels.push_back(row.name);  // rows for other forms of operands may have the same name
  return {{"name", def.name},         {"family", def.family},       {"doc", def.doc},
          {"inputs", def.num_inputs}, {"outputs", def.num_outputs}, {"dtypes", dtype_names(def.dtypes)},
          {"attrs", attrs},           {"kernels", kernels}};
}

Json cuts(const std::vector<op::AxisCut>& operands) {
  Json list = Json::array();
  for (const op::AxisCut& cut : operands) list.push_back(cut.to_text());
  return list;
}

// A convolution can be computed in several ways; not all of them have kernels.
Json conv_methods(std::span<const TensorType> in, const op::Attrs& attrs) {
  using op::detail::ConvMethod;
  Json rows = Json::array();
  const auto geometry = op::detail::conv_geometry(in[0], in[1], attrs);
  for (const auto& [name, method] : {std::pair{"direct", ConvMethod::direct},
                                     {"im2col", ConvMethod::im2col},
                                     {"fft", ConvMethod::fft},
                                     {"winograd", ConvMethod::winograd}}) {
    const cost::OpCost c = op::detail::conv_work(method, *geometry);
    rows.push_back(
        {{"method", name}, {"work", c.work}, {"depth", c.depth}, {"average_parallelism", c.parallelism()}});
  }
  return rows;
}

Result<Json> describe_call(const op::OpDef& def, const OpArgs& args) {
  std::vector<TensorType> in;
  for (const std::string& text : args.types) {
    TR_ASSIGN_OR_RETURN(const TensorType t, TensorType::parse(text));
    in.push_back(t);
  }
  TR_ASSIGN_OR_RETURN(const op::Attrs attrs, parse_attrs(def, args.attrs));
  TR_ASSIGN_OR_RETURN(const std::vector<TensorType> out, op::infer_types(def, in, attrs));
  Json call{{"outputs", Json::array()}};
  for (const TensorType& t : out) call["outputs"].push_back(t.to_string());
  if (def.cost != nullptr) {
    const cost::OpCost c = def.cost(in, out, attrs);
    call.update({{"flops", c.flops},
                 {"bytes", c.bytes},
                 {"work", c.work},
                 {"depth", c.depth},
                 {"average_parallelism", c.parallelism()}});
  }
  if (&def == &op::kConv2d) call["methods"] = conv_methods(in, attrs);
  if (def.layout != nullptr) {
    call["layouts"] = Json::array();
    for (const op::LayoutOption& o : op::layout_options(def, in, out, attrs))
      call["layouts"].push_back({{"inputs", cuts(o.inputs)}, {"outputs", cuts(o.outputs)}});
  }
  if (def.reference != nullptr) {
    TR_ASSIGN_OR_RETURN(const kernel::KernelChoice choice,
                        kernel::choose_cpu_kernel({def, in, out, attrs, args.threads}));
    call["kernel"] = choice.name();
  }
  return call;
}

void print(const std::string& line) { std::fputs((line + "\n").c_str(), stdout); }

std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : ", ") + item.get<std::string>();
  return text.empty() ? "none" : text;
}

void print_op(const Json& d) {
  print(fmt::format("{} ({}): {}", d["name"].get<std::string>(), d["family"].get<std::string>(),
                    d["doc"].get<std::string>()));
  print(fmt::format("  dtypes   {}", joined(d["dtypes"])));
  print(fmt::format("  kernels  {}", joined(d["kernels"])));
  for (const Json& a : d["attrs"]) {
    const std::string value = a["required"].get<bool>() ? "required" : "default " + a["default"].dump();
    print(fmt::format("  --attr {}  ({})  {}", a["name"].get<std::string>(), value,
                      a["doc"].get<std::string>()));
  }
}

void print_call(const Json& call) {
  print(fmt::format("  outputs  {}", joined(call["outputs"])));
  if (call.contains("kernel")) print(fmt::format("  kernel   {}", call["kernel"].get<std::string>()));
  if (call.contains("flops")) {
    print(fmt::format("  flops    {:.6g}", call["flops"].get<double>()));
    print(fmt::format("  bytes    {:.6g}", call["bytes"].get<double>()));
    print(fmt::format("  work W   {:.6g}", call["work"].get<double>()));
    print(fmt::format("  depth D  {:.6g}", call["depth"].get<double>()));
    print(fmt::format("  W/D      {:.6g}", call["average_parallelism"].get<double>()));
  }
  for (const Json& m : call.value("methods", Json::array()))
    print(fmt::format("  by {:<10} W {:.6g}, D {:.6g}, W/D {:.6g}", m["method"].get<std::string>(),
                      m["work"].get<double>(), m["depth"].get<double>(),
                      m["average_parallelism"].get<double>()));
  for (const Json& o : call.value("layouts", Json::array()))
    print(fmt::format("  cut      inputs ({}) -> outputs ({})", joined(o["inputs"]), joined(o["outputs"])));
}

Status run(const OpArgs& args) {
  TR_ASSIGN_OR_RETURN(const op::OpDef* def, find(args.name));
  Json described = describe(*def);
  // Without inputs the op itself is shown; an op that has none needs no --in.
  const bool called = !args.types.empty() || (def->num_inputs == 0 && !args.attrs.empty());
  if (called) {
    TR_ASSIGN_OR_RETURN(described["call"], describe_call(*def, args));
  }
  if (args.json) {
    print(described.dump(2));
    return {};
  }
  print_op(described);
  if (called) print_call(described["call"]);
  return {};
}

}  // namespace

std::function<int()> add_inspect_op(Options& inspect) {
  auto args = std::make_shared<OpArgs>();
  Options* sub = inspect.add_subcommand(
      "op", "Show one op: attributes and kernels; for given inputs its cost, kernel and layouts.");
  sub->add_option("name", args->name, "Name of the op")->required();
  sub->add_option("--in", args->types, "Type of an input, in order, e.g. --in 'f32[256, 784]'");
  sub->add_option("--attr", args->attrs,
                  "An attribute, e.g. --attr transpose_b=true or --attr 'axes=[0, 1]'");
  sub->add_option("--threads", args->threads, "Kernel threads")->check(above_zero());
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
