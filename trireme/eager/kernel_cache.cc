#include "trireme/eager/kernel_cache.h"

#include <cstring>

#include "trireme/kernel/kernel.h"

namespace trireme::eager {
namespace {

// Programs with ever new shapes must not grow for ever: past this many kernels the cache starts anew.
constexpr std::size_t kMaxPrepared = 4096;

template <typename T>
void append(std::string& key, const T& value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  key.append(bytes, sizeof(T));
}

void append_attr(std::string& key, const op::AttrValue& value) {
  append(key, value.index());
  if (const auto* text = std::get_if<std::string>(&value)) {
    append(key, text->size());
    key += *text;
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&value)) {
    append(key, ints->size());
    for (const std::int64_t i : *ints) append(key, i);
  } else {
    std::visit(
        [&key](const auto& v) {
          if constexpr (std::is_trivially_copyable_v<std::decay_t<decltype(v)>>) append(key, v);
        },
        value);
  }
}

Result<std::shared_ptr<const PreparedKernel>> prepare(const op::OpDef& def,
                                                      std::span<const TensorType> inputs,
                                                      const op::Attrs& attrs, int width) {
  auto made = std::make_shared<PreparedKernel>();
  TR_ASSIGN_OR_RETURN(made->attrs, op::complete_attrs(def, attrs));
  TR_ASSIGN_OR_RETURN(made->outputs, op::infer_types(def, inputs, made->attrs));
  const op::KernelQuery query{def, inputs, made->outputs, made->attrs, width};
  TR_ASSIGN_OR_RETURN(const kernel::KernelChoice choice, kernel::choose_cpu_kernel(query));
  if (const op::KernelRow* row = choice.row) {
    made->run = row->run;
    if (row->workspace_bytes) made->workspace_bytes = row->workspace_bytes(query);
    if (row->prepare) made->state = row->prepare(query);
  } else {
    made->run = def.reference;
    if (def.reference_workspace) made->workspace_bytes = def.reference_workspace(inputs, made->attrs);
  }
  return std::shared_ptr<const PreparedKernel>(std::move(made));
}

}  // namespace

Result<std::shared_ptr<const PreparedKernel>> KernelCache::find(const op::OpDef& def,
                                                                std::span<const TensorType> inputs,
                                                                const op::Attrs& attrs) {
  key_.clear();
  append(key_, &def);
  append(key_, inputs.size());
  for (const TensorType& t : inputs) {
    append(key_, t.dtype);
    append(key_, t.shape.rank());
    for (const std::int64_t d : t.shape.dims()) append(key_, d);
  }
  for (const auto& [name, value] : attrs.items()) {
    append(key_, name.size());
    key_ += name;
    append_attr(key_, value);
  }
  const auto at = prepared_.find(key_);
  if (at != prepared_.end()) return at->second;
  TR_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedKernel> made, prepare(def, inputs, attrs, width_));
  if (prepared_.size() >= kMaxPrepared) prepared_.clear();
  prepared_.emplace(key_, made);
  return made;
}

}  // namespace trireme::eager
