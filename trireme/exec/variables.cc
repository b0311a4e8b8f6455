#include "trireme/exec/executor.h"

#include <fmt/format.h>

namespace trireme::exec {

Status Variables::add(std::string name, Tensor tensor) {
  if (tensor.is_null())
    return error(Code::kInvalid, "[exec] variable '{}' has no memory; allocate its tensor first", name);
  const auto [at, added] = tensors_.try_emplace(std::move(name), std::move(tensor));
  if (!added) return error(Code::kExists, "[exec] variable '{}' exists already", at->first);
  return {};
}

Result<Tensor> Variables::get(std::string_view name) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end())
    return error(Code::kNotFound, "[exec] there is no variable '{}'; there are: {}", name,
                 fmt::join(names(), ", "));
  return at->second;
}

std::vector<std::string> Variables::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

Variables& Containers::container(std::string_view name) {
  const auto at = containers_.find(name);
  return at != containers_.end() ? at->second : containers_[std::string(name)];
}

std::vector<std::string> Containers::names() const {
  std::vector<std::string> names;
  for (const auto& [name, variables] : containers_) names.push_back(name);
  return names;
}

}  // namespace trireme::exec
