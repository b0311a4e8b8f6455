// Server: keeps slices of the model, applies pushes as the consistency rule says, answers pulls.
//
// A service of one rank's mailbox; a rank may be worker and server at once. The update is a Graph over flat
// vectors: it reads "grad:<part>" (and "lr", "step" where it has them) and changes the variable "<part>" and
// its state. Pushes that become one update are added in the order that the rule names.
#pragma once

#include <map>
#include <memory>

#include "trireme/base/json.h"
#include "trireme/comm/mailbox.h"
#include "trireme/exec/executor.h"
#include "trireme/server/consistency/consistency.h"
#include "trireme/server/vector_coder.h"

namespace trireme::server {

// A part of a key, cut to what one server keeps: name "fc/weight", or "[256,512)/fc/weight" where it is cut.
// Flat: shape [count]. The last path component is the parameter's own.
struct StoredPart {
  std::string name;
  std::uint32_t slice = 0;
  std::int64_t offset = 0, count = 0;  // in the slice
};

// The update of some parts and the states it needs beside them.
struct UpdateSpec {
  graph::Graph graph;
  struct State {
    std::string name;
    TensorType type;
    double initial = 0;
  };
  std::vector<State> states;
};
using MakeUpdate = std::function<Result<UpdateSpec>(std::span<const StoredPart> parts)>;

struct ServerOptions {
  int server = 0;  // which one of the layout
  ServerLayout layout;
  std::vector<Key> keys;
  std::string consistency = "async";
  ConsistencyOptions clocks;
  MakeUpdate make_update;  // null: values are added: w += scale * values
  // soft, async: the rate is divided by the staleness of the push (Zhang, Gupta, Lian, Liu 2016).
  bool divide_by_staleness = false;
  LinkCoding link;           // of pushes, and pulls
  MakeProduct make_product;  // where link.factors has some
};

struct ServerStats {
  std::int64_t pushes = 0, pulls = 0, updates = 0, dropped = 0, repeated = 0;
  std::map<std::int64_t, std::int64_t> staleness;  // of applied pushes -> how many
  TimeNs pulls_waited = 0;
  std::int64_t coded_pushes = 0, coded_pulls = 0;  // of these came and went as coded messages
  std::int64_t factor_pushes = 0;                  // of these came as factors, and were multiplied
};

class Server {
 public:
  virtual ~Server() = default;
  virtual ServerStats stats() const = 0;
  // Live memory, for checkpoints: parts and states by name, and where updates read "step" how many of them
  // were made ("<part>/step"). What describe_state() lists. Written before the first push, it is where the
  // server goes on from.
  virtual std::vector<std::pair<std::string, Tensor>> state() const = 0;
  // Waits until every push that came is applied (held ones that no event will free are applied as they are).
  virtual runtime::Task<Status> settle() = 0;
};

// One tensor of Server::state(), in terms that do not depend on how many servers there are: elements
// [begin, begin + count) of a whole part's values or of a state of it.
struct StateEntry {
  std::string part;   // as its Key names it
  std::string state;  // "velocity"; "": the values
  std::int64_t begin = 0, count = 0;
  TensorType type;  // f32 [count]; of "step" i64 [1], the same memory for all parts of a slice
};
// What state() of this server holds, in its order, on any rank. kInvalid: the update has a state that is
// not called "<part>/<state>" or has another size than the part.
Result<std::vector<StateEntry>> describe_state(const ServerOptions& options);

// Handlers of `mail` are set from here on; before workers write.
Result<std::unique_ptr<Server>> make_server(runtime::Runtime& rt, comm::Mailbox& mail, ServerOptions options);

}  // namespace trireme::server
