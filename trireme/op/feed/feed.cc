#include "trireme/op/feed/feed.h"

namespace trireme::op::detail {

AttrSpec dtype_attr() { return {"dtype", DType::kF32, "dtype of the tensor"}; }
AttrSpec shape_attr() { return {"shape", std::vector<std::int64_t>{}, "shape of the tensor", true}; }

Types stated_type(const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  return std::vector{TensorType{attrs.get_dtype("dtype"), shape}};
}

std::vector<LayoutOption> stated_layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < static_cast<int>(attrs.get_ints("shape").size()); ++d) options.push_back({{}, {d}});
  return options;
}

std::vector<AttrSpec> feed_attrs() {
  return {{"name", std::string(), "name by which it is fed or stored", true},
          dtype_attr(),
          {"shape", std::vector<std::int64_t>{}, "shape of the value"}};
}

Types infer_feed(TypeSpan, const Attrs& attrs) {
  if (attrs.get_text("name").empty()) {
    return error(Code::kInvalid, "attribute 'name': got an empty text, expected a name");
  }
  return stated_type(attrs);
}

cost::OpCost no_cost(TypeSpan, TypeSpan, const Attrs&) { return {}; }

}  // namespace trireme::op::detail
