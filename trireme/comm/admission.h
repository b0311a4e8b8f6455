// Admission: what a call asks for, checked, and made into what a run starts with.
#pragma once

#include "trireme/comm/call_book.h"
#include "trireme/comm/calls.h"
#include "trireme/comm/program_run.h"

namespace trireme::comm {

// Kind of a message between two ranks in fingerprints, beside those of collective::Kind and of letters.
inline constexpr std::uint8_t kMessageKind = 252;

class Admission {
 public:
  // `options` outlives it.
  Admission(const GroupOptions& options, int rank, int world)
      : options_(options), rank_(rank), world_(world) {}

  // Fills `out` except for its operation, and `shape` for comparing calls. An error concerns this rank alone:
  // nothing was sent.
  Status prepare(Request& r, RunRequest& out, CallShape& shape);
  net::Identity identity_of(const Request& r) const;
  // The wire has no field of its own for reduction and root: they make the format byte, so that ranks that
  // disagree on them find out.
  static net::Fingerprint fingerprint_of(const Request& r, collective::Kind told);
  // What prepare() checks, for calls without a program.
  static Status check_direct(const Request& r, Combine& combine);

 private:
  collective::ScheduleSpec spec_of(Request& r) const;
  void fill(Request& r, const collective::ScheduleSpec& spec, RunRequest& out) const;

  const GroupOptions& options_;
  const int rank_, world_;
  ProgramCache cache_;
};

}  // namespace trireme::comm
