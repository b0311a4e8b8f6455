// What workers say at the end, and what a summary makes of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/record/summary.h"

namespace trireme::record {

// JSON text, the last words of a worker.
std::string final_words(const WorkerShare& share, const agree::RuleReport& rule);

// Fills the summary's parts that are sums or lists over workers. Numbers of the rule itself are
// added up, or the largest is taken where the rule says so.
void add_worker_reports(const std::map<int, std::string>& finals, const std::vector<int>& lost,
                        int num_workers, Summary& summary);

}  // namespace trireme::record
