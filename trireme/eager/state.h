// What an Array is made of, and the tape. Internal to eager.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/eager/array.h"
#include "trireme/op/op.h"

namespace trireme::eager {

class DeferredCall;

// One stretch of memory, shared by an Array and its reshapes. Only a parameter's is ever written again.
struct Storage {
  std::uint64_t version = 0;   // grows with every write in place
  const char* writer_op = "";  // the op that wrote it last
  // Run-ahead: the call that writes it, and those that read what that call wrote.
  std::shared_ptr<DeferredCall> writer;
  std::vector<std::shared_ptr<DeferredCall>> readers;
};

// A value: memory, or an edge of the graph that is being traced.
struct Datum {
  TensorType type;
  Tensor tensor;            // null while tracing
  op::Value edge;           // null when there is memory
  std::uint64_t trace = 0;  // which trace the edge belongs to
  std::shared_ptr<Storage> storage;
};

// One call on the tape. It holds its inputs; its outputs hold it.
struct Record {
  struct Input {
    std::shared_ptr<ArrayState> array;
    std::uint64_t version = 0;  // of its storage when the call was made
  };
  Record() = default;
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record();  // a long tape goes without deep recursion

  const op::OpDef* def = nullptr;
  op::Attrs attrs;  // complete
  std::vector<Input> inputs;
  std::vector<Datum> outputs;  // their values, for gradients that use them
  std::uint64_t sequence = 0;  // order of calls
};

struct ArrayState {
  Context* context = nullptr;
  Status status;  // not ok: poisoned, and nothing else holds
  Datum data;
  bool needs_grad = false;
  std::shared_ptr<Record> record;  // null: a leaf
  int index = 0;                   // which output of it
  std::string name;                // of a parameter or state
  bool is_parameter = false;       // may be written in place
  Array grad;                      // of a leaf
};

}  // namespace trireme::eager
