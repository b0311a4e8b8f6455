// Measured op times: what nodes of compiled graphs took on a host, by all that their time depends on. Pure.
//
// A key is text: the op with its forms, attributes, types of the operands as they lie on the rank, the kernel
// and its threads. Nothing in it is of the host, so a node has one key on every rank; beside it stands how
// many such runs computed at once on the host, who share its memory and caches.
//
// Where it was measured with another number of runs at once only, the nearest number stands for it. What was
// not measured at all takes what the roofline says, times the efficiency of its family: the median of
// measured / roofline over what was measured of that op with as many runs at once. Where nothing of the
// family was, the roofline alone.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/cost/cost.h"

namespace trireme::cost {

// A node of a compiled graph that runs a kernel, or several equal ones.
struct NodeWork {
  std::string node;    // its name; empty where it stands for several
  std::string key;     // see above
  std::string family;  // the op's name
  OpCost cost;         // of one
  int count = 1;
};
// What follows each other in one strand, or in several.
using Work = std::vector<NodeWork>;
// Equal nodes together, in the order of their keys, without names.
Work joined(const Work& work);

struct OpTime {
  std::string family;
  double seconds = 0;  // of a call: the median of the runs
  double spread = 0;   // (third quartile - first quartile) / median, over the runs
  int runs = 0;
  double flops = 0, bytes = 0;  // of a call
  friend bool operator==(const OpTime&, const OpTime&) = default;
};

class OpTimes {
 public:
  struct Key {
    std::string node;
    int at_once = 1;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  std::string processor;  // whose times these are, in the words of lower::machine_text; empty: nobody's

  const OpTime* find(const std::string& key, int at_once) const;  // null: not measured
  // With as many runs at once, or with the number nearest to it, the smaller one of two.
  const OpTime* find_near(const std::string& key, int at_once) const;
  void put(std::string key, int at_once, OpTime time);
  const std::map<Key, OpTime>& entries() const { return entries_; }
  bool is_empty() const { return entries_.empty(); }
  friend bool operator==(const OpTimes&, const OpTimes&) = default;

 private:
  std::map<Key, OpTime> entries_;
};

// Roofline and start of a node: what an efficiency is in relation to.
double roofline_seconds(const OpCost& cost, const MachineModel& machine, int threads);

// Between the strands of a run something passes as well: it is measured and kept like a node of this family.
inline constexpr const char* kStrandFamily = "(strand)";
std::string strand_key(int threads);

struct FamilyEfficiency {
  std::string family;
  int entries = 0;
  double seconds = 0;     // of one call of each
  double efficiency = 1;  // median of measured / roofline
};
// Families of what was measured with so many runs at once and so many threads, slowest first.
std::vector<FamilyEfficiency> efficiencies(const OpTimes& times, int at_once, const MachineModel& machine,
                                           int threads);

struct WorkSeconds {
  double seconds = 0;
  double measured = 0;  // of them, of nodes that were measured
  WorkSeconds& operator+=(const WorkSeconds& o) {
    seconds += o.seconds;
    measured += o.measured;
    return *this;
  }
};
// `strands` strands of this work, one node after the other. A slower machine (MachineModel::speed) takes as
// much longer.
WorkSeconds work_seconds(const Work& work, int strands, const OpTimes& times, int at_once,
                         const MachineModel& machine, int threads);

// Entries that make no sense are left out; `ignored` says which, one line each.
Json to_json(const OpTimes& times);
OpTimes op_times_from_json(const Json& json, std::vector<std::string>& ignored);

}  // namespace trireme::cost
