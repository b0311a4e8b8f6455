// CheckpointWriter: checkpoints that are written while training goes on.
//
// begin() copies the tensors (a snapshot, on the compute pool, all its threads) and returns; hashing and
// writing go on as a task of the Runtime. What ends up on disk is byte for byte what save_checkpoint
// writes.
//
// Belongs to the loop of one Runtime; one call of begin() or finish() at a time. The snapshot lies in
// buffers that are kept and reused: one further copy of what this writer writes, for as long as it lives. A
// writer that is destroyed while it writes lets the write go on as long as the Runtime does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/io/checkpoint.h"

namespace trireme::io {

struct CheckpointWriterStats {
  std::int64_t snapshots = 0;  // taken
  std::int64_t written = 0;    // generations that are whole on disk
  TimeNs snapshot_ns = 0;      // sum: how long begin() copied or streamed, the caller standing still
  TimeNs waited_ns = 0;        // sum: how long begin() and finish() waited for a write under way
  TimeNs write_ns = 0;         // sum: from the snapshot to the end of its write, beside the caller's work
  std::uint64_t bytes = 0;     // sum: of tensor files written
};

class CheckpointWriter {
 public:
  // A stuck disk is an error after this time.
  static constexpr TimeNs kDefaultMaxWait = 600 * kSecond;

  CheckpointWriter(runtime::Runtime& rt, std::string dir, CheckpointOptions options = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the write before it, at most `max_wait`, takes the snapshot and starts its write. The tensors
  // may change as soon as it returns. A failure of the write before it comes out here, once, and then nothing
  // is begun: the caller may stop, or call again. kDeadline: the write before it is still under way.
  runtime::Task<Status> begin(Checkpoint checkpoint, TimeNs max_wait = kDefaultMaxWait);
  // The same of one of several writers, all of which begin: the snapshot is of this one's pieces alone, and
  // the generation is whole when part.seal has ended. Files with pieces that part.source brings are written
  // before it returns, and only synced later; a source that fails leaves nothing of the checkpoint behind.
  runtime::Task<Status> begin(CheckpointPart part, TimeNs max_wait = kDefaultMaxWait);

  // Waits for the write under way, if there is one, and says how it ended.
  runtime::Task<Status> finish(TimeNs max_wait = kDefaultMaxWait);

  const CheckpointOptions& options() const;
  bool writing() const;
  // Steps of the newest generation that this writer has made whole; -1 before the first.
  std::int64_t last_written_step() const;
  const CheckpointWriterStats& stats() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the write under way
};

}  // namespace trireme::io
