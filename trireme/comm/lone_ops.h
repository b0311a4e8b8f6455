// What ops of op/comm give on a rank that runs a graph once more by itself.
#pragma once

#include "trireme/exec/host_op.h"

namespace trireme::comm {

// Writes the outputs of a call, which have storage. `rank`: its place among those who would take part.
using Alone = void (*)(int rank, const exec::HostCall& host);

void keep_own(int rank, const exec::HostCall& host);
// Floating-point elements are 1; indices and flags are 0.
void receive_ones(int rank, const exec::HostCall& host);
// Pieces that are longer than this rank's have it several times.
void repeat_own(int rank, const exec::HostCall& host);
void take_own_piece(int rank, const exec::HostCall& host);
// The own part of this rank's piece, in the place of everybody's.
void turn_own(int rank, const exec::HostCall& host);
// Indices of other ranks are as receive_ones has them.
void keep_own_window(int rank, const exec::HostCall& host);
void send_to_nobody(int rank, const exec::HostCall& host);

// The input where the output is, unless it is there.
void copy_input(const Tensor& from, const Tensor& to);
// The number of bytes handed over.
void write_token(const exec::HostCall& host);
// All elements are `value`, or 0 where the type has no fractions.
void fill_with(const Tensor& out, float value);

}  // namespace trireme::comm
