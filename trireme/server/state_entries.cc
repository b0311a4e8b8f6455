#include <algorithm>

#include "trireme/server/stored_slice.h"

namespace trireme::server {
namespace {

// The pieces of a key's parts that `slice` has, in the order of StoredSlice::parts.
std::vector<StateEntry> pieces_of(const Key& key, const Slice& slice) {
  std::vector<StateEntry> out;
  for (const Key::Part& p : parts_of(key)) {
    const std::int64_t begin = std::max(slice.begin, p.offset);
    const std::int64_t end = std::min(slice.end, p.offset + p.count);
    if (begin >= end) continue;
    out.push_back({p.name, "", begin - p.offset, end - begin, {DType::kF32, {end - begin}}});
  }
  return out;
}

Result<StateEntry> entry_of(const UpdateSpec::State& state, std::span<const StoredPart> parts,
                            std::span<const StateEntry> pieces) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string prefix = parts[i].name + "/";
    if (!state.name.starts_with(prefix) || state.type != pieces[i].type) continue;
    if (state.name.find('/', prefix.size()) != std::string::npos) continue;  // of a part below this name
    StateEntry entry = pieces[i];
    entry.state = state.name.substr(prefix.size());
    return entry;
  }
  return error(Code::kInvalid,
               "[server] state '{}' of an update: got {}, expected <part>/<state> of the part's size",
               state.name, state.type.to_string());
}

}  // namespace

Result<std::vector<StateEntry>> describe_state(const ServerOptions& options) {
  std::vector<StateEntry> out;
  for (const Slice& slice : options.layout.slices) {
    if (slice.server != options.server) continue;
    const std::vector<StateEntry> pieces = pieces_of(options.keys[slice.key], slice);
    out.insert(out.end(), pieces.begin(), pieces.end());
    if (!options.make_update) continue;
    const StoredSlice stored = describe_slice(options.keys[slice.key], slice);
    TR_ASSIGN_OR_RETURN(const UpdateSpec spec, options.make_update(stored.parts));
    for (const UpdateSpec::State& s : spec.states) {
      if (s.type.shape.num_elems() == 0) continue;
      TR_ASSIGN_OR_RETURN(StateEntry entry, entry_of(s, stored.parts, pieces));
      out.push_back(std::move(entry));
    }
    if (!spec.graph.find_input("step")) continue;
    for (StateEntry entry : pieces) {
      entry.state = "step";
      entry.type = {DType::kI64, {1}};
      out.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace trireme::server
