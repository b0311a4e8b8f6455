// What a letter's payload must be for the slice that it is about. Pure.
#pragma once

#include "trireme/server/kept_slice.h"
#include "trireme/server/letters.h"

namespace trireme::server {

Status check_payload(int peer, const comm::Letter<InitHead>& letter, const KeptSlice& slice);
Status check_payload(int peer, const comm::Letter<PushHead>& letter, const KeptSlice& slice);
Status check_payload(int peer, const comm::Letter<PullHead>& letter, const KeptSlice& slice);
Status check_payload(int peer, const comm::Letter<PushRowsHead>& letter, const KeptSlice& slice);
Status check_payload(int peer, const comm::Letter<PullRowsHead>& letter, const KeptSlice& slice);

// How many rows a letter has that was found good, and whether these are rows of the slice.
std::int64_t num_rows(const comm::Letter<PushRowsHead>& letter, const StoredSlice& slice);
std::int64_t num_rows(const comm::Letter<PullRowsHead>& letter, const StoredSlice& slice);
bool are_rows_inside(const Loan& rows, std::int64_t count, const StoredSlice& slice);

}  // namespace trireme::server
