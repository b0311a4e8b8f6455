#include "trireme/op/resource/resource.h"

namespace trireme::op::detail {
namespace {
Status expect_text(const Attrs& attrs, std::string_view name, std::string_view what) {
  if (!attrs.get_text(name).empty()) return ok_status();
  return error(Code::kInvalid, "attribute '{}': got an empty text, expected {}", name, what);
}
Status expect_queue(const Attrs& attrs) { return expect_text(attrs, "name", "the name of a queue"); }
Status expect_file(const Attrs& attrs) { return expect_text(attrs, "path", "a path"); }
}  // namespace

AttrSpec queue_attr() { return {"name", std::string(), "name of the queue", true}; }

std::vector<AttrSpec> file_attrs() {
  return {{"path", std::string(), "file", true}, {"name", std::string(), "name of the tensor in the file"}};
}

std::vector<AttrSpec> stated_attrs(std::vector<AttrSpec> first) {
  first.push_back(dtype_attr());
  first.push_back(shape_attr());
  return first;
}

Types infer_enqueue(TypeSpan, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_queue(attrs));
  return std::vector{token_type()};
}
Types infer_dequeue(TypeSpan, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_queue(attrs));
  return stated_type(attrs);
}
Types infer_save(TypeSpan, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_file(attrs));
  return std::vector{token_type()};
}
Types infer_restore(TypeSpan, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_file(attrs));
  return stated_type(attrs);
}

}  // namespace trireme::op::detail
