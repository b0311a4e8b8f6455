// Threads of a Runtime.
#pragma once

#include <functional>
#include <thread>

namespace trireme::runtime::real {

// Throws CannotStart (exhausted.h), which says what the limits are.
std::thread start_thread(std::function<void()> body);
// The same without signals: those are the business of the threads that the application made.
std::thread start_quiet_thread(std::function<void()> body);

}  // namespace trireme::runtime::real
