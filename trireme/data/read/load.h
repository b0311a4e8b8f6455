// What the loaders of this folder share. Internal to data.
#pragma once

#include "trireme/base/function.h"
#include "trireme/data/source.h"

namespace trireme::data {

using Loaded = Result<std::shared_ptr<Dataset>>;

// The digits before they are shared.
runtime::Task<Loaded> make_digits(runtime::Runtime& rt, DigitsOptions options);

// Runs `parse`, which works on `num_bytes`, on the compute pool: the loop stays free for heartbeats. On a
// phantom Runtime, where compute is skipped, inline: a set must be whole.
runtime::Task<Status> parse_on_pool(runtime::Runtime& rt, std::size_t num_bytes, Function<Status()> parse);

// The content of a file, unpacked when it is gzip.
runtime::Task<Result<Bytes>> read_unpacked(runtime::Runtime& rt, std::string path);

// The only name that holds every word of `words`; of a file and the same one packed (".gz"), the plain one.
// Empty: there is none. kInvalid when several are left.
Result<std::string> find_name(const std::vector<std::string>& names,
                              std::initializer_list<std::string_view> words, std::string_view folder);

// What is wrong with the option `shape`, where it is given.
std::optional<OptionFault> check_sample_shape(const OptionValues& options);

// Holds out a share for testing where there is no test part, sets a share apart for validation, limits.
Status split_parts(Dataset& set, const DataSpec& spec);
// kU8: mean and deviation per channel of the training samples; kF32: each value of a sample standardised in
// place by the training samples.
void normalise_by_training(Dataset& set, Statistics which);

}  // namespace trireme::data
