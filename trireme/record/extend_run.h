// A finished run that is asked for more epochs or steps goes on in its folder.
#pragma once

#include <string>

#include "trireme/job/job.h"
#include "trireme/runtime/files.h"

namespace trireme::record {

// `after` is `before` with more train.epochs or train.steps; nothing else that decides the result differs.
bool trains_longer(const job::Job& before, const job::Job& after);

// Makes the finished run of `before` in `folder` an unfinished one of `after`. A crash in between leaves it
// finished, or unfinished; never a run of `after` that looks finished.
runtime::Task<Status> extend_run(runtime::Runtime& rt, std::string folder, const job::Job& before,
                                 const job::Job& after);

// A summary tells which job it is of (older ones do not): false where the folder's job is another one by now.
bool is_of_job(const Json& summary, const job::Job& job);

}  // namespace trireme::record
