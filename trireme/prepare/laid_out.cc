#include "trireme/prepare/laid_out.h"

#include <algorithm>

namespace trireme::prepare {
namespace {

// The parameter whose elements a state has one value each for; else the variable itself.
const std::string& laid_out_like(const Prepared& prepared, const std::string& name) {
  const auto named = [](const auto& wanted) { return [&](const auto& v) { return v.name == wanted; }; };
  const auto& states = prepared.states;
  const auto state = std::find_if(states.begin(), states.end(), named(name));
  if (state == states.end()) return name;
  const auto& all = prepared.parameters;
  const auto of = std::find_if(all.begin(), all.end(), named(state->parameter));
  return of != all.end() && of->type.shape == state->type.shape ? of->name : name;
}

}  // namespace

LaidOut laid_out(const Prepared& prepared, const std::string& name, const TensorType& own) {
  const std::string& like = laid_out_like(prepared, name);
  const auto layout = prepared.plan.layouts.find(like);
  if (layout == prepared.plan.layouts.end()) return {own, parallel::Layout::replicate(prepared.plan.mesh())};
  const auto whole = prepared.wholes.find(like);
  if (whole == prepared.wholes.end()) return {own, layout->second};
  return {{own.dtype, whole->second.shape}, layout->second};
}

}  // namespace trireme::prepare
