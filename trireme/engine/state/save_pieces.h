// Checkpoints of what ranks hold: who writes which piece, how pieces come to a rank that writes what it does
// not hold, and how the files of several writers become one generation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/state/piece_stream.h"
#include "trireme/io/checkpoint.h"

namespace trireme::engine {

// Whether rank 0 writes everything: what is not state of logical shards is replicated. Tensors are whole in
// the files then, whoever holds the rows of shards.
bool one_writer(const parallel::Holdings& holdings);

// Which ranks see a folder that rank 0 makes and writes a file into, which goes again. Collective; the same
// answer on every rank.
runtime::Task<Result<std::vector<bool>>> who_sees_folder(runtime::Runtime& rt, comm::Group& group,
                                                         std::string dir);

// The pieces of a checkpoint with their writers, by writer. With one writer: whole tensors in the order of
// the holdings. Otherwise the first holder writes a piece, or the nearest rank that sees the folder.
std::vector<io::StoredPiece> pieces_to_write(const parallel::Holdings& holdings,
                                             const std::vector<bool>& sees);

struct SaveCall {
  std::int64_t step = 0;
  std::string dir;                // of the generations
  std::vector<bool> sees;         // who_sees_folder; with one writer it may be empty
  io::CheckpointOptions options;  // those of the CheckpointWriter
  std::int64_t chunk_bytes = StreamCall::kChunkBytes;
};

// This rank's part of a checkpoint: pieces, memory, and what it does with other ranks. State and `keep` are
// the caller's, on rank 0. Runtime and group outlive the writing.
Result<io::CheckpointPart> part_to_write(runtime::Runtime& rt, comm::Group& group, const HeldState& holding,
                                         SaveCall call);
// Whether this rank writes any file of it. One that does not calls bring_pieces instead of
// CheckpointWriter::begin.
bool writes_any(const io::CheckpointPart& part);
// Gives other writers what they do not hold, without writing anything here.
runtime::Task<Status> bring_pieces(io::CheckpointPart part);

}  // namespace trireme::engine
