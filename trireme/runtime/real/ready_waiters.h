// Tasks that wait until a descriptor may be ready. An edge-triggered event wakes all of them; each tries
// again.
#pragma once

#include <list>

#include "trireme/runtime/sync.h"

namespace trireme::runtime::real {

class ReadyWaiters {
 public:
  void wake() {
    for (OneShot<bool>* waiter : waiting_) waiter->set(true);
  }
  // False when the deadline passed first. Must not outlive this object.
  Task<bool> wait(Runtime& rt, TimeNs deadline) {
    OneShot<bool> ready(rt);
    const Registration registration(*this, &ready);
    co_return co_await ready.wait_until(deadline);
  }

 private:
  struct Registration {
    Registration(ReadyWaiters& all, OneShot<bool>* mine)
        : waiters(all), place(all.waiting_.insert(all.waiting_.end(), mine)) {}
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration() { waiters.waiting_.erase(place); }
    ReadyWaiters& waiters;
    std::list<OneShot<bool>*>::iterator place;
  };
  std::list<OneShot<bool>*> waiting_;
};

}  // namespace trireme::runtime::real
