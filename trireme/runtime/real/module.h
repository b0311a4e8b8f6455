// Module: a shared library that is loaded while the program runs, for dependencies that not every machine
// has.
#pragma once

#include <memory>
#include <string>

#include "trireme/base/status.h"

namespace trireme::runtime {

// Stays loaded until the process ends, whatever happens to the object: what such libraries register with the
// system (exit handlers, threads) points into them.
class Module {
 public:
  // `path` with a slash is a file, without one a name that the loader looks for (run path of the binary, then
  // the system's folders). The error has the loader's own words.
  static Result<Module> open(const std::string& path);
  // Null when it has no such symbol.
  void* symbol(const char* name) const;

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace trireme::runtime
