#include "trireme/prepare/laid_out.h"

#include <algorithm>

#include "trireme/parallel/piece.h"
#include "trireme/prepare/own_update.h"

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

LaidOut laid_out_whole(const Prepared& prepared, const std::string& like, const TensorType& own) {
  const auto layout = prepared.plan.layouts.find(like);
  if (layout == prepared.plan.layouts.end()) return {own, parallel::Layout::replicate(prepared.plan.mesh())};
  const auto whole = prepared.wholes.find(like);
  if (whole == prepared.wholes.end()) return {own, layout->second};
  return {{own.dtype, whole->second.shape}, layout->second};
}

// A replica has what lies in its part of the bucket.
std::vector<parallel::Interval> ranges_of(const Prepared& prepared, const std::string& parameter) {
  const plan::Plan& plan = prepared.plan;
  std::vector<parallel::Interval> ranges;
  for (const plan::Bucket& bucket : prepared.stages != nullptr ? prepared.whole_buckets : plan.buckets)
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
      if (bucket.parameters[p] != parameter) continue;
      for (int replica = 0; replica < plan.workers(); ++replica) {
        const comm::Chunk part = own_part(plan, bucket, replica);
        ranges.push_back({part.begin - bucket.offsets[p], part.end - bucket.offsets[p]});
      }
    }
  return ranges;
}

}  // namespace

bool is_divided(const Prepared& prepared, const std::string& name) {
  const int level = prepared.plan.zero_level();
  if (level == 0) return false;
  const auto named = [&](const auto& v) { return v.name == name; };
  const bool trained = std::any_of(prepared.parameters.begin(), prepared.parameters.end(), named);
  return trained ? level == 3 : laid_out_like(prepared, name) != name;
}

LaidOut laid_out(const Prepared& prepared, const std::string& name, const TensorType& given) {
  const std::string& like = laid_out_like(prepared, name);
  if (is_divided(prepared, name)) {
    const auto& all = prepared.parameters;
    const auto of = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == like; });
    LaidOut out = laid_out_whole(prepared, like, {given.dtype, of->type.shape});
    out.ranges = ranges_of(prepared, like);
    return out;
  }
  return laid_out_whole(prepared, like, given);
}

std::vector<model::Parameter> parameters_of_tile(const Prepared& prepared, int tile) {
  std::vector<model::Parameter> out = prepared.parameters;
  if (tile == prepared.tile) return out;
  const parallel::Mesh mesh = prepared.plan.mesh();
  for (model::Parameter& p : out) {
    const LaidOut of = laid_out(prepared, p.name, p.type);
    p.type.shape = parallel::local_shape(of.layout, mesh, tile, of.whole.shape);  // rank of the first replica
  }
  return out;
}

bool is_cut(const Prepared& prepared, const std::string& parameter) {
  const auto layout = prepared.plan.layouts.find(parameter);
  return prepared.plan.tiles > 1 && layout != prepared.plan.layouts.end() &&
         layout->second.axes.back().cuts();
}

model::Parameter at_tile(const Prepared& prepared, const model::Parameter& own, int tile) {
  model::Parameter out = own;
  if (!is_cut(prepared, own.name)) return out;
  const LaidOut of = laid_out(prepared, own.name, own.type);
  const parallel::Mesh line{{{parallel::kModelAxis, prepared.plan.tiles}}};
  out.type.shape = parallel::local_shape({{of.layout.axes.back()}}, line, tile, of.whole.shape);
  return out;
}

}  // namespace trireme::prepare
