// CallTeller: a rank's half of comparing calls. Tells the coordinator how this rank made a call: when it is
// asked, when the call lasts longer than a heartbeat, and when a message that no recv took contradicts it.
#pragma once

#include <functional>
#include <vector>

#include "trireme/net/call_log.h"
#include "trireme/net/control_message.h"
#include "trireme/net/transport.h"

namespace trireme::net {

// Loop only.
class CallTeller {
 public:
  // `tell` takes a message of type kCall to the coordinator. The transport outlives this.
  CallTeller(const Transport& transport, std::function<void(ControlMessage)> tell);

  void watch(CallLog* log) { log_ = log; }  // null: nothing is told
  void note(const CallId& id) {             // a call began
    if (!wanted_.empty()) note_wanted(id);
  }
  // Tells of the call now, that it was not made yet and again when it is, or, after leave(), that it never
  // was. `line` (CallLog::line_of): who asks. Of a call that a group of other ranks makes nothing is told
  // unless this rank makes it too.
  void compare(const CallId& id, int line = -1);
  // Once per heartbeat.
  void beat();
  // No more calls. True: messages are left over, of calls that this rank made in another way or not at all;
  // the coordinator has been told.
  bool leave();

 private:
  struct Wanted {
    CallId id;
    int line = -1;
    friend bool operator==(const Wanted& a, const CallId& b) { return a.id == b; }
  };
  void note_wanted(const CallId& id);

  const Transport& transport_;
  std::function<void(ControlMessage)> tell_;
  CallLog* log_ = nullptr;
  std::vector<Wanted> wanted_;  // others asked, and this rank has not made them
  bool left_ = false;
};

}  // namespace trireme::net
